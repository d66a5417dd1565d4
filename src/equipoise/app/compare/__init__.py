"""Methods side by side on one data set: the same network, splits, epochs and tuning budget for each."""

from equipoise.app.compare.comparison import Comparison, compare
from equipoise.app.compare.deadline import OutOfTimeError
from equipoise.app.compare.leaderboard import Interval, Place, Ranking, paired_interval, rank, recommend
from equipoise.app.compare.methods import METHODS, FitOptions, Method
from equipoise.app.compare.results import CannotRunError, Fit, ResultStore
from equipoise.app.compare.runner import run_fits
from equipoise.app.compare.single_fit import FitOutcome, fit_tuned

__all__ = [
    "METHODS",
    "CannotRunError",
    "Comparison",
    "Fit",
    "FitOptions",
    "FitOutcome",
    "Interval",
    "Method",
    "OutOfTimeError",
    "Place",
    "Ranking",
    "ResultStore",
    "compare",
    "fit_tuned",
    "paired_interval",
    "rank",
    "recommend",
    "run_fits",
]
