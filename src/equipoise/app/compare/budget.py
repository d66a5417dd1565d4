"""Which methods, and how many rounds of them, fit into the time a user has."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from equipoise.app.compare.leaderboard import FEWEST_PAIRS

TINY = 1e-9  # seconds
FEWEST_METHODS = 4
"""With fewer methods than this every method gets one round, rather than a few of them three."""


@dataclass(frozen=True)
class Plan:
    """The methods that are compared, and in how many rounds.

    Args:
        rounds: pairs of a seed and a fold; in each every method has its turn.
    """

    methods: tuple[str, ...]
    rounds: int


def choose(
    order: Sequence[str],
    cost: Mapping[str, float],
    finished: Mapping[str, Set[int]],
    *,
    rounds: int,
    left: float,
) -> Plan:
    """Choose what fits into the seconds that are left.

    As many methods as possible get three rounds, which an interval needs. Where these would be fewer than four, or
    would not include the first in the order, as many as possible get one round. Further rounds follow where there is
    time for all of the chosen.

    Args:
        order: all methods, those that are to be included first at the beginning.
        cost: seconds of one fit of each method.
        finished: numbers of the rounds that each method has behind it.
        rounds: how many are wanted.
        left: seconds; 0 chooses what is finished.

    >>> cost = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "slow": 60.0, "quick": 0.5}
    >>> choose([*cost], cost, {}, rounds=10, left=50.0)
    Plan(methods=('a', 'b', 'c', 'd', 'quick'), rounds=10)
    >>> choose([*cost], cost, {}, rounds=10, left=5.0)
    Plan(methods=('a', 'b', 'c', 'd', 'quick'), rounds=1)
    """

    def needed(name: str, number: int) -> float:
        return max(cost[name], TINY) * len(set(range(number)) - finished.get(name, frozenset()))

    def widest(number: int) -> list[str]:
        chosen, rest = list[str](), max(left, 0.0)
        for name in order:
            if needed(name, number) <= rest:
                rest -= needed(name, number)
                chosen.append(name)
        return chosen

    number = min(FEWEST_PAIRS, rounds)
    methods = widest(number)
    if len(methods) < min(FEWEST_METHODS, len(order)) or methods[:1] != list(order[:1]):
        number, methods = 1, widest(1)
    while number < rounds and methods and sum(needed(name, number + 1) for name in methods) <= max(left, 0.0):
        number += 1
    return Plan(tuple(methods), number if methods else 0)
