r"""Strength of the margins: the shift that held-out samples still lack, and the shift that an angle amounts to.

A network trained with the margin s·(m_c − 1) on class c and used without it favours c by that amount. The shift that
held-out samples still lack is the k along the same direction that minimises the class-balanced log loss

.. math:: L(k) = \sum_c \frac{1}{n_c} \sum_{i: y_i = c} -\log \mathrm{softmax}(z_i + k\,(m - 1))_{c},

which is convex in k. The curriculum's ``strength="feedback"`` adds half of it to s after every epoch.

A network that fits its training samples perfectly satisfies any margin there, yet held-out samples still lack a shift.
:func:`sure_shift` estimates how much of it is beyond chance, and predictions are shifted by that.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import psi
from equipoise.losses.psi import SHORTEST
from equipoise.losses.softmax_loss import gather_classes
from equipoise.registry_names import MarginSource
from equipoise.uncertainty.margins import count_margins, count_steps, log_steps

BY_COUNTS: tuple[MarginSource, ...] = ("counts", "out_of_fold")
"""Sources whose margins are those of the class counts."""
WIDEST = 20.0
"""Shifts are searched in [−20, 20] for the largest margin: odds of e^20 exceed any imbalance."""
HALVINGS = 60
WARMEST = 5.0
"""Temperatures are searched from e^−5 to e^5: for perfectly separated samples the best one is 0."""
SPREAD = 0.25
"""Standard deviation of the prior of a class's shift: without much evidence it stays near 0."""
SMALLEST_SHIFT = 1e-3
"""Smallest mean shift of the logits by angles: below it they have collapsed and set no scale."""


def class_steps(source: MarginSource, uncertainty: Tensor | None, counts: Tensor | None) -> Tensor:
    """Return by how much the logit of each class is lowered, at least 0: (classes,) or (attributes, 2).

    Args:
        source: ``"uncertainty"`` gives log(u_c / min u), ``"counts"`` and ``"out_of_fold"`` ln(max n / n_c), and
            ``"corrected"`` the latter, corrected by uncertainty beyond its standard error: ``count_margins``.
        uncertainty: u, shaped as the result, measured at the end of the softmax stage; not needed for counts.
        counts: n, weighted training samples of each class, of the same shape; not needed for ``"uncertainty"``.

    >>> u, n = torch.tensor([1.0, 30.0], dtype=torch.float64), torch.tensor([900, 100])
    >>> [round(float(class_steps(source, u, n)[1]), 2) for source in ("counts", "corrected", "uncertainty")]
    [2.2, 3.31, 3.4]
    """
    if source != "uncertainty" and counts is None:
        raise InvalidInputError(f"margins={source!r} needs class counts; build the loss with class_counts.")
    if source in BY_COUNTS and counts is not None:
        return count_steps(counts.cpu())
    if uncertainty is None:
        raise InvalidStateError("class uncertainty is not set yet; call set_uncertainty first.")
    if source == "corrected" and counts is not None:
        return count_margins(uncertainty, counts.cpu())
    return log_steps(uncertainty)


def balancing_weights(target: Tensor, classes: int, sample_weight: Tensor | None = None) -> Tensor:
    """Return 1/n_y for each sample, so that every class present has total weight 1.

    Args:
        target: (batch,), or (batch, attributes).
        classes: C; 2 with attributes.
        sample_weight: (batch,), how many samples each counts as in n_y; None counts each once.

    >>> balancing_weights(torch.tensor([0, 0, 0, 0, 1]), 2)
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 1.0000], dtype=torch.float64)
    """
    counts = class_counts(target, classes, sample_weight).double()
    return gather_classes(torch.where(counts > 0, 1 / counts, 0), target)


