"""Stochastic passes, their moments, and the class and sample uncertainties that follow."""

from equipoise.uncertainty.class_level import ClassMoments, class_uncertainty
from equipoise.uncertainty.dropout import DROPOUT_TYPES, mc_dropout
from equipoise.uncertainty.margins import margins_from_uncertainty
from equipoise.uncertainty.output_covariance import model_precision, predictive_covariance
from equipoise.uncertainty.sample_level import (
    ErrorMoments,
    dropout_error_moments,
    dropout_error_variance,
    error_moments,
    misclassification_probability,
    strongest_rival,
)

__all__ = [
    "DROPOUT_TYPES",
    "ClassMoments",
    "ErrorMoments",
    "class_uncertainty",
    "dropout_error_moments",
    "dropout_error_variance",
    "error_moments",
    "margins_from_uncertainty",
    "mc_dropout",
    "misclassification_probability",
    "model_precision",
    "predictive_covariance",
    "strongest_rival",
]
