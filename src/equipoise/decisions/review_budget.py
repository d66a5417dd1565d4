"""Decisions by how many cases can be reviewed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.by_class import Label, place_of, plain_label, plain_value
from equipoise.decisions.policy import Claim, Policy
from equipoise.decisions.situation import Floats, Situation, descending, each_label
from equipoise.decisions.yardstick import Yardstick, found_and_missed, group_counts
from equipoise.errors import InvalidInputError
from equipoise.options import is_number


@dataclass(frozen=True, repr=False)
class ReviewBudget(DecisionRule):
    """Flag the most suspicious cases, as many as can be reviewed: 40 in 1,000 on average.

    Cases are ranked by the total probability of the classes of interest: those in ``of``, by default all but the most
    common one. Cases above the threshold get one of these classes, the others one of the remaining classes, in both
    cases chosen as by ``Balanced``. With several labels, the budget holds for each.

    Args:
        cases: number of cases to review, out of ``per`` cases.
        per: number of cases that ``cases`` refers to.
        of: the class or classes of interest; None takes all but the most common one, or each of several labels.
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> ReviewBudget(40, per=1000).share
    0.04
    """

    name: ClassVar[str] = "review_budget"
    meaning: ClassVar[str] = "by the threshold for the review budget"
    budgeted: ClassVar[bool] = True
    yardstick: ClassVar[Yardstick] = Yardstick("found", "missed")

    cases: float
    per: float = 1000
    of: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cases", "per"):
            self._keep(name, plain_value(getattr(self, name)))
        numbers = is_number(self.cases) and is_number(self.per)
        if not numbers or not 0 < self.cases < self.per < np.inf:
            got = f"{self.cases:g} per {self.per:g}" if numbers else f"{self.cases!r} per {self.per!r}"
            raise InvalidInputError(
                f"a review budget must be above 0 and below the number of cases, such as 40 per 1000, got {got}."
            )
        if self.of is not None:
            several = (self.of,) if isinstance(self.of, str | int | float | np.generic) else self.of
            self._keep("of", tuple(plain_label(label, "of") for label in several))
            if not self.of:
                raise InvalidInputError("of must name the classes of interest, got none; leave it out.")

    @property
    def share(self) -> float:
        """Cases to review, as a share of all."""
        return self.cases / self.per

    def _named(self) -> Sequence[Label]:
        return () if self.of is None else tuple(self.of)

    def _check_labels(self, size: int, *, several: bool) -> None:
        if self.of is not None and not several and len(self.of) >= size:
            raise InvalidInputError("`of` must leave out at least one class, got all; leave one out.")

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:
        """Return the share of the cases of interest that is found, and those missed per 1,000 cases."""
        places = self._places(situation)
        groups = [(place,) for place in places] if situation.several else [tuple(places)]
        return found_and_missed(group_counts(situation, predicted, groups))

    def _places(self, situation: Situation) -> list[int]:
        """Return the indices of the classes of interest."""
        places = [place_of(label, situation.classes) for label in self._named()]
        if situation.several:
            return places or list(range(len(situation.classes)))
        return places or sorted(situation.rarest_first[:-1].tolist())

    def _policy(self, situation: Situation) -> Policy:
        q = situation.answered  # reviewers see new rows, which all members predict
        places = self._places(situation)
        if situation.several:
            return Policy(
                thresholds=each_label(
                    situation, lambda place: self._threshold(q[:, place], situation.row_weights(place)), places
                )
            )
        threshold = self._threshold(q[:, places].sum(1), situation.row_weights(None))
        return Policy(weights=situation.balanced_weights, claims=(Claim(tuple(places), threshold),))

    def _threshold(self, scores: Floats, weights: Floats) -> float:
        thresholds, _, (flagged,) = descending(scores, weights)
        within = np.flatnonzero(flagged <= self.share * (1 + 1e-9))
        return float(thresholds[within[-1]]) if len(within) else float(scores.max()) + 1e-9
