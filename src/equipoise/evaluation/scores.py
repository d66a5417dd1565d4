"""Scores of predictions by class: the paper's metrics, calibration, and the recall of rare classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.calibration.reliability import calibration
from equipoise.data.labels import label_array, label_places
from equipoise.data.summary import GROUPS, class_groups
from equipoise.errors import InvalidInputError
from equipoise.evaluation.bootstrap import bootstrap_intervals
from equipoise.evaluation.class_metrics import Scores, scored
from equipoise.evaluation.intervals import known_mean
from equipoise.evaluation.tally import Answers, Tally, tally

CONFUSION_CLASSES = 1000
"""Most classes with a confusion matrix."""
TOP_SHARE = 0.1
"""Share of the samples ranked first for a class: the default k of precision, recall and lift at k."""


def scores(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    classes: Sequence[Any] | NDArray[Any] | None = None,
    train_counts: ArrayLike | None = None,
    k: int | None = None,
    costs: ArrayLike | None = None,
    intervals: bool = False,
) -> Scores:
    """Score predicted labels, or a 0/1 matrix for several attributes.

    Args:
        y_true, y_pred: true and predicted labels, (samples,), or 0 and 1, (samples, attributes).
        probabilities: (samples, classes) in the order of ``classes``; with attributes, of a 1, (samples, attributes).
        classes: all classes, (classes,); None takes those that occur, sorted.
        train_counts: training samples of each class, or positives of each attribute, (classes,), for ``group_recall``.
        k: number of samples ranked first for ``top``; None takes a tenth of them.
        costs: cost of each prediction, true classes in rows and predicted ones in columns, (classes, classes); with
            attributes, whose costs add up, (attributes, 2, 2).
        intervals: whether to also score up to 1,000 resamples, for ``intervals``; deterministic.

    >>> found = scores(["a", "a", "b"], ["a", "b", "b"])
    >>> found.accuracy, found.balanced_accuracy, found.recall.each
    (0.666..., 0.75, (0.5, 1.0))
    """
    true, predicted = label_array(y_true, "y_true"), label_array(y_pred, "y_pred")
    if true.shape != predicted.shape:
        raise InvalidInputError(
            f"y_true and y_pred must be labels of the same samples, got shapes {true.shape} and {predicted.shape}."
        )
    t, p, names = _numbered(true, predicted, classes)
    several, size, samples = true.ndim == 2, len(names), len(t)
    measured = None if probabilities is None else calibration(probabilities, t, p, size)
    given = None if probabilities is None else np.asarray(probabilities, dtype=np.float64)
    if k is not None and not 1 <= k <= samples:
        raise InvalidInputError(f"k must be a whole number from 1 to the {samples} samples, got {k!r}.")
    top = max(1, round(TOP_SHARE * samples)) if k is None else int(k)
    answers = Answers(t, p, size, given, top, _checked_costs(costs, size, several))
    sums = tally(answers)
    found = scored(answers, sums, tuple(names.tolist()), measured)[0]
    recall = np.array(found.recall.each)
    groups = {} if train_counts is None else _group_recall(recall, train_counts)
    found = replace(found, group_recall=groups, confusion=_confusion(answers, sums))
    return replace(found, intervals=bootstrap_intervals(answers, scored)) if intervals else found


def _confusion(answers: Answers, sums: Tally) -> tuple[Any, ...] | None:
    size, samples = answers.size, sums.samples
    if answers.several:
        hits, real, guessed = sums.hits[0], sums.real[0], sums.named[0]
        table = [samples - real - guessed + hits, guessed - hits, real - hits, hits]
        return tuple(np.stack(table, axis=1).reshape(-1, 2, 2).tolist())
    if size > CONFUSION_CLASSES:
        return None
    counts = np.bincount(answers.true * size + answers.predicted, minlength=size * size)
    return tuple(counts.reshape(size, size).tolist())


def _checked_costs(costs: ArrayLike | None, size: int, several: bool) -> NDArray[np.float64] | None:
    if costs is None:
        return None
    found = np.asarray(costs, dtype=np.float64)
    shape = (size, 2, 2) if several else (size, size)
    if found.shape != shape or not np.isfinite(found).all():
        raise InvalidInputError(
            f"costs must be finite numbers of shape {shape}, the true class by the predicted one, got {found.shape}."
        )
    return found


def _numbered(
    true: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any] | NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return labels as indices among the classes, in any order, or as 0 and 1; and the names."""
    if true.ndim == 2:
        names = np.arange(true.shape[1]) if classes is None else np.array(list(classes), dtype=object)
        if len(names) != true.shape[1]:
            raise InvalidInputError(f"classes must name the {true.shape[1]} attributes, got {len(names)} names.")
        return true.astype(np.intp), predicted.astype(np.intp), names
    names = np.unique(np.concatenate([true, predicted])) if classes is None else label_array(classes, "classes")
    once = "it must name every class once, as the labels do."
    if len(set(names.tolist())) < len(names):
        raise InvalidInputError(f"classes has a class twice; {once}")
    t, p = (label_places(labels, names) for labels in (true, predicted))
    for labels, places, what in ((true, t, "y_true"), (predicted, p, "y_pred")):
        if (places < 0).any():
            raise InvalidInputError(f"classes lacks the label {labels[places < 0][0]!r} of {what}; {once}")
    return t, p, names


def _group_recall(recall: NDArray[np.float64], train_counts: ArrayLike) -> dict[str, float]:
    counts = np.asarray(train_counts)
    if counts.shape != recall.shape:
        raise InvalidInputError(
            f"train_counts must be one number for each of {len(recall)} classes, got {counts.size}."
        )
    groups = np.array(class_groups(counts))
    means = {name: known_mean(recall[groups == name]) for name in GROUPS}
    return {name: mean for name, mean in means.items() if not np.isnan(mean)}
