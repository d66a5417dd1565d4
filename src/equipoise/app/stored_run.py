"""A run's folder as the report and ``inspect`` read it, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from equipoise.app.output_files import one_line
from equipoise.app.run_folder import LARGEST_FILE, REMEDY, Gallery, RunRecord, read_run_record
from equipoise.app.stored_arrays import Floats, HeldOut, read_held_out
from equipoise.data.summary import Group, class_groups
from equipoise.errors import InvalidInputError, readable
from equipoise.storage.files import foreign_files, read_plain
from equipoise.storage.records import AtLeastOne, Counts, MaybeNumbers, Name, as_record, read_json
from equipoise.storage.run_files import BEFORE_SCORES, GALLERY, HELD_OUT, METRICS_LOG, RECORD, SCORES
from equipoise.storage.size_limits import parse_json


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
class StoredRun:
    """A finished run, as read from its folder.

    Arrays with one entry per class follow ``classes``, NaN for an undefined value. ``predictions`` is the file
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
        return "softmax stage" if self.has_softmax_stage else f"{self.model_noun} before balancing"

    @property
    def has_softmax_stage(self) -> bool:
        """Return whether the network first trained without margins, rather than with margins from the first epoch."""
        return not self.is_blend and (not self.epochs or any(epoch["stage"] == "softmax" for epoch in self.epochs))

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

    @property
    def by_count(self) -> list[int]:
        """Class indices from the largest to the smallest."""
        found: list[int] = np.argsort(-self.counts, kind="stable").tolist()
        return found

    def rows(self, places: Sequence[int], **columns: Any) -> list[dict[str, Any]]:
        """Return a row for each of these classes: name, group, samples trained on and held out, and values."""
        return [
            {
                "name": self.classes[place],
                "group": self.groups[place],
                "count": int(self.counts[place]),
                "support": int(self.support[place]),
                **{name: values[place] for name, values in columns.items()},
            }
            for place in places
        ]

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
            held_out=read_held_out(folder / HELD_OUT, size, multilabel, scores["samples"]),
            epochs=_read_epochs(folder / METRICS_LOG),
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
    with readable(path, REMEDY):
        content = read_plain(path, most_bytes=LARGEST_FILE) if path.is_file() else b""
    lines = content.decode(errors="replace").splitlines()
    for line in lines:
        try:
            record = parse_json(line)
            msgspec.convert(record, _Epoch)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            continue
        found.append(record)
    if any(map(str.strip, lines)) and not found:
        raise InvalidInputError(
            f"{path} has no valid record of an epoch; delete it for a report without training curves."
        )
    return found
