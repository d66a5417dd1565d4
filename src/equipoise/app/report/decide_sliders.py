"""Positions of the page's sliders, and the operating point that follows; ``decide.js`` moves it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

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
