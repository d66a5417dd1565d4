"""Which methods, and how many seeds, fit into the time a user has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEWEST_METHODS = 4
"""Seeds are given up before fewer methods than this are compared."""


@dataclass(frozen=True)
class Plan:
    """What is run, and why the rest is not."""

    methods: tuple[str, ...]
    seeds: int
    left_out: Mapping[str, str]


def choose(
    order: Sequence[str], seconds: Mapping[str, float], *, seeds: int, folds: int, jobs: int, left: float
) -> Plan:
    """The methods that fit into the seconds that are left.

    Seeds come down until the first four methods fit, or one seed is reached. Then every method in its order is taken
    that still fits; the first two, the baseline and the paper's method, in any case.

    Args:
        order: all methods, most wanted first.
        seconds: of one fit, for the methods that were tried; one that was not, for lack of time, is left out.

    >>> seconds = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "slow": 60.0, "quick": 0.5}
    >>> choose([*seconds, "last"], seconds, seeds=2, folds=5, jobs=1, left=50.0)
    Plan(methods=('a', 'b', 'c', 'd', 'quick'), seeds=2,
         left_out={'last': 'no time was left to try it', 'slow': 'would take about 600 s'})
    """
    known = [name for name in order if name in seconds]
    cost = {name: seconds[name] * folds / jobs for name in known}  # of one seed
    wanted = sum(cost[name] for name in known[:FEWEST_METHODS])
    chosen_seeds = seeds if wanted * seeds <= left else max(1, int(left / wanted))
    methods: list[str] = []
    left_out = {name: "no time was left to try it" for name in order if name not in seconds}
    for name in known:
        needed = cost[name] * chosen_seeds
        if needed > left and len(methods) >= 2:
            left_out[name] = f"would take about {needed:,.0f} s"
            continue
        left -= needed
        methods.append(name)
    return Plan(tuple(methods), chosen_seeds, left_out)
