r"""Probabilities and uncertainty of a trained network in one pass, without drawing anything.

Dropout with rate p on the last features f makes the logit of class j differ from that of the predicted class ŷ by a
Gaussian (row by row, as in :func:`equipoise.uncertainty.samples.dropout_error_moments`) of

.. math:: \mu_j = z_j - z_{\hat y}, \qquad \sigma_j^2 = \frac{p}{1 - p} \sum_d (w_j - w_{\hat y})_d^2 \, f_d^2 .

The softmax of such logits is on average close to that of :math:`\mu_j / \sqrt{1 + \pi \sigma_j^2 / 8}` (MacKay 1992;
for two classes this is his formula), here :math:`\bar p`, and the uncertainty is the variance of the predicted label,
:math:`\sum_c \bar p_c (1 - \bar p_c)`: two matrix products beside the prediction itself, alike for a row in whatever
batch it comes, and plain enough for an ONNX graph. Dropout between the hidden layers is not in it.

Probabilities are calibrated, see :mod:`equipoise.training.scaling`; what is predicted, and how uncertain that is, comes
from the network's own logits, in which a rare class counts as much as a common one.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.evaluation.calibrated import Calibrated
from equipoise.losses import ClassVectorLoss, CosineMarginLoss
from equipoise.training import Network
from equipoise.training.scaling import Scaling


class Answer(NamedTuple):
    """What a network says of each row."""

    probabilities: Tensor  # (batch, classes), or of each attribute being 1, (batch, attributes)
    uncertainty: Tensor  # (batch,), summed over the attributes where there are several
    predicted: Tensor  # the class's place, (batch,), or 0 and 1, (batch, attributes)


class Answers(nn.Module):
    """x -> :class:`Answer`, always in evaluation mode.

    Args:
        network: a trained network.
        extractor: what gives the network its input, a frozen backbone; None where x is that input.
        calibrated: from logits to probabilities at the training samples' class mix; None is their softmax.
    """

    scale: Tensor
    moved: Tensor

    def __init__(
        self, network: Network, extractor: nn.Module | None = None, calibrated: Calibrated | None = None
    ) -> None:
        super().__init__()
        self.network, self.extractor = network, extractor
        shape = (network.head.classes, 2) if network.head.multilabel else (network.head.classes,)
        scaling = Scaling.none(shape) if calibrated is None else calibrated.scaling
        odds = torch.ones(shape, dtype=torch.float64) if calibrated is None else calibrated.odds()
        kind = network.head.weight.dtype
        self.register_buffer("scale", scaling.scale.to(kind))
        self.register_buffer("moved", scaling(torch.zeros(shape, dtype=torch.float64), odds).to(kind))
        self.eval()

    def forward(self, x: Tensor) -> Answer:
        logits, uncertainty = self.judged(x)
        probabilities = (logits * self.scale + self.moved).softmax(-1)
        own = probabilities[..., 1] if self.network.head.multilabel else probabilities
        return Answer(own, uncertainty, logits.argmax(-1))

    def judged(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The network's own logits, (batch, classes) or (batch, attributes, 2), and the uncertainty."""
        if self.extractor is not None:
            x = self.extractor(x)
        features = self.network.backbone(x)
        head = self.network.head
        logits = head.logits(features)
        spread = mean_probabilities(logits, error_variance(head, features, logits))
        return logits, (spread * (1 - spread)).flatten(1).sum(-1)


def mean_probabilities(logits: Tensor, variance: Tensor) -> Tensor:
    """Softmax averaged over Gaussian differences to the predicted class: both (batch, [attributes,] classes)."""
    gap = logits - logits.amax(-1, keepdim=True)
    mean: Tensor = (gap / (1 + math.pi / 8 * variance).sqrt()).softmax(-1)
    return mean


def error_variance(head: ClassVectorLoss, features: Tensor, logits: Tensor) -> Tensor:
    """σ_j² against the predicted class: (batch, classes), or (batch, attributes, 2)."""
    rate: float = head.dropout.p
    if isinstance(head, CosineMarginLoss):  # their length is taken as it is without dropout
        features = head.scale * F.normalize(features, dim=-1)
    spread = features.square() * (rate / (1 - rate))  # Var[f_d], (batch, D)
    vectors = head.class_vectors(features.dtype)
    best = logits.argmax(-1)
    if head.multilabel:
        pairs = vectors.unflatten(0, (head.classes, 2))
        single: Tensor = spread @ (pairs[:, 1] - pairs[:, 0]).square().T  # one rival an attribute, (batch, attributes)
        return single.unsqueeze(-1) * (1 - F.one_hot(best, 2).to(single.dtype))
    own = vectors[best]  # w_ŷ, (batch, D)
    variance: Tensor = spread @ vectors.square().T - 2 * (spread * own) @ vectors.T
    return (variance + (spread * own.square()).sum(-1, keepdim=True)).clamp_min(0)
