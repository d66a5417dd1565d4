"""What a run's folder holds, read and checked; files of a stranger are data only, nothing in them is executed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.summary import Group, class_groups
from equipoise.errors import InvalidInputError
from equipoise.storage.files import foreign_files, load_arrays, read_plain
from equipoise.storage.limits import parse_json
from equipoise.storage.schema import EPOCH, fits

Floats = NDArray[np.float64]
REMEDY = "train anew"
LARGEST_FILE = 2**28
"""Bytes of a file of the run that are read at most."""


@dataclass(frozen=True)
class HeldOut:
    """The answers to the samples that training has not seen.

    Args:
        probabilities: (samples, classes); with attributes, of a 1, (samples, attributes).
        labels, predicted: (samples,) places in the classes; with attributes 0/1, (samples, attributes).
        uncertainty: (samples,).
        before: what the softmax stage's model predicted, shaped as ``predicted``; None where there is none.
        trust: what calibration found; None for a run without it.
    """

    probabilities: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    uncertainty: Floats
    before: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    trust: "Trust | None" = None


@dataclass(frozen=True)
class Trust:
    """What tells how far answers can be believed; each sample's own comes from a calibration without it.

    Args:
        uncalibrated: probabilities without a scaling, shaped as those with it.
        sets: which classes remain possible at 90 %, (samples, classes) or (samples, attributes, 2).
        prior: the class mix of the probabilities, (classes,) or (attributes, 2).
    """

    uncalibrated: NDArray[np.floating[Any]]
    sets: NDArray[np.bool_]
    prior: Floats


@dataclass(frozen=True)
class Record:
    """A run. Every array a class is in the order of ``classes``, NaN where a value is not defined."""

    folder: Path
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
    gallery: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)  # run.json

    @property
    def name(self) -> str:
        """The folder's."""
        return shown(self.folder.resolve().name)

    @property
    def noun(self) -> str:
        """What an entry of ``classes`` is."""
        return "attribute" if self.multilabel else "class"

    @property
    def nouns(self) -> str:
        """Several of them."""
        return "attributes" if self.multilabel else "classes"

    def each(self, metric: str, *, before: bool = False) -> Floats:
        """A metric of every class, of the final or of the softmax stage's model."""
        source = self.before if before else self.scores
        if source is None:
            return np.full(len(self.classes), np.nan)
        return _floats(source[metric]["each"], len(self.classes), metric, self.folder)

    def in_group(self, *groups: Group) -> NDArray[np.bool_]:
        """Which classes belong to one of the groups."""
        return np.isin(np.array(self.groups), groups)


def read_record(folder: str | Path) -> Record:
    """Read a run's folder; what it may lack is None or empty."""
    folder = Path(folder)
    if not (folder / "run.json").is_file() or not (folder / "scores.json").is_file():
        raise InvalidInputError(
            f"{folder} must be the folder of a finished run, with run.json and scores.json; make one with "
            "'equipoise train'."
        )
    with foreign_files(folder, REMEDY):
        return _assemble(folder, _json(folder / "run.json"), _json(folder / "scores.json"))


def shown(text: Any, longest: int = 200) -> str:
    """Text fit for a page: one line, no control or direction-changing characters, not endless."""
    plain = "".join(letter if letter.isprintable() else " " if letter.isspace() else "\ufffd" for letter in str(text))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _assemble(folder: Path, about: dict[str, Any], scores: dict[str, Any]) -> Record:
    _check_scores(scores, folder / "scores.json")
    multilabel = scores["multilabel"]
    names = (about.get("attributes") if multilabel else None) or about.get("classes")
    size = len(scores["support"])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"{folder / 'run.json'} holds no list of classes; train anew.")
    if len(names) != size:
        raise InvalidInputError(f"{folder} names {len(names)} classes and scores {size}; train anew.")
    counts = _integers(about.get("train_counts"), size, "train_counts", folder)
    before, earlier = folder / "before_scores.json", None
    gallery = folder / "gallery.json"
    if before.is_file():
        earlier = _json(before)
        _check_scores(earlier, before)
    record = Record(
        folder=folder,
        classes=tuple(shown(name) for name in names),
        multilabel=multilabel,
        counts=counts,
        groups=class_groups(counts),
        support=_integers(scores["support"], size, "support", folder),
        scores=scores,
        before=earlier,
        uncertainty=_optional(about.get("class_uncertainty"), size, "class_uncertainty", folder),
        margins=_optional(about.get("margins"), size, "margins", folder),
        held_out=_held_out(folder / "held_out.npz", size, multilabel, scores["samples"]),
        epochs=_epochs(folder / "metrics.jsonl"),
        gallery=_json(gallery) if gallery.is_file() else {},
        about=about,
    )
    for metric in ("recall", "precision", "f1"):
        for early in (True, False):
            record.each(metric, before=early)  # raises where it is missing or of another length
    return record


