"""``METRICS``: metrics by name, computed from the scores; those of each class are in :mod:`.class_metrics`."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.evaluation.class_metrics import Scores, Spread

SCORE_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "macro F1",
    "g_mean": "G-mean",
    "matthews": "Matthews",
    "auc": "AUC",
    "micro_auc": "AUC, micro",
    "macro_average_precision": "average precision",
    "micro_average_precision": "average precision, micro",
    "precision_at_k": "precision at k",
    "recall_at_k": "recall at k",
    "lift_at_k": "lift at k",
    "brier": "Brier score",
    "log_loss": "log loss",
    "expected_cost": "expected cost",
    "calibration.ece": "calibration error",
}
"""Scores of all classes together, as :func:`score_at` takes them, and their names in tables."""


def worst_recall(found: "Scores") -> float:
    """Return the lowest recall of any class, which the mean hides."""
    return min((recall for recall in found.recall.each if not math.isnan(recall)), default=math.nan)


def macro_average_precision(found: "Scores") -> float:
    """Return the mean of the classes' average precisions, each against the rest; with two classes, the rarer one's.

    With two classes, the common one's is close to 1 whatever is predicted. If both are equally common, it is the last
    one's. NaN without probabilities; with more classes, those without samples do not count.
    """
    return _of_rarer(found, found.average_precision)


def at_k(name: str, found: "Scores") -> float:
    """Return a field of ``Scores.top`` by its ``name``; mean over the classes, with two the rarer one's."""
    return math.nan if found.top is None else _of_rarer(found, getattr(found.top, name))


def of_probabilities(name: str, found: "Scores") -> float:
    """Return a field of ``Scores.calibration`` by its ``name``; NaN without probabilities."""
    return math.nan if found.calibration is None else float(getattr(found.calibration, name))


def _of_rarer(found: "Scores", values: "Spread | None") -> float:
    """Return the mean over the classes; with two classes the rarer one's value, or the last one's if equally common."""
    if values is None:
        return math.nan
    if found.multilabel or len(found.classes) != 2:
        return values.mean
    first, last = found.support
    return values.each[0 if first < last else 1]


def score_at(scores: Any, name: str) -> Any:
    """Return a score of ``Scores.as_dict``, or its interval; None where there is none.

    >>> found = {"f1": {"mean": 0.5, "deviation": 0.1}, "brier": 0.2}
    >>> score_at(found, "f1"), score_at(found, "f1.deviation"), score_at(found, "auc")
    (0.5, 0.1, None)
    """
    for part in name.split("."):
        scores = scores.get(part) if isinstance(scores, Mapping) else None
    return scores.get("mean") if isinstance(scores, Mapping) else scores


METRICS: dict[str, Callable[["Scores"], float]] = {
    "worst_recall": worst_recall,
    "macro_average_precision": macro_average_precision,
    "precision_at_k": partial(at_k, "precision"),
    "recall_at_k": partial(at_k, "recall"),
    "lift_at_k": partial(at_k, "lift"),
    "brier": partial(of_probabilities, "brier"),
    "log_loss": partial(of_probabilities, "log_loss"),
}
"""Metrics by name. To add one, write a function of the scores and a line here; runs and tables then include it."""
