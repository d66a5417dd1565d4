"""The split into training and scored samples, decided before any expensive work."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.preprocessing import RunInput
from equipoise.app.runs.run_options import RunOptions
from equipoise.data import Samples, open_data
from equipoise.data.images import duplicate_note
from equipoise.data.labels import label_places
from equipoise.data.samples import rows_of
from equipoise.data.sources import UNNAMED, grouped
from equipoise.data.splits import Split, hold_out
from equipoise.data.time_order import row_times, split_by_time
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

MOST_HELD_OUT = 50_000
"""Rows that are held out of a table that is read in parts: they are in memory."""


@dataclass(frozen=True)
class GivenSamples:
    """Samples that are already in memory.

    Args:
        train, test: to train on and to score on.
        pictures: of the test samples, uint8 (samples, channels, height, width), for the report's gallery if the
            samples themselves are a table.

    >>> rows = Samples(np.arange(8.0).reshape(4, 2), np.array(["a", "b", "a", "b"]))
    >>> given = GivenSamples(train=rows.take([0, 1]), test=rows.take([2, 3]))
    >>> len(given.train), given.test.y.tolist()
    (2, ['a', 'b'])
    """

    train: Samples
    test: Samples
    pictures: NDArray[np.uint8] | None = None


class Targets(NamedTuple):
    """Labels of the training and test samples as indices into ``classes``, or as 0 and 1 for attributes.

    −1 is a test sample whose class is none of them.
    """

    classes: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, train: Samples, test: Samples) -> "Targets":
        """Encode labels; each different one is written as text once, which takes far less memory."""
        if train.multilabel:
            return cls(train.class_names, train.y.astype(np.int64), test.y.astype(np.int64))
        classes, places = train.class_names, train.encoded[1].astype(np.int64, copy=False)
        return cls(classes, places, label_places(np.array(test.class_names), classes)[test.encoded[1]])

    @property
    def several(self) -> bool:
        """True if a sample has several labels."""
        return self.train.ndim == 2

    @property
    def counts(self) -> list[int]:
        """Number of training samples of each class, or with each attribute."""
        found: list[int] = (self.train.sum(0) if self.several else np.bincount(self.train)).tolist()
        return found


@dataclass(frozen=True)
class SplitSamples:
    """Training and test samples.

    Args:
        split: their rows in the user's data; empty for test samples from another source.
        total: number of rows in the user's data.
        whole: the images that both come from; None for two sources, and for tables.
    """

    train: Samples
    test: Samples
    split: Split
    total: int
    whole: Samples | None = None

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """The test samples' rows in their source."""
        own = self.split.test if len(self.split.test) else np.arange(len(self.test))
        return np.asarray(own, dtype=np.int64)

    @cached_property
    def targets(self) -> Targets:
        """The labels of both parts as indices."""
        return Targets.of(self.train, self.test)

    def rows(self, prepared: RunInput) -> tuple[Any, Any]:
        """Return both parts as the network takes them; frozen features of the whole are reused whatever the split."""
        if prepared.extractor is not None and self.whole is not None:
            features = prepared.rows(self.whole.x)
            return features[self.split.train], features[self.split.test]
        return prepared.training_rows(self.train.x), prepared.rows(self.test.x)


def split_samples(options: RunOptions, told: RunWatcher, given: GivenSamples | None = None) -> SplitSamples:
    """Read the data and split them: by official parts, by a separate test set, or by holding out a share."""
    if given is not None:
        rows = Split(np.arange(len(given.train)), [], [])
        return _without_unseen(SplitSamples(given.train, given.test, rows, len(given.train)), told)
    samples = _read(options.data, options, told, stream=options.stream)
    if options.time is not None and rows_of(samples.x).in_parts:
        raise InvalidInputError("--time sorts all rows, and this table is read in parts; pass --in-memory.")
    times = None if options.time is None else row_times(samples.x, options.time)
    samples = options.columns.of(samples)
    own_test = options.test is not None
    parts = _with_own_test(samples, options, told) if own_test else _parts(samples, options, told, times)
    parts = _without_unseen(parts, told)
    if samples.partition is None:
        doubled = duplicate_note(parts.train.x, parts.test.x)
        if doubled:
            told.note(doubled)
    _tell_of_shared_groups(parts, told)
    return parts


def _tell_of_shared_groups(parts: SplitSamples, told: RunWatcher) -> None:
    """Note the test samples whose group is trained on, which a test set of one's own or an official part may have."""
    train, test = parts.train.groups, parts.test.groups
    if train is None or test is None:
        return
    named = ~np.char.startswith(test.astype(np.str_), UNNAMED)
    shared = int((np.isin(test, train) & named).sum())
    if shared:
        told.note(
            f"{shared:,} of {counted(len(test), 'test sample')} belong to groups in the training samples, so the "
            "scores may be too optimistic; test on other groups."
        )


