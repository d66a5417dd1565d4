"""The verdict in words: whether the model is any good, then what changed against plain training and what it cost."""

import math
from dataclasses import dataclass

import numpy as np

from equipoise.app.report.change import Change, group_changes
from equipoise.app.report.formats import SAME, percent, points
from equipoise.app.report.provenance import origin
from equipoise.app.report.record import Record
from equipoise.app.report.worth import worth
from equipoise.evaluation.skill import Skill, skill, skill_of_counts
from equipoise.wording import plural

NAMED, FEW_SAMPLES = 5, 100
NOTHING = ": it made no difference"


@dataclass(frozen=True)
class Verdict:
    """One sentence that says it, the sentences behind it, and the figures of each group.

    Args:
        headline: whether the model is any good.
        worth: the figures behind that.
        change: what changed against the softmax stage's model, and what it cost.
        basis: which samples all of this rests on.
    """

    headline: str
    worth: list[str]
    change: list[str]
    basis: list[str]
    changes: list[Change]

    @property
    def sentences(self) -> list[str]:
        """All but the headline."""
        return [*self.worth, *self.change, *self.basis]

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {"headline": self.headline, "sentences": self.sentences}


def verdict(record: Record) -> Verdict:
    """Judge the final model, then compare it with the softmax stage's where there is one."""
    changes = group_changes(record)
    rare = next((change for change in changes if change.name == "rare"), None)
    shown = changes if len(changes) > 2 else changes[:1]  # of one group all is the same
    headline, figures = _worth(record)
    return Verdict(headline, figures, _changed(record, changes), _rests_on(record, rare), shown)


def record_skill(record: Record) -> Skill | None:
    """What the held-out answers are worth against guessing; None where a run has kept neither them nor their table."""
    held, size = record.held_out, len(record.classes)
    if held is not None:
        return skill(held.labels, held.predicted, size, probabilities=held.probabilities)
    if record.scores.get("confusion") is None:
        return None
    table = np.asarray(record.scores["confusion"], dtype=np.int64)
    if record.multilabel:
        hits, named = table[:, 1, 1], table[:, :, 1].sum(1)
    else:
        hits, named = np.diagonal(table), table.sum(0)
    return skill_of_counts(hits, record.support, named, int(record.scores["samples"]))


def _worth(record: Record) -> tuple[str, list[str]]:
    found = record_skill(record)
    if found is None:
        balanced = percent(_number(record.scores, "balanced_accuracy"))
        return f"Cannot be judged: the run has kept no answers. Balanced accuracy is {balanced}.", []
    judged = worth(found, record.classes, record.in_group("rare"), multilabel=record.multilabel)
    return judged.headline, judged.sentences


def _changed(record: Record, changes: list[Change]) -> list[str]:
    total = changes[-1]
    rare, common = (next((change for change in changes if change.name == name), None) for name in ("rare", "many"))
    if math.isnan(total.difference):
        return _alone(record)
    if rare is None or math.isnan(rare.difference):
        none = f"No {record.noun} is rare here" if rare is None else f"No rare {record.noun} could be tested"
        said = f"{none}; all {record.nouns} together {_moved(total, one=False)}."
    else:
        moved = _moved(rare, one=len(rare.classes) == 1)
        if common is not None and abs(common.difference) >= SAME:  # it did, elsewhere
            moved = moved.removesuffix(NOTHING)
        said = f"{_subject(record, rare)} {moved}{_of_common(common)}."
    return [said, *_cost(record, rare), *_behind(record, total), *_order(record, rare), *_caveats(record, total)]


def _cost(record: Record, rare: Change | None) -> list[str]:
    """Recall can be bought with false alarms: how many, and whether anything is left when they count against it."""
    if rare is None or math.isnan(rare.difference):
        return []
    before, after = rare.precision
    named = "it" if len(rare.classes) == 1 else "one of them"
    sentences = []
    if rare.alarms is not None and rare.alarms[0] == rare.alarms[1]:
        sentences.append(f"False alarms, wrong answers that name {named}, stayed at {rare.alarms[1]:,}.")
    elif rare.alarms is not None:
        went = f"went from {rare.alarms[0]:,} to {rare.alarms[1]:,}"
        sentences.append(f"False alarms, wrong answers that name {named}, {went}.")
    if not math.isnan(before) and not math.isnan(after):
        whose = f"the rare {plural(len(rare.classes), record.noun)}, how often an answer that names one is right,"
        sentences.append(f"Precision of {whose} {_went(before, after)}.")
    if rare.gap is not None and (rare.gained or rare.lost or len(set(rare.alarms or ())) > 1):
        change = rare.gap.after - rare.gap.before
        interval = f"95% interval {points(rare.gap.low)} to {points(rare.gap.high)}"
        says = "which may be chance" if not rare.gap.clear else "a gain" if change > 0 else "a loss"
        sentences.append(
            "Recall less the share of the other samples with a false alarm, which is 0 for one answer to all, changed "
            f"by {points(change)} points ({interval}), {says}."
        )
    return sentences


