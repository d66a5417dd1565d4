"""A run's folder as the report and ``inspect`` read it, without torch."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from equipoise.app.output_files import one_line
from equipoise.app.run_folder import LARGEST_FILE, REMEDY, Gallery, RunRecord, read_run_record
from equipoise.data.summary import Group, class_groups
from equipoise.errors import InvalidInputError
from equipoise.evaluation import LabelDoubt
from equipoise.storage.files import foreign_files, load_arrays, read_plain, write_atomically
from equipoise.storage.records import AtLeastOne, Counts, MaybeNumbers, Name, as_record, read_json
from equipoise.storage.run_files import BEFORE_SCORES, GALLERY, HELD_OUT, LABELS, METRICS, RECORD, SCORES
from equipoise.storage.size_limits import parse_json

Floats = NDArray[np.float64]


class _Mean(Struct):
    mean: float | None
    each: MaybeNumbers


class _Ece(Struct):
    ece: float | None


class _Scores(Struct):
    """``scores.json``, as far as pages rely on it without further checks; null is an undefined score."""

    multilabel: bool
    samples: AtLeastOne
    support: Annotated[Counts, Meta(min_length=1)]
    accuracy: float | None
    balanced_accuracy: float | None
    recall: _Mean
    precision: _Mean
    f1: _Mean
    g_mean: _Mean
    confusion: list[Any] | None = None
    calibration: _Ece | None = None


class _Epoch(Struct):
    """A line of ``metrics.jsonl``."""

    epoch: Annotated[int, Meta(ge=0, lt=10**6)]
    stage: Name


@dataclass(frozen=True)
class Trust:
    """How far predictions can be trusted; each sample's values come from a calibration that has not seen it.

    Args:
        uncalibrated: probabilities without the scaling, of the same shape, at the same class prior.
        sets: which classes remain possible at 90 %, (samples, classes) or (samples, attributes, 2).
        prior: the class prior of the probabilities, (classes,) or (attributes, 2).
    """

    uncalibrated: NDArray[np.floating[Any]]
    sets: NDArray[np.bool_]
    prior: Floats


@dataclass(frozen=True)
class HeldOut:
    """``held_out.npz``: predictions for the samples that training has not seen, one entry per sample.

    Args:
        probabilities: (samples, classes), or of each attribute being 1, (samples, attributes); like predictions and
            uncertainty, calibrated on other samples.
        labels, predicted: class indices, (samples,), or 0 and 1, (samples, attributes).
        rows: in the user's data.
        before: predictions of the softmax stage's network, or of a blend before balancing; None if there is neither.
        trust: None for a run of an earlier version, and if all samples are one group, which cannot be divided.
    """

    probabilities: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    uncertainty: NDArray[np.floating[Any]]
    rows: NDArray[np.int64]
    before: NDArray[np.int64] | None = None
    trust: Trust | None = None

    def save(self, folder: Path) -> None:
        """Write ``held_out.npz``, without Python objects."""
        own = {name: values for name, values in vars(self).items() if name != "trust" and values is not None}
        write_arrays(folder / HELD_OUT, own | ({} if self.trust is None else vars(self.trust)))


@dataclass(frozen=True)
class JudgedLabels:
    """``labels.npz``: every label that a run was trained and scored with, and how likely each is wrong.

    One entry per sample, training samples first: its row in the user's data, whether it was held out, and its label as
    a class index, (samples,), or 0 and 1, (samples, attributes). Image files have names.
    """

    rows: NDArray[np.int64]
    test: NDArray[np.bool_]
    labels: NDArray[np.int64]
    doubt: LabelDoubt
    names: tuple[str, ...] | None = None

    def save(self, folder: Path) -> None:
        """Write the file without Python objects: names are one text, separated by zeros."""
        arrays: dict[str, Any] = {"rows": self.rows, "test": self.test, "labels": self.labels}
        arrays |= {"suggested": self.doubt.suggested, "error": self.doubt.error.astype(np.float32)}
        if self.names is not None:
            arrays["names"] = np.frombuffer("\0".join(self.names).encode("utf-8"), dtype=np.uint8)
        write_arrays(folder / LABELS, arrays)


@dataclass(frozen=True)
class StoredRun:
    """A finished run, as read from its folder.

    Every array a class is in the order of ``classes``, NaN where a value is not defined. ``predictions`` is the file
    whose predictions were rebalanced, None where a model was trained.
    """

    folder: Path
    record: RunRecord
    classes: tuple[str, ...]
    multilabel: bool
    counts: NDArray[np.int64]  # training samples
    groups: tuple[Group, ...]
    support: NDArray[np.int64]  # held-out samples
    scores: dict[str, Any]
    before: dict[str, Any] | None
    uncertainty: Floats | None
    margins: Floats | None
    held_out: HeldOut | None
    epochs: list[dict[str, Any]] = field(default_factory=list)
    gallery: Gallery = field(default_factory=Gallery)
    predictions: str | None = None

    @property
    def name(self) -> str:
        """Name of the folder."""
        return one_line(self.folder.resolve().name)

    @property
    def noun(self) -> str:
        """The noun for an entry of ``classes``."""
        return "attribute" if self.multilabel else "class"

    @property
    def nouns(self) -> str:
        """Its plural."""
        return "attributes" if self.multilabel else "classes"

    @property
    def is_blend(self) -> bool:
        """True if the model is a blend of cross-fitted classifiers; otherwise it is a network, trained in stages."""
        return self.record.blend is not None

    @property
    def earlier(self) -> str:
        """The model that the final one is compared with."""
        return f"{self.model_noun} before balancing" if self.is_blend else "softmax stage"

    @property
    def model_noun(self) -> str:
        """The noun for the final model: a blend, the one classifier it is made of, or a network."""
        parts = self.record.blend
        if parts is None:
            return "network"
        return one_line(parts[0].name) if len(parts) == 1 else "blend"

    def each(self, metric: str, *, before: bool = False) -> Floats:
        """Return a metric of every class, of the final model or of the one before balancing."""
        source = self.before if before else self.scores
        if source is None:
            return np.full(len(self.classes), np.nan)
        return _floats(source[metric]["each"])

    def in_group(self, *groups: Group) -> NDArray[np.bool_]:
        """Mark the classes of a group."""
        return np.isin(np.array(self.groups), groups)


def read_run(folder: str | Path) -> StoredRun:
    """Read a finished run's folder; optional parts are None or empty."""
    folder = Path(folder)
    if not (folder / RECORD).is_file() or not (folder / SCORES).is_file():
        raise InvalidInputError(
            f"{folder} must be the folder of a finished run, with {RECORD} and {SCORES}; make one with "
            "'equipoise train'."
        )
    with foreign_files(folder, REMEDY):
        record, scores = read_run_record(folder), _read_scores(folder / SCORES)
        multilabel, size = scores["multilabel"], len(scores["support"])
        names = (record.attributes if multilabel else None) or record.classes
        if len(names) != size:
            raise InvalidInputError(f"{folder} names {len(names)} classes and scores {size}; {REMEDY}.")
        for what in ("train_counts", "class_uncertainty", "margins"):
            values = getattr(record, what)
            if values is not None and len(values) != size:
                raise InvalidInputError(
                    f"{what} in {folder} must hold one number for each of {size} classes; {REMEDY}."
                )
        counts, gallery = np.array(record.train_counts, dtype=np.int64), folder / GALLERY
        return StoredRun(
            folder=folder,
            record=record,
            classes=tuple(one_line(name) for name in names),
            multilabel=multilabel,
            counts=counts,
            groups=class_groups(counts),
            support=np.array(scores["support"], dtype=np.int64),
            scores=scores,
            before=_read_scores(folder / BEFORE_SCORES, size) if (folder / BEFORE_SCORES).is_file() else None,
            uncertainty=None if record.class_uncertainty is None else _floats(record.class_uncertainty),
            margins=None if record.margins is None else _floats(record.margins),
            held_out=_read_held_out(folder / HELD_OUT, size, multilabel, scores["samples"]),
            epochs=_read_epochs(folder / METRICS),
            gallery=read_json(gallery, Gallery, remedy=REMEDY) if gallery.is_file() else Gallery(),
        )


