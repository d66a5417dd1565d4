"""The fits of a comparison: all of them, or within a time budget those for which there is time, in order."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from equipoise.app.compare.deadline import Deadline, OutOfTimeError
from equipoise.app.compare.duration_estimates import estimate_durations
from equipoise.app.compare.fit_store import Fit, ResultStore
from equipoise.app.compare.leaderboard import FEWEST_PAIRS
from equipoise.app.compare.runner import Progress, run_fits
from equipoise.app.compare.single_fit import FoldFitter
from equipoise.wording import counted, duration

CASE = "data"
TINY = 1e-9  # seconds
FEWEST_METHODS = 4
"""Fewest methods with three rounds each; with fewer, every method gets one round instead."""
SAFETY = 1.2
"""Multiple of a fit's estimate that must be left to start it; at the limit it is still aborted."""


Turn = tuple[str, int]  # method, round


@dataclass(frozen=True)
class Plan:
    """The methods that are compared, and the number of rounds: pairs of a seed and a fold, in which each has a turn."""

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
    """Choose what fits into the seconds left.

    As many methods as possible get three rounds, which an interval needs. Where these would be fewer than four, or
    would not include the first in the order, as many as possible get one round. Further rounds follow where there is
    time for all of the chosen. The ``order`` begins with those to be included first, ``finished`` has the rounds
    that each method has finished, and no seconds ``left`` choose what is finished.

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


class Schedule:
    """Source of the next fit, as long as one fits into the time left.

    Estimates are replaced by measurements as fits are finished, and the plan is made again before each fit. Methods of
    ``first`` are included before any other; those that stand ``alone`` have no network, and their times say nothing
    about those of others.
    """

    def __init__(
        self,
        names: Sequence[str],
        store: ResultStore,
        deadline: Deadline,
        *,
        first: Sequence[str],
        alone: Sequence[str] = (),
        fit: Callable[[str, int], Fit],
        rounds: int,
        jobs: int,
    ) -> None:
        self.names, self.store, self.deadline = tuple(names), store, deadline
        self.estimates: dict[str, float] = {}
        self.first, self.fit, self.rounds, self.jobs = tuple(first), fit, rounds, jobs
        self.alone = tuple(alone)
        self.handed_out: set[Turn] = set()
        self.spent = deadline.spent  # before the first fit

    def estimate(self, run: FoldFitter) -> None:
        """Measure how long fits of methods without finished fits will take, as far as time allows."""
        unknown = [name for name in self.names if not self._records(name)]
        if not unknown:
            return
        with suppress(OutOfTimeError):
            self.deadline.call(lambda: estimate_durations(unknown, run, self.deadline, self.estimates))
        self.spent = self.deadline.spent

    def __iter__(self) -> Iterator[Fit]:
        while (turn := self._next()) is not None:
            self.handed_out.add(turn)
            yield self.fit(*turn)

    def _next(self) -> Turn | None:
        plan, cost = self.plan(), self.costs()
        for number in range(plan.rounds if self.deadline.left > 0 else 0):
            for name in sorted(plan.methods, key=cost.__getitem__):
                if number not in self._done(name, self.handed_out) and SAFETY * cost[name] <= self.deadline.left:
                    return name, number
        return None

    def costs(self) -> dict[str, float]:
        """Return seconds per fit: a method's own mean, or its estimate scaled by how far others were off."""
        known: dict[str, float] = {}
        for name in self.names:  # CPU time if no wall time is stored
            seconds = [float(each.get("elapsed", each["seconds"])) for each in self._records(name).values()]
            known |= {name: sum(seconds) / len(seconds)} if seconds else {}
        expected = {name: self.estimates[name] for name in known if name in self.estimates and name not in self.alone}
        total = sum(expected.values())
        ratio = sum(known[name] for name in expected) / total if total > 0 else 1.0
        both = known | {
            name: (1.0 if name in self.alone else ratio) * each
            for name, each in self.estimates.items()
            if name not in known
        }
        return {name: both[name] for name in self.names if name in both}

    def plan(self) -> Plan:
        """Return the plan that can still be reached, with some time to spare."""
        return self._plan(self.deadline.left / SAFETY, self.handed_out)

    def reached(self) -> Plan:
        """Return the finished methods and rounds."""
        return self._plan(0.0, set())

    def counts(self) -> tuple[int, int]:
        """Return the number of finished fits of the current plan, and its total."""
        plan = self.plan()
        done = sum(number < plan.rounds for name in plan.methods for number in self._records(name))
        return done, sum(1 if self.cannot_run(name) else plan.rounds for name in plan.methods)

    def cannot_run(self, name: str) -> bool:
        """Return whether the data do not allow the method."""
        return any("cannot_run" in record for record in self._records(name).values())

    def left_out(self) -> dict[str, str]:
        """Return why methods have not run, by name."""
        cost, reached = self.costs(), self.reached()
        return {
            name: f"a fit takes about {duration(cost[name])}" if name in cost else "no time was left to measure a fit"
            for name in self.names
            if name not in reached.methods
        }

    def sentence(self) -> str:
        """Return what fits into the time left, in words."""
        plan, fits = self.plan(), [seconds for seconds in self.costs().values() if seconds > 0]
        spans = f"One fit takes {duration(min(fits))} to {duration(max(fits))}: " if fits else ""
        return (
            f"{spans}the budget leaves time for {len(plan.methods)} of {counted(len(self.names), 'method')}, "
            f"{counted(plan.rounds, 'fit')} each."
        )

    def needed(self) -> str:
        """Return how many minutes would suffice, in words."""
        if not self.costs():
            return "no time was left to measure a fit"
        every = sum(self.costs().values()) / len(self.costs()) * len(self.names) / self.jobs
        steps = sorted({min(FEWEST_PAIRS, self.rounds), self.rounds})
        minutes = {number: math.ceil((self.spent + SAFETY * number * every) / 60) for number in steps}
        said = [f"about {each:,} for {counted(number, 'fit')} of each method" for number, each in minutes.items()]
        return f"{' or '.join(said)}, or name fewer methods"

    def _plan(self, left: float, ahead: set[Turn]) -> Plan:
        cost = self.costs()
        done = {name: self._done(name, ahead) for name in cost}
        enough = set(range(min(FEWEST_PAIRS, self.rounds)))
        needed = {name: cost[name] * len(enough - done[name]) for name in cost}  # less for those that have begun
        order = sorted(cost, key=lambda name: (name not in self.first, needed[name]))
        return choose(order, cost, done, rounds=self.rounds, left=left * self.jobs)

    def _done(self, name: str, ahead: set[Turn]) -> set[int]:
        """Return the rounds finished or handed out; all of them if a method cannot run."""
        if self.cannot_run(name):
            return set(range(self.rounds))
        return set(self._records(name)) | {number for other, number in ahead if other == name}

    def _records(self, name: str) -> dict[int, dict[str, Any]]:
        fits = {number: self.fit(name, number) for number in range(self.rounds)}
        return {number: self.store[fit] for number, fit in fits.items() if fit in self.store}