def label_weights(target: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Return sample weights expanded to their labels, shaped like the target; ones if there are none.

    Args:
        target: (batch,), or (batch, attributes).
        sample_weight: (batch,), or None.

    >>> label_weights(torch.tensor([[0, 1], [1, 1]]), torch.tensor([3, 1]))
    tensor([[3., 3.],
            [1., 1.]], dtype=torch.float64)
    """
    each = torch.ones(target.shape, dtype=torch.float64, device=target.device)
    return each if sample_weight is None else each * sample_weight.to(each).view(-1, *[1] * (target.ndim - 1))


def lacking_shift(logits: Tensor, target: Tensor, direction: Tensor, *, sample_weight: Tensor | None = None) -> float:
    """Return argmin_k of the class-balanced log loss of logits + k·direction, by bisection on its slope.

    Args:
        logits: (batch, classes), or (batch, attributes, 2), without any margin.
        target: (batch,), or (batch, attributes).
        direction: (classes,), or (attributes, 2): where each class's margin pushes it, not negative.
        sample_weight: (batch,), how many samples each counts as; None counts each once.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])  # common, rare
    >>> round(lacking_shift(logits, torch.tensor([0, 1]), torch.tensor([0.0, 1.0])), 3)
    1.0
    """
    if len(logits) == 0:
        raise InvalidInputError(
            "the strength of the margins needs at least one validation sample, got none; hold some out."
        )
    logits, direction = logits.double(), direction.double()
    steepest = float(direction.max())
    if steepest <= 0:
        return 0.0
    direction = direction / steepest
    weight = label_weights(target, sample_weight) * balancing_weights(target, logits.shape[-1], sample_weight)
    wanted = (weight * direction.expand_as(logits).gather(-1, target.unsqueeze(-1)).squeeze(-1)).sum()
    low, high = -WIDEST, WIDEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        given = (torch.softmax(logits + middle * direction, -1) * direction).sum(-1)
        if float((weight * given).sum() - wanted) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2 / steepest


def sure_shift(logits: Tensor, target: Tensor, direction: Tensor, *, sample_weight: Tensor | None = None) -> float:
    r"""Return the shift in a direction that held-out samples lack, minus one standard error, and never below 0.

    k is fitted together with a temperature, because overconfidence alone would inflate it:

    .. math:: \min_{k, T} \; n_e \sum_c \frac{1}{C n_c} \sum_{i: y_i = c} -\log\mathrm{softmax}((z_i + k d)/T)_c

    where n_e is Kish's effective size of the weighted sample. The curvature in k gives the standard error, so a few
    held-out samples shift nothing. Margins are only ever increased.

    Args:
        logits, target, direction, sample_weight: as in :func:`lacking_shift`; with several labels each label counts
            as a sample.
    """
    if len(logits) == 0 or not bool((direction != 0).any()):
        return 0.0
    each = balancing_weights(target, logits.shape[-1], sample_weight).flatten()
    counted = label_weights(target, sample_weight).flatten() * each
    weight = counted * counted.sum() / (counted * each).sum()  # sums to n_e
    rows = logits.double().flatten(0, -2)
    along = direction.double().expand_as(logits).flatten(0, -2)
    k, temperature = _fit_shift(rows, along, target.flatten(), weight)
    chance = torch.softmax((rows + k * along) / temperature, -1)
    variance = (chance * along.square()).sum(-1) - (chance * along).sum(-1).square()
    curvature = float((weight * variance).sum()) / temperature**2
    return max(0.0, min(k, WIDEST) - curvature**-0.5) if curvature > 0 else 0.0


def _fit_shift(rows: Tensor, along: Tensor, target: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return k and T that minimise the weighted log loss of (rows + k·along)/T."""
    z, d, each = (tensor.detach().double().cpu().numpy() for tensor in (rows, along, weight))
    own = np.arange(len(z)), target.cpu().numpy()

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        k, log_temperature = values
        cold = math.exp(-min(WARMEST, max(-WARMEST, log_temperature)))
        scaled = (z + k * d) * cold
        log_p = log_softmax(scaled, -1)
        slope = np.exp(log_p)  # d loss / d logits: p − [y = c]
        slope[own] -= 1
        slope *= each[:, None]
        inside = abs(log_temperature) <= WARMEST
        return float(-each @ log_p[own]), np.array([(slope * d).sum() * cold, -(slope * scaled).sum() * inside])

    options = {"maxiter": 100, "gtol": 1e-7, "ftol": 1e-14}
    k, log_temperature = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", options=options).x.tolist()
    return k, math.exp(min(WARMEST, max(-WARMEST, log_temperature)))


