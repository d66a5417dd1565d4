"""Contestants side by side: the same network, splits, epochs and tuning budget for each."""

from equipoise.compare.cells import Cell, CellStore
from equipoise.compare.deadline import OutOfTimeError
from equipoise.compare.methods import METHODS, Method
from equipoise.compare.network import CannotRunError, FitOptions, Predicted
from equipoise.compare.ranking import Interval, Place, Ranking, paired_interval, rank
from equipoise.compare.recommendation import recommend
from equipoise.compare.running import run_cells
from equipoise.compare.tuning import Tuned, fit_tuned
from equipoise.compare.user import Comparison, compare

__all__ = [
    "METHODS",
    "CannotRunError",
    "Cell",
    "CellStore",
    "Comparison",
    "FitOptions",
    "Interval",
    "Method",
    "OutOfTimeError",
    "Place",
    "Predicted",
    "Ranking",
    "Tuned",
    "compare",
    "fit_tuned",
    "paired_interval",
    "rank",
    "recommend",
    "run_cells",
]