def _check_scores(scores: dict[str, Any], path: Path) -> None:
    """What the pages rely on without looking again."""
    support, samples = scores.get("support"), scores.get("samples")
    if type(samples) is not int or samples < 1 or not isinstance(support, list) or not support:
        raise InvalidInputError(f"the scores in {path} are of no sample or no class; train anew.")
    size, several = len(support), scores.get("multilabel")
    means = [scores.get(name) for name in ("recall", "precision", "f1", "g_mean")]
    table, calibration = scores.get("confusion"), scores.get("calibration")
    right = (
        isinstance(several, bool)
        and all(isinstance(mean, dict) and _is_number(mean.get("mean")) for mean in means)
        and all(_is_number(scores.get(name)) for name in ("accuracy", "balanced_accuracy"))
        and (table is None or np.asarray(table, np.int64).shape == ((size, 2, 2) if several else (size, size)))
        and (calibration is None or (isinstance(calibration, dict) and _is_number(calibration.get("ece"))))
    )
    if not right:
        raise InvalidInputError(f"the scores in {path} are damaged or of another version; train anew.")


def _is_number(value: Any) -> bool:
    """JSON's null stands for a score that is not defined."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_plain(path, most_bytes=LARGEST_FILE))
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidInputError(f"{path} cannot be read ({reason}); train anew.") from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"{path} must hold an object in braces; train anew.")
    return value


def _epochs(path: Path) -> list[dict[str, Any]]:
    """One record an epoch; lines that were cut off are left out, but one at least must be whole."""
    found = []
    try:
        content = read_plain(path, most_bytes=LARGEST_FILE) if path.is_file() else b""
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({error.strerror}); {REMEDY}.") from error
    lines = content.decode(errors="replace").splitlines()
    for line in lines:
        try:
            record = parse_json(line)
        except (ValueError, RecursionError):
            continue
        if fits(record, EPOCH):
            found.append(record)
    if any(map(str.strip, lines)) and not found:
        raise InvalidInputError(f"no line of {path} is of an epoch; delete it for a report without training curves.")
    return found


def _held_out(path: Path, size: int, multilabel: bool, scored: int) -> HeldOut | None:
    if not path.is_file():
        return None
    stored = load_arrays(path, remedy=REMEDY)
    before = stored.get("before")
    found = HeldOut(
        probabilities=stored["probabilities"],
        labels=stored["labels"].astype(np.int64),
        predicted=stored["predicted"].astype(np.int64),
        uncertainty=stored["uncertainty"].astype(np.float64),
        before=None if before is None else before.astype(np.int64),
        rows=stored["rows"].astype(np.int64),
    )
    samples = len(found.labels)
    labels_shape = (samples, size) if multilabel else (samples,)
    labels = [found.labels, found.predicted, *([] if found.before is None else [found.before])]
    fits = found.probabilities.dtype.kind == "f" and found.probabilities.shape == (samples, size)
    fits &= found.uncertainty.shape == (samples,) == found.rows.shape
    highest = 1 if multilabel else size - 1
    fits &= all(part.shape == labels_shape and bool(((part >= 0) & (part <= highest)).all()) for part in labels)
    if not fits or samples == 0:
        raise InvalidInputError(f"the arrays of {path} do not fit each other or the {size} classes; train anew.")
    if samples != scored:
        raise InvalidInputError(f"{path} holds {samples} samples, and scores.json is of {scored}; train anew.")
    return replace(found, trust=_trust(stored, multilabel, path))


def _trust(stored: dict[str, NDArray[Any]], multilabel: bool, path: Path) -> Trust | None:
    parts = [stored.get(name) for name in ("uncalibrated", "sets", "prior")]
    if any(part is None for part in parts):  # of a run before there was calibration
        return None
    uncalibrated, sets, prior = (np.asarray(part) for part in parts)
    shape = stored["probabilities"].shape
    fits = uncalibrated.shape == shape and uncalibrated.dtype.kind == "f" and sets.dtype == np.bool_
    fits &= sets.shape == ((*shape, 2) if multilabel else shape) and prior.dtype.kind == "f"
    fits = fits and prior.shape == sets.shape[1:] and bool((np.isfinite(prior) & (prior >= 0)).all())
    if not fits or not bool((prior.sum(-1) > 0).all()):
        raise InvalidInputError(
            f"the arrays of {path} do not fit each other or the {shape[-1]} classes (uncalibrated, sets, prior); "
            f"{REMEDY}."
        )
    return Trust(uncalibrated, sets, prior.astype(np.float64))


def _floats(values: Any, size: int, what: str, folder: Path) -> Floats:
    given = values if isinstance(values, list) else []
    found = np.array([np.nan if value is None else float(value) for value in given if _is_number(value)])
    if found.shape != (size,) or len(given) != size:
        raise InvalidInputError(f"{what} in {folder} must hold one number for each of {size} classes; train anew.")
    return np.where(np.isfinite(found), found, np.nan)


def _optional(values: Any, size: int, what: str, folder: Path) -> Floats | None:
    return None if values is None else _floats(values, size, what, folder)


def _integers(values: Any, size: int, what: str, folder: Path) -> NDArray[np.int64]:
    found = _floats(values, size, what, folder)
    if not bool(((found >= 0) & (found < 2**53)).all()):
        raise InvalidInputError(f"{what} in {folder} must hold counts; train anew.")
    return found.astype(np.int64)
