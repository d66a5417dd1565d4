"""From finished fits to a ranked table with paired intervals, and to a recommendation in plain words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from equipoise.errors import InvalidInputError
from equipoise.wording import counted

Pair = tuple[int, int]  # seed, fold
FEWEST_PAIRS = 3
"""An interval is given from this many on."""
MOST_NAMES = 4
"""How many methods tied for first a recommendation names."""
NO_WORSE = "no worse as far as these runs show"


@dataclass(frozen=True)
class Interval:
    """A mean difference and between which values it lies.

    Args:
        mean: of the differences.
        low, high: the ends; None where there are fewer than three pairs, too few to tell how they vary.
        pairs: how many differences there are.

    >>> Interval(mean=0.02, low=-0.01, high=0.05, pairs=5).contains_zero
    True
    """

    mean: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def contains_zero(self) -> bool:
        """Whether the difference may be none; yes, where nothing is known of its spread."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


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
        metric, baseline, confidence: as in :func:`rank`; the baseline is None where it was not run.
        places: one a method.
        cannot_run: why a method has no place, by its name.
        claim: the best method's difference to the baseline at a confidence that allows for having picked the best of
            so many; None without a baseline, or where the baseline is best.
    """

    metric: str
    baseline: str | None
    places: tuple[Place, ...]
    cannot_run: Mapping[str, str]
    claim: Interval | None
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
        raise InvalidInputError("differences must be one finite number a pair, one at least.")
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
    value: Any = record["scores"]
    for name in metric.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise InvalidInputError(f"the results hold no score {metric!r}; choose another metric.")
        value = value[name]
    value = value["mean"] if isinstance(value, Mapping) and "mean" in value else value
    if not isinstance(value, int | float):
        raise InvalidInputError(f"the score {metric!r} is no number in these results, got {value!r}.")
    return float(value)


def rank(
    records: Iterable[Mapping[str, Any]],
    *,
    metric: str = "balanced_accuracy",
    baseline: str | None = "cross_entropy",
    test_to_train: float = 0.0,
    confidence: float = 0.95,
) -> Ranking:
    """Rank methods by their mean score over the seeds and folds of one case, higher first.

    A method is tied for first when the interval of its paired difference to the best contains 0. The best of many has
    luck on its side, so ``claim``, on which a recommendation rests, divides 1 − confidence among all comparisons.

    Args:
        records: one a fit: ``case``, ``method``, ``seed``, ``fold``, and ``scores`` or ``cannot_run``.
        metric: a name of the scores, see :func:`score_of`.
        baseline: what the others are measured against.
        test_to_train, confidence: as in :func:`paired_interval`.

    >>> means = {"cross_entropy": 0.80, "weighted": 0.84}
    >>> found = rank(
    ...     {"case": "a", "method": name, "seed": seed, "fold": 0, "scores": {"balanced_accuracy": mean + seed / 100}}
    ...     for name, mean in means.items()
    ...     for seed in range(3)
    ... )
    >>> [(place.method, round(place.mean, 3), place.tied) for place in found.places], found.claim.contains_zero
    ([('weighted', 0.85, True), ('cross_entropy', 0.81, False)], False)
    """
    scores, cannot_run = _by_method(records, metric)
    if baseline not in scores:
        baseline = None
    order = sorted(scores, key=lambda name: (-float(np.mean(list(scores[name].values()))), name != baseline, name))

    def difference(one: str, other: str, level: float = confidence) -> Interval | None:
        shared = sorted(scores[one].keys() & scores[other].keys())
        if one == other or not shared:
            return None
        pairs = [scores[one][pair] - scores[other][pair] for pair in shared]
        return paired_interval(pairs, test_to_train=test_to_train, confidence=level)

    places = []
    for name in order:
        values = np.array(list(scores[name].values()))
        to_best = difference(order[0], name)
        places.append(
            Place(
                method=name,
                mean=float(values.mean()),
                deviation=float(values.std(ddof=1)) if len(values) > 1 else math.nan,
                runs=len(values),
                to_best=to_best,
                to_baseline=None if baseline is None else difference(name, baseline),
                tied=name == order[0] or (to_best is not None and to_best.contains_zero),
            )
        )
    strict = 1 - (1 - confidence) / max(len(order) - 1, 1)
    claim = difference(order[0], baseline, strict) if order and baseline is not None else None
    return Ranking(metric, baseline, tuple(places), cannot_run, claim, confidence)


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
        raise InvalidInputError(f"a ranking is of one case, got {len(cases)}; give the records of one.")
    for name in cannot_run:  # a mean over the folds that happened to work would be another test
        scores.pop(name, None)
    return scores, cannot_run


def recommend(ranking: Ranking, labels: Mapping[str, str], *, more: str = "give more seeds") -> str:
    """Say in a few sentences what to use, "no difference" where there is none, never more than the runs can bear.

    Args:
        ranking: of :func:`rank`.
        labels: names of the methods for people; a method without one goes by its own.
        more: what to do where the runs are too few.

    >>> from equipoise.app.compare import Interval, Ranking
    >>> first = Place("weighted", 0.84, 0.01, 10, None, Interval(0.04, 0.03, 0.05, 10), tied=True)
    >>> second = Place("cross_entropy", 0.80, 0.01, 10, Interval(0.04, 0.03, 0.05, 10), None, tied=False)
    >>> ranking = Ranking("balanced_accuracy", "cross_entropy", (first, second), {}, first.to_baseline, 0.95)
    >>> recommend(ranking, {"weighted": "class weights"})
    'Use class weights: 84.0 % balanced accuracy, 4.0 points (between 3.0 and 5.0) above cross_entropy.'
    """
    places, claim = ranking.places, ranking.claim
    names = {place.method: labels.get(place.method, place.method) for place in places}
    if len(places) < 2:
        only = "".join(f"Only {name} was run, so there is nothing to compare it with." for name in names.values())
        return only or "No method could run on these data, so there is nothing to recommend."
    first, best = places[0], names[places[0].method]
    metric = ranking.metric.replace("_", " ")
    score = f"{100 * first.mean:.1f} % {metric}"
    if first.runs < FEWEST_PAIRS:
        return (
            f"{counted(first.runs, 'fit')} of each method {'is' if first.runs == 1 else 'are'} too few to recommend "
            f"anything: {best} came out first this time, with {score}. {more[0].upper()}{more[1:]}."
        )
    tied = [names[place.method] for place in places[1:] if place.tied]
    if ranking.baseline is None:
        return _without_baseline(best, score, tied, len(places) - 1, more)
    if first.method == ranking.baseline:
        return _baseline_first(best, tied, metric)
    baseline = names[ranking.baseline]
    if claim is None or claim.contains_zero:
        return (
            f"No difference that these runs could show: {best} came out first, but its lead over {baseline} is "
            f"{_span(claim)}. Use {baseline}, the simplest, or {more}."
        )
    ties = [name for name in tied if name != baseline]
    return f"Use {best}: {score}, {_span(claim)} above {baseline}. {_also(ties, NO_WORSE)}".strip()


def _without_baseline(best: str, score: str, tied: list[str], others: int, more: str) -> str:
    if len(tied) == others:
        return (
            f"No difference that these runs could show: {best} came out first, and no other method lies clearly "
            f"behind it. Use the one that suits you best, or {more}."
        )
    return f"Use {best}: {score}. {_also(tied, NO_WORSE)}".strip()


def _baseline_first(best: str, tied: list[str], metric: str) -> str:
    if not tied:
        return f"Use {best}: it wins, and every remedy for imbalance made {metric} worse on these data."
    return (
        f"No difference: no method beats {best} on these data. Use {best}, the simplest. "
        f"{_also(tied, 'not significantly different')}"
    )


def _also(names: list[str], what: str) -> str:
    if not names:
        return ""
    shown = names[:MOST_NAMES] + ([f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else [])
    joined = shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
    return f"{joined[0].upper()}{joined[1:]} {'is' if len(names) == 1 else 'are'} {what}."


def _span(interval: Interval | None) -> str:
    if interval is None:
        return "not known"
    if interval.low is None or interval.high is None:
        return f"{100 * interval.mean:.1f} points in {counted(interval.pairs, 'run')}"
    return f"{100 * interval.mean:.1f} points (between {100 * interval.low:.1f} and {100 * interval.high:.1f})"
