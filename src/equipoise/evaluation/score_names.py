"""Scores by name: what people read, and where ``Scores.as_dict`` holds them."""

from collections.abc import Mapping
from typing import Any

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


def score_at(scores: Any, name: str) -> Any:
    """Return a score of ``Scores.as_dict``, or its interval; None where there is none.

    >>> found = {"f1": {"mean": 0.5, "deviation": 0.1}, "brier": 0.2}
    >>> score_at(found, "f1"), score_at(found, "f1.deviation"), score_at(found, "auc")
    (0.5, 0.1, None)
    """
    for part in name.split("."):
        scores = scores.get(part) if isinstance(scores, Mapping) else None
    return scores.get("mean") if isinstance(scores, Mapping) else scores
