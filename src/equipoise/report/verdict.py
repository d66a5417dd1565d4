"""The verdict in words: what the rare classes gained, what the common ones lost, and how sure that is."""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from equipoise.data.summary import Group
from equipoise.report.record import GROUP_NAMES, Record

CHANCE = 0.05
SAME = 0.0005
"""Recalls closer than this read the same, rounded to a tenth of a percent."""
NAMED = 5


@dataclass(frozen=True)
class Change:
    """What became of a group of classes.

    Args:
        before, after: mean recall of the group's classes; NaN where unknown.
        gained, lost: held-out samples that are newly right and newly wrong; None where unknown.
        chance: how often chance alone would give a difference as large as theirs; None where unknown.
    """

    name: str
    classes: int
    samples: int
    before: float
    after: float
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


@dataclass(frozen=True)
class Verdict:
    """One sentence that says it, the sentences behind it, and the figures of each group."""

    headline: str
    sentences: list[str]
    changes: list[Change]


def verdict(record: Record) -> Verdict:
    """Compare the final model with the softmax stage's where there is one."""
    changes = [_change(record, (group,), GROUP_NAMES[group]) for group in ("many", "medium", "few")]
    changes = [change for change in changes if change.classes]
    total = _change(record, ("many", "medium", "few"), "all")
    if len(changes) > 1:
        changes.append(total)
    rare = next((change for change in changes if change.name == "rare"), None)
    common = next((change for change in changes if change.name == "many"), None)
    if record.before is None or np.isnan(total.before):
        return Verdict(_standing(record, rare, common, total), [*_alone(record), *_rests_on(record, rare)], changes)
    if rare is None or np.isnan(rare.difference):
        headline = f"{_subject(record, rare)} {_moved(total, record.nouns)}."
        sentences = _behind(record, total)
    else:
        headline = _headline(rare, common, record.nouns)
        sentences = [*_behind(record, total), *_paired(rare, record)]
    return Verdict(headline, [*sentences, *_rests_on(record, rare), *_caveats(record)], changes)


def sign_test(gained: int, lost: int) -> float:
    """P of a split at least as uneven when a changed sample is as likely to turn right as wrong.

    >>> sign_test(10, 0), sign_test(3, 3)
    (0.001953125, 1.0)
    """
    return float(min(1.0, 2 * bdtr(min(gained, lost), gained + lost, 0.5)))


def percent(share: float) -> str:
    """
    >>> percent(0.1234), percent(float("nan"))
    ('12.3%', '–')
    """
    return "–" if np.isnan(share) else f"{share:.1%}"


def points(difference: float) -> str:
    """
    >>> points(0.0123), points(-0.5), points(0.0)
    ('+1.2', '−50.0', '0.0')
    """
    if np.isnan(difference):
        return "–"
    return f"{100 * difference:+.1f}".replace("-", "−") if abs(difference) >= SAME else "0.0"


def _change(record: Record, groups: tuple[Group, ...], name: str) -> Change:
    mine = record.in_group(*groups)
    tested = mine & (record.support > 0)
    before, after = (record.each("recall", before=early)[tested] for early in (True, False))
    gained = lost = chance = None
    held = record.held_out
    if held is not None and held.before is not None:
        asked = tested[held.labels] if not record.multilabel else tested & (held.labels == 1)  # recall: of the ones
        was, now = held.before == held.labels, held.predicted == held.labels
        gained, lost = int((asked & now & ~was).sum()), int((asked & was & ~now).sum())
        chance = sign_test(gained, lost)
    return Change(
        name=name,
        classes=int(mine.sum()),
        samples=int(record.support[mine].sum()),
        before=float(before.mean()) if tested.any() else float("nan"),
        after=float(after.mean()) if tested.any() else float("nan"),
        gained=gained,
        lost=lost,
        chance=chance,
    )


def _headline(rare: Change, common: Change | None, nouns: str) -> str:
    said = f"The rare {nouns} {_moved(rare, nouns)}"
    if common is None or np.isnan(common.difference):
        return said + "."
    if abs(common.difference) < SAME:
        other = "the common ones stay as they were"
    else:
        verb = "gain" if common.difference > 0 else "lose"
        other = f"the common ones {verb} {abs(100 * common.difference):.1f} points"
        other += "" if common.clear else ", which may be chance"
    return f"{said}; {other}."


