"""Whether the model is any good, in words: its ranking, its answers, and how far both are above guessing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import percent
from equipoise.evaluation.intervals import combined, wilson
from equipoise.evaluation.skill import Skill
from equipoise.wording import plural

Grade = Literal["unknown", "guessing", "unclear", "weak", "silent", "false alarms", "misses", "fair", "good"]
FAIR, GOOD = 0.7, 0.8
"""AUC from which a ranking is called fair, and good."""
MOST, HALF = 0.7, 0.5
"""Recall and precision of a good model, and those of one whose answers are called wrong."""
CHANCE, FEW, NAMED = 0.05, 10, 5


@dataclass(frozen=True)
class Worth:
    """What a model is worth on its own: one sentence that says it, and the figures behind it."""

    grade: Grade
    headline: str
    sentences: list[str]

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {"headline": self.headline, "sentences": self.sentences}


@dataclass(frozen=True)
class Focus:
    """The classes that a model is judged by: the rare ones that were tested, or all that were.

    Args:
        places: of the classes; ``names`` are theirs.
        rare: whether they are the rare ones.
        area, low, high: mean AUC with its 95 % interval; without probabilities that of the answers alone, ½ (1 + gap).
        chance: how often guessing does as well for the best of them, corrected for their number.
    """

    skill: Skill
    names: tuple[str, ...]
    places: NDArray[np.intp]
    rare: bool
    noun: str
    area: float
    low: float
    high: float
    chance: float

    @property
    def ranked(self) -> bool:
        """Whether there were probabilities."""
        return not bool(np.isnan(self.skill.auc[self.places]).any())

    @property
    def samples(self) -> int:
        """Held-out samples of these classes."""
        return int(self.skill.support[self.places].sum())

    @property
    def one(self) -> bool:
        """Whether it is one class."""
        return len(self.places) == 1

    @property
    def subject(self) -> str:
        """The classes, for a sentence."""
        kind = "rare " if self.rare else ""
        return f"the {kind}{self.noun} {self.names[0]}" if self.one else f"the {kind}{plural(2, self.noun)}"

    def mean(self, values: NDArray[np.float64]) -> float:
        """Mean over those of the classes that have a value; NaN where none has."""
        known = values[self.places][~np.isnan(values[self.places])]
        return float(known.mean()) if len(known) else float("nan")


def worth(found: Skill, names: Sequence[str], rare: NDArray[np.bool_], *, multilabel: bool) -> Worth:
    """Judge a model by its rare classes, or by all where none is rare or none of the rare was tested.

    Args:
        names, rare: of each class or attribute, its name and whether it is rare.
    """
    noun = "attribute" if multilabel else "class"
    if not found.tested.any():
        said = f"Cannot be judged: no {noun} has held-out samples both of it and of others."
        return Worth("unknown", said, [])
    focus = _focus(found, names, rare, noun)
    grade = _grade(focus)
    sentences = [*_order(focus), *_answers(focus, multilabel), *_unproven(found, names, noun)]
    return Worth(grade, _headline(focus, grade), sentences)


def _focus(found: Skill, names: Sequence[str], rare: NDArray[np.bool_], noun: str) -> Focus:
    chosen = found.tested & rare
    scarce = bool(chosen.any())
    places = np.flatnonzero(chosen if scarce else found.tested)
    ranked = not bool(np.isnan(found.auc[places]).any())
    if ranked:
        area, low, high, chance = (
            part[places] for part in (found.auc, found.auc_low, found.auc_high, found.auc_chance)
        )
    else:
        area, low, high = ((1 + part[places]) / 2 for part in (found.gap, found.gap_low, found.gap_high))
        chance = found.gap_chance[places]
    ends = combined(area, low, high, np.full(len(places), 1 / len(places)))
    return Focus(
        skill=found,
        names=tuple(names[place] for place in places.tolist()),
        places=places,
        rare=scarce,
        noun=noun,
        area=float(area.mean()),
        low=ends[0],
        high=ends[1],
        chance=min(1.0, float(chance.min()) * len(places)),
    )


def _grade(focus: Focus) -> Grade:
    if focus.chance >= CHANCE:
        return "unknown" if focus.high >= FAIR else "guessing"
    if focus.samples < FEW or focus.low < FAIR < GOOD <= focus.high:
        return "unclear"
    if focus.area < FAIR:
        return "weak"
    answers = min(focus.mean(focus.skill.precision), focus.mean(focus.skill.recall))
    good: Grade = "good" if focus.area >= GOOD and answers >= MOST else "fair"
    return _flaw(focus) or good


def _flaw(focus: Focus) -> Grade | None:
    """What is wrong with the answers of a model that ranks well."""
    if not focus.skill.named[focus.places].any():
        return "silent"
    if focus.mean(focus.skill.precision) < HALF:
        return "false alarms"
    return "misses" if focus.mean(focus.skill.recall) < HALF else None


def _headline(focus: Focus, grade: Grade) -> str:
    subject, few = focus.subject, f"{focus.samples:,} held-out {plural(focus.samples, 'sample')} of {focus.subject}"
    kind = "AUC of the answers alone" if not focus.ranked else "AUC" if focus.one else "mean AUC"
    area = f"({kind} {focus.area:.2f}, where guessing has 0.50)"
    them, well = "it" if focus.one else "them", "well" if focus.area >= GOOD else "fairly well"
    right, rest = focus.mean(focus.skill.precision), " from the rest" if focus.one or focus.rare else ""
    wrong = "" if np.isnan(right) else f"{percent(1 - right)} of the answers that name {them} are wrong"
    if grade == "unknown":
        verb = "is" if focus.samples == 1 else "are"
        return f"Cannot be judged: {few} {verb} too few to show whether the model is better than guessing."
    if grade == "guessing":
        return f"No better than guessing: the model does not separate {subject}{rest} {area}."
    if grade == "unclear":
        return f"Better than guessing, but {few} cannot show how good it is {area}."
    if grade == "weak":
        alarms = f", and {wrong}" if right < HALF else ""
        return f"Weak: the model separates {subject}{rest} only a little better than guessing {area}{alarms}."
    if grade in ("silent", "false alarms", "misses"):
        missed = f"it misses {percent(1 - focus.mean(focus.skill.recall))} of {'its' if focus.one else 'their'} samples"
        but = {"silent": f"its answers never name {them}", "false alarms": wrong, "misses": missed}[grade]
        return f"The model separates {subject} {well}{rest} {area}, but {but}."
    found = f"finds {percent(focus.mean(focus.skill.recall))} of {'its' if focus.one else 'their'} samples"
    right_too = f"{percent(right)} of the answers that name {them} are right"
    return f"{grade.capitalize()}: the model separates {subject} {well}{rest} {area}, {found}, and {right_too}."


def _order(focus: Focus) -> list[str]:
    """Precision beside prevalence, then the order of the samples."""
    found, noun = focus.skill, focus.noun
    base, right = focus.mean(found.prevalence), focus.mean(found.precision)
    present = "is present in" if noun == "attribute" else "makes up"
    subject = f"On average each {'rare ' if focus.rare else ''}{noun}" if not focus.one else f"T{focus.subject[1:]}"
    named = "it" if focus.one else "one"
    answers = (
        f"no answer names {named}"
        if np.isnan(right)
        else f"{percent(right)} of the answers that name {named} are right"
    )
    sentences = [f"{subject} {present} {percent(base)} of the held-out samples; {answers}."]
    if focus.ranked:
        average = focus.mean(found.average_precision)
        sentences.append(
            f"Ranked by probability, average precision is {average:.3f}, {average / base:.1f} times the {base:.3f} of "
            f"a random order; AUC is {focus.area:.2f} (95% interval {focus.low:.2f} to {focus.high:.2f})."
        )
    return sentences


def _answers(focus: Focus, multilabel: bool) -> list[str]:
    found = focus.skill
    if focus.one:
        (place,) = focus.places.tolist()
        low, high = (f"{100 * end:.1f}".replace("-", "−") for end in (found.gap_low[place], found.gap_high[place]))
        gap = f"{100 * found.gap[place]:.1f}".replace("-", "−")
        return [
            f"The answers name {focus.names[0]} for {percent(found.recall[place])} of the samples "
            f"{'that have it' if multilabel else 'of that class'} and for {percent(found.false_alarms[place])} of the "
            f"others: {gap} points apart (95% interval {low} to {high}). One answer for all has 0 points; answers "
            f"given at random {_odds(float(found.gap_chance[place]))}."
        ]
    known = np.flatnonzero(found.tested)
    share = np.full(len(known), 1 / len(known))
    if multilabel:
        middle, *ends = ((1 + part[known]) / 2 for part in (found.gap, found.gap_low, found.gap_high))
        constant = HALF
    else:
        middle, constant = found.recall[known], 1 / len(known)
        trials = found.support[known].astype(np.float64)
        ends = list(wilson(middle * trials, trials))
    low, high = (percent(end) for end in combined(middle, ends[0], ends[1], share))
    return [
        f"Balanced accuracy is {percent(float(middle.mean()))} (95% interval {low} to {high}); one answer for all gets "
        f"{percent(constant)}."
    ]


def _odds(chance: float) -> str:
    if chance > 0.995:
        return "do as well every time"
    return f"do as well in {'less than 0.1%' if chance < 0.001 else f'{chance:.1%}'} of cases"


def _unproven(found: Skill, names: Sequence[str], noun: str) -> list[str]:
    """Classes of several that guessing might have answered as well."""
    places = [place for place in np.flatnonzero(found.tested).tolist() if found.gap_chance[place] >= CHANCE]
    if not places or int(found.tested.sum()) < 2 or (noun == "class" and len(names) == 2):
        return []
    more = f" and {len(places) - NAMED:,} more" if len(places) > NAMED else ""
    listed = ", ".join(names[place] for place in places[:NAMED])
    return [f"Not shown to be better than guessing, {noun} by {noun}: {listed}{more}."]
