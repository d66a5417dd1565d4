"""Verdict: whether the model is any good, what balancing changed and cost, and what to do next."""

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.app.report.asked_rule import asked_sentences, is_asked
from equipoise.app.report.markup import SAME, Section, fill, percent, points
from equipoise.app.report.model_grade import ModelGrade, worth
from equipoise.app.report.sections.before_after import Change, group_changes
from equipoise.app.stored_run import StoredRun
from equipoise.errors import listed
from equipoise.evaluation.intervals import known_mean
from equipoise.evaluation.skill import Skill, skill, skill_of_counts, with_bootstrap
from equipoise.wording import plural

NAMED, FEW_SAMPLES = 5, 100
ENOUGH = 100
"""Held-out samples that measure a recall of 80 % to within about 8 points."""
GIVEN_AWAY = re.compile(
    r"(the column .{1,200}? alone (?:nearly )?decides the target[^;]*); .*: (--drop .*)\.", re.DOTALL
)
"""A note of ``equipoise.data.leaks`` on a column that is probably known only afterwards."""
NOTHING = ": it made no difference"


@dataclass(frozen=True)
class Verdict:
    """The verdict: a headline with the figures behind it, and what follows from them.

    That is what was asked for and can be promised, what changed against the model before balancing and at what cost,
    what to do next, which samples all of this rests on, and the figures of each group.
    """

    headline: str
    worth: list[str]
    asked: list[str]
    change: list[str]
    next: list[str]
    basis: list[str]
    changes: list[Change]

    @property
    def sentences(self) -> list[str]:
        """All but the headline."""
        return [*self.worth, *self.asked, *self.change, *self.next, *self.basis]

    def as_dict(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        return {"headline": self.headline, "sentences": self.sentences}


def section(run: StoredRun) -> Section:
    """Return the verdict with the recall of each group."""
    return Section("Verdict", "Verdict", fill("verdict.html.j2", run=run, verdict=verdict(run)))


def verdict(run: StoredRun) -> Verdict:
    """Judge the final model, then compare it with the one before balancing, if there is one."""
    changes = group_changes(run)
    rare, common = (next((change for change in changes if change.name == name), None) for name in ("rare", "common"))
    found = run_skill(run)
    if found is None:
        balanced = percent(run.scores["balanced_accuracy"])
        headline, figures = f"Cannot be judged: the run has kept no answers. Balanced accuracy is {balanced}.", []
        steps = []
    else:
        judged = worth(
            found,
            run.classes,
            run.in_group("rare"),
            multilabel=run.multilabel,
            asked=is_asked(run),
        )
        headline, figures = judged.headline, judged.sentences
        steps = _next_steps(run, judged, rare)
    return Verdict(
        _doubted(headline, run.record.notes),
        figures,
        asked_sentences(run),
        _changed(run, changes[-1], rare, common),
        steps,
        _rests_on(run, rare),
        changes if len(changes) > 2 else changes[:1],  # with one group, all are the same
    )


def _doubted(headline: str, notes: list[str]) -> str:
    """Put a column that gives the target away before a headline that would praise the model for it."""
    found = _given_away(notes)
    return headline if found is None else f"Check for a leak first: {found[1]}. If it stays: {headline}"


def _given_away(notes: list[str]) -> re.Match[str] | None:
    """Return the first note on a column that gives the target away: what it does, and the flag that leaves it out."""
    return next(filter(None, map(GIVEN_AWAY.match, notes)), None)


def run_skill(run: StoredRun) -> Skill | None:
    """Compare the held-out answers with guessing; None if a run stored neither them nor their table."""
    held = run.held_out
    if held is not None:
        found = skill(held.labels, held.predicted, len(run.classes), probabilities=held.probabilities)
        return with_bootstrap(found, run.scores.get("intervals"))
    if run.scores.get("confusion") is None:
        return None
    table = np.asarray(run.scores["confusion"], dtype=np.int64)
    if run.multilabel:
        hits, named = table[:, 1, 1], table[:, :, 1].sum(1)
    else:
        hits, named = np.diagonal(table), table.sum(0)
    return skill_of_counts(hits, run.support, named, run.scores["samples"])


def _next_steps(run: StoredRun, judged: ModelGrade, rare: Change | None) -> list[str]:
    """Return what to do next, the most useful first."""
    subject, folder = judged.subject, shlex.quote(run.folder.as_posix())
    name = "CLASS" if judged.name is None else judged.name
    again = f"predict {folder} new.csv" if run.predictions is None else f"rebalance {shlex.quote(run.predictions)}"
    recall = f"`equipoise {again} --recall {shlex.quote(f'{name}=0.9')}`"
    few = (
        f"Label more samples of {subject}: {judged.samples:,} are held out, and {ENOUGH} would show its recall to "
        "about 8 points either way."
    )
    doubtful = f" (`equipoise inspect {folder}` lists the doubtful ones)" if run.predictions is None else ""
    labels = f"Check the labels first{doubtful}, then the columns."
    said = {
        "unknown": [few] if subject else [f"Label samples of more than one {run.noun}: there is nothing to judge by."],
        "unclear": [few],
        "guessing": [labels, "No threshold helps while the ranking is as good as random."],
        "weak": [
            "Better columns or more samples will help more than a threshold; `equipoise compare` on the same data "
            "shows whether another model ranks better.",
            labels,
        ],
        "silent": [f"Lower the threshold (see Decide); {recall} finds nine of ten."],
        "misses": [
            f"If misses cost more than false alarms, lower the threshold (see Decide); {recall} finds nine of ten."
        ],
        "false alarms": ["If a false alarm costs nearly as much as a miss, raise the threshold (see Decide)."],
        "fair": ["Choose the threshold by what a miss costs (see Decide)."],
        "good": ["The model can be used as it is; choose the threshold by what a miss costs (see Decide)."],
    }[judged.grade]
    leak = _given_away(run.record.notes)
    if leak is not None:
        first = (
            f"If that column is only known afterwards, train again with `{leak[2]}`: these figures do not hold then."
        )
        return [first, *(said if judged.grade != "good" else [])]
    if not is_asked(run):
        return [*said, *_without_remedy(rare)]
    if judged.grade in ("silent", "misses", "false alarms"):
        shows = "Decide shows" if run.predictions is None else "Another rule shows"
        return [f"{shows} what another threshold than that of your rule would find and cost."]
    return said


def _without_remedy(rare: Change | None) -> list[str]:
    """Return a sentence if the answers were better before balancing."""
    if rare is None or rare.gap is None or rare.gap.high >= 0:
        return []
    return ["The remedy made the answers worse here; `--prior natural` predicts without it."]


def _changed(run: StoredRun, total: Change, rare: Change | None, common: Change | None) -> list[str]:
    if math.isnan(total.difference):
        return _alone(run)
    if rare is None or math.isnan(rare.difference):
        none = f"No {run.noun} is rare here" if rare is None else f"No rare {run.noun} could be tested"
        said, cost = f"{none}; all {run.nouns} together {_moved(total, one=False)}.", []
    else:
        one = len(rare.classes) == 1
        moved = _moved(rare, one=one)
        if common is not None and abs(common.difference) >= SAME:  # it did, elsewhere
            moved = moved.removesuffix(NOTHING)
        subject = f"The rare {run.noun} {rare.classes[0]}" if one else f"The rare {run.nouns}"
        said, cost = f"{subject} {moved}{_of_common(common)}.", _cost(run, rare)
    return [said, *cost, *_behind(run, total), *_order(run, rare), *_caveats(run, total)]


def _alone(run: StoredRun) -> list[str]:
    balanced, plain = (percent(run.scores[name]) for name in ("balanced_accuracy", "accuracy"))
    return [
        f"Balanced accuracy, the mean over the {run.nouns}, is {balanced} and accuracy {plain}.",
        "Before and after cannot be compared: this run has no separate stage without rebalancing.",
    ]


def _moved(change: Change, *, one: bool) -> str:
    """Return how often classes are found, as the rest of a sentence."""
    both = f"recall {percent(change.before)} before, {percent(change.after)} after"
    if abs(change.difference) < SAME:
        return f"{'is' if one else 'are'} found as often as before ({percent(change.after)}){NOTHING}"
    if not change.clear:
        recall = f"{percent(change.before)} to {percent(change.after)}"
        return f"went from a recall of {recall}, but so few samples changed that this may be chance"
    word = "more" if change.difference > 0 else "less"
    return f"{'is' if one else 'are'} found {word} often: {both} ({points(change.difference)} points)"


def _of_common(common: Change | None) -> str:
    if common is None or math.isnan(common.difference):
        return ""
    one = len(common.classes) == 1
    subject = f"; the common {'one' if one else 'ones'}"
    if abs(common.difference) < SAME:
        return f"{subject} {'stays as it was' if one else 'stay as they were'}"
    verb = ("gain" if common.difference > 0 else "lose") + ("s" if one else "")
    chance = "" if common.clear else ", which may be chance"
    return f"{subject} {verb} {abs(100 * common.difference):.1f} points{chance}"


def _cost(run: StoredRun, rare: Change) -> list[str]:
    """Return how many false alarms the recall cost, and what is left when they count against it."""
    rare_ones = plural(len(rare.classes), run.noun)
    them = f"{'this' if len(rare.classes) == 1 else 'these'} {rare_ones}"
    sentences = []
    if rare.alarms is not None:
        went = _went(*rare.alarms, "{:,}".format)
        sentences.append(f"False alarms, wrong predictions of {them}, {went}.")
    if not any(map(math.isnan, rare.precision)):
        sentences.append(
            f"Precision of the rare {rare_ones}, the share of predictions of {them} that are right, "
            f"{_went(*rare.precision)}."
        )
    if rare.gap is not None and (rare.gained or rare.lost or len(set(rare.alarms or ())) > 1):
        says = "a gain" if rare.gap.low > 0 else "a loss" if rare.gap.high < 0 else "which may be chance"
        change = rare.gap.after - rare.gap.before
        verb = "changed" if abs(change) < SAME else "rose" if change > 0 else "fell"
        sentences.append(
            f"Recall minus false-alarm rate {verb} by {points(abs(change)).lstrip('+')} points (95% interval "
            f"{points(rare.gap.low)} to {points(rare.gap.high)}), {says}; a constant answer scores 0."
        )
    return sentences


def _behind(run: StoredRun, total: Change) -> list[str]:
    balanced, plain = (
        _went((run.before or run.scores)[name], run.scores[name]) for name in ("balanced_accuracy", "accuracy")
    )
    sentences = [
        f"Balanced accuracy, the mean over the {run.nouns}, {balanced}; accuracy, the share of right answers, {plain}."
    ]
    if total.gained == total.lost == 0:
        sentences.append("No held-out sample changed between found and missed.")
    return sentences


def _order(run: StoredRun, rare: Change | None) -> list[str]:
    """Return sentences on whether samples are ranked better than before, or rare classes only predicted more often."""
    before, after = (_average_precision(run, source, rare) for source in (run.before, run.scores))
    if math.isnan(before) or math.isnan(after) or f"{before:.3f}" == f"{after:.3f}":
        return []
    whose = f"the rare {plural(len(rare.classes), run.noun)}" if rare is not None else f"the {run.nouns}"
    return [f"Average precision of {whose}, how well the samples are ranked, {_went(before, after, '{:.3f}'.format)}."]


def _average_precision(run: StoredRun, scores: dict[str, Any] | None, rare: Change | None) -> float:
    """Return the mean over the rare classes, or over all; NaN if unknown, as in a run of an earlier version."""
    each = np.array(((scores or {}).get("average_precision") or {}).get("each", ()), dtype=np.float64)
    if len(each) != len(run.classes):
        return float("nan")
    return known_mean(each[run.in_group("rare") | (rare is None)])


def _caveats(run: StoredRun, total: Change) -> list[str]:
    if run.is_blend and total.gained is not None and (total.gained or total.lost):
        alone = "decision" if run.predictions is None else "correction and the decision"
        return [
            f'"Before" is the same {run.model_noun}, predicting the most probable {run.noun}: the change comes from '
            f"the {alone} alone."
        ]
    stages = [epoch["stage"] for epoch in run.epochs]
    early = stages.count("softmax")
    if early == len(stages) or total.gained == total.lost == 0:
        return []
    if not early:
        return [
            f'"Before" is the same network early in training, predicting the most probable {run.noun}: part of the '
            "change may come from longer training alone."
        ]
    return [
        f'"Before" is the same network at the end of its softmax stage, after {early} of {len(stages)} epochs: part of '
        "the change may come from longer training alone."
    ]


def _rests_on(run: StoredRun, rare: Change | None) -> list[str]:
    samples = run.scores["samples"]
    said = f"This rests on {samples:,} held-out {plural(samples, 'sample')}"
    if rare is not None:
        of_them = f"with {rare.samples:,} positives" if run.multilabel else f"{rare.samples:,} of them"
        number = f"{len(rare.classes):,} rare" if len(rare.classes) > 1 else "rare"
        said += f", {of_them} of the {number} {plural(len(rare.classes), run.noun)}"
    sentences = [said + "."]
    if rare is not None and 0 < rare.samples < FEW_SAMPLES:
        sentences[0] += f" One rare sample more or less moves this recall by about {100 / rare.samples:.1f} points."
    untested = [name for name, held in zip(run.classes, run.support.tolist(), strict=True) if not held]
    if untested:
        named = listed(untested, most=NAMED, quoted=False)
        sentences.append(f"Cannot be judged, because there are no held-out samples: {named}.")
    return sentences


def _went(before: float | None, after: float | None, form: Callable[[float | None], str] = percent) -> str:
    was, now = form(before), form(after)
    same = was == now or (before is not None and after is not None and abs(after - before) < SAME)
    return f"stayed at {now}" if same else f"went from {was} to {now}"
