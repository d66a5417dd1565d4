"""Methods side by side on one data set: the same splits and tuning budget for each, the same network for losses."""

from equipoise.app.compare.advice import Advice, recommend
from equipoise.app.compare.classifiers import PriorShift
from equipoise.app.compare.comparison import Comparison, compare
from equipoise.app.compare.deadline import OutOfTimeError
from equipoise.app.compare.fit_store import CannotRunError, Fit, ResultStore
from equipoise.app.compare.leaderboard import Interval, Place, Ranking, paired_interval, rank
from equipoise.app.compare.method import Method
from equipoise.app.compare.methods import METHODS
from equipoise.app.compare.networks import FitOptions
from equipoise.app.compare.runner import run_fits
from equipoise.app.compare.single_fit import FitOutcome, fit_tuned

__all__ = [
    "METHODS",
    "Advice",
    "CannotRunError",
    "Comparison",
    "Fit",
    "FitOptions",
    "FitOutcome",
    "Interval",
    "Method",
    "OutOfTimeError",
    "Place",
    "PriorShift",
    "Ranking",
    "ResultStore",
    "compare",
    "fit_tuned",
    "paired_interval",
    "rank",
    "recommend",
    "run_fits",
]
