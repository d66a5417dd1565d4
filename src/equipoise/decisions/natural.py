"""The rule of the fewest mistakes: the most probable class where the model is used."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.decisions.policy import Policy
from equipoise.decisions.rule import DecisionRule
from equipoise.decisions.situation import Situation


@dataclass(frozen=True, repr=False)
class Natural(DecisionRule):
    """Predict the most probable class: the fewest mistakes, most of them on rare classes.

    Args:
        class_prior: shares of the classes where it is used, by class, as for :class:`DecisionRule`.

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