def _with_own_test(samples: Samples, options: RunOptions, told: RunWatcher) -> SplitSamples:
    rows = np.arange(len(samples))
    if samples.partition is not None:
        rows = np.flatnonzero(samples.partition == "train")
        told.note(f"training on the official training part of {options.data}, {len(rows):,} samples.")
    train = samples.take(rows)
    asked = replace(options, labels=options.test_labels or options.labels, group=None)  # it may lack that column
    test = _read(str(options.test), asked, told, **rows_of(train.x).read_as)
    test = _with_groups(test, options, told)
    if test.partition is not None and "test" in test.partition:
        test = test.part("test")
    return SplitSamples(train, test, Split(rows, [], []), len(samples))


def _with_groups(test: Samples, options: RunOptions, told: RunWatcher) -> Samples:
    """Read the groups of a test table, to keep together when it is divided for calibration; the column is optional."""
    if options.group is None or test.groups is not None:
        return test
    if options.group not in test.columns:
        told.note(f"{options.test} has no column {options.group!r}; calibration treats its samples as independent.")
        return test
    found = grouped(test, options.group)
    told.note(*found.notes[len(test.notes) :])
    return found


def _parts(
    samples: Samples, options: RunOptions, told: RunWatcher, times: NDArray[np.float64] | None = None
) -> SplitSamples:
    if times is not None:
        train, test = split_by_time(times, options.test_share)
        told.note(
            f"trained on the {len(train):,} earlier rows by {options.time!r}, tested on the {len(test):,} latest."
        )
        split = Split(train, [], test)
    elif samples.partition is None:
        share = options.test_share
        if rows_of(samples.x).in_parts:
            share = min(share, MOST_HELD_OUT / len(samples))
        train, test = hold_out(samples.encoded[1], share, seed=options.seed, groups=samples.groups)
        split = Split(train, [], test)
    else:
        parts = {part: np.flatnonzero(samples.partition == part) for part in ("train", "val", "test")}
        if not len(parts["test"]) and len(parts["val"]):
            told.note("this data set has no official test part; the scores are those of the validation part.")
            parts["val"], parts["test"] = parts["test"], parts["val"]
        elif len(parts["val"]):
            told.note(f"the official validation part, {len(parts['val'])} samples, is not used.")
        split = Split(**parts)
    if len(split.train) == 0 or len(split.test) == 0:
        raise InvalidInputError(
            f"there must be samples to train on and samples to score on, got {len(split.train)} and "
            f"{len(split.test)}; only classes with three samples or more have some held out: collect more, or "
            "give --test."
        )
    if rows_of(samples.x).in_parts:
        tested = samples.take(split.test)
        tested = replace(tested, x=tested.x.frame())
        told.note(f"the table is read in parts; {len(tested):,} rows are held out, and the others stay on disk.")
        return SplitSamples(samples.take(split.train), tested, Split([], [], split.test), len(samples))
    whole = samples if rows_of(samples.x).from_files else None  # keeping a table would waste memory
    return SplitSamples(samples.take(split.train), samples.take(split.test), split, len(samples), whole)


def _without_unseen(parts: SplitSamples, told: RunWatcher) -> SplitSamples:
    """Leave out test samples of classes without training samples: no model can find them."""
    train, test = parts.train, parts.test
    if train.multilabel != test.multilabel:
        raise InvalidInputError("training and test samples must both have one label each, or both several.")
    if train.multilabel:
        return parts
    seen = parts.targets.test >= 0
    if seen.all():
        return parts
    if not seen.any():
        raise InvalidInputError("no test sample has a class of the training samples; check the labels of both.")
    names = ", ".join(map(repr, sorted(set(test.y[~seen].astype(str).tolist()))[:5]))
    told.note(f"{int((~seen).sum())} test samples of classes without a training sample are left out: {names}.")
    kept, split = np.flatnonzero(seen), parts.split
    own = Split(split.train, split.val, split.test[kept]) if len(split.test) else split
    return replace(parts, test=test.take(kept), split=own)


def _read(
    source: str, options: RunOptions, told: RunWatcher, *, size: tuple[int, int] | None = None, **how: Any
) -> Samples:
    where: dict[str, Any] = {name: getattr(options, name) for name in ("target", "labels", "group")}
    samples = open_data(source, **where, size=size or options.size, progress=told.progress, **how)
    told.note(*samples.notes)
    return samples
