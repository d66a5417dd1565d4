r"""One classifier from several: their probabilities are made comparable, weighted, and shifted by class uncertainty.

All of it is fitted on out-of-fold predictions, so nothing is learnt from a row through a model that has seen it.

1. Class weights and resampling shift a model's probabilities, and boosting or forests make them over- or
   underconfident. A scale and an offset for each class undo that where they lower the log loss beyond chance:
   :math:`\tilde p_c \propto \exp(s_c \ln p_c + b_c)`.
2. The blend is :math:`\bar p = \sum_f w_f \tilde p^{(f)}`. Its weights minimise the log loss, shrunk towards equality.
3. The margins start from the class counts of the training set: :math:`\ln(\max n / n_c)`. Class uncertainty
   corrects them by :math:`\ln(u_c / \min u)` minus the counts' margin, as far as that exceeds its standard error.
4. If out-of-fold rows still lack a shift k along the margins, beyond one standard error, k strengthens them. The logits
   :math:`\ln \bar p_c + m_c` aim at the class prior :math:`a_c \propto \pi_c e^{m_c}`, which is nearly balanced.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import softmax
from torch import Tensor

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import SMALLEST_SHARE, Scaling, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.training.margin_strength import sure_shift
from equipoise.uncertainty.class_level import ClassMoments
from equipoise.uncertainty.margins import count_margins

FLOOR = 1e-4
"""Probability spread over all classes: a tree may predict 0, but nothing is impossible."""
LEAST_PRIOR = 1.0
"""Strength, in rows, of the prior that holds a blend's weights near equality."""


@dataclass(frozen=True)
class Blend:
    """From the probabilities of several models to the logits of one.

    Args:
        scalings: of each model's log probabilities; they undo its distortions.
        weights: of the models, (models,), summing to 1.
        uncertainty: of each class out of fold, (classes,) or (attributes, 2).
        margins: added to the logit of each class, of the same shape.
    """

    scalings: tuple[Scaling, ...]
    weights: Tensor
    uncertainty: Tensor
    margins: Tensor

    @classmethod
    def fit(
        cls, outputs: Tensor, target: Tensor, sample_weight: Tensor | None = None, *, counts: Tensor | None = None
    ) -> "Blend":
        """Fit a blend on out-of-fold probabilities.

        Args:
            outputs: (models, rows, classes), or (models, rows, attributes, 2).
            target: (rows,), or (rows, attributes).
            sample_weight: (rows,), how many rows each counts as; None counts each once.
            counts: training rows of each class, (classes,) or (attributes, 2), if ``target`` lacks some of them.
        """
        present = class_counts(target, outputs.shape[-1], sample_weight)
        even = (present > 0).double()  # nothing can be learnt about a class without rows
        scalings = tuple(fit_scaling(_log(each), target, even, sample_weight=sample_weight) for each in outputs)
        comparable = _scaled(outputs, scalings)
        weights = blend_weights(comparable, target, sample_weight)
        mean = torch.einsum("f,f...->...", weights, comparable)
        uncertainty = ClassMoments.of(torch.stack((mean, mean)), weight=sample_weight).uncertainty()
        margins = count_margins(uncertainty, present if counts is None else counts, known=present > 0)
        moved = mean.clamp_min(SMALLEST_SHARE).log() + margins
        strength = 1 + sure_shift(moved, target, margins, sample_weight=sample_weight)
        return cls(scalings, weights, uncertainty, strength * margins)

    def comparable(self, outputs: Tensor) -> Tensor:
        """Undo the distortions of each model; return probabilities shaped like the outputs, (models, rows, ...)."""
        return _scaled(outputs, self.scalings)

    def logits(self, outputs: Tensor) -> Tensor:
        """Return ln p̄ + margins: (rows, classes), or (rows, attributes, 2)."""
        mean = torch.einsum("f,f...->...", self.weights, self.comparable(outputs))
        return mean.clamp_min(SMALLEST_SHARE).log() + self.margins

    def calibrated(self, target: Tensor, sample_weight: Tensor | None = None) -> Calibrated:
        """Return the calibration of these logits at the rows' class prior, before it is fitted."""
        counts = class_counts(target, self.uncertainty.shape[-1], sample_weight).double()
        prior = counts / counts.sum(-1, keepdim=True)
        aimed = prior.clamp_min(SMALLEST_SHARE) * self.margins.exp()
        return Calibrated(prior, aimed / aimed.sum(-1, keepdim=True), Scaling.identity(tuple(prior.shape)))


def blend_weights(outputs: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return the weights of a mean of probabilities with the smallest log loss, regularised towards equality.

    Args:
        outputs: (models, rows, classes), or (models, rows, attributes, 2).
        target, sample_weight: as in :meth:`Blend.fit`.

    >>> sharp, dull = torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.full((2, 2), 0.5)
    >>> blend_weights(torch.stack((sharp, dull)), torch.tensor([0, 1])).round(decimals=2)
    tensor([0.5600, 0.4400], dtype=torch.float64)
    """
    own = outputs.double().gather(-1, target.expand(len(outputs), *target.shape).unsqueeze(-1)).squeeze(-1)
    p = own.flatten(1).clamp_min(SMALLEST_SHARE).numpy()  # probability of the true label, (models, labels)
    each = np.ones(len(target)) if sample_weight is None else sample_weight.double().numpy()
    w = np.repeat(each / each.sum(), p.shape[1] // len(each)) * len(each) / p.shape[1]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        share = softmax(values)
        mixed = share @ p
        slope = -p @ (w / mixed)
        held = LEAST_PRIOR / each.sum()
        return float(-w @ np.log(mixed) + held * values @ values), share * (slope - share @ slope) + 2 * held * values

    return torch.from_numpy(softmax(minimize(loss, np.zeros(len(p)), jac=True, method="L-BFGS-B").x))


def _log(probabilities: Tensor) -> Tensor:
    """Return ln p after spreading a little probability over all classes."""
    return ((1 - FLOOR) * probabilities.double() + FLOOR / probabilities.shape[-1]).log()


def _scaled(outputs: Tensor, scalings: tuple[Scaling, ...]) -> Tensor:
    """Return softmax(s ln p + b) of each model, (models, rows, ...)."""
    scaled = [_log(each) * scaling.scale + scaling.bias for each, scaling in zip(outputs, scalings, strict=True)]
    return torch.stack(scaled).softmax(-1)
