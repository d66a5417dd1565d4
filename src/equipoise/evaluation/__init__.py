"""What predictions are worth: scores class by class, and the class mix they are aimed at."""

from equipoise.evaluation.calibration import Calibration
from equipoise.evaluation.prior import move_prior
from equipoise.evaluation.scores import Scores, Spread, scores

__all__ = ["Calibration", "Scores", "Spread", "move_prior", "scores"]
