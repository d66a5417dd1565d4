"""Calibrated probabilities at any class prior, and prediction sets with guaranteed coverage."""

from equipoise.calibration.class_prior import estimate_prior, move_prior
from equipoise.calibration.conformal import ClassThresholds
from equipoise.calibration.reliability import Calibration

__all__ = ["Calibration", "ClassThresholds", "estimate_prior", "move_prior"]
