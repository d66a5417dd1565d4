"""Section 3: the predictive covariance of stochastic passes, and the model precision τ."""

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import floating_tensor


def predictive_covariance(outputs: Tensor, precision: float | None = None) -> Tensor:
    r"""Return the C×C predictive covariance of each sample over its stochastic passes.

    .. math:: u = \tau^{-1} I + \mathbb{E}[\hat y \hat y^\top] - \mathbb{E}[\hat y]\,\mathbb{E}[\hat y]^\top

    Args:
        outputs: (passes, batch, classes), or (passes, batch, attributes, 2).
        precision: the model precision τ (see :func:`model_precision`); None adds no τ⁻¹. It shifts all classes equally,
            so it does not change their order.

    Returns:
        (batch, classes, classes); (batch, attributes, 2, 2) for several labels

    >>> predictive_covariance(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))  # two passes that disagree
    tensor([[[ 0.2500, -0.2500],
             [-0.2500,  0.2500]]])
    """
    check_passes(outputs)
    if precision is not None and not precision > 0:
        raise InvalidInputError(f"precision τ must be positive, got {precision}; None leaves τ⁻¹ out.")
    centred = outputs - outputs.mean(0)
    covariance = torch.einsum("n...i,n...j->...ij", centred, centred) / outputs.shape[0]
    if precision is None:
        return covariance
    return covariance + torch.eye(outputs.shape[-1], dtype=outputs.dtype, device=outputs.device) / precision


def model_precision(*, length_scale: float, dropout: float, samples: int, weight_decay: float) -> float:
    r"""Return Gal & Ghahramani's model precision τ, whose inverse is added to the variance over the passes.

    .. math:: \tau = \frac{(1 - p) \, l^2}{2 n \lambda}

    Args:
        length_scale: l of the prior over functions, in the units of the inputs.
        dropout: p, the share dropped.
        samples: n, the size of the training set.
        weight_decay: λ.

    >>> model_precision(length_scale=1.0, dropout=0.5, samples=1000, weight_decay=1e-4)
    2.5
    """
    if not 0 <= dropout < 1 or min(length_scale, samples, weight_decay) <= 0:
        raise InvalidInputError(
            "length_scale, samples and weight_decay must be positive and dropout in [0, 1), got "
            f"{length_scale}, {samples}, {weight_decay} and {dropout}; without weight decay leave τ out."
        )
    return (1 - dropout) * length_scale**2 / (2 * samples * weight_decay)


def check_passes(outputs: Tensor) -> None:
    """Raise an error unless these are outputs of at least two passes, (passes, batch, ...)."""
    if floating_tensor(outputs, "outputs").ndim < 3 or outputs.shape[0] < 2:
        raise InvalidInputError(
            f"outputs must have the shape (passes, batch, classes) with at least 2 passes, got {tuple(outputs.shape)}; "
            "mc_dropout returns such outputs."
        )