def _floats(values: Any) -> Floats:
    """Return an array with NaN for JSON's null and for values that are not finite."""
    found = np.array(values, dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _read_scores(path: Path, size: int | None = None) -> dict[str, Any]:
    plain: dict[str, Any] = read_json(path, dict[str, Any], remedy=REMEDY)
    found = as_record(plain, _Scores, path, remedy=REMEDY)
    classes = len(found.support)
    parts = [len(getattr(found, name).each) for name in ("recall", "precision", "f1")]
    fits = classes == (size or classes) and set(parts) == {classes}
    if found.confusion is not None:
        table = np.asarray(found.confusion, np.int64)
        fits &= table.shape == ((classes, 2, 2) if found.multilabel else (classes, classes))
    if not fits:
        raise InvalidInputError(f"the scores in {path} do not fit each other or the classes; {REMEDY}.")
    return plain


def _read_epochs(path: Path) -> list[dict[str, Any]]:
    """Read one record per epoch; truncated lines are skipped, but at least one must be whole."""
    found = []
    try:
        content = read_plain(path, most_bytes=LARGEST_FILE) if path.is_file() else b""
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({error.strerror}); {REMEDY}.") from error
    lines = content.decode(errors="replace").splitlines()
    for line in lines:
        try:
            record = parse_json(line)
            msgspec.convert(record, _Epoch)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            continue
        found.append(record)
    if any(map(str.strip, lines)) and not found:
        raise InvalidInputError(f"no line of {path} is of an epoch; delete it for a report without training curves.")
    return found


def held_out_uncertainty(folder: Path, *, remedy: str) -> NDArray[np.floating[Any]]:
    """Read only the uncertainties of the held-out samples, (samples,), for a run whose other files are not needed."""
    path = folder / HELD_OUT
    known = load_arrays(path, remedy=remedy).get("uncertainty", np.zeros(0))
    if known.ndim != 1 or len(known) == 0 or known.dtype.kind != "f" or not np.isfinite(known).all():
        raise InvalidInputError(f"{path} holds no uncertainties of held-out samples; {remedy}.")
    return known


def _read_held_out(path: Path, size: int, multilabel: bool, scored: int) -> HeldOut | None:
    if not path.is_file():
        return None
    stored = load_arrays(path, remedy=REMEDY)
    before = stored.get("before")
    found = HeldOut(
        probabilities=stored["probabilities"],
        labels=stored["labels"].astype(np.int64),
        predicted=stored["predicted"].astype(np.int64),
        uncertainty=stored["uncertainty"].astype(np.float64),
        rows=stored["rows"].astype(np.int64),
        before=None if before is None else before.astype(np.int64),
        trust=_trust(stored),
    )
    samples = len(found.labels)
    labels = [found.labels, found.predicted, *([] if found.before is None else [found.before])]
    fits = found.probabilities.dtype.kind == "f" and found.probabilities.shape == (samples, size) and samples > 0
    fits &= found.uncertainty.shape == (samples,) == found.rows.shape
    fits &= all(_are_places(part, samples, size, multilabel) for part in labels)
    if fits and samples != scored:
        raise InvalidInputError(f"{path} holds {samples} samples, and {SCORES} is of {scored}; {REMEDY}.")
    if not fits or not _trust_fits(found.trust, found.probabilities.shape, multilabel):
        raise _unfit(path, size)
    return found


def _trust(stored: Mapping[str, NDArray[Any]]) -> Trust | None:
    if not {"uncalibrated", "sets", "prior"} <= set(stored):
        return None
    return Trust(stored["uncalibrated"], stored["sets"], stored["prior"].astype(np.float64))


def _trust_fits(trust: Trust | None, shape: tuple[int, ...], multilabel: bool) -> bool:
    if trust is None:
        return True
    prior, sets = trust.prior, trust.sets
    fits = trust.uncalibrated.shape == shape and trust.uncalibrated.dtype.kind == "f" and sets.dtype == np.bool_
    fits &= sets.shape == ((*shape, 2) if multilabel else shape) and prior.shape == sets.shape[1:]
    return fits and bool((np.isfinite(prior) & (prior >= 0)).all()) and bool((prior.sum(-1) > 0).all())


def _are_places(values: NDArray[Any], samples: int, size: int, multilabel: bool) -> bool:
    """Return whether values are class indices, (samples,), or 0 and 1, (samples, attributes)."""
    shape, highest = ((samples, size), 1) if multilabel else ((samples,), size - 1)
    return values.shape == shape and values.dtype == np.int64 and bool(((values >= 0) & (values <= highest)).all())


def _unfit(path: Path, size: int) -> InvalidInputError:
    return InvalidInputError(f"the arrays of {path} do not fit each other or the {size} classes; {REMEDY}.")


def read_labels(folder: Path, classes: int, *, multilabel: bool) -> JudgedLabels:
    """Read ``labels.npz``."""
    path = folder / LABELS
    if not path.exists():
        raise InvalidInputError(
            f"{folder} keeps no judged labels: an earlier version wrote it, or its notes say why; train again by "
            f"`equipoise train --config {folder / RECORD} --out NEW`."
        )
    stored = load_arrays(path, remedy=REMEDY)
    missing = {"rows", "test", "labels", "suggested", "error"} - set(stored)
    if missing:
        raise InvalidInputError(f"{path} lacks {', '.join(sorted(missing))}; {REMEDY}.")
    names = stored.get("names", np.zeros(0, np.uint8))
    if names.dtype != np.uint8 or names.ndim != 1:
        raise InvalidInputError(f"the names in {path} are not text; {REMEDY}.")
    found = JudgedLabels(
        rows=stored["rows"],
        test=stored["test"],
        labels=stored["labels"],
        doubt=LabelDoubt(stored["error"], stored["suggested"]),
        names=tuple(names.tobytes().decode("utf-8", errors="replace").split("\0")) if "names" in stored else None,
    )
    rows, error, samples = found.rows, found.doubt.error, len(found.rows) if found.rows.ndim == 1 else 0
    fits = rows.dtype == np.int64 and found.test.dtype == np.bool_ and error.dtype == np.float32
    fits &= samples > 0 and found.test.shape == (samples,) and error.shape == found.labels.shape
    fits &= found.names is None or len(found.names) == samples
    places = (found.labels, found.doubt.suggested)
    if not fits or not all(_are_places(part, samples, classes, multilabel) for part in places):
        raise _unfit(path, classes)
    return found


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a ``.npz`` file atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type, unused-ignore]
    write_atomically(path, buffer.getvalue())
