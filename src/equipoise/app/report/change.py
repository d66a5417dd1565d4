"""What became of the classes of a group between the softmax stage's model and the final one, and what it cost."""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from equipoise.app.report.record import HeldOut, Record
from equipoise.data.summary import GROUPS, Group
from equipoise.evaluation.intervals import Z, combined

CHANCE = 0.05
MOST_CELLS = 2**26
"""Samples × classes up to which false alarms before and after are compared."""


@dataclass(frozen=True)
class Gap:
    """Recall − false alarms, the mean over the classes, before and after; 0 for one answer to all.

    Args:
        low, high: 95 % interval of the difference.
    """

    before: float
    after: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Change:
    """A group of classes.

    Args:
        classes: their names.
        samples: held-out samples of them.
        before, after: mean recall of those classes that were tested; NaN where unknown.
        precision: mean precision before and after, likewise.
        gained, lost: held-out samples that are newly right and newly wrong; None where unknown.
        chance: how often chance alone would split these as unevenly; None where unknown. It tells whether recall has
            changed, not whether the model got better: answering with the class always would have changed it too.
        alarms: wrong answers that name one of the classes, before and after; None where unknown.
        gap: what is left of the change in recall when false alarms count against it; None where unknown.
    """

    name: str
    classes: tuple[str, ...]
    samples: int
    before: float
    after: float
    precision: tuple[float, float]
    gained: int | None
    lost: int | None
    chance: float | None
    alarms: tuple[int, int] | None
    gap: Gap | None

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def clear(self) -> bool:
        """Whether chance is an unlikely explanation of the change in recall, as far as it is known."""
        return self.chance is None or self.chance < CHANCE


def group_changes(record: Record) -> list[Change]:
    """Of the groups that have classes, and of all classes together last."""
    groups = [group for group in GROUPS if group in record.groups]
    return [*(_change(record, (group,), group) for group in groups), _change(record, tuple(groups), "all")]


def sign_test(gained: int, lost: int) -> float:
    """P of a split at least as uneven when a changed sample is as likely to turn right as wrong.

    >>> sign_test(10, 0), sign_test(3, 3)
    (0.001953125, 1.0)
    """
    return float(min(1.0, 2 * bdtr(min(gained, lost), gained + lost, 0.5)))


def _change(record: Record, groups: tuple[Group, ...], name: str) -> Change:
    mine = record.in_group(*groups)
    tested = mine & (record.support > 0)
    recall, precision = (
        [_mean(record.each(metric, before=early)[tested]) for early in (True, False)]
        for metric in ("recall", "precision")
    )
    gained, lost = _turned(record, tested)
    named = None if record.held_out is None else _named(record, record.held_out, tested)
    return Change(
        name=name,
        classes=tuple(record.classes[place] for place in np.flatnonzero(mine)),
        samples=int(record.support[mine].sum()),
        before=recall[0],
        after=recall[1],
        precision=(precision[0], precision[1]),
        gained=gained,
        lost=lost,
        chance=None if gained is None or lost is None else sign_test(gained, lost),
        alarms=None if named is None else (int((named[1] & ~named[0]).sum()), int((named[2] & ~named[0]).sum())),
        gap=None if named is None else _gap(*named),
    )


def _named(record: Record, held: HeldOut, tested: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Which samples have, were given before, and are given now each of the tested classes: (samples, classes) each."""
    places = np.flatnonzero(tested)
    if held.before is None or not len(places) or len(places) * len(held.labels) > MOST_CELLS:
        return None
    parts = (held.labels, held.before, held.predicted)
    own, was, now = (part[:, places] == 1 if record.multilabel else part[:, None] == places for part in parts)
    return own, was, now


def _gap(own: np.ndarray, was: np.ndarray, now: np.ndarray) -> Gap | None:
    """Paired, class by class: of its samples those newly found, of the others those newly given it."""
    both = (own, ~own)
    if any((kind.sum(0) == 0).any() for kind in both):  # a class that all samples have: no false alarm is possible
        return None
    shares = [[(given & kind).sum(0) / kind.sum(0) for given in (was, now)] for kind in both]
    before, after = ((shares[0][time] - shares[1][time]).mean() for time in (0, 1))
    found = [_paired((now & ~was & kind).sum(0), (was & ~now & kind).sum(0), kind.sum(0)) for kind in both]
    change, below, above = (np.concatenate(part) for part in zip(*found, strict=True))
    size = own.shape[1]
    low, high = combined(change, below, above, np.repeat([1 / size, -1 / size], size))
    return Gap(float(before), float(after), low, high)


def _paired(gained: np.ndarray, lost: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Change of a share with its interval, half a sample added to each of the four cells (Agresti and Min 2005)."""
    more, less, total = gained + 0.5, lost + 0.5, samples + 2
    middle = (more - less) / total
    half = Z * np.sqrt((more + less) / total - middle**2) / np.sqrt(total)
    change = (gained - lost) / samples
    return change, np.minimum(middle - half, change), np.maximum(middle + half, change)


def _turned(record: Record, tested: np.ndarray) -> tuple[int | None, int | None]:
    """Samples of the classes that turned right and wrong; with attributes, those that have it, as recall counts."""
    held = record.held_out
    if held is None or held.before is None:
        return None, None
    asked = tested & (held.labels == 1) if record.multilabel else tested[held.labels]
    was, now = held.before == held.labels, held.predicted == held.labels
    return int((asked & now & ~was).sum()), int((asked & was & ~now).sum())


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
