"""Section 4: from stochastic passes to one uncertainty per class."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import binary_labels, class_labels, required_tensor
from equipoise.uncertainty.output_covariance import check_passes

UncertaintyKind = Literal["relative", "unresolved", "dispersion", "own"]


@dataclass
class ClassMoments:
    """Sums from which every kind of class uncertainty follows; add two to combine batches or processes.

    Args:
        variance: Σ over samples of Var[p_c], (classes,) or (attributes, 2).
        mean: Σ over samples of E[p_c], of the same shape.
        spread: Σ over samples of E[p_c](1 − E[p_c]), of the same shape: the variance of the label, within and between
            the passes.
        own_trace: Σ of the covariance's trace over the class's own samples, of the same shape.
        own_count: number of the class's own samples, of the same shape.
        samples: number of all samples, ().

    >>> passes = torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])  # (passes, batch, classes)
    >>> both = ClassMoments.of(passes[:, :1]) + ClassMoments.of(passes[:, 1:])  # batch by batch
    >>> both.uncertainty(), class_uncertainty(passes)
    (tensor([1.5719, 1.9213], dtype=torch.float64), tensor([1.5719, 1.9213], dtype=torch.float64))
    >>> [tuple(each.shape) for each in both.tensors()]
    [(2,), (2,), (2,), (2,), (2,), ()]
    """

    variance: Tensor
    mean: Tensor
    spread: Tensor
    own_trace: Tensor
    own_count: Tensor
    samples: Tensor

    @classmethod
    def of(cls, outputs: Tensor, target: Tensor | None = None, weight: Tensor | None = None) -> "ClassMoments":
        """Return the sums over one batch.

        Args:
            outputs, target: as in :func:`class_uncertainty`.
            weight: number of times each sample counts, (batch,); None counts each once.
        """
        _check_probabilities(outputs)
        variance, mean = torch.var_mean(outputs.double(), dim=0, correction=0)  # (batch, classes)
        counted = torch.ones(outputs.shape[1], dtype=torch.float64, device=outputs.device)
        if weight is not None:
            counted = counted * weight
        each = counted.view(-1, *[1] * (mean.ndim - 1))
        own = torch.zeros_like(variance)
        if target is not None:
            own.scatter_(-1, _checked_target(outputs, target).unsqueeze(-1), 1.0)
        own = own * each
        trace = variance.sum(-1, keepdim=True)
        return cls(
            variance=(each * variance).sum(0),
            mean=(each * mean).sum(0),
            spread=(each * mean * (1 - mean)).sum(0),
            own_trace=(own * trace).sum(0),
            own_count=own.sum(0),
            samples=counted.sum(),
        )

    @classmethod
    def zeros(cls, shape: tuple[int, ...], device: torch.device | None = None) -> "ClassMoments":
        """Return the sums over no samples.

        Args:
            shape: (classes,) or (attributes, 2).
            device: where the sums are; None is torch's default.

        >>> ClassMoments.zeros((2,)).mean
        tensor([0., 0.], dtype=torch.float64)
        """
        shapes = [shape] * 5 + [()]
        return cls(*(torch.zeros(each, dtype=torch.float64, device=device) for each in shapes))

    def __add__(self, other: "ClassMoments") -> "ClassMoments":
        return ClassMoments(*(a + b for a, b in zip(self.tensors(), other.tensors(), strict=True)))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the sums in the order of the fields, for an all-reduce or a checkpoint."""
        return self.variance, self.mean, self.spread, self.own_trace, self.own_count, self.samples

    def uncertainty(self, kind: UncertaintyKind = "unresolved") -> Tensor:
        """Return one uncertainty per class in float64, (classes,) or (attributes, 2).

        Args:
            kind: as for :func:`class_uncertainty`.
        """
        if kind == "own":
            if not bool((self.own_count > 0).any()):
                raise InvalidInputError("kind 'own' averages over each class's own samples; pass their target as well.")
            value, known = self.own_trace / self.own_count, self.own_count > 0
        elif kind in ("relative", "dispersion"):
            known = self.mean > torch.finfo(torch.float64).tiny ** 0.5  # below that, the variance underflows to 0
            value = self.variance / self.mean
            if kind == "relative":
                value = value / (self.mean / self.samples)
        elif kind == "unresolved":
            share = self.mean / self.samples
            known = share > torch.finfo(torch.float64).tiny ** 0.5
            prior = self.mean * (1 - share)  # what would be open if the network could not distinguish samples at all
            value = torch.where(prior > 0, self.spread / prior, 0.0).clamp(0, 1).sqrt() / share
        else:
            raise InvalidInputError(f"kind must be one of {', '.join(get_args(UncertaintyKind))}, got {kind!r}.")
        # A class never seen or never predicted is as uncertain as the most uncertain of the others.
        most = torch.where(known, value, 0).amax(-1, keepdim=True)
        return torch.where(known, value, most)


