"""A chosen rule as a torch module, and as the arrays that an exported graph is made of."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.decisions.chosen_rule import Chosen
from equipoise.errors import InvalidInputError

NEVER = -1e30
"""Penalty of classes that may not be predicted; costs stay far above it."""


class AnswerModule(nn.Module):
    """Calibrated probabilities at the training samples' class prior -> answers, as ``Chosen.places`` gives them.

    It computes in double precision: the sum of all classes but one is close to 1, where float32 is too coarse.

    Args:
        chosen: a rule with thresholds, weights or costs; not the default rule.
        prior: of the training samples, (classes,) or (attributes, 2).
    """

    shift: Tensor
    gains: Tensor

    def __init__(self, chosen: Chosen, prior: NDArray[np.float64]) -> None:
        super().__init__()
        policy = chosen.policy
        if policy.rows is not None:
            raise InvalidInputError("a rule with a cost for each row cannot be exported; give one cost per class.")
        self.several, self.claims = prior.ndim == 2, policy.claims
        self.by_costs = policy.costs is not None
        values = policy.thresholds if self.several else policy.weights if policy.costs is None else -policy.costs
        self.register_buffer("shift", torch.from_numpy(prior_shift(chosen, prior)))
        self.register_buffer("gains", torch.as_tensor(values, dtype=torch.float64))
        for number, penalty in enumerate(penalties(chosen)):
            self.register_buffer(f"penalty_{number}", torch.from_numpy(penalty))

    def forward(self, probabilities: Tensor) -> Tensor:
        q = probabilities * self.shift
        q = q / q.sum(-1, keepdim=True)
        if self.several:
            return (q[..., 1] >= self.gains).long()
        gain = q @ self.gains if self.by_costs else q * self.gains
        if self.claims:
            penalty = self.get_buffer(f"penalty_{len(self.claims)}").expand_as(gain)
            for number, claim in reversed(list(enumerate(self.claims))):
                hit = q[:, list(claim.places)].sum(-1, keepdim=True) >= claim.threshold
                penalty = torch.where(hit, self.get_buffer(f"penalty_{number}"), penalty)
            gain = gain + penalty
        return gain.argmax(-1)


def prior_shift(chosen: Chosen, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors that move probabilities to the class prior where the rule is used."""
    wanted = chosen.policy.decided_at if chosen.policy.decided_at is not None else chosen.target_prior
    if wanted is None:
        return np.ones_like(prior)
    return np.divide(wanted, prior, out=np.zeros_like(prior), where=prior > 0)


def penalties(chosen: Chosen) -> list[NDArray[np.float64]]:
    """Return, for each claim and last for rows without one, what is added to each class: 0, or ``NEVER``."""
    policy, size = chosen.policy, len(chosen.classes)
    if not policy.claims:
        return []
    allowed = [np.isin(np.arange(size), claim.places) for claim in policy.claims] + [policy.rest(size)]
    return [np.where(each, 0.0, NEVER) for each in allowed]
