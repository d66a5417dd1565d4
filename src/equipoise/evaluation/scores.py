"""How good predictions are, class by class: the paper's metrics, calibration, and the rare classes apart."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.calibration.reliability import Calibration, calibration
from equipoise.data.summary import GROUPS, class_groups
from equipoise.errors import InvalidInputError
from equipoise.evaluation.derived_metrics import METRICS
from equipoise.evaluation.intervals import ratio

IBA_WEIGHT = 0.1
"""α of the index of balanced accuracy, as in imbalanced-learn."""
CONFUSION_CLASSES = 1000
"""Of more classes no confusion matrix is kept."""
RANKED_CLASSES = 1000
"""Of more classes no ranking is measured: each needs all samples sorted anew."""


@dataclass(frozen=True)
class Spread:
    """A metric of each class, with mean and standard deviation over the classes (dividing by their number).

    Args:
        mean, deviation: over the classes that the metric is defined for.
        each: one value a class; NaN for a class that it is not defined for: one without samples.
    """

    mean: float
    deviation: float
    each: tuple[float, ...]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "Spread":
        """Return mean and deviation of what is defined among the classes' ``values``, (classes,)."""
        known = values[~np.isnan(values)]
        if len(known) == 0:
            return cls(float("nan"), float("nan"), tuple(values.tolist()))
        return cls(float(known.mean()), float(known.std()), tuple(values.tolist()))


@dataclass(frozen=True)
class Scores:
    """Scores of predictions, by :func:`scores`.

    Args:
        multilabel, samples: whether a sample has several labels, and how many samples there are.
        classes: the classes, or the attributes' numbers, in the order of every ``each``.
        support: samples of each class, or positives of each attribute.
        accuracy: share of right answers; with attributes, of all answers.
        balanced_accuracy: mean recall of the classes; with attributes their mean BCA.
        exact_match: share of samples with all attributes right; None for classes.
        precision, recall, f1: of each class against the rest; of an attribute's 1. Precision is 0 for a class that is
            never predicted, F1 for one never predicted rightly.
        g_mean: √(recall · specificity) of each class.
        iba: the index of balanced accuracy (1 + 0.1 (recall − specificity)) · recall · specificity.
        bca: balanced classification accuracy ½ (recall + specificity).
        auc, average_precision: how well each class's probability ranks its samples before the others, see
            :func:`~equipoise.evaluation.scores.ranking`; None without probabilities.
        recall_product: geometric mean of the classes' recalls; 0 once a class is never found.
        group_recall: mean recall of the classes with many, medium and few (``rare``) training samples.
        confusion: rows the true, columns the predicted class; 2 × 2 an attribute; None beyond 1,000 classes.
        calibration: of the probabilities; None without them.
    """

    multilabel: bool
    samples: int
    classes: tuple[Any, ...]
    support: tuple[int, ...]
    accuracy: float
    balanced_accuracy: float
    exact_match: float | None
    precision: Spread
    recall: Spread
    f1: Spread
    g_mean: Spread
    iba: Spread
    bca: Spread
    auc: Spread | None
    average_precision: Spread | None
    recall_product: float
    group_recall: dict[str, float]
    confusion: tuple[Any, ...] | None
    calibration: Calibration | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a JSON file, those of ``METRICS`` among them; what is not defined is None."""
        found: dict[str, Any] = _plain(asdict(self) | {name: metric(self) for name, metric in METRICS.items()})
        return found


def scores(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    classes: Sequence[Any] | NDArray[Any] | None = None,
    train_counts: ArrayLike | None = None,
) -> Scores:
    """Score predicted labels (samples,) or a 0/1 matrix (samples, attributes).

    Args:
        y_true, y_pred: true and predicted labels, or 0 and 1.
        probabilities: (samples, classes) in the order of ``classes``; of a 1 with attributes, (samples, attributes).
        classes: all classes; None takes those that occur, sorted.
        train_counts: training samples of each class (or positives of each attribute), for ``group_recall``.

    >>> found = scores(["a", "a", "b"], ["a", "b", "b"])
    >>> found.accuracy, found.balanced_accuracy, found.recall.each
    (0.666..., 0.75, (0.5, 1.0))
    """
    true, predicted = (_typed(labels) for labels in (y_true, y_pred))
    if true.shape != predicted.shape or true.ndim not in (1, 2) or true.size == 0:
        raise InvalidInputError(
            f"y_true and y_pred must be labels of the same samples, got shapes {true.shape} and {predicted.shape}."
        )
    several = true.ndim == 2
    t, p, names = _attributes(true, predicted, classes) if several else _places(true, predicted, classes)
    size, samples = len(names), len(t)
    hits, real, guessed = prediction_counts(t, p, size)
    confusion: NDArray[Any] | None = None
    if several:
        table = [samples - real - guessed + hits, guessed - hits, real - hits, hits]
        confusion = np.stack(table, axis=1).reshape(-1, 2, 2)
    elif size <= CONFUSION_CLASSES:
        confusion = np.bincount(t * size + p, minlength=size * size).reshape(size, size)
    recall = ratio(hits, real)
    specificity = ratio(samples - real - guessed + hits, samples - real)
    bca, seen = Spread.of((recall + specificity) / 2), recall[real > 0]
    measured = auc = average_precision = None
    if probabilities is not None:
        measured = calibration(probabilities, t, p, size)
        auc, average_precision = map(Spread.of, ranking(np.asarray(probabilities, dtype=np.float64), t))
    return Scores(
        multilabel=several,
        samples=samples,
        classes=tuple(names.tolist()),
        support=tuple(real.tolist()),
        accuracy=float((t == p).mean()),
        balanced_accuracy=bca.mean if several else float(np.nanmean(recall)),
        exact_match=float((t == p).all(1).mean()) if several else None,
        precision=Spread.of(np.where(real > 0, ratio(hits, guessed, empty=0.0), np.nan)),
        recall=Spread.of(recall),
        f1=Spread.of(np.where(real > 0, ratio(2 * hits, real + guessed, empty=0.0), np.nan)),
        g_mean=Spread.of(np.sqrt(recall * specificity)),
        iba=Spread.of((1 + IBA_WEIGHT * (recall - specificity)) * recall * specificity),
        bca=bca,
        auc=auc,
        average_precision=average_precision,
        recall_product=float(np.prod(seen ** (1 / max(len(seen), 1)))) if len(seen) else float("nan"),
        group_recall={} if train_counts is None else _group_recall(recall, train_counts),
        confusion=None if confusion is None else tuple(confusion.tolist()),
        calibration=measured,
    )


def prediction_counts(
    true: NDArray[Any], predicted: NDArray[Any], size: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Count right predictions, samples and predictions of each class; of attributes their ones: (classes,) each."""
    if true.ndim == 2:
        return (true * predicted).sum(0), true.sum(0), predicted.sum(0)
    hits, support, named = (np.bincount(part, minlength=size) for part in (true[true == predicted], true, predicted))
    return hits, support, named


