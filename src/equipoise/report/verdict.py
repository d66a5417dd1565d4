"""The verdict in words: what the rare classes gained, what the common ones lost, and how sure that is."""

import math
from dataclasses import dataclass

from equipoise.report.change import Change, group_changes
from equipoise.report.formats import SAME, percent, plural, points
from equipoise.report.origin import origin
from equipoise.report.record import Record

NAMED, FEW_SAMPLES = 5, 100
NOTHING = ": it made no difference"


@dataclass(frozen=True)
class Verdict:
    """One sentence that says it, the sentences behind it, and the figures of each group."""

    headline: str
    sentences: list[str]
    changes: list[Change]


def verdict(record: Record) -> Verdict:
    """Compare the final model with the softmax stage's where there is one."""
    changes = group_changes(record)
    total = changes[-1]
    rare, common = (next((change for change in changes if change.name == name), None) for name in ("rare", "many"))
    shown = changes if len(changes) > 2 else changes[:1]  # of one group all is the same
    rests = _rests_on(record, rare)
    if math.isnan(total.difference):
        return Verdict(_standing(record, rare, common, total), [*_alone(record), *rests], shown)
    if rare is None or math.isnan(rare.difference):
        none = f"No {record.noun} is rare here" if rare is None else f"No rare {record.noun} could be tested"
        headline = f"{none}; all {record.nouns} together {_moved(total, one=False)}."
    else:
        said = _moved(rare, one=len(rare.classes) == 1)
        if common is not None and abs(common.difference) >= SAME:  # it did, elsewhere
            said = said.removesuffix(NOTHING)
        headline = f"{_subject(record, rare)} {said}{_of_common(common)}."
    sentences = [*_behind(record, total), *_precision(record, rare), *_paired(record, rare)]
    return Verdict(headline, [*sentences, *rests, *_caveats(record, total)], shown)


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


def _standing(record: Record, rare: Change | None, common: Change | None, total: Change) -> str:
    """The headline without anything to compare with."""
    if rare is None or math.isnan(rare.after) or common is None or math.isnan(common.after):
        return f"A sample is found {percent(total.after)} of the time, averaged over the {record.nouns}."
    subject, verb = _subject(record, rare), "is" if len(rare.classes) == 1 else "are"
    others = "one" if len(common.classes) == 1 else "ones"
    return f"{subject} {verb} found {percent(rare.after)} of the time, the common {others} {percent(common.after)}."


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


def _precision(record: Record, rare: Change | None) -> list[str]:
    """Recall can be bought with false alarms: say what it cost."""
    if rare is None or any(math.isnan(share) for share in rare.precision):
        return []
    whose = f"the rare {plural(len(rare.classes), record.noun)}, how often an answer that names one is right,"
    return [f"Precision of {whose} {_went(*rare.precision)}."]


def _went(before: float, after: float) -> str:
    same = abs(after - before) < SAME
    return f"stayed at {percent(after)}" if same else f"went from {percent(before)} to {percent(after)}"


def _paired(record: Record, rare: Change | None) -> list[str]:
    if rare is None or (not rare.gained and not rare.lost) or rare.chance is None:
        return []
    if rare.chance > 0.995:
        odds = "what chance alone would do"
    elif rare.chance < 0.001:
        odds = "chance alone splits them as unevenly in less than 0.1% of cases"
    else:
        odds = f"chance alone splits them as unevenly in {rare.chance:.1%} of cases"
    verb = "is" if rare.gained == 1 else "are"
    whose = f"{record.nouns}'" if len(rare.classes) > 1 else f"{record.noun}'s"
    return [f"Of the rare {whose} samples {rare.gained:,} {verb} newly right and {rare.lost:,} newly wrong; {odds}."]


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
