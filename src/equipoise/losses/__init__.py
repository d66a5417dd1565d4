"""Losses as heads: features in, a scalar out."""

from equipoise.losses.added_margin import CosineMarginLoss, feature_scale, ldam_margins
from equipoise.losses.class_vector_loss import ClassVectorLoss
from equipoise.losses.class_weights import effective_number_weights, inverse_frequency_weights
from equipoise.losses.cosen import CoSenLoss
from equipoise.losses.logit_losses import LogitLoss, adjust_logits
from equipoise.losses.psi import psi, shifted_cosine
from equipoise.losses.registry import LOSSES
from equipoise.losses.uncertainty_margin import UncertaintyMarginLoss

__all__ = [
    "LOSSES",
    "ClassVectorLoss",
    "CoSenLoss",
    "CosineMarginLoss",
    "LogitLoss",
    "UncertaintyMarginLoss",
    "adjust_logits",
    "effective_number_weights",
    "feature_scale",
    "inverse_frequency_weights",
    "ldam_margins",
    "psi",
    "shifted_cosine",
]