def _order(record: Record, rare: Change | None) -> list[str]:
    """Whether samples are ranked better than before, or the rare classes are only named more often."""
    found = [_average_precision(record, source, rare) for source in (record.before, record.scores)]
    if any(math.isnan(value) for value in found):
        return []
    before, after = found
    whose = f"the rare {plural(len(rare.classes), record.noun)}" if rare is not None else f"the {record.nouns}"
    same = abs(after - before) < SAME
    went = f"stayed at {after:.3f}" if same else f"went from {before:.3f} to {after:.3f}"
    return [f"Average precision of {whose}, how well the samples are ranked, {went}."]


def _average_precision(record: Record, scores: dict[str, object] | None, rare: Change | None) -> float:
    """Mean over the rare classes, or over all; NaN where it is not known, as in a run of an earlier version."""
    each = (scores or {}).get("average_precision")
    values = each.get("each") if isinstance(each, dict) else None
    if not isinstance(values, list) or len(values) != len(record.classes):
        return float("nan")
    wanted = record.in_group("rare") if rare is not None else np.ones(len(values), dtype=bool)
    known = [float(value) for value, own in zip(values, wanted, strict=True) if own and isinstance(value, int | float)]
    return sum(known) / len(known) if known else float("nan")


def _subject(record: Record, rare: Change) -> str:
    return f"The rare {record.nouns}" if len(rare.classes) > 1 else f"The rare {record.noun} {rare.classes[0]}"


def _moved(change: Change, *, one: bool) -> str:
    """The rest of the sentence."""
    both = f"recall {percent(change.before)} before, {percent(change.after)} after"
    if abs(change.difference) < SAME:
        return f"{'is' if one else 'are'} found as often as before ({percent(change.after)}){NOTHING}"
    if not change.clear:
        return f"{'shows' if one else 'show'} no clear difference: {both}, which may be chance with so few samples"
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


def _alone(record: Record) -> list[str]:
    balanced, plain = (percent(_number(record.scores, name)) for name in ("balanced_accuracy", "accuracy"))
    method = origin(record)["method"] or "the method"
    return [
        f"Balanced accuracy, the mean over the {record.nouns}, is {balanced} and accuracy {plain}.",
        f"There is no model of a softmax stage to compare with: {method} has none, or there were too few epochs.",
    ]


def _behind(record: Record, total: Change) -> list[str]:
    assert record.before is not None
    balanced, plain = (
        _went(*(_number(source, name) for source in (record.before, record.scores)))
        for name in ("balanced_accuracy", "accuracy")
    )
    sentences = [
        f"Balanced accuracy, the mean over the {record.nouns}, {balanced}; accuracy, the share of right answers, "
        f"{plain}."
    ]
    if total.gained == total.lost == 0:
        sentences.append("Not one held-out sample changed between found and missed.")
    return sentences


def _went(before: float, after: float) -> str:
    same = abs(after - before) < SAME
    return f"stayed at {percent(after)}" if same else f"went from {percent(before)} to {percent(after)}"


def _rests_on(record: Record, rare: Change | None) -> list[str]:
    samples = int(record.scores["samples"])
    said = f"This rests on {samples:,} held-out {plural(samples, 'sample')}"
    if rare is not None:
        of_them = f"with {rare.samples:,} positives" if record.multilabel else f"{rare.samples:,} of them"
        number = f"{len(rare.classes):,} rare" if len(rare.classes) > 1 else "rare"
        said += f", {of_them} of the {number} {plural(len(rare.classes), record.noun)}"
    sentences = [said + "."]
    if rare is not None and 0 < rare.samples < FEW_SAMPLES:
        sentences[0] += f" One rare sample more or less moves this recall by about {100 / rare.samples:.1f} points."
    untested = [name for name, held in zip(record.classes, record.support.tolist(), strict=True) if not held]
    if untested:
        more = f" and {len(untested) - NAMED:,} more" if len(untested) > NAMED else ""
        sentences.append(f"Nothing can be said of {', '.join(untested[:NAMED])}{more}: no held-out sample.")
    return sentences


def _caveats(record: Record, total: Change) -> list[str]:
    stages = [epoch["stage"] for epoch in record.epochs]
    early = stages.count("softmax")
    if not early or early == len(stages) or total.gained == total.lost == 0:
        return []
    return [
        f"Before is the same network at the end of its softmax stage, after {early} of {len(stages)} epochs: a part of "
        "the change may come from longer training alone."
    ]


def _number(scores: dict[str, object], name: str) -> float:
    value = scores.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")
