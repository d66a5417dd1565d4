"""From finished fits to a ranked table with paired intervals."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from equipoise.errors import InvalidInputError
from equipoise.evaluation.metrics import score_at

Pair = tuple[int, int]  # seed, fold
FEWEST_PAIRS = 3
"""Fewest pairs for an interval."""
SMALLER_IS_BETTER = ("log_loss", "ece", "mean_class_ece", "brier")
"""Scores that methods are not ranked by."""


@dataclass(frozen=True)
class Interval:
    """A mean difference with its confidence interval.

    Args:
        mean: of the differences.
        low, high: the ends; None where there are fewer than three pairs, too few to tell how they vary.
        pairs: how many differences there are.

    >>> found = Interval(mean=0.02, low=-0.01, high=0.05, pairs=5)
    >>> found.contains_zero, found.within(0.06), found.within(0.04)
    (True, True, False)
    """

    mean: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def contains_zero(self) -> bool:
        """True if the difference may be zero, also if its spread is unknown."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high

    def within(self, bound: float) -> bool:
        """Return whether all of it lies between −bound and bound, which shows equivalence if it is a 90 % interval."""
        return self.low is not None and self.high is not None and -bound < self.low and self.high < bound


@dataclass(frozen=True)
class Place:
    """A method in a table.

    Args:
        method: its name in ``METHODS``.
        mean, deviation: over seeds and folds; the deviation divides by their number less one, NaN for a single one.
        runs: how many these are.
        to_best: the best method's score less this one's, None for the best.
        to_baseline: this one's less the baseline's, None for the baseline and without one.
        tied: first, or not significantly different from the best.
    """

    method: str
    mean: float
    deviation: float
    runs: int
    to_best: Interval | None
    to_baseline: Interval | None
    tied: bool


@dataclass(frozen=True)
class Ranking:
    """Methods by their mean score, best first.

    Args:
        metric, confidence: as in :func:`rank`.
        baseline: what the others were measured against; None where it was not run.
        places: one per method.
        cannot_run: why a method has no place, by its name.
        claims: the best method's lead over each other one at a confidence that allows for having picked the best of so
            many; recommendations use these.
    """

    metric: str
    baseline: str | None
    places: tuple[Place, ...]
    cannot_run: Mapping[str, str]
    claims: Mapping[str, Interval]
    confidence: float


