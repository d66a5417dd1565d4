"""Metrics that follow from what :func:`~equipoise.evaluation.scores.scores` counted, by name."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.evaluation.score_record import Scores, Spread


def worst_recall(found: "Scores") -> float:
    """Return the recall of the class that is found least, which the mean hides."""
    return min((recall for recall in found.recall.each if not math.isnan(recall)), default=math.nan)


def macro_average_precision(found: "Scores") -> float:
    """Return the mean of the classes' average precision, each against the rest; of two classes the rarer one's alone.

    With two classes the common one's is close to 1 whatever is predicted. Of two equally common ones it is the last.
    NaN without probabilities; with more classes, one without samples does not count.
    """
    return _of_rarer(found, found.average_precision)


def precision_at_k(found: "Scores") -> float:
    """Return the precision among the k samples ranked first; mean over the classes, of two the rarer one's alone."""
    return math.nan if found.top is None else _of_rarer(found, found.top.precision)


def recall_at_k(found: "Scores") -> float:
    """Return the share of a class among the k samples ranked first for it; a mean as for ``precision_at_k``."""
    return math.nan if found.top is None else _of_rarer(found, found.top.recall)


def lift_at_k(found: "Scores") -> float:
    """Return how many times more common a class is among the k samples ranked first than among all; a mean likewise."""
    return math.nan if found.top is None else _of_rarer(found, found.top.lift)


def brier(found: "Scores") -> float:
    """Return the mean squared error of the probabilities; NaN without them."""
    return math.nan if found.calibration is None else found.calibration.brier


def log_loss(found: "Scores") -> float:
    """Return the mean of −ln p of what is true; NaN without probabilities."""
    return math.nan if found.calibration is None else found.calibration.log_loss


def _of_rarer(found: "Scores", values: "Spread | None") -> float:
    """Return the mean over the classes; of two classes the rarer one's value, of equally common ones the last one's."""
    if values is None:
        return math.nan
    if found.multilabel or len(found.classes) != 2:
        return values.mean
    first, last = found.support
    return values.each[0 if first < last else 1]


METRICS: dict[str, Callable[["Scores"], float]] = {
    "worst_recall": worst_recall,
    "macro_average_precision": macro_average_precision,
    "precision_at_k": precision_at_k,
    "recall_at_k": recall_at_k,
    "lift_at_k": lift_at_k,
    "brier": brier,
    "log_loss": log_loss,
}
"""A new metric is a function of the scores and a line here; every run, comparison and table then holds it."""
