"""Skill of a model: how much better than guessing its predictions and its ranking are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.evaluation.bootstrap import FEW
from equipoise.evaluation.intervals import Floats, auc_interval, auc_variance, combined, ratio, wilson
from equipoise.evaluation.ranking import ranking
from equipoise.evaluation.tally import prediction_counts


@dataclass(frozen=True)
class Skill:
    """Skill by class against the rest, one entry per class; NaN where a value is undefined.

    Constant predictions and random ones have no skill: their ``gap`` is 0 on average, their ``auc`` 0.5, and their
    ``precision`` and ``average_precision`` equal the ``prevalence``.

    Args:
        samples: number of samples.
        support, named: samples of the class, and predictions of it.
        prevalence: the class's share of the samples.
        recall: share of its samples that are predicted as the class.
        false_alarms: share of the other samples that are predicted as the class.
        precision: share of its predictions that are correct; NaN if there are none.
        gap, gap_low, gap_high: recall − false alarms (Youden's J) with its 95 % interval.
        gap_chance: how often shuffled predictions find as many of the class: Fisher's exact test, one-sided; 1 for
            constant predictions.
        auc, auc_low, auc_high: from the class's probability, with its 95 % interval; NaN without probabilities.
        auc_chance: how often a random order ranks the class as well.
        average_precision: from the class's probability.
        mean_auc: the 95 % bootstrap interval of the mean AUC of all classes; None where there is none.
    """

    samples: int
    support: NDArray[np.int64]
    named: NDArray[np.int64]
    prevalence: Floats
    recall: Floats
    false_alarms: Floats
    precision: Floats
    gap: Floats
    gap_low: Floats
    gap_high: Floats
    gap_chance: Floats
    auc: Floats
    auc_low: Floats
    auc_high: Floats
    auc_chance: Floats
    average_precision: Floats
    mean_auc: tuple[float, float] | None = None

    @property
    def tested(self) -> NDArray[np.bool_]:
        """Mark classes that some samples have and others do not."""
        return np.asarray((self.support > 0) & (self.support < self.samples))


def skill(
    true: NDArray[np.int64], predicted: NDArray[np.int64], size: int, *, probabilities: NDArray[Any] | None = None
) -> Skill:
    """Measure by class how much better than guessing predictions, and a ranking by probability, are.

    Args:
        true, predicted: class indices, (samples,); with attributes 0/1, (samples, attributes).
        size: number of classes or attributes.
        probabilities: (samples, classes); with attributes, of a 1, (samples, attributes).

    >>> found = skill(np.repeat([0, 1], [95, 5]), np.ones(100, dtype=np.int64), 2)  # always the rare class
    >>> [float(values[1]) for values in (found.recall, found.precision, found.gap, found.gap_chance)]
    [1.0, 0.05, 0.0, 1.0]
    """
    order = None if probabilities is None else ranking(probabilities, true)
    return skill_of_counts(*prediction_counts(true, predicted, size), len(true), order=order)


def with_bootstrap(found: Skill, intervals: Mapping[str, Any] | None) -> Skill:
    """Return the skill with bootstrap intervals of the AUC from the scores, if every class has enough samples for them.

    Args:
        intervals: those of ``Scores``, or from a JSON file; None if there are none.
    """
    area = (intervals or {}).get("auc") or {}
    each = np.array(area.get("each") or (), dtype=np.float64)
    if each.shape != (len(found.auc), 2) or min(found.support[found.support > 0], default=0) < FEW:
        return found
    low, high = np.where(np.isnan(each.T), (found.auc_low, found.auc_high), each.T)
    ends = np.array(area.get("mean"), dtype=np.float64)
    mean = None if ends.shape != (2,) or np.isnan(ends).any() else (float(ends[0]), float(ends[1]))
    return replace(found, auc_low=low, auc_high=high, mean_auc=mean)


def skill_of_counts(
    hits: NDArray[Any],
    support: NDArray[Any],
    named: NDArray[Any],
    samples: int,
    *,
    order: tuple[Floats, Floats] | None = None,
) -> Skill:
    """Compute skill from counts (classes,): correct predictions, samples and predictions of each class.

    ``order`` holds the AUC and the average precision of each class.
    """
    from scipy.special import ndtr
    from scipy.stats import hypergeom

    own, rest = support.astype(np.float64), (samples - support).astype(np.float64)
    recall, false_alarms = ratio(hits, own), ratio(named - hits, rest)
    ends = np.full((len(hits), 2), np.nan)
    for place in np.flatnonzero((own > 0) & (rest > 0)).tolist():
        shares = np.array([recall[place], false_alarms[place]])
        trials = np.array([own[place], rest[place]])
        ends[place] = combined(shares, *wilson(shares * trials, trials), (1, -1))
    unknown = np.full(len(hits), np.nan)
    area, average = (unknown, unknown) if order is None else order
    spread = np.sqrt(auc_variance(0.5, np.maximum(own, 1), np.maximum(rest, 1)))
    low, high = auc_interval(area, own, rest)
    return Skill(
        samples=samples,
        support=np.asarray(support, dtype=np.int64),
        named=np.asarray(named, dtype=np.int64),
        prevalence=own / samples,
        recall=recall,
        false_alarms=false_alarms,
        precision=ratio(hits, named.astype(np.float64)),
        gap=recall - false_alarms,
        gap_low=ends[:, 0].clip(-1, 1),
        gap_high=ends[:, 1].clip(-1, 1),
        gap_chance=np.where(np.isnan(ends[:, 0]), np.nan, hypergeom.sf(hits - 1, samples, support, named)),
        auc=area,
        auc_low=low,
        auc_high=high,
        auc_chance=ndtr((0.5 - area) / spread),
        average_precision=average,
    )
