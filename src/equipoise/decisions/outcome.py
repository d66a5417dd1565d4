"""Results of a chosen rule on labelled rows, beside its promises."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from equipoise.decisions.chosen_rule import Chosen
from equipoise.decisions.policy import Promise
from equipoise.decisions.promises import CONFIDENCE
from equipoise.decisions.yardstick import PER

Rows = NDArray[np.bool_]


def outcome(chosen: Chosen, labels: NDArray[np.int64], named: NDArray[np.int64]) -> Iterator[str]:
    """Yield sentences on what the answers found and missed, and whether the rule's promises held.

    Args:
        labels, named: places, (rows,), or 0 and 1, (rows, attributes).

    >>> from equipoise.decisions import Evidence, Natural, Situation
    >>> prior = np.array([0.5, 0.5])
    >>> rule = Natural().choose(Situation(("ok", "fraud"), prior, prior, Evidence.of([[0.9, 0.1]], [0])))
    >>> next(outcome(rule, np.array([1, 1, 0, 0, 0]), np.array([1, 0, 1, 0, 0])))
    "on these samples it finds 1 of 2 of class 'fraud' (50 %), with 200 false alarms per 1,000 cases."
    """
    several = labels.ndim == 2
    names = [str(name) for name in chosen.classes]
    counts = labels.sum(0) if several else np.bincount(labels, minlength=len(names))

    def rows(name: str) -> tuple[Rows, Rows]:
        place = names.index(name)
        if several:
            return labels[:, place] == 1, named[:, place] == 1
        return labels == place, named == place

    for name in chosen.rule.speaks_of(chosen.classes, counts.tolist(), several=several):
        own, called = rows(name)
        hits, trials = int((own & called).sum()), int(own.sum())
        alarms = f"{PER * float((called & ~own).mean()):,.3g} false alarms per 1,000 cases"
        found = f"it finds {hits:,} of {trials:,} of class {name!r} ({100 * hits / max(trials, 1):.0f} %)"
        yield f"on these samples {found if trials else f'none is of class {name!r}'}, with {alarms}."
    for promise in chosen.promises:
        own, called = rows(promise.name)
        yield from _kept(promise, own & called, own if promise.what == "recall" else called)
    cost = chosen.cost_of(labels, named)
    if cost is not None:
        yield f"these samples cost {cost:,.1f} per 1,000 cases{_beside(chosen, cost, len(labels))}."


def _beside(chosen: Chosen, cost: float, cases: int) -> str:
    """Compare a cost with its prediction interval for this many cases."""
    ahead = None if chosen.expected is None else chosen.expected.cost_of_next(cases)
    if ahead is None:
        return ""
    span = f"the {ahead.low:,.1f} to {ahead.high:,.1f} expected of {cases:,} cases"
    if ahead.low <= cost <= ahead.high:
        return f", within {span}"
    than = "more" if cost > ahead.high else "less"
    return f", {than} than {span}: these samples differ from those it was chosen on"


def _kept(promise: Promise, right: Rows, among: Rows) -> Iterator[str]:
    """Yield a sentence that compares a promise with the result; nothing without rows."""
    hits, trials = int(right.sum()), int(among.sum())
    if trials == 0 or promise.promised == 0:
        return
    of = f"{100 * promise.promised:.3g} % {promise.what} of class {promise.name!r}"
    chance = float(binom.cdf(hits, trials, promise.promised))
    if hits >= promise.promised * trials:
        yield f"the {of} promised is kept here."
    elif chance >= 1 - CONFIDENCE:
        yield f"that is below the {of} promised, but by no more than chance explains in {trials:,} cases."
    else:
        yield (
            f"that is below the {of} promised, and by more than chance explains: these samples differ from those "
            "it was chosen on; choose it again on samples like these."
        )
