"""Contestants side by side: the same network, splits, epochs and tuning budget for each."""

from equipoise.app.compare.comparison import Comparison, compare
from equipoise.app.compare.deadline import OutOfTimeError
from equipoise.app.compare.leaderboard import Interval, Place, Ranking, paired_interval, rank, recommend
from equipoise.app.compare.methods import METHODS, Method
from equipoise.app.compare.network import CannotRunError, FitOptions, Predicted
from equipoise.app.compare.results import Fit, ResultStore
from equipoise.app.compare.runner import run_fits
from equipoise.app.compare.tuning import Tuned, fit_tuned

__all__ = [
    "METHODS",
    "CannotRunError",
    "Comparison",
    "Fit",
    "FitOptions",
    "Interval",
    "Method",
    "OutOfTimeError",
    "Place",
    "Predicted",
    "Ranking",
    "ResultStore",
    "Tuned",
    "compare",
    "fit_tuned",
    "paired_interval",
    "rank",
    "recommend",
    "run_fits",
]