def class_shift(
    logits: Tensor, target: Tensor, *, spread: float = SPREAD, sample_weight: Tensor | None = None
) -> Tensor:
    r"""Return the shift that each class's logit lacks on held-out samples, 0 for the class that lacks least.

    .. math:: \min_{v, T} \; n_e \sum_c \frac{1}{C n_c} \sum_{i: y_i = c} -\log\mathrm{softmax}((z_i + v)/T)_c
              + \frac{\lVert v \rVert^2}{2 \sigma^2}

    where n_e is Kish's effective size of the weighted sample: with few samples the second term holds v near 0.

    Args:
        logits, target, sample_weight: as in :func:`lacking_shift`.
        spread: σ, the standard deviation that shifts are expected to have.

    >>> z, y = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]).repeat(200, 1), torch.tensor([0, 1]).repeat(200)
    >>> class_shift(z, y).round(decimals=2)  # no shift separates the classes better
    tensor([0., 0.], dtype=torch.float64)
    >>> class_shift(z + torch.tensor([1.0, 0.0]), y).argmax()
    tensor(1)
    """
    each = balancing_weights(target, logits.shape[-1], sample_weight)
    counted = label_weights(target, sample_weight) * each
    whole = (counted * each).sum(0)
    weight = (counted * counted.sum(0) / whole.clamp_min(torch.finfo(whole.dtype).tiny)).cpu().numpy()[..., None]
    z = logits.detach().double().cpu().numpy()
    own = np.eye(z.shape[-1])[target.cpu().numpy()]  # one-hot, shaped like the logits

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        v, cold = values[1:].reshape(z.shape[1:]), math.exp(-min(WARMEST, max(-WARMEST, values[0])))
        scaled = (z + v) * cold
        log_p = log_softmax(scaled, -1)
        slope = weight * (np.exp(log_p) - own)  # d loss / d logits
        inside = abs(values[0]) <= WARMEST
        by_class = slope.sum(0).ravel() * cold + values[1:] / spread**2
        total = float(-(weight * own * log_p).sum() + values[1:] @ values[1:] / (2 * spread**2))
        return total, np.concatenate(([-(slope * scaled).sum() * inside], by_class))

    start = np.zeros(1 + z[0].size)
    found = torch.from_numpy(minimize(loss, start, jac=True, method="L-BFGS-B").x[1:].reshape(z.shape[1:]))
    return found - found.amin(-1, keepdim=True)


def angular_strength(
    logits: Tensor, features: Tensor, target: Tensor, margins: Tensor, *, sample_weight: Tensor | None = None
) -> float:
    """Return the strength of the angular form whose mean shift of the true logits equals additive strength 1.

    The additive form lowers a true logit by m − 1, the angular form by ‖f‖(cos α − ψ(α)), which grows with ‖f‖.

    Args:
        logits: (batch, classes), without any margin.
        features: (batch, D), from which the logits come.
        target: (batch,).
        margins: m ≥ 1, (classes,).
        sample_weight: (batch,), how many samples each counts as; None counts each once.

    >>> features = torch.tensor([[3.0, 4.0]])
    >>> logits = features @ torch.eye(2)  # cosines 0.6 and 0.8 at length 5
    >>> margins = torch.tensor([2.0, 1.0])
    >>> round(angular_strength(logits, features, torch.tensor([0]), margins), 4)  # 1 / (5·(0.6 − ψ))
    0.2273
    """
    length = torch.linalg.vector_norm(features.to(logits.dtype), dim=-1).view(-1, *[1] * (logits.ndim - 1))
    cosine = (logits / length.clamp_min(SHORTEST)).clamp(-1, 1)
    shift = length * (cosine - psi(cosine, margins))  # (batch, classes)
    own = target.unsqueeze(-1)
    each = label_weights(target, sample_weight).to(shift.dtype)
    each = each / each.sum()
    wanted = (each * (margins - 1).expand_as(shift).gather(-1, own).squeeze(-1)).sum()
    return float(wanted / (each * shift.gather(-1, own).squeeze(-1)).sum().clamp_min(SMALLEST_SHIFT))
