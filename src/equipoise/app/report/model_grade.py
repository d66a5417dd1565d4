"""Judgement of a model in words: its ranking, its answers, and how much better than guessing both are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import percent
from equipoise.errors import listed
from equipoise.evaluation.intervals import combined, known_mean, wilson
from equipoise.evaluation.skill import Skill
from equipoise.wording import plural

Grade = Literal["unknown", "guessing", "unclear", "weak", "silent", "false alarms", "misses", "fair", "good"]
FAIR, GOOD = 0.7, 0.8
"""AUC from which a ranking is called fair, and good."""
MOST, HALF = 0.7, 0.5
"""Recall and precision of a good model, and of one whose answers are called wrong."""
CHANCE, FEW, NAMED = 0.05, 10, 5
ALL, OFTEN = 0.995, 0.3
"""Share from which all count as found, and share above which false alarms are given in percent."""


@dataclass(frozen=True)
class ModelGrade:
    """The quality of a model on its own: one sentence, and the figures behind it.

    ``subject`` is what it was judged by, ``name`` its class if it is one, and ``samples`` its held-out samples.
    """

    grade: Grade
    headline: str
    sentences: list[str]
    subject: str = ""
    name: str | None = None
    samples: int = 0

    def as_dict(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        return {"headline": self.headline, "sentences": self.sentences}


@dataclass(frozen=True)
class Focus:
    """The classes that a model is judged by: the tested rare ones, or all that were tested.

    ``area`` is their mean AUC with its 95 % interval; without probabilities that of the answers, ½ (1 + gap).
    ``chance`` is how often guessing does as well for the best of them, corrected for their number. Means are over
    defined values, NaN if there are none. ``place`` is the index of the class if it is one.
    """

    place: int | None
    noun: str
    subject: str
    rare: bool
    samples: int
    ranked: bool
    area: float
    low: float
    high: float
    chance: float
    prevalence: float
    precision: float
    recall: float
    false_alarms: float
    average_precision: float
    named: bool

    @property
    def them(self) -> str:
        """The classes in the middle of a sentence: ``this class``."""
        return f"these {plural(2, self.noun)}" if self.place is None else f"this {self.noun}"


def worth(
    found: Skill,
    names: Sequence[str],
    rare: NDArray[np.bool_],
    *,
    multilabel: bool,
    asked: bool = False,
) -> ModelGrade:
    """Judge a model by its rare classes, or by all if none is rare or no rare one was tested.

    If the user ``asked`` for the rule of the answers, it is not blamed for misses or false alarms.
    """
    noun = "attribute" if multilabel else "class"
    if not found.tested.any():
        why = "no attribute varies among the" if multilabel else "fewer than two classes have"
        return ModelGrade("unknown", f"Cannot be judged: {why} held-out samples.", [])
    focus = _focus(found, names, rare, noun)
    if found.mean_auc is not None and focus.ranked and focus.place is None and not focus.rare:
        focus = replace(focus, low=found.mean_auc[0], high=found.mean_auc[1])
    grade, place = _grade(focus), focus.place
    answers = _all_answers(found, multilabel) if place is None else _answers(found, place, names[place], multilabel)
    return ModelGrade(
        grade,
        _headline(focus, grade, asked=asked),
        [*_order(focus), answers, *_unproven(found, names, noun)],
        subject=focus.subject,
        name=None if place is None else names[place],
        samples=focus.samples,
    )


def _focus(found: Skill, names: Sequence[str], rare: NDArray[np.bool_], noun: str) -> Focus:
    scarce = bool((found.tested & rare).any())
    places = np.flatnonzero(found.tested & rare if scarce else found.tested)
    one = len(places) == 1
    kind = "rare " if scarce else ""
    ranked = not bool(np.isnan(found.auc[places]).any())
    if ranked:
        area, low, high, chance = found.auc, found.auc_low, found.auc_high, found.auc_chance
    else:
        area, low, high = ((1 + part) / 2 for part in (found.gap, found.gap_low, found.gap_high))
        chance = found.gap_chance
    bottom, top = combined(area[places], low[places], high[places], np.full(len(places), 1 / len(places)))
    return Focus(
        place=int(places[0]) if one else None,
        noun=noun,
        subject=f"the {kind}{noun} {names[places[0]]}" if one else f"the {kind}{plural(2, noun)}",
        rare=scarce,
        samples=int(found.support[places].sum()),
        ranked=ranked,
        area=float(area[places].mean()),
        low=bottom,
        high=top,
        chance=min(1.0, float(chance[places].min()) * len(places)),
        prevalence=known_mean(found.prevalence[places]),
        precision=known_mean(found.precision[places]),
        recall=known_mean(found.recall[places]),
        false_alarms=known_mean(found.false_alarms[places]),
        average_precision=known_mean(found.average_precision[places]),
        named=bool(found.named[places].any()),
    )


def _grade(focus: Focus) -> Grade:
    if focus.chance >= CHANCE:
        return "unknown" if focus.high >= FAIR else "guessing"
    if focus.samples < FEW or focus.low < FAIR < GOOD <= focus.high:
        return "unclear"
    if focus.area < FAIR:
        return "weak"
    answers = min(focus.precision, focus.recall)
    if focus.named and answers >= HALF:
        return "good" if focus.area >= GOOD and answers >= MOST else "fair"
    return "silent" if not focus.named else "false alarms" if focus.precision < HALF else "misses"


def _headline(focus: Focus, grade: Grade, *, asked: bool) -> str:
    one, subject = focus.place is not None, focus.subject
    few = f"{focus.samples:,} held-out {plural(focus.samples, 'sample')} of {subject}"
    if grade == "unknown":
        verb = "is" if focus.samples == 1 else "are"
        return f"Cannot be judged: {few} {verb} too few to show whether the model is better than guessing."
    kind = "AUC of the answers alone" if not focus.ranked else "AUC" if one else "mean AUC"
    area = f"({kind} {focus.area:.2f}; guessing gives 0.50)"
    if grade == "unclear":
        return f"Better than guessing, but {few} cannot show how good it is {area}."
    rest = " from the rest" if one or focus.rare else ""
    if grade == "guessing":
        return f"No better than guessing: the model does not separate {subject}{rest} {area}."
    them, their = focus.them, "its" if one else "their"
    wrong = f"{percent(1 - focus.precision)} of its predictions of {them} are wrong"
    if grade == "weak":
        alarms = f", and {wrong}" if focus.precision < HALF and not asked else ""
        return f"Weak: the model separates {subject}{rest} only a little better than guessing {area}{alarms}."
    separates = f"he model separates {subject} {'well' if focus.area >= GOOD else 'fairly well'}{rest} {area}"
    finds = f"finds {frequency(focus.recall)} of {their} samples at {alarm_rate(focus.false_alarms)}"
    right = f"{percent(focus.precision)} of its predictions of {them} are right"
    if grade == "false alarms" and focus.recall >= HALF and not asked:
        separates += f" and {finds}"
    but = {
        "silent": f"it never predicts {them}",
        "false alarms": wrong,
        "misses": f"it misses {percent(1 - focus.recall)} of {their} samples",
    }
    if grade in but:
        given = f"{finds}, and {right}" if focus.named else f"never predicts {them}"
        end = f". The rule you asked for {given}" if asked else f", but {but[grade]}"
        return f"T{separates}{end}."
    return f"{grade.capitalize()}: t{separates}, {finds}, and {right}."


def frequency(share: float) -> str:
    """Return a share as a number of 10 if that is close, otherwise in percent.

    >>> frequency(0.81), frequency(0.97), frequency(1.0)
    ('8 of 10', '97.0%', 'all')
    """
    tenths = round(10 * share)
    if share >= ALL:
        return "all"
    return f"{tenths} of 10" if 0 < tenths < 10 and abs(10 * share - tenths) < 0.25 else percent(share)


def alarm_rate(share: float) -> str:
    """Return how many of the other samples raise a false alarm, in words.

    >>> alarm_rate(0.05), alarm_rate(0.0), alarm_rate(0.4)
    ('1 false alarm in 20 others', 'no false alarm', 'a false alarm for 40.0% of the others')
    """
    if share == 0:
        return "no false alarm"
    if share > OFTEN:
        return f"a false alarm for {percent(share)} of the others"
    return f"1 false alarm in {round(1 / share):,} others"


def _order(focus: Focus) -> list[str]:
    """Return precision beside prevalence, then how the samples are ranked, in words."""
    present = "is present in" if focus.noun == "attribute" else "makes up"
    if focus.place is not None:
        subject = f"T{focus.subject[1:]}"
    else:
        subject = f"On average each {'rare ' if focus.rare else ''}{focus.noun}"
    answers = f"{percent(focus.precision)} of the predictions of {focus.them} are right"
    if np.isnan(focus.precision):
        answers = f"the model never predicts {focus.them}"
    sentences = [f"{subject} {present} {percent(focus.prevalence)} of the held-out samples; {answers}."]
    if focus.ranked:
        average, base = focus.average_precision, focus.prevalence
        sentences.append(
            f"Ranked by probability, average precision is {average:.3f}, {average / base:.1f} times the {base:.3f} of "
            f"a random order; AUC is {focus.area:.2f} (95% interval {focus.low:.2f} to {focus.high:.2f})."
        )
    return sentences


def _answers(found: Skill, place: int, name: str, multilabel: bool) -> str:
    ends = (found.gap[place], found.gap_low[place], found.gap_high[place])
    gap, low, high = (f"{100 * end:.1f}".replace("-", "−") for end in ends)
    chance = float(found.gap_chance[place])
    odds = f"in {'less than 0.1%' if chance < 0.001 else f'{chance:.1%}'} of cases" if chance <= 0.995 else "every time"
    return (
        f"The model predicts {name} for {percent(found.recall[place])} of the samples "
        f"{'that have it' if multilabel else 'of that class'} and for {percent(found.false_alarms[place])} of the "
        f"others: {gap} points apart (95% interval {low} to {high}). A constant answer has 0 points; random "
        f"answers do as well {odds}."
    )


def _all_answers(found: Skill, multilabel: bool) -> str:
    known = np.flatnonzero(found.tested)
    if multilabel:
        middle, below, above = ((1 + part[known]) / 2 for part in (found.gap, found.gap_low, found.gap_high))
    else:
        middle, trials = found.recall[known], found.support[known].astype(np.float64)
        below, above = wilson(middle * trials, trials)
    low, high = (percent(end) for end in combined(middle, below, above, np.full(len(known), 1 / len(known))))
    return (
        f"Balanced accuracy is {percent(float(middle.mean()))} (95% interval {low} to {high}); a constant answer "
        f"gets {percent(HALF if multilabel else 1 / len(known))}."
    )


def _unproven(found: Skill, names: Sequence[str], noun: str) -> list[str]:
    """Return the classes that guessing might have predicted as well."""
    places = [place for place in np.flatnonzero(found.tested).tolist() if found.gap_chance[place] >= CHANCE]
    if not places or int(found.tested.sum()) < 2 or (noun == "class" and len(names) == 2):
        return []
    named = listed([names[place] for place in places], most=NAMED, quoted=False)
    return [f"Not shown to be better than guessing, {noun} by {noun}: {named}."]