def class_uncertainty(outputs: Tensor, target: Tensor | None = None, kind: UncertaintyKind = "unresolved") -> Tensor:
    r"""Return one uncertainty per class from the probabilities of several stochastic passes.

    With p̄_c = E[p_c] over the passes and ⟨·⟩ the mean over the samples:

    .. math:: u^\mathrm{relative}_c = \langle \mathrm{Var}[p_c] \rangle / \langle \bar p_c \rangle^2, \qquad
              u^\mathrm{dispersion}_c = \langle \mathrm{Var}[p_c] \rangle / \langle \bar p_c \rangle

    .. math:: u^\mathrm{unresolved}_c = \sqrt{r_c} / \langle \bar p_c \rangle, \qquad
              r_c = \frac{\langle \bar p_c (1 - \bar p_c) \rangle}
                         {\langle \bar p_c \rangle (1 - \langle \bar p_c \rangle)}

    - ``relative`` stays informative for a rare class that is hardly ever predicted yet.
    - ``unresolved`` (default here, in the curriculum and in the estimator): r_c is the share of the class's variance
      that the network leaves open: 1 if it cannot distinguish samples at all, 0 if it is certain of each. It measures
      total uncertainty, over the passes and within each prediction; classes that are rare *and* hard have most of it.
    - ``dispersion`` lies between ``relative`` and a plain variance.
    - ``own``: the trace of the predictive covariance, averaged over the class's own samples (needs ``target``).

    Args:
        outputs: probabilities, (passes, batch, classes); for several labels (passes, batch, attributes, 2).
        target: (batch,), or 0/1 of shape (batch, attributes); used by ``own`` only.
        kind: one of the four above.

    Returns:
        float64, (classes,) or (attributes, 2)

    >>> sure, torn = [[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]  # two passes each
    >>> outputs = torch.tensor([sure, torn]).transpose(0, 1)  # (passes, batch, classes)
    >>> class_uncertainty(outputs)  # the rarer class has more
    tensor([1.2853, 2.9991], dtype=torch.float64)
    >>> class_uncertainty(outputs, torch.tensor([0, 1]), "own")
    tensor([0.0000, 0.3200], dtype=torch.float64)
    """
    return ClassMoments.of(outputs, target).uncertainty(kind)


def _check_probabilities(outputs: Tensor) -> None:
    check_passes(outputs)
    if outputs.numel() == 0:
        raise InvalidInputError(
            f"outputs must hold at least one sample and one class, got {tuple(outputs.shape)}; leave empty batches out."
        )
    total = outputs.detach().float().sum(-1)
    if not (bool((outputs >= 0).all()) and bool(((total - 1).abs() < 0.02).all())):
        raise InvalidInputError(
            "outputs must be probabilities that sum to 1 over the classes, got other numbers; apply softmax to logits."
        )


def _checked_target(outputs: Tensor, target: Tensor) -> Tensor:
    if outputs.shape[1:-1] != required_tensor(target, "target").shape:
        raise InvalidInputError(
            f"target must have the shape {tuple(outputs.shape[1:-1])} of the outputs' batch, got {tuple(target.shape)}."
        )
    return binary_labels(target) if outputs.ndim > 3 else class_labels(target, outputs.shape[-1])
