"""Probabilities that mean what they say, at any class prior, and sets of classes that keep their promise."""

from equipoise.calibration.class_prior import estimate_prior, move_prior
from equipoise.calibration.conformal import ClassThresholds
from equipoise.calibration.reliability import Calibration

__all__ = ["Calibration", "ClassThresholds", "estimate_prior", "move_prior"]
