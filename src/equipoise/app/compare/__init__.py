"""Contestants side by side: the same network, splits, epochs and tuning budget for each."""

from equipoise.app.compare.advice import recommend
from equipoise.app.compare.comparison import Comparison, compare
from equipoise.app.compare.deadline import OutOfTimeError
from equipoise.app.compare.methods import METHODS, Method
from equipoise.app.compare.network import CannotRunError, FitOptions, Predicted
from equipoise.app.compare.ranking import Interval, Place, Ranking, paired_interval, rank
from equipoise.app.compare.results import Cell, CellStore
from equipoise.app.compare.runner import run_cells
from equipoise.app.compare.tuning import Tuned, fit_tuned

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
