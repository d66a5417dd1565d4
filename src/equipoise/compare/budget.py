"""Which methods, and how many rounds of them, fit into the time a user has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TINY = 1e-9  # seconds
FEWEST_METHODS, FEWEST_ROUNDS = 4, 2
"""Rounds are given up before fewer methods than this are compared; a spread needs two of them."""


@dataclass(frozen=True)
class Plan:
    """What is run, and why the rest is not.

    Args:
        rounds: pairs of a seed and a fold; in each every method has its turn.
    """

    methods: tuple[str, ...]
    rounds: int
    left_out: Mapping[str, str]


def choose(
    order: Sequence[str], seconds: Mapping[str, float], *, seeds: int, folds: int, jobs: int, left: float
) -> Plan:
    """The methods that fit into the seconds that are left, after the first round.

    Rounds come down, by whole seeds while there is more than one, until the first four methods fit, or two rounds are
    reached. Then every method in its order is taken that still fits; the first two, the baseline and the paper's
    method, in any case.

    Args:
        order: all methods, most wanted first.
        seconds: of one fit, for the methods that were tried; one that was not, for lack of time, is left out.

    >>> seconds = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "slow": 60.0, "quick": 0.5}
    >>> choose([*seconds, "last"], seconds, seeds=2, folds=5, jobs=1, left=50.0)
    Plan(methods=('a', 'b', 'c', 'd', 'quick'), rounds=10,
         left_out={'last': 'no time was left to try it', 'slow': 'would take about 540 s more'})
    """
    known = [name for name in order if name in seconds]
    cost = {name: seconds[name] / jobs for name in known}  # of one round
    wanted = sum(cost[name] for name in known[:FEWEST_METHODS])
    rounds = seeds * folds
    if wanted * (rounds - 1) > left:
        rounds = 1 + max(0, int(left / max(wanted, TINY)))
        rounds = rounds - rounds % folds if rounds >= folds else min(max(rounds, FEWEST_ROUNDS), folds * seeds)
    methods: list[str] = []
    left_out = {name: "no time was left to try it" for name in order if name not in seconds}
    for name in known:
        needed = cost[name] * (rounds - 1)
        if needed > left and len(methods) >= 2:
            left_out[name] = f"would take about {needed:,.0f} s more"
            continue
        left -= needed
        methods.append(name)
    return Plan(tuple(methods), rounds, left_out)
