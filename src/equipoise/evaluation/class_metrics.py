"""Precision, recall, F1, G-mean, IBA and BCA of each class, and the record of all scores."""

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.calibration.reliability import Calibration
from equipoise.evaluation.intervals import ratio
from equipoise.evaluation.metrics import METRICS
from equipoise.evaluation.tally import Answers, Tally

IBA_WEIGHT = 0.1
"""α of the index of balanced accuracy, as in imbalanced-learn."""


@dataclass(frozen=True)
class Spread:
    """A metric of each class, with mean and standard deviation over the classes (dividing by their number).

    Args:
        mean, deviation: over the classes that the metric is defined for.
        each: one value per class; NaN for a class without samples, where it is undefined.
    """

    mean: float
    deviation: float
    each: tuple[float, ...]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "Spread":
        """Return mean and deviation of the defined entries of ``values``, (classes,)."""
        return _spreads(values[None])[0]


@dataclass(frozen=True)
class Top:
    """The k samples ranked first for each class; ties count as if drawn at random.

    Args:
        k: number of samples; by default a tenth of them, at least 1.
        precision: share of them that belong to the class.
        recall: share of the class that is among them.
        lift: ``precision`` over the class's share of all samples; 1 for a random order.
    """

    k: int
    precision: Spread
    recall: Spread
    lift: Spread


@dataclass(frozen=True)
class Scores:
    """Scores of predictions, by :func:`scores`.

    Args:
        multilabel, samples: whether a sample has several labels, and the number of samples.
        classes: the classes, or the attributes' numbers, in the order of every ``each``.
        support: samples of each class, or positives of each attribute.
        accuracy: share of correct predictions; with attributes, over all attributes.
        balanced_accuracy: mean recall of the classes; with attributes their mean BCA.
        exact_match: share of samples with all attributes right; None for classes.
        precision, recall, f1: of each class against the rest; of an attribute's 1. Precision is 0 for a class that is
            never predicted, F1 for one never predicted correctly.
        g_mean: √(recall · specificity) of each class.
        iba: the index of balanced accuracy (1 + 0.1 (recall − specificity)) · recall · specificity.
        bca: balanced classification accuracy ½ (recall + specificity).
        auc, average_precision: how well each class's probability ranks its samples before the others, see
            :func:`~equipoise.evaluation.ranking.ranking`; None without probabilities.
        micro_auc, micro_average_precision: over all pairs of a sample and a class ranked together; None without
            probabilities.
        top: precision, recall and lift among the k samples ranked first; None without probabilities.
        matthews: Matthews correlation of labels and predictions, from −1 to 1, and 0 for constant predictions; with
            attributes their mean.
        expected_cost: mean cost of a prediction; None without costs.
        recall_product: geometric mean of the classes' recalls; 0 once a class is never found.
        group_recall: mean recall of the ``common``, ``medium`` and ``rare`` classes, grouped by training samples.
        confusion: true classes in rows, predicted ones in columns; 2 × 2 per attribute; None beyond 1,000 classes.
        calibration: of the probabilities; None without them.
        intervals: 95 % bootstrap intervals by name, each [low, high], or {"mean", "each"} for a metric by class; None
            if not requested. Classes keep their counts in all resamples, so intervals show what other samples of the
            same classes would give. With fewer than about ten samples of a class they are too narrow.
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
    micro_auc: float | None
    micro_average_precision: float | None
    top: Top | None
    matthews: float
    expected_cost: float | None
    recall_product: float
    group_recall: dict[str, float]
    confusion: tuple[Any, ...] | None
    calibration: Calibration | None
    intervals: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a JSON file, including those of ``METRICS``; undefined values are None."""
        found = asdict(self) | {name: metric(self) for name, metric in METRICS.items()}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found, enc_hook=np.generic.item))
        return plain


def scored(
    answers: Answers, sums: Tally, names: tuple[Any, ...] | None = None, measured: Calibration | None = None
) -> list[Scores]:
    """Return the scores of each resample.

    Args:
        names: of the classes; None takes their indices.
        measured: None leaves out calibration errors, which repeated samples in resamples would inflate.
    """
    several, ranked, real = answers.several, sums.ranking, sums.real
    spreads, tops = _by_class(answers, sums)
    found = []
    for row in range(len(real)):
        losses = float(sums.square[row]), float(sums.surprise[row])
        own = {name: values[row] for name, values in spreads.items()}
        found.append(
            Scores(
                **({"auc": None, "average_precision": None} | own),  # type: ignore[arg-type]
                multilabel=several,
                samples=sums.samples,
                classes=tuple(range(answers.size)) if names is None else names,
                support=tuple(map(int, real[row].tolist())),
                accuracy=float(sums.right[row]),
                balanced_accuracy=own["bca" if several else "recall"].mean,
                exact_match=float(sums.exact[row]) if several else None,
                micro_auc=None if ranked is None else float(ranked.micro_auc[row]),
                micro_average_precision=None if ranked is None else float(ranked.micro_average_precision[row]),
                top=tops[row],
                matthews=float(sums.matthews[row]),
                expected_cost=None if answers.costs is None else float(sums.cost[row]),
                recall_product=_geometric_mean(np.array(own["recall"].each)),
                group_recall={},
                confusion=None,
                calibration=Calibration(np.nan, np.nan, (), *losses) if measured is None and ranked else measured,
            )
        )
    return found


def _by_class(answers: Answers, sums: Tally) -> tuple[dict[str, list[Spread]], list[Top | None]]:
    """Return each metric by class, and the samples ranked first, of each resample."""
    samples, ranked = sums.samples, sums.ranking
    hits, real, guessed = sums.hits, sums.real, sums.named
    recall = ratio(hits, real)
    specificity = ratio(samples - real - guessed + hits, samples - real)
    tables = {
        "precision": np.where(real > 0, ratio(hits, guessed, empty=0.0), np.nan),
        "recall": recall,
        "f1": np.where(real > 0, ratio(2 * hits, real + guessed, empty=0.0), np.nan),
        "g_mean": np.sqrt(recall * specificity),
        "iba": (1 + IBA_WEIGHT * (recall - specificity)) * recall * specificity,
        "bca": (recall + specificity) / 2,
    }
    tops: list[Top | None] = [None] * len(real)
    if ranked is not None:
        tables |= {"auc": ranked.auc, "average_precision": ranked.average_precision}
        share = ranked.hits_at_k / answers.k
        columns = (share, ratio(ranked.hits_at_k, real), ratio(share * samples, real))
        tops = [Top(answers.k, *values) for values in zip(*map(_spreads, columns), strict=True)]
    return {name: _spreads(table) for name, table in tables.items()}, tops


def _spreads(table: NDArray[np.float64]) -> list[Spread]:
    """Return the spread of each row, (rows, classes), over the defined values."""
    known = ~np.isnan(table)
    count = np.maximum(known.sum(1), 1)
    mean = np.where(known, table, 0).sum(1) / count
    square = np.where(known, (table - mean[:, None]) ** 2, 0).sum(1) / count
    for part in (mean, square):
        part[~known.any(1)] = np.nan
    columns = (mean.tolist(), np.sqrt(square).tolist(), map(tuple, table.tolist()))
    return [Spread(*values) for values in zip(*columns, strict=True)]


def _geometric_mean(recall: NDArray[np.float64]) -> float:
    seen = recall[~np.isnan(recall)]
    return float(np.prod(seen ** (1 / len(seen)))) if len(seen) else float("nan")
