"""Decide: what a threshold means at a cost of misses, a prevalence and a review budget, with sliders for all three.

The page's script, ``decide.js``, moves the point; what stands in the page before it runs comes from here.
"""

import re
import shlex
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.app.report.asked_rule import asked_flags, asked_rule, asked_share, asked_threshold
from equipoise.app.report.decide_sliders import BUDGETS, CASES, Asked, Candidate, Choice, cost_at
from equipoise.app.report.decide_texts import (
    basis,
    command,
    miss_text,
    prevalence_text,
    python,
    rows,
    sentence,
    situation,
)
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_arrays import HeldOut
from equipoise.app.stored_run import StoredRun
from equipoise.decisions import Chosen
from equipoise.evaluation.intervals import Estimate
from equipoise.evaluation.operating_points import against_strongest, operating_points

MOST_CLASSES, LISTED_SHARES = 30, 20
"""Most classes offered, and most classes whose prior the command line lists."""
LEAST = 1e-6
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 330, 56, 400, 12, 280
"""Size of a plot, and the ends of its axes; the script has the same."""


def section(run: StoredRun) -> Section | None:
    """Return sliders, curves and the table; None if no class has held-out samples of it and of others."""
    held = run.held_out
    found = [] if held is None else candidates(run, held)
    if not found:
        return None
    data = _data(run, found)
    chosen = found[0].first
    body = fill(
        "decide.html.j2",
        noun=run.noun,
        a_noun="an attribute" if run.multilabel else "a class",
        classes=found,
        first=found[0],
        chosen=chosen,
        budgets=BUDGETS,
        cases=CASES,
        settings={"miss": miss_text(chosen.miss), "prevalence": prevalence_text(chosen), "budget": "no limit"},
        said=sentence(chosen),
        basis=basis(found[0]),
        rows=rows(chosen),
        curves=curves(chosen),
        situation=situation(chosen),
        command=re.split("(?= --)", command(chosen, data)),
        python=python(chosen),
        notes=notes(run, found),
        **{"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
    )
    return Section("Decide", "Choose the threshold", body, {"decide": data})


def _data(run: StoredRun, found: list[Candidate]) -> dict[str, Any]:
    """Return what the script reads."""
    shares = [] if len(run.classes) > LISTED_SHARES else _shares(run)
    return {
        "classes": [each.as_data() for each in found],
        "budgets": BUDGETS,
        "begun": begun(run, own=False),
        "own": begun(run, own=True),
        "names": list(run.classes) if shares else [],
        "shares": shares,
        "multilabel": run.multilabel,
    }


def begun(run: StoredRun, *, own: bool) -> str:
    """Return how the command line begins that answers new rows by another rule, or by the ``own`` rule of the run.

    Predictions of an external model are rebalanced again to choose another rule.
    """
    folder = run.folder.as_posix()
    if run.predictions is None:
        return f"equipoise predict {shlex.quote(folder)} new.csv"
    if own:
        return f"equipoise rebalance --apply {shlex.quote(f'{folder}/decision.json')} new.csv"
    given = ((f"--{name}", run.record.options.get(name)) for name in ("target", "columns"))
    flags = [part for flag, value in given if value for part in (flag, value)]
    return shlex.join(["equipoise", "rebalance", run.predictions, *flags])


def notes(run: StoredRun, found: list[Candidate]) -> str:
    """Return what the figures rest on, and what the score is."""
    many = len(run.classes) > 2 and not run.multilabel
    score = "probability"
    if many:
        score += ", divided by the sum of it and the largest of the others’"
    rows = "held-out samples" if run.predictions is None else "labelled rows"
    said = [
        f"All counts are on the {rows}, whose probabilities were calibrated on other rows.",
        f"The score is the {run.noun}’s {score}, where it is as common as in training. A cost leads to the threshold "
        "that is best if probabilities are calibrated; the command takes another one if the rows it is chosen on show "
        "that to be clearly cheaper.",
        f"The point moves in at most {max(len(each.points.thresholds) for each in found) - 1} steps.",
        "Bars are 95% intervals: Wilson’s for recall and false-alarm rate, from which the others follow. They hold for "
        f"the long run; counts among the next {CASES:,} cases vary more, and lie in the last column’s range 19 times "
        "out of 20.",
    ]
    if many:
        said.append("Each class is judged against all others; confusions among the others are not counted.")
    if len(found) < len(run.classes):
        said.append(f"{len(run.classes) - len(found):,} more {run.nouns} are not offered.")
    return " ".join(said)


def candidates(run: StoredRun, held: HeldOut) -> list[Candidate]:
    """Return the classes that a threshold can be chosen for: those of the run's own rule, then the rarest first."""
    shares, p, rule = _shares(run), held.probabilities, asked_rule(run)
    found = []
    for place in run.by_count[::-1]:
        own = held.labels[:, place] == 1 if run.multilabel else held.labels == place
        if not 0 < own.sum() < len(own):
            continue
        score = p[:, place] if run.multilabel else against_strongest(p, place)
        if not np.isfinite(score).all():
            continue
        prior = float(np.clip(shares[place], LEAST, 1 - LEAST))
        rarer = not run.multilabel and len(run.classes) == 2 and prior < 0.5
        points = operating_points(own, score)
        digits = np.array([float(f"{value:.7g}") for value in points.thresholds])  # no more are in float32
        one = Candidate(run.classes[place], prior, rarer, replace(points, thresholds=digits), noun=run.noun)
        found.append(one if rule is None else replace(one, asked=_asked(run, rule, place, one)))
        if len(found) == MOST_CLASSES:
            break
    return sorted(found, key=lambda each: each.asked is None)


def _asked(run: StoredRun, rule: Chosen, place: int, one: Candidate) -> Asked | None:
    """Return where the run's own rule puts the sliders; None where no cost leads to its threshold."""
    threshold = asked_threshold(rule, place, one.prior)
    if threshold is None:
        return None
    share_there = asked_share(rule, place)
    prevalence = one.points.prevalence if share_there is None else float(np.clip(share_there, LEAST, 1 - LEAST))
    at = one.points.place(threshold)
    flags = asked_flags(run) if run.record.options.get("prior") is None else ""  # predict takes the run's own then
    found = Asked(cost_at(one, at, prevalence), prevalence, flags and f" {flags}", repr(rule.rule))
    return found if replace(one, asked=found).first.place == at else None


def curves(chosen: Choice) -> dict[str, tuple[str, str, str, tuple[str, str]]]:
    """Return guide, curve, interval and point of both plots, as paths."""
    points, found, prevalence = chosen.candidate.points, chosen.outcome, chosen.prevalence
    recall, alarms = points.found / points.positives, points.alarms / points.negatives
    named = prevalence * recall + (1 - prevalence) * alarms
    known = named > 0
    precision = prevalence * recall[known] / named[known]
    none = Estimate(1.0, 0.0, 1.0)
    return {
        "pr": (
            _line([0, 1], [prevalence] * 2),
            _line(recall[known], precision),
            *_cross(found.recall, found.precision or none),
        ),
        "roc": (_line([0, 1], [0, 1]), _line(alarms, recall), *_cross(found.alarm_rate, found.recall)),
    }


def _x(value: float) -> str:
    return f"{LEFT + (RIGHT - LEFT) * value:.1f}"


def _y(value: float) -> str:
    return f"{BOTTOM - (BOTTOM - TOP) * value:.1f}"


def _line(across: Any, up: Any) -> str:
    return "M" + "L".join(f"{_x(x)} {_y(y)}" for x, y in zip(across, up, strict=True))


def _cross(across: Estimate, up: Estimate) -> tuple[str, tuple[str, str]]:
    bars = f"M{_x(across.low)} {_y(up.value)}H{_x(across.high)}M{_x(across.value)} {_y(up.low)}V{_y(up.high)}"
    return bars, (_x(across.value), _y(up.value))


def _shares(run: StoredRun) -> list[float]:
    """Return the class prior of the probabilities; of attributes the share of their ones."""
    held = run.held_out
    if held is not None and held.trust is not None:
        prior = held.trust.prior
        return [float(each) for each in (prior[:, 1] / prior.sum(1) if run.multilabel else prior / prior.sum())]
    if run.multilabel:
        return [count / run.scores["samples"] for count in run.support.tolist()]
    return [count / max(int(run.counts.sum()), 1) for count in run.counts.tolist()]