def paired_interval(differences: Sequence[float], *, test_to_train: float = 0.0, confidence: float = 0.95) -> Interval:
    r"""Return Student's interval of the mean of paired differences.

    .. math:: \bar d \pm t_{n-1} \, s \sqrt{\frac1n + \frac{n_\mathrm{test}}{n_\mathrm{train}}}

    With k-fold cross-validation the runs share training samples and so are not independent; the second term allows for
    that (Nadeau & Bengio 2003).

    Args:
        differences: of two methods on the same seed and fold, one for each pair.
        test_to_train: n_test/n_train, 1/(k − 1) for k folds; 0 for runs whose samples are drawn independently.
        confidence: of the interval.

    >>> paired_interval([0.01, 0.03, 0.02])
    Interval(mean=0.02, low=-0.0048..., high=0.0448..., pairs=3)
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise InvalidInputError("differences must be finite numbers, one per pair and at least one.")
    if not (test_to_train >= 0 and 0 < confidence < 1):
        raise InvalidInputError(
            f"test_to_train must not be negative and confidence between 0 and 1, got {test_to_train} and {confidence}."
        )
    mean, pairs = float(values.mean()), len(values)
    if pairs < FEWEST_PAIRS:
        return Interval(mean, None, None, pairs)
    error = float(values.std(ddof=1)) * math.sqrt(1 / pairs + test_to_train)
    half = float(stats.t.ppf((1 + confidence) / 2, pairs - 1)) * error
    return Interval(mean, mean - half, mean + half, pairs)


def score_of(record: Mapping[str, Any], metric: str) -> float:
    """Return a score by its name: ``"f1"`` is the mean over the classes, ``"f1.deviation"`` their deviation."""
    value = score_at(record["scores"], metric)
    if not isinstance(value, int | float):
        raise InvalidInputError(f"the results hold no score {metric!r}; choose another metric.")
    return float(value)


def rank(
    records: Iterable[Mapping[str, Any]],
    *,
    metric: str = "balanced_accuracy",
    baseline: str | Collection[str] | None = "cross_entropy",
    test_to_train: float = 0.0,
    confidence: float = 0.95,
) -> Ranking:
    """Rank methods by their mean score over the seeds and folds of one case, higher first.

    A method is tied for first when the interval of its paired difference to the best contains 0. The best of many is
    partly lucky, so ``claims``, on which recommendations rest, divide 1 − confidence among all comparisons.

    Args:
        records: one per fit: ``case``, ``method``, ``seed``, ``fold``, and ``scores`` or ``cannot_run``.
        metric: a name of the scores, see :func:`score_of`.
        baseline: what the others are measured against; of several the one with the highest mean.
        test_to_train, confidence: as in :func:`paired_interval`.

    >>> means = {"cross_entropy": 0.80, "weighted": 0.84}
    >>> found = rank(
    ...     {"case": "a", "method": name, "seed": seed, "fold": 0, "scores": {"balanced_accuracy": mean + seed / 100}}
    ...     for name, mean in means.items()
    ...     for seed in range(3)
    ... )
    >>> [(place.method, round(place.mean, 3), place.tied) for place in found.places]
    [('weighted', 0.85, True), ('cross_entropy', 0.81, False)]
    >>> found.claims["cross_entropy"].contains_zero
    False
    """
    if metric.rpartition(".")[2] in SMALLER_IS_BETTER:
        raise InvalidInputError(f"metric must be a score where higher is better, got {metric!r}; choose another.")
    scores, cannot_run = _by_method(records, metric)
    baselines = (baseline,) if isinstance(baseline, str) else baseline or ()
    order = sorted(scores, key=lambda name: (-float(np.mean(list(scores[name].values()))), name not in baselines, name))
    reference = next((name for name in order if name in baselines), None)
    lead = partial(_difference, scores, test_to_train=test_to_train, confidence=confidence)
    places = [
        _place(name, scores[name], lead(order[0], name), lead(name, reference), best=name == order[0]) for name in order
    ]
    strict = 1 - (1 - confidence) / max(len(order) - 1, 1)
    leads = {name: lead(order[0], name, confidence=strict) for name in order[1:]}
    claims = {name: found for name, found in leads.items() if found is not None}
    return Ranking(metric, reference, tuple(places), cannot_run, claims, confidence)


def _difference(
    scores: Mapping[str, Mapping[Pair, float]],
    one: str,
    other: str | None,
    *,
    test_to_train: float,
    confidence: float,
) -> Interval | None:
    """Return by how much one method is ahead of another; None where they share no runs, or are the same."""
    shared = [] if other is None else sorted(scores[one].keys() & scores[other].keys())
    if other is None or one == other or not shared:
        return None
    pairs = [scores[one][pair] - scores[other][pair] for pair in shared]
    return paired_interval(pairs, test_to_train=test_to_train, confidence=confidence)


def _place(
    name: str, scores: Mapping[Pair, float], to_best: Interval | None, to_baseline: Interval | None, *, best: bool
) -> Place:
    values = np.array(list(scores.values()))
    deviation = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    tied = best or (to_best is not None and to_best.contains_zero)
    return Place(name, float(values.mean()), deviation, len(values), to_best, to_baseline, tied)


def mean_score(records: Iterable[Mapping[str, Any]], metric: str) -> float | None:
    """Return the mean of a score over the fits that have it, or None.

    >>> mean_score([{"scores": {"log_loss": 0.25}}, {"scores": {"log_loss": 0.75}}, {"cannot_run": "."}], "log_loss")
    0.5
    """
    values = []
    for record in records:
        with suppress(InvalidInputError, KeyError):  # a test part without a class has no ranking of it
            values.append(score_of(record, metric))
    return float(np.mean(values)) if values else None


def _by_method(
    records: Iterable[Mapping[str, Any]], metric: str
) -> tuple[dict[str, dict[Pair, float]], dict[str, str]]:
    scores: dict[str, dict[Pair, float]] = {}
    cannot_run: dict[str, str] = {}
    cases = set()
    for record in records:
        name, pair = record["method"], (record["seed"], record["fold"])
        cases.add(record["case"])
        if "cannot_run" in record:
            cannot_run.setdefault(name, record["cannot_run"])
            continue
        if pair in scores.setdefault(name, {}):
            raise InvalidInputError(f"{name} has two results for seed {pair[0]}, fold {pair[1]}; give each once.")
        scores[name][pair] = score_of(record, metric)
    if len(cases) > 1:
        raise InvalidInputError(
            f"a ranking needs the records of a single case, got {len(cases)} cases; rank each separately."
        )
    for name in cannot_run:  # a mean over the folds that happened to work would be another test
        scores.pop(name, None)
    return scores, cannot_run
