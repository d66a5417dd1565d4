"""Metrics that follow from what :func:`~equipoise.evaluation.scores.scores` counted, by name."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.evaluation.scores import Scores


def worst_recall(found: "Scores") -> float:
    """Return the recall of the class that is found least, which the mean hides."""
    return min((recall for recall in found.recall.each if not math.isnan(recall)), default=math.nan)


METRICS: dict[str, Callable[["Scores"], float]] = {"worst_recall": worst_recall}
"""A new metric is a function of the scores and a line here; every run, comparison and table then holds it."""
