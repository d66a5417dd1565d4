"""CoSen: the softmax loss with a cost for each pair of true and predicted class (Khan et al. 2018)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses.class_vector_loss import ClassVectorLoss, Reduction
from equipoise.losses.class_weights import ClassWeight, needed_counts
from equipoise.losses.logit_losses import log_prior, neutral_prior
from equipoise.losses.softmax_loss import softmax_loss

MEMORY = 10
"""Batches with a class over which its features are averaged."""


def log_costs(class_counts: Tensor, separability: Tensor, *, mu: float = 1.0, sigma: float = 1.0) -> Tensor:
    r"""Return log ξ, the costs of predicting q where p is true.

    .. math:: \xi_{pq} = \max(h_p, h_q) \, \exp \frac{-(S_{pq} - \mu)^2}{2 \sigma^2}, \qquad h_p = n_p / n

    Args:
        class_counts: n_p, training samples per class, (classes,), or (attributes, 2).
        separability: S, (classes, classes), or (attributes, 2, 2); 1 where p and q overlap completely.
        mu, sigma: μ and σ.

    >>> log_costs(torch.tensor([90.0, 10.0]), torch.ones(2, 2)).exp()  # only samples of the rare class have a margin
    tensor([[0.9000, 0.9000],
            [0.9000, 0.1000]])
    """
    share = log_prior(class_counts)
    larger = torch.maximum(share.unsqueeze(-1), share.unsqueeze(-2))
    return larger - (separability - mu).square() / (2 * sigma**2)


def class_separability(mean: Tensor, spread: Tensor) -> Tensor:
    r"""Return S, the root mean square distance within class p by that between p and q, (..., classes, classes).

    .. math:: S_{pq}^2 = \frac{2 v_p}{v_p + v_q + \lVert \bar f_p - \bar f_q \rVert^2}

    Args:
        mean: mean features of each class, (..., classes, D).
        spread: v, the mean squared distance of a class's features to their mean, (..., classes).

    >>> class_separability(torch.tensor([[0.0], [3.0]]), torch.tensor([1.0, 6.0]))
    tensor([[1.0000, 0.3536],
            [0.8660, 1.0000]])
    """
    between = spread.unsqueeze(-1) + spread.unsqueeze(-2) + torch.cdist(mean, mean).square()
    ratio = 2 * spread.unsqueeze(-1) / between.clamp_min(torch.finfo(spread.dtype).tiny)
    return torch.where(between > 0, ratio.sqrt(), 1.0)


class CoSenLoss(ClassVectorLoss):
    r"""The softmax loss on logits that are raised by the logarithm of a cost (Khan et al. 2018).

    .. math:: L = -\log \mathrm{softmax}(z + \log \xi_y)_y

    with the costs ξ of :func:`log_costs`. Logits for predictions have no costs. Where classes overlap (S = μ = 1), a
    sample of class y gets a margin of log(h_q/h_y) against every more common class q, and none against rarer ones.

    Not all of the publication fits a loss, which sees neither validation samples nor the whole training set:

    - There, ξ starts at 1 and takes gradient steps towards these costs, each only if the validation error falls. Here,
      ξ is these costs from the first step on.
    - There, a third factor has the confusion of the classes on validation samples. Here, there is none.
    - There, S is the distance to the nearest neighbour in p divided by that in q, averaged over the samples of p. Here,
      it is the ratio of root mean square distances, from running averages over the training batches. Until a class has
      been seen, its S is 1.
    - The values of μ and σ are ours: at μ = 1, S lowers the logit of a class by at most :math:`1/(2\sigma^2)`.

    Args:
        in_features, classes, multilabel, dropout, members, class_counts, class_weight, reduction: as in
            :class:`ClassVectorLoss`; the counts are needed.
        mu, sigma: μ and σ of :func:`log_costs`.

    >>> loss = CoSenLoss(4, 2, class_counts=torch.tensor([90.0, 10.0]), reduction="none")
    >>> _ = loss.weight.data.zero_()
    >>> loss.eval()(torch.ones(2, 4), torch.tensor([0, 1])).detach()  # −log 0.5, −log 0.1
    tensor([0.6931, 2.3026])
    """

    moments: Tensor  # running means of a class's features and of their squared length, (..., classes, D + 1)
    batches: Tensor  # training batches that had the class, (..., classes)

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        mu: float = 1.0,
        sigma: float = 1.0,
        multilabel: bool = False,
        dropout: float = 0.0,
        members: int = 1,
        class_counts: Tensor | None = None,
        class_weight: ClassWeight = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            in_features,
            classes,
            multilabel=multilabel,
            dropout=dropout,
            members=members,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        needed_counts(self.class_counts, "cosen")
        if not sigma > 0:
            raise InvalidInputError(f"sigma must be above 0, got {sigma}.")
        self.mu, self.sigma = mu, sigma
        self.register_buffer("moments", torch.zeros(*self.class_shape, in_features + 1))
        self.register_buffer("batches", torch.zeros(self.class_shape))

    def separability(self) -> Tensor:
        """Return S of the training batches so far, (classes, classes) or (attributes, 2, 2).

        >>> loss = CoSenLoss(1, 2, class_counts=torch.tensor([2.0, 2.0]))
        >>> _ = loss(torch.tensor([[0.0], [2.0], [5.0], [7.0]]), torch.tensor([0, 0, 1, 1]))
        >>> loss.separability()
        tensor([[1.0000, 0.2722],
                [0.2722, 1.0000]])
        """
        mean, square = self.moments[..., :-1], self.moments[..., -1]
        found = class_separability(mean, (square - mean.square().sum(-1)).clamp_min(0))
        seen = self.batches > 0
        return torch.where(seen.unsqueeze(-1) & seen.unsqueeze(-2), found, 1.0)

    def aimed_prior(self, prior: Tensor) -> Tensor:
        neutral = neutral_prior(self._criterion, self.class_counts, self.class_shape)
        return super().aimed_prior(prior / neutral.to(prior))

    def sample_losses(self, features: Tensor, target: Tensor) -> Tensor:
        if self.training and len(features):
            self._observe(features, target)
        logits = self.member_logits(self.dropped(features))
        counts = needed_counts(self.class_counts, "cosen").to(logits.dtype)
        return self.over_members(self._criterion(logits, self.by_member(target), counts))

    def _criterion(self, logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:
        counts = needed_counts(class_counts, "cosen")
        costs = log_costs(counts, self.separability().to(counts), mu=self.mu, sigma=self.sigma)
        return softmax_loss(logits + costs.flatten(0, -2)[self._places(target)], target)

    def _places(self, target: Tensor) -> Tensor:
        """Return the place of each label among the classes of all attributes."""
        return target + 2 * torch.arange(self.classes, device=target.device) if self.multilabel else target

    @torch.no_grad()
    def _observe(self, features: Tensor, target: Tensor) -> None:
        """Move the running means towards those of a batch; the first batches count alike."""
        values = torch.cat((features, features.square().sum(-1, keepdim=True)), -1).to(self.moments)
        own = F.one_hot(target, self.class_shape[-1]).flatten(1).to(values)  # (batch, classes or 2·attributes)
        counts = own.sum(0)
        here = counts.view(self.class_shape) > 0
        means = ((own.T @ values) / counts.clamp_min(1).unsqueeze(-1)).view_as(self.moments)
        self.batches += here
        rate = here / self.batches.clamp(1, MEMORY)
        self.moments += rate.unsqueeze(-1) * (means - self.moments)
