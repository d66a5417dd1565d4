"""The most probable class: if all were equally common, the default, or where the model is used."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.policy import Policy
from equipoise.decisions.situation import Situation, each_label


@dataclass(frozen=True, repr=False)
class Balanced(DecisionRule):
    """Predict the class that would be most probable if all were equally common, the default of all estimators.

    More precisely, it decides at the class prior that the method aims at, which for plain cross-entropy is that of the
    training samples. The answers do not depend on ``class_prior``; their expected results do.

    Args:
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

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


@dataclass(frozen=True, repr=False)
class Natural(DecisionRule):
    """Predict the most probable class: the fewest mistakes, most of them on rare classes.

    Args:
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> Natural(class_prior={"fraud": 0.001})
    Natural(class_prior={'fraud': 0.001})
    """

    name: ClassVar[str] = "natural"
    meaning: ClassVar[str] = "most probable where it is used"
    needs_evidence: ClassVar[bool] = False

    def _policy(self, situation: Situation) -> Policy:
        size = len(situation.classes)
        if situation.several:
            return Policy(thresholds=np.full(size, 0.5), decided_at=situation.used_at)
        return Policy(weights=np.ones(size), decided_at=situation.used_at)
