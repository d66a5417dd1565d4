"""The default rule: the most probable class if all were equally common."""

from dataclasses import dataclass
from typing import ClassVar

from equipoise.decisions.policy import Policy
from equipoise.decisions.rule import DecisionRule
from equipoise.decisions.situation import Situation, each_label


@dataclass(frozen=True, repr=False)
class Balanced(DecisionRule):
    """Predict the class that would be most probable if all were equally common, the default of all estimators.

    More precisely, it decides at the class prior that the method aims at, which for plain cross-entropy is that of the
    training samples. The answers do not depend on ``class_prior``; their expected results do.

    Args:
        class_prior: shares of the classes where it is used, by class, as for :class:`DecisionRule`.

    >>> Balanced()
    Balanced()
    """

    name: ClassVar[str] = "balanced"
    meaning: ClassVar[str] = "most probable if all classes were equally common"
    needs_evidence: ClassVar[bool] = False

    def _policy(self, situation: Situation) -> Policy:
        if situation.several:
            return Policy(thresholds=each_label(situation, lambda _: 0.5, ()), as_aimed=True)
        return Policy(weights=situation.balanced_weights, as_aimed=True)