class Reached(NamedTuple):
    """Finished fits: ``rounds`` of each method, why others were ``left_out``, and what would give ``more``."""

    records: list[dict[str, Any]]
    rounds: int
    left_out: dict[str, str]
    more: str
    notes: tuple[str, ...]


def run_rounds(
    run: FoldFitter,
    store: ResultStore,
    rounds: int,
    *,
    first: Sequence[str],
    jobs: int,
    progress: Progress | None,
    note: Callable[[str], None] | None,
) -> Reached:
    """Run the fits of all methods, or as many of them as there is time for, those of ``first`` before others."""
    fit, names, limit = partial(_fit, folds=run.folds or 1), tuple(run.methods), run.deadline
    plan, left_out, more = Plan(names, rounds), dict[str, str](), "give more seeds"
    if limit is None:
        run_fits(_fits(plan, fit), store, run, progress=progress, jobs=jobs)
    else:
        alone = tuple(name for name, method in run.methods.items() if not method.has_network)
        schedule = Schedule(names, store, limit, first=first, alone=alone, fit=fit, rounds=rounds, jobs=jobs)
        schedule.estimate(run)
        if note is not None:
            note(schedule.sentence())
        with suppress(OutOfTimeError):
            run_fits(schedule, store, run, progress=progress, jobs=jobs, clock=limit.clock, counts=schedule.counts)
        plan, left_out = schedule.reached(), schedule.left_out()
        if left_out or plan.rounds < rounds:
            more = f"give more minutes: {schedule.needed()}"
    records = [store[one] for one in _fits(plan, fit) if one in store]
    if not records:
        raise OutOfTimeError(f"the budget ran out before the first fit had finished; {more}.")
    few = [f"{plan.rounds} of {counted(rounds, 'fit')} of each method fitted into the budget."]
    said = dict.fromkeys(note for record in records for note in record.get("notes", ()))
    return Reached(records, plan.rounds, left_out, more, (*few[: plan.rounds < rounds], *said))


def _fit(name: str, number: int, *, folds: int) -> Fit:
    """Return the fit of a method in a round: the folds of the first seed, then those of the next."""
    return Fit(CASE, name, *divmod(number, folds))


def _fits(plan: Plan, fit: Callable[[str, int], Fit]) -> list[Fit]:
    """Return the fits of a plan, round by round."""
    return [fit(name, number) for number in range(plan.rounds) for name in plan.methods]