def _moved(change: Change, nouns: str) -> str:
    """The verb of the headline."""
    both = f"recall {percent(change.before)} before, {percent(change.after)} after"
    if abs(change.difference) < SAME:
        return f"are found as often as before ({percent(change.after)}): it made no difference"
    if not change.clear:
        return f"show no clear difference: {both}, which so few changed answers cannot tell from chance"
    word = "more" if change.difference > 0 else "less"
    return f"are found {word} often: {both} ({points(change.difference)} points)"


def _subject(record: Record, rare: Change | None) -> str:
    return f"No {record.noun} is rare here, and all {record.nouns} together" if rare is None else f"The {record.nouns}"


def _standing(record: Record, rare: Change | None, common: Change | None, total: Change) -> str:
    """The headline without anything to compare with."""
    if rare is None or np.isnan(rare.after) or common is None or np.isnan(common.after):
        return f"A sample is found {percent(total.after)} of the time, averaged over the {record.nouns}."
    return (
        f"The rare {record.nouns} are found {percent(rare.after)} of the time, the common ones {percent(common.after)}."
    )


def _alone(record: Record) -> list[str]:
    method = record.about.get("options", {}).get("method", "its method")
    return [
        f"Balanced accuracy, the mean over the {record.nouns}, is {percent(_number(record.scores, 'balanced_accuracy'))} "
        f"and accuracy {percent(_number(record.scores, 'accuracy'))}.",
        f"There is no model of a softmax stage to compare with: {method} has none, or there were too few epochs.",
    ]


def _behind(record: Record, total: Change) -> list[str]:
    assert record.before is not None
    balanced, plain = (
        [percent(_number(source, name)) for source in (record.before, record.scores)]
        for name in ("balanced_accuracy", "accuracy")
    )
    sentences = [
        f"Balanced accuracy, the mean over the {record.nouns}, went from {balanced[0]} to {balanced[1]}; accuracy, "
        f"the share of right answers, from {plain[0]} to {plain[1]}."
    ]
    if total.gained == total.lost == 0:
        sentences.append("Not one held-out sample changed between right and wrong.")
    return sentences


def _paired(rare: Change, record: Record) -> list[str]:
    if rare.gained is None or rare.lost is None or rare.chance is None or rare.gained + rare.lost == 0:
        return []
    if rare.chance >= 0.995:
        odds = "exactly what chance would do"
    else:
        odds = f"chance alone gives a split as uneven {'in' if rare.chance >= 0.001 else 'in less than'} "
        odds += f"{max(rare.chance, 0.001):.1%} of cases"
    return [
        f"Of the rare {record.nouns}' samples {rare.gained:,} {_are(rare.gained)} newly right and {rare.lost:,} "
        f"newly wrong; {odds}."
    ]


def _rests_on(record: Record, rare: Change | None) -> list[str]:
    samples = int(record.scores["samples"])
    said = f"This rests on {samples:,} held-out {_plural(samples, 'sample')}"
    if rare is not None:
        said += f", {rare.samples:,} of them of the {rare.classes:,} rare {_plural(rare.classes, record.noun)}"
    said += "."
    if rare is not None and 0 < rare.samples < 100:
        said += f" One rare sample more or less moves their recall by about {100 / rare.samples:.1f} points."
    sentences = [said]
    untested = [name for name, held in zip(record.classes, record.support.tolist(), strict=True) if not held]
    if untested:
        more = f" and {len(untested) - NAMED:,} more" if len(untested) > NAMED else ""
        sentences.append(f"Nothing can be said of {', '.join(untested[:NAMED])}{more}: no held-out sample.")
    return sentences


def _caveats(record: Record) -> list[str]:
    stages = [epoch["stage"] for epoch in record.epochs]
    early = stages.count("softmax")
    if not early or early == len(stages):
        return []
    return [
        f"Before is the same network at the end of its softmax stage, after {early} of {len(stages)} epochs: a part of "
        "the change may come from longer training alone."
    ]


def _number(scores: dict[str, object], name: str) -> float:
    value = scores.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
