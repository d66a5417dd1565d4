"""Class weights from the numbers of training samples."""

from typing import Literal

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import numeric_tensor

ClassWeight = Tensor | Literal["balanced", "effective"] | None


def inverse_frequency_weights(class_counts: Tensor) -> Tensor:
    r"""Return scikit-learn's "balanced" weights, which give every class the same total weight.

    .. math:: w_c = \frac{n}{C \, n_c}

    Args:
        class_counts: training samples per class, (classes,), or (attributes, 2).

    >>> inverse_frequency_weights(torch.tensor([90.0, 10.0]))
    tensor([0.5556, 5.0000])
    """
    total = class_counts.sum(-1, keepdim=True)
    return total / (class_counts.shape[-1] * positive_counts(class_counts))


def effective_number_weights(class_counts: Tensor, beta: float = 0.9999) -> Tensor:
    r"""Return the inverse of each class's effective number of samples (Cui et al. 2019), scaled to mean 1.

    .. math:: w_c \propto \frac{1 - \beta}{1 - \beta^{n_c}}

    Args:
        class_counts: training samples per class, (classes,), or (attributes, 2).
        beta: β in [0, 1); 0 weights all classes equally, and the weights approach 1/n_c as β approaches 1.

    >>> effective_number_weights(torch.tensor([90.0, 10.0]), beta=0.99)
    tensor([0.2768, 1.7232])
    """
    if not 0 <= beta < 1:
        raise InvalidInputError(f"beta must lie in [0, 1), got {beta}.")
    exponent = positive_counts(class_counts.double()) * torch.tensor(beta, dtype=torch.float64).log()
    weights = (1 - beta) / -torch.expm1(exponent)
    return (weights / weights.mean(-1, keepdim=True)).to(class_counts.dtype)


def class_weights(choice: ClassWeight, class_counts: Tensor | None) -> Tensor | None:
    """Return the requested weights: none, given, or computed from the counts."""
    if not isinstance(choice, str):
        return None if choice is None else numeric_tensor(choice, "class_weight")
    if choice not in ("balanced", "effective"):
        raise InvalidInputError(f"class_weight must be a tensor, 'balanced' or 'effective', got {choice!r}.")
    counts = needed_counts(class_counts, f"class_weight={choice!r}")
    return inverse_frequency_weights(counts) if choice == "balanced" else effective_number_weights(counts)


def needed_counts(class_counts: Tensor | None, who: str) -> Tensor:
    """Return the counts, or raise an error that says what needs them."""
    if class_counts is None:
        raise InvalidInputError(
            f"{who} needs the number of training samples of each class; pass class_counts=torch.bincount(y)."
        )
    return class_counts


def positive_counts(class_counts: Tensor) -> Tensor:
    """Count a class without training samples as one sample, so that no weight or logarithm is infinite.

    Counts may be sums of weights. If all of them are below 1, the class counts as the smallest one that has samples.

    >>> positive_counts(torch.tensor([90.0, 0.0])), positive_counts(torch.tensor([0.7, 0.3, 0.0]))
    (tensor([90.,  1.]), tensor([0.7000, 0.3000, 0.3000]))
    """
    present = class_counts > 0
    smallest = torch.where(present, class_counts, torch.ones_like(class_counts)).amin(-1, keepdim=True).clamp(max=1)
    return torch.where(present, class_counts, smallest)
