r"""Probabilities and uncertainty of a trained network in one pass, without drawing anything.

Dropout with rate p on the last features f makes the logit of class j differ from that of the predicted class ŷ by a
Gaussian (row by row, as in :func:`equipoise.uncertainty.samples.dropout_error_moments`) of

.. math:: \mu_j = z_j - z_{\hat y}, \qquad \sigma_j^2 = \frac{p}{1 - p} \sum_d (w_j - w_{\hat y})_d^2 \, f_d^2 .

The softmax of such logits is on average close to that of :math:`\mu_j / \sqrt{1 + \pi \sigma_j^2 / 8}` (MacKay 1992;
for two classes this is his formula), here :math:`\bar p`, and the uncertainty is the variance of the predicted label,
:math:`\sum_c \bar p_c (1 - \bar p_c)`: two matrix products beside the prediction itself, alike for a row in whatever
batch it comes, and plain enough for an ONNX graph. Dropout between the hidden layers is not in it.
"""

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.losses import ClassVectorLoss, CosineMarginLoss
from equipoise.training import Network


class Answer(NamedTuple):
    """What a network says of each row."""

    probabilities: Tensor  # (batch, classes), or of each attribute being 1, (batch, attributes)
    uncertainty: Tensor  # (batch,), summed over the attributes where there are several


class Answers(nn.Module):
    """x -> :class:`Answer`, always in evaluation mode.

    Args:
        network: a trained network.
        extractor: what gives the network its input, a frozen backbone; None where x is that input.
    """

    def __init__(self, network: Network, extractor: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.extractor = network, extractor
        self.eval()

    def forward(self, x: Tensor) -> Answer:
        if self.extractor is not None:
            x = self.extractor(x)
        features = self.network.backbone(x)
        head = self.network.head
        logits = head.logits(features)
        probabilities = logits.softmax(-1)
        spread = mean_probabilities(logits, error_variance(head, features, logits))
        uncertainty = (spread * (1 - spread)).flatten(1).sum(-1)
        return Answer(probabilities[..., 1] if head.multilabel else probabilities, uncertainty)


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
