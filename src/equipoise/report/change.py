"""What became of the classes of a group between the softmax stage's model and the final one."""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from equipoise.data.summary import GROUPS, Group
from equipoise.report.record import Record

CHANCE = 0.05


@dataclass(frozen=True)
class Change:
    """A group of classes.

    Args:
        classes: their names.
        samples: held-out samples of them.
        before, after: mean recall of those classes that were tested; NaN where unknown.
        precision: mean precision before and after, likewise.
        gained, lost: held-out samples that are newly right and newly wrong; None where unknown.
        chance: how often chance alone would split these as unevenly; None where unknown.
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

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def clear(self) -> bool:
        """Whether chance is an unlikely explanation, as far as it is known."""
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
    )


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
