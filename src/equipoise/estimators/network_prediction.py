r"""Class, probabilities and uncertainty of a trained network in one pass, without drawing anything.

The class is the most probable one at the prior of the decision, see :meth:`Calibrated.decision`: from the calibrated
logits :math:`z_j = s_j (w_j^\top f + b_j) + c_j`. Dropout with rate p on the last features f makes the logit of class j
differ from that of the decided class ŷ by a Gaussian (row by row, as in
:func:`equipoise.uncertainty.sample_level.dropout_error_moments`) of

.. math:: \mu_j = z_j - z_{\hat y}, \qquad
          \sigma_j^2 = \frac{p}{1 - p} \sum_d (s_j w_j - s_{\hat y} w_{\hat y})_d^2 \, f_d^2 .

The softmax of such logits is on average close to that of :math:`\mu_j / \sqrt{1 + \pi \sigma_j^2 / 8}` (MacKay 1992;
for two classes this is his formula), here :math:`\bar p`. A sample's uncertainty is the variance of the label so
decided, :math:`\sum_c \bar p_c (1 - \bar p_c)`: two matrix products beside the prediction itself, alike for a row in
whatever batch it comes, and plain enough for an ONNX graph. Dropout between the hidden layers is not in it. The
estimator, runs, reports and exported graphs all use this one definition.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions.answer_module import AnswerModule
from equipoise.decisions.chosen_rule import Chosen
from equipoise.losses import ClassVectorLoss
from equipoise.training import Network


class Prediction(NamedTuple):
    """Probabilities, uncertainty and class of each row."""

    probabilities: Tensor  # (batch, classes), or of each attribute being 1, (batch, attributes)
    uncertainty: Tensor  # (batch,), summed over the attributes where there are several
    predicted: Tensor  # the class's place, (batch,), or 0 and 1, (batch, attributes)


class PredictionModule(nn.Module):
    """x -> :class:`Prediction`.

    Args:
        network: trained, in evaluation mode.
        calibrated: from logits to probabilities and decisions.
        extractor: gives the network its input, a frozen backbone in evaluation mode; None where x is that input.
        target_prior: the class prior where the model is used, for both probabilities and decision. None gives
            probabilities at the training samples' prior, and decides at the one which the logits are aimed at.
        chosen: a rule that decides instead; the uncertainty stays that of the decision without it.
    """

    scale: Tensor
    offset: Tensor
    natural: Tensor

    def __init__(
        self,
        network: Network,
        calibrated: Calibrated,
        *,
        extractor: nn.Module | None = None,
        target_prior: ArrayLike | None = None,
        chosen: Chosen | None = None,
    ) -> None:
        super().__init__()
        self.network, self.extractor = network, extractor
        kind = network.head.weight.dtype
        zero = torch.zeros(tuple(calibrated.prior.shape), dtype=torch.float64)
        self.register_buffer("scale", calibrated.scaling.scale.to(kind))
        self.register_buffer("offset", calibrated.decision(zero, target_prior).to(kind))
        self.register_buffer("natural", calibrated.scaling(zero, calibrated.odds(target_prior)).to(kind))
        self.answers = None
        if chosen is not None and not chosen.policy.as_aimed:
            self.answers = AnswerModule(chosen, calibrated.prior.numpy())
        self.training = False  # the flag only: leave the network's modes alone

    def forward(self, x: Tensor) -> Prediction:
        logits, uncertainty = self.logits_and_uncertainty(x)
        probabilities = (logits * self.scale + self.natural).softmax(-1)
        own = probabilities[..., 1] if self.network.head.multilabel else probabilities
        if self.answers is not None:
            exact = (logits.double() * self.scale.double() + self.natural.double()).softmax(-1)
            return Prediction(own, uncertainty, self.answers(exact))
        return Prediction(own, uncertainty, (logits * self.scale + self.offset).argmax(-1))

    def logits_and_uncertainty(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the network's logits, (batch, classes) or (batch, attributes, 2), and the uncertainty, (batch,)."""
        if self.extractor is not None:
            x = self.extractor(x)
        features, head = self.network.backbone(x), self.network.head
        logits = head.logits(features)
        decision = logits * self.scale + self.offset
        mean = mean_probabilities(decision, error_variance(head, features, decision.argmax(-1), self.scale))
        return logits, (mean * (1 - mean)).flatten(1).sum(-1)


def mean_probabilities(logits: Tensor, variance: Tensor) -> Tensor:
    """Average the softmax over Gaussian differences to the largest logit: both (batch, [attributes,] classes)."""
    gap = logits - logits.amax(-1, keepdim=True)
    mean: Tensor = (gap / (1 + math.pi / 8 * variance).sqrt()).softmax(-1)
    return mean


def error_variance(head: ClassVectorLoss, features: Tensor, decided: Tensor, scale: Tensor) -> Tensor:
    """Return σ_j² against the decided class: (batch, classes), or (batch, attributes, 2).

    It is ``dropout_error_variance`` without its checks and parts, which an ONNX graph cannot hold.

    Args:
        features: (batch, D).
        decided: places, (batch,), or 0 and 1, (batch, attributes).
        scale: s_j, (classes,) or (attributes, 2).
    """
    rate: float = head.dropout.p
    features = head.met_features(features)
    spread = features.square() * (rate / (1 - rate))  # Var[f_d], (batch, D)
    vectors = head.class_vectors(features.dtype) * scale.reshape(-1, 1)
    if head.multilabel:
        pairs = vectors.unflatten(0, (head.classes, 2))
        single: Tensor = spread @ (pairs[:, 1] - pairs[:, 0]).square().T  # one rival per attribute, (batch, attributes)
        return single.unsqueeze(-1) * (1 - F.one_hot(decided, 2).to(single.dtype))
    own = vectors[decided]  # s_ŷ w_ŷ, (batch, D)
    variance: Tensor = spread @ vectors.square().T - 2 * (spread * own) @ vectors.T
    return (variance + (spread * own.square()).sum(-1, keepdim=True)).clamp_min(0)
