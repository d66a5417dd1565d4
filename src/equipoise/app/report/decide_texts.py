"""Describe an operating point in words, as the page's script does when a slider moves."""

import json
import math
import shlex
from typing import Any

import numpy as np

from equipoise.app.report.decide_sliders import CASES, Candidate, Choice
from equipoise.evaluation.intervals import Estimate, for_next
from equipoise.evaluation.operating_points import Outcome


def situation(chosen: Choice) -> str:
    """Return the slider positions in words, for a printed page."""
    budget = "no limit" if chosen.budget == CASES else f"{chosen.budget:g} of {CASES:,} cases"
    return (
        f"For {chosen.candidate.name}. Cost of a miss: {miss_text(chosen.miss)}. "
        f"Prevalence: {prevalence_text(chosen)}. Review budget: {budget}."
    )


def prevalence_text(chosen: Choice) -> str:
    """Return the prevalence in words."""
    own = ", as held out" if chosen.prevalence == chosen.candidate.points.prevalence else ""
    return f"{share(chosen.prevalence)}{own}"


def sentence(chosen: Choice) -> str:
    """Return the point's results as a sentence."""
    found, name = chosen.outcome, chosen.candidate.name
    limit = " The review budget sets the limit." if chosen.limited else ""
    if found.precision is None:
        return f"No case is predicted as {name}: all are missed.{limit}"
    threshold = share(float(chosen.candidate.points.thresholds[chosen.place]))
    return (
        f"At a threshold of {threshold}, {share(found.recall.value)} of {chosen.candidate.noun} {name} is found "
        f"({share(found.recall.low)} to {share(found.recall.high)}); {share(found.precision.value)} of these "
        f"predictions are right ({share(found.precision.low)} to {share(found.precision.high)}), and "
        f"{share(found.alarm_rate.value)} of the others are false alarms.{limit}"
    )


def basis(candidate: Candidate) -> str:
    """Return how many samples the figures rest on."""
    points = candidate.points
    return f"From {points.positives:,} held-out of {candidate.name} and {points.negatives:,} others"


def rows(chosen: Choice) -> list[tuple[str, str, str, str, str]]:
    """Return id, label, value, interval of the long run and range of the next cases for each line of the table."""
    found = chosen.outcome
    spreads = case_spreads(found, chosen.miss)
    named = {
        "found": ("found", found.found),
        "missed": ("missed", found.missed),
        "alarms": ("false alarms", found.alarms),
        "reviews": ("to review", found.reviews),
        "cost": ("cost, in false alarms", found.cost),
    }
    return [
        (name, label, amount(value.value), range_text(value), range_text(for_next(value, spreads[name], CASES)))
        for name, (label, value) in named.items()
    ]


def case_spreads(found: Outcome, miss: float) -> dict[str, float]:
    """Return the standard deviation of a single case, times ``CASES``: of the counts, and of the cost."""
    shares = {name: getattr(found, name).value / CASES for name in ("found", "missed", "alarms", "reviews")}
    spreads = {name: CASES * math.sqrt(max(share * (1 - share), 0)) for name, share in shares.items()}
    missed, alarms = shares["missed"], shares["alarms"]
    return spreads | {"cost": CASES * math.sqrt(max(miss**2 * missed + alarms - (miss * missed + alarms) ** 2, 0))}


def range_text(estimate: Estimate) -> str:
    """Return the interval of an estimate as text.

    >>> range_text(Estimate(20.0, 9.0, 31.4))
    '9.0 to 31'
    """
    return f"{amount(estimate.low)} to {amount(estimate.high)}"


def command(chosen: Choice, data: dict[str, Any]) -> str:
    """Return the command line that predicts with the chosen point."""
    if chosen.is_asked and chosen.candidate.asked is not None:
        return str(data["own"]) + chosen.candidate.asked.flags
    if chosen.limited and chosen.candidate.rarer:
        rule = f"--review {chosen.budget:g}/{CASES}"
    else:
        rule = "--cost " + shlex.quote(f"miss:{chosen.candidate.name}={chosen.equivalent_miss:g}")
    return f"{data['begun']} {rule}{prior_flag(chosen, data)}"


def prior_flag(chosen: Choice, data: dict[str, Any]) -> str:
    """Return the flag for a prevalence other than the probabilities' own, with a leading space."""
    found, names = chosen.candidate, data["names"]
    if chosen.prevalence == found.prior:
        return ""
    if not names:
        return " --prior prior.json"
    rest = 1 if data["multilabel"] else (1 - chosen.prevalence) / (1 - found.prior)
    shares = [
        f"{name}={digits(chosen.prevalence if name == found.name else each * rest)}"
        for name, each in zip(names, data["shares"], strict=True)
    ]
    return " --prior " + shlex.quote(",".join(shares))


def python(chosen: Choice) -> str:
    """Return the Python code that does the same."""
    name = json.dumps(chosen.candidate.name, ensure_ascii=False)
    same = chosen.prevalence == chosen.candidate.prior
    prior = "" if same else f", class_prior={{{name}: {digits(chosen.prevalence)}}}"
    rule = f"Costs(miss={{{name}: {chosen.equivalent_miss:g}}}{prior})"
    if chosen.limited and chosen.candidate.rarer:
        rule = f"ReviewBudget({chosen.budget:g}, per={CASES}{prior})"
    if chosen.is_asked and chosen.candidate.asked is not None:
        rule = chosen.candidate.asked.rule
    return f"from equipoise.decisions import {rule.partition('(')[0]}\nclf.predict(X, decision={rule})"


def digits(value: float) -> str:
    """Return a number with up to six digits that matter.

    >>> digits(0.123456789), digits(0.00002)
    ('0.123457', '0.00002')
    """
    return np.format_float_positional(float(f"{value:.6g}"), trim="-")


def share(value: float) -> str:
    """Return a share in percent, with more digits the smaller it is.

    >>> share(0.1234), share(0.00123), share(0.5)
    ('12.3%', '0.12%', '50.0%')
    """
    decimals = 1 if value >= 0.01 or value == 0 else 2
    return f"{math.floor(100 * 10**decimals * value + 0.5) / 10**decimals:.{decimals}f}%"


def amount(value: float) -> str:
    """Return a number with a decimal, or a large one without.

    >>> amount(3.14), amount(1234.5), amount(0)
    ('3.1', '1,235', '0.0')
    """
    return f"{math.floor(10 * value + 0.5) / 10:.1f}" if value < 9.95 else f"{math.floor(value + 0.5):,}"


def miss_text(miss: float) -> str:
    """Return what a miss costs, in false alarms.

    >>> miss_text(50), miss_text(1)
    ('50 false alarms', '1 false alarm')
    """
    return f"{miss:g} false alarm{'' if miss == 1 else 's'}"
