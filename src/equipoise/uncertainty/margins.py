"""Section 4: from one uncertainty per class to one margin per class."""

import math

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.registry_names import MarginRule
from equipoise.tensor_checks import numeric_tensor

SMALLEST_RATIO = 1e-6
"""Uncertainties below this share of the largest count as equal, so that a class with none does not set the scale."""


def log_steps(u: Tensor) -> Tensor:
    """Return log(u_c / min u), floored to stay finite; with attributes, each pair against its own smaller value."""
    u = numeric_tensor(u, "class uncertainties")
    if u.is_complex() or u.numel() == 0 or not bool(((u >= 0) & u.isfinite()).all()):
        raise InvalidInputError("class uncertainties must be finite and not negative; a variance is expected.")
    u = u if u.is_floating_point() else u.float()
    floored = u.clamp_min(torch.finfo(u.dtype).tiny).clamp_min(SMALLEST_RATIO * u.amax())
    return (floored / floored.amin(-1, keepdim=True)).log()


def count_steps(counts: Tensor) -> Tensor:
    """Return ln(max n / n_c), which equals log(u_c / min u) if all classes are equally hard.

    Args:
        counts: n, samples of each class, (classes,) or (attributes, 2).

    >>> count_steps(torch.tensor([900, 100])).round(decimals=2)
    tensor([0.0000, 2.2000], dtype=torch.float64)
    """
    counts = counts.double().clamp_min(0.5)
    return (counts.amax(-1, keepdim=True) / counts).log()


def count_margins(uncertainty: Tensor, counts: Tensor, *, known: Tensor | None = None) -> Tensor:
    """Return margins ln(max n / n_c), corrected by class uncertainty.

    ln(u / min u) equals the margin of the counts if all classes are equally hard. The difference between the two is
    estimated from n_c rows, with a standard error of 1/√(2 n_c); the part that exceeds it is added.

    Args:
        uncertainty: of each class, (classes,) or (attributes, 2).
        counts: weighted number of rows of each class, of the same shape.
        known: whether the uncertainty of each class is reliable, of the same shape; None: all are.

    >>> count_margins(torch.tensor([1.0, 9.0]), torch.tensor([900, 100])).round(decimals=2)  # by the counts alone
    tensor([0.0000, 2.2000], dtype=torch.float64)
    >>> count_margins(torch.tensor([1.0, 1.0]), torch.tensor([900, 900])).tolist()
    [0.0, 0.0]
    """
    counts, by_count = counts.double().clamp_min(0.5), count_steps(counts)
    further = log_steps(uncertainty.double()) - by_count
    each = counts if known is None else counts * known
    further = further - (each * further).sum(-1, keepdim=True) / each.sum(-1, keepdim=True)
    sure = (further.abs() - (2 * counts).rsqrt()).clamp_min(0) * further.sign() * (each > 0)
    margins = by_count + sure
    return margins - margins.amin(-1, keepdim=True)


def margins_from_uncertainty(u: Tensor, m_max: float = 3.0, rule: MarginRule = "log", *, m_min: float = 1.0) -> Tensor:
    r"""Return one margin per class, from ``m_min`` for the most certain class to ``m_max`` for the most uncertain one.

    - ``log`` (default): :math:`m = m_{min} + (m_{max} - m_{min}) \log(u/\min u) / \log(\max u/\min u)`, smooth,
      so that margins do not jump between seeds.
    - ``paper``: :math:`m = \max(1, \lfloor 0.5 u \rfloor)` with u rescaled so that its largest value is 2·m_max.

    Classes that are all equally uncertain get ``m_min``. With attributes, u is (attributes, 2): each pair is measured
    against its own smaller value, on one scale for all.

    Args:
        u: uncertainties, (classes,) or (attributes, 2), of any scale.
        m_max, m_min: the largest and the smallest margin.
        rule: ``"log"`` or ``"paper"``.

    >>> margins_from_uncertainty(torch.tensor([0.1, 0.2, 0.4]))
    tensor([1., 2., 3.])
    >>> margins_from_uncertainty(torch.tensor([0.1, 0.2, 0.4]), rule="paper")
    tensor([1., 1., 3.])
    """
    if not m_max >= m_min >= 0 or not math.isfinite(m_max):
        raise InvalidInputError(f"m_max must be at least m_min = {m_min}, got {m_max}.")
    steps = log_steps(u)
    if rule == "paper":
        # the paper's ⌊0.5·u⌋ of the rescaled u, written so that the largest is exactly m_max, not just below
        highest = torch.as_tensor(u).to(steps).amax()
        scaled = m_max * (torch.as_tensor(u).to(steps) / highest) if highest > 0 else torch.zeros_like(steps)
        return scaled.floor().clamp_min(m_min)
    if rule != "log":
        raise InvalidInputError(f"rule must be 'log' or 'paper', got {rule!r}.")
    widest = steps.amax()
    return m_min + (m_max - m_min) * (steps / widest if widest > 0 else steps)
