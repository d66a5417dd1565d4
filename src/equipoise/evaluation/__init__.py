"""What predictions are worth: the class mix they are aimed at."""

from equipoise.evaluation.prior import move_prior

__all__ = ["move_prior"]
