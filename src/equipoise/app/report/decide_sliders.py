"""Positions of the page's sliders, the operating point that follows, and its description.

``decide.js`` does the same when a slider moves.
"""

import json
import math
import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.evaluation.intervals import Estimate, for_next
from equipoise.evaluation.operating_points import OperatingPoints, Outcome, cost_threshold

CASES = 1000
MISSES = [0.1, 0.2, 0.5, *(step * power for power in (1, 10, 100) for step in (1, 1.5, 2, 3, 5, 7)), 1000]
"""Costs of a miss that the slider offers, in false alarms."""
BUDGETS = [*(step * power for power in (1, 10, 100) for step in (1, 2, 3, 4, 5, 7)), CASES]
"""Cases to review that the slider offers; all of them means no limit."""
PREVALENCES = [
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07),
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
]


@dataclass(frozen=True)
class Asked:
    """Where the run's own rule puts the sliders of a class, and the code that asks for that rule.

    Args:
        miss: the cost of a miss that leads to the rule's threshold.
        prevalence: where the rule is used.
        flags: command-line flags with a leading space; empty if a run uses its rule without any.
        rule: in Python.
    """

    miss: float
    prevalence: float
    flags: str
    rule: str


@dataclass(frozen=True)
class Candidate:
    """A class that a threshold is chosen for.

    Args:
        prior: its share at which the probabilities hold.
        rarer: whether it is the rarer of two classes, for which a review budget is its own rule.
        asked: the run's own rule; None if it has none, or none with a threshold for this class.
    """

    name: str
    prior: float
    rarer: bool
    points: OperatingPoints
    asked: Asked | None = None
    noun: str = "class"

    @property
    def misses(self) -> list[float]:
        """Costs that the slider offers: round ones, and that of the run's own rule."""
        return sorted({*MISSES, *(() if self.asked is None else (self.asked.miss,))})

    @property
    def prevalences(self) -> list[float]:
        """Prevalences that the slider offers: round shares, that of the held-out samples, and the run's own rule's."""
        own = () if self.asked is None else (self.asked.prevalence,)
        return sorted({*PREVALENCES, self.points.prevalence, *own})

    @property
    def first(self) -> "Choice":
        """Initial slider positions: at the run's own rule, or near the model's own decision."""
        if self.asked is not None:
            return Choice(self, self.asked.miss, self.asked.prevalence, CASES)
        return Choice(self, MISSES[start(self.prior)], self.points.prevalence, CASES)

    def as_data(self) -> dict[str, Any]:
        """Return the data for the script."""
        points, first = self.points, self.first
        return {
            "name": self.name,
            "noun": self.noun,
            "prior": self.prior,
            "rarer": self.rarer,
            "asked": None if self.asked is None else vars(self.asked),
            "own": points.prevalence,
            "start": first.miss_step,
            "common": first.prevalence_step,
            "misses": self.misses,
            "prevalences": self.prevalences,
            "positives": points.positives,
            "negatives": points.negatives,
            "thresholds": points.thresholds.tolist(),
            "found": points.found.tolist(),
            "alarms": points.alarms.tolist(),
        }


@dataclass(frozen=True)
class Choice:
    """Slider positions and the resulting point; ``budget`` is in ``CASES`` cases."""

    candidate: Candidate
    miss: float
    prevalence: float
    budget: float

    @property
    def place(self) -> int:
        """Index of the point."""
        found = self.candidate
        threshold = cost_threshold(self.miss, prior=found.prior, prevalence=self.prevalence)
        return found.points.place(threshold, prevalence=self.prevalence, budget=self.budget / CASES)

    @property
    def limited(self) -> bool:
        """True if the budget allows less than the costs ask for."""
        return self.place < Choice(self.candidate, self.miss, self.prevalence, CASES).place

    @property
    def prevalence_text(self) -> str:
        """The prevalence in words."""
        own = ", as held out" if self.prevalence == self.candidate.points.prevalence else ""
        return f"{share(self.prevalence)}{own}"

    @property
    def outcome(self) -> Outcome:
        """Result of the point for ``CASES`` cases."""
        return self.candidate.points.outcome(self.place, prevalence=self.prevalence, miss=self.miss, cases=CASES)

    @property
    def equivalent_miss(self) -> float:
        """Cost of a miss whose threshold lies at this point, if the budget sets it."""
        return cost_at(self.candidate, self.place, self.prevalence) if self.limited else self.miss

    @property
    def is_asked(self) -> bool:
        """True if the sliders are where the run's own rule puts them."""
        asked = self.candidate.asked
        return asked is not None and (self.miss, self.prevalence, self.budget) == (asked.miss, asked.prevalence, CASES)

    @property
    def miss_step(self) -> int:
        """Step of the cost slider."""
        return self.candidate.misses.index(self.miss)

    @property
    def prevalence_step(self) -> int:
        """Step of the prevalence slider."""
        return self.candidate.prevalences.index(self.prevalence)


def start(prior: float) -> int:
    """Return the cost step at which both answers count as equally common, as in the model's own decision."""
    return int(np.argmin(np.abs(np.log(MISSES) - math.log((1 - prior) / prior))))


def cost_at(candidate: Candidate, place: int, prevalence: float) -> float:
    """Return a cost of a miss, to four digits, whose threshold lies between a point and the next one below."""
    above, below = np.append(candidate.points.thresholds, 0.0)[place : place + 2].clip(max=1)
    threshold = (above + below) / 2
    odds = prevalence / (1 - prevalence) * (1 - candidate.prior) / candidate.prior
    return max(float(f"{(1 - threshold) / threshold / odds:.4g}"), 0.001)


def situation(chosen: Choice) -> str:
    """Return the slider positions in words, for a printed page."""
    budget = "no limit" if chosen.budget == CASES else f"{chosen.budget:g} of {CASES:,} cases"
    return (
        f"For {chosen.candidate.name}. Cost of a miss: {miss_text(chosen.miss)}. Prevalence: {chosen.prevalence_text}. "
        f"Review budget: {budget}."
    )


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