def ranking(probabilities: NDArray[Any], true: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return AUC and average precision of each class against the rest; NaN for a class of none or all of the samples.

    A random order has an AUC of 0.5, and an average precision of the class's share of the samples.

    Args:
        probabilities: (samples, classes), of each class; with attributes, of a 1, (samples, attributes).
        true: places in the classes, (samples,); with attributes 0/1, (samples, attributes).

    >>> auc, precision = ranking(np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 0, 1, 1]))
    >>> auc.tolist(), precision.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    size = probabilities.shape[1]
    area, precision = np.full(size, np.nan), np.full(size, np.nan)
    if size > RANKED_CLASSES or not np.isfinite(probabilities).all():
        return area, precision
    for place in range(size):
        own = true[:, place] == 1 if true.ndim == 2 else true == place
        if own.any() and not own.all():
            area[place], precision[place] = _ranking_of(own, probabilities[:, place])
    return area, precision


def _ranking_of(own: NDArray[np.bool_], probability: NDArray[Any]) -> tuple[float, float]:
    """Step down through the probabilities; equal ones are one step."""
    order = np.argsort(-probability, kind="stable")
    steps = np.flatnonzero(np.append(np.diff(probability[order]) != 0, True))
    found = own[order].cumsum()[steps]
    alarms = steps + 1 - found
    new, new_alarms = np.diff(found, prepend=0), np.diff(alarms, prepend=0)
    area = float((new_alarms * (found - new / 2)).sum() / (found[-1] * alarms[-1]))
    return area, float((new * found / (steps + 1)).sum() / found[-1])


def _typed(labels: ArrayLike) -> NDArray[Any]:
    """Return an array; strings as strings, which a data frame gives as objects."""
    values = np.asarray(labels)
    return np.asarray(values.tolist()) if values.dtype == object else values


def _attributes(
    true: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any] | NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Check matrices of 0 and 1, and return them with the attributes' names."""
    for labels, name in ((true, "y_true"), (predicted, "y_pred")):
        if not bool(np.isin(labels, (0, 1)).all()):
            raise InvalidInputError(f"{name} must hold 0 and 1 only when it is a matrix.")
    names = np.arange(true.shape[1]) if classes is None else np.array(list(classes), dtype=object)
    if len(names) != true.shape[1]:
        raise InvalidInputError(f"classes must name the {true.shape[1]} attributes, got {len(names)} names.")
    return true.astype(np.intp), predicted.astype(np.intp), names


def _places(
    true: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any] | NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Return labels as places among the classes, which may stand in any order, and the classes."""
    names = np.unique(np.concatenate([true, predicted])) if classes is None else _typed(classes)
    order = np.argsort(names, kind="stable")
    ordered, found = names[order], []
    for labels, what in ((true, "y_true"), (predicted, "y_pred")):
        comparable = (labels.dtype.kind in "US") == (names.dtype.kind in "US")
        place = np.searchsorted(ordered, labels).clip(max=len(names) - 1) if comparable else np.zeros(len(labels), int)
        right = ordered[place] == labels if comparable else np.zeros(len(labels), dtype=bool)
        if not right.all() or bool((ordered[1:] == ordered[:-1]).any()):
            wrong = "has a class twice" if right.all() else f"lacks the label {labels[~right][0]!r} of {what}"
            raise InvalidInputError(f"classes {wrong}; it must name every class once, as the labels do.")
        found.append(np.asarray(order[place], dtype=np.intp))
    return found[0], found[1], names


def _group_recall(recall: NDArray[np.float64], train_counts: ArrayLike) -> dict[str, float]:
    counts = np.asarray(train_counts)
    if counts.shape != recall.shape:
        raise InvalidInputError(
            f"train_counts must be one number for each of {len(recall)} classes, got {counts.size}."
        )
    groups = np.array(class_groups(counts))
    means: dict[str, float] = {}
    for name in GROUPS:
        known = recall[(groups == name) & ~np.isnan(recall)]
        if len(known):
            means[name] = float(known.mean())
    return means


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
