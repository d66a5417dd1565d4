"""Decisions by the largest F score, the harmonic mean of recall and precision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.by_class import Label, place_of, plain_label, plain_value
from equipoise.decisions.policy import Claim, Policy
from equipoise.decisions.situation import Floats, Situation, descending, each_label
from equipoise.decisions.yardstick import PER, Yardstick, group_counts
from equipoise.errors import InvalidInputError
from equipoise.options import is_number

ROUNDS = 5
MOST_NUMBERS = 2_000_000
"""Most rows times classes of the evidence that weights are searched on."""


@dataclass(frozen=True, repr=False)
class FScore(DecisionRule):
    """Choose the threshold with the largest F score on the evidence: (1 + β²)·P·R / (β²·P + R).

    With two classes it is the score of the rarer one, with several labels that of each. With more classes it is the
    macro mean, maximised over one weight per class, one class at a time.

    Args:
        beta: how many times as important recall is as precision.
        of: the class whose score counts, instead.
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> FScore(2)
    FScore(beta=2)
    """

    name: ClassVar[str] = "f_score"
    meaning: ClassVar[str] = "by the threshold of the best F score"
    searches: ClassVar[bool] = True
    yardstick: ClassVar[Yardstick] = Yardstick("f_score", "mistakes")

    beta: float = 1.0
    of: Label | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.beta) or not 0 < self.beta < 1e6:
            raise InvalidInputError(f"beta must be a finite number above 0, such as 1 or 2, got {self.beta!r}.")
        self._keep("beta", plain_value(self.beta))
        if self.of is not None:
            self._keep("of", plain_label(self.of, "of"))

    def _named(self) -> Sequence[Label]:
        return () if self.of is None else (self.of,)

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:
        """Return the mean score of the classes that count, and their mistakes."""
        places = [place_of(label, situation.classes) for label in self._named()]
        if not places:
            one = not situation.several and len(situation.classes) == 2
            places = situation.rarest_first[:1].tolist() if one else list(range(len(situation.classes)))
        counts = group_counts(situation, predicted, [(place,) for place in places])
        found, missed, alarms, _ = (np.array(part) for part in zip(*counts, strict=True))
        mean = float(self._score(found, found + alarms, found + missed).mean())
        return {"f_score": mean, "mistakes": PER * float((missed + alarms).sum())}

    def _policy(self, situation: Situation) -> Policy:
        q, labels = situation.probabilities, situation.known().labels
        places = [place_of(label, situation.classes) for label in self._named()]
        if situation.several:
            chosen = places or range(len(situation.classes))
            return Policy(
                thresholds=each_label(
                    situation,
                    lambda place: self._threshold(q[:, place], labels[:, place] == 1, situation.row_weights(place)),
                    chosen,
                )
            )
        if not places and len(situation.classes) > 2:
            return Policy(weights=self._weights(q, labels, situation))
        place = places[0] if places else int(situation.rarest_first[0])
        threshold = self._threshold(q[:, place], labels == place, situation.row_weights(None))
        return Policy(weights=situation.balanced_weights, claims=(Claim((place,), threshold),))

    def _threshold(self, scores: Floats, own: NDArray[np.bool_], weights: Floats) -> float:
        thresholds, _, (right, predicted) = descending(scores, weights * own, weights)
        return float(thresholds[self._score(right, predicted, float(weights[own].sum())).argmax()])

    def _score(self, right: Floats, predicted: Floats, own: float | Floats) -> Floats:
        """Return F from weighted counts: correctly predicted, predicted, and in the class."""
        square = self.beta**2
        return np.asarray((1 + square) * right / np.maximum(predicted + square * own, 1e-300))

    def _weights(self, q: Floats, labels: NDArray[np.int64], situation: Situation) -> Floats:
        """Search the weights of many classes one class at a time, starting from balanced ones."""
        step = -(-q.size // MOST_NUMBERS)
        q, labels, rows = q[::step], labels[::step], situation.row_weights(None)[::step]
        own: Floats = np.bincount(labels, weights=rows, minlength=q.shape[1]).astype(np.float64)
        weights = situation.balanced_weights.copy()
        for _ in range(ROUNDS):
            before = weights.copy()
            for place in range(len(weights)):
                weights[place] = self._best_weight(q, labels, rows, own, weights, place)
            if np.array_equal(before, weights):
                break
        return np.asarray(weights / weights.max())

    def _best_weight(
        self, q: Floats, labels: NDArray[np.int64], rows: Floats, own: Floats, weights: Floats, place: int
    ) -> float:
        """Return the weight of one class with the largest mean score, keeping all others."""
        gain = q * weights
        gain[:, place] = -1
        other = gain.argmax(1)
        best = gain.max(1)
        cut = np.divide(best, q[:, place], out=np.full(len(q), np.inf), where=q[:, place] > 0)  # predicted from here on
        order = np.argsort(cut, kind="stable")
        cut, other, labels, rows = cut[order], other[order], labels[order], rows[order]
        moved = np.zeros((len(q), q.shape[1]))
        moved[np.arange(len(q)), other] = rows
        lost = np.where(labels[:, None] == np.arange(q.shape[1]), moved, 0)
        predicted, right = moved.sum(0) - moved.cumsum(0), lost.sum(0) - lost.cumsum(0)
        predicted[:, place], right[:, place] = rows.cumsum(), (rows * (labels == place)).cumsum()
        mean = self._score(right, predicted, own).mean(1)
        ends = np.flatnonzero(np.append(cut[1:] > cut[:-1], True) & np.isfinite(cut))
        if len(ends) == 0:
            return float(weights[place])
        best_end = int(ends[mean[ends].argmax()])
        last = best_end == len(cut) - 1 or not np.isfinite(cut[best_end + 1])
        return float(cut[best_end] * 1.01 if last else (cut[best_end] + cut[best_end + 1]) / 2)
