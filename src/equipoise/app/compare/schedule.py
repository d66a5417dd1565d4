"""Handing out fits one by one, so that they end in time."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from equipoise.app.compare.budget import Plan, choose
from equipoise.app.compare.costs import estimate_costs
from equipoise.app.compare.deadline import Deadline, OutOfTimeError
from equipoise.app.compare.leaderboard import FEWEST_PAIRS
from equipoise.app.compare.results import Fit, ResultStore
from equipoise.app.compare.single_fit import FoldRun
from equipoise.wording import counted, duration

SAFETY = 1.2
"""A fit is started where this many times its estimate is left; it is aborted at the limit all the same."""


class Schedule:
    """The next fit, as long as one fits into the time that is left.

    Estimates are replaced by measurements as fits are finished, and the plan is made again before each fit.

    Args:
        names: all methods, most wanted first.
        store: of finished fits.
        deadline: of all fits.
        first: methods that are to be included before any other.
        alone: methods without a network, whose times say nothing of the others'.
        fit: makes the fit of a method in a round.
        rounds: how many are wanted.
        jobs: processes.
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
        self.handed_out: set[Fit] = set()
        self.spent = deadline.spent  # before the first fit

    def estimate(self, run: FoldRun) -> None:
        """Measure how long fits will take of methods that have none behind them, as far as the time goes."""
        unknown = [name for name in self.names if not self._records(name)]
        if not unknown:
            return
        with suppress(OutOfTimeError):
            self.deadline.call(lambda: estimate_costs(unknown, run, self.deadline, self.estimates))
        self.spent = self.deadline.spent

    def __iter__(self) -> Iterator[Fit]:
        while (fit := self._next()) is not None:
            self.handed_out.add(fit)
            yield fit

    def _next(self) -> Fit | None:
        if self.deadline.left <= 0:
            return None
        plan, cost = self.plan(), self.costs()
        for number in range(plan.rounds):
            for name in sorted(plan.methods, key=cost.__getitem__):
                fit = self.fit(name, number)
                if fit in self.store or fit in self.handed_out or self.cannot_run(name):
                    continue
                if SAFETY * cost[name] <= self.deadline.left:
                    return fit
        return None

    def costs(self) -> dict[str, float]:
        """Seconds of one fit: the method's own mean, or its estimate in the proportion in which others differed."""
        measured = {name: self._measured(name) for name in self.names}
        known = {name: sum(seconds) / len(seconds) for name, seconds in measured.items() if seconds}
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
        """What can still be reached, with some time to spare."""
        return self._plan(self.deadline.left / SAFETY, self.handed_out)

    def reached(self) -> Plan:
        """The methods and rounds that are finished."""
        return self._plan(0.0, set())

    @property
    def total(self) -> int:
        """Fits of the present plan."""
        plan = self.plan()
        return sum(1 if self.cannot_run(name) else plan.rounds for name in plan.methods)

    @property
    def done(self) -> int:
        """Fits of the present plan that are finished."""
        plan = self.plan()
        return sum(self.fit(name, number) in self.store for name in plan.methods for number in range(plan.rounds))

    def cannot_run(self, name: str) -> bool:
        """Whether the data do not allow the method."""
        return any("cannot_run" in record for record in self._records(name))

    def left_out(self) -> dict[str, str]:
        """Why methods have no place in what was reached."""
        cost, reached = self.costs(), self.reached()
        return {
            name: f"a fit takes about {duration(cost[name])}" if name in cost else "no time was left to measure a fit"
            for name in self.names
            if name not in reached.methods
        }

    def sentence(self) -> str:
        """What fits into the time left, in words."""
        plan, fits = self.plan(), [seconds for seconds in self.costs().values() if seconds > 0]
        spans = f"One fit takes {duration(min(fits))} to {duration(max(fits))}: " if fits else ""
        return (
            f"{spans}the budget leaves time for {len(plan.methods)} of {counted(len(self.names), 'method')}, "
            f"{counted(plan.rounds, 'fit')} each."
        )

    def needed(self) -> str:
        """How many minutes would do, in words."""
        if not self.costs():
            return "there was no time to measure a fit"
        every = sum(self.costs().values()) / len(self.costs()) * len(self.names) / self.jobs
        steps = sorted({min(FEWEST_PAIRS, self.rounds), self.rounds})
        minutes = {number: math.ceil((self.spent + SAFETY * number * every) / 60) for number in steps}
        said = [f"about {each:,} for {counted(number, 'fit')} of each method" for number, each in minutes.items()]
        return f"{' or '.join(said)}, or name fewer methods"

    def _plan(self, left: float, ahead: set[Fit]) -> Plan:
        cost = self.costs()
        done = {name: self._finished(name, ahead) for name in cost}
        enough = set(range(min(FEWEST_PAIRS, self.rounds)))
        needed = {name: cost[name] * len(enough - done[name]) for name in cost}  # less for those that have begun
        order = sorted(cost, key=lambda name: (name not in self.first, needed[name]))
        return choose(order, cost, done, rounds=self.rounds, left=left * self.jobs)

    def _finished(self, name: str, ahead: set[Fit]) -> set[int]:
        if self.cannot_run(name):
            return set(range(self.rounds))
        fits = {number: self.fit(name, number) for number in range(self.rounds)}
        return {number for number, fit in fits.items() if fit in self.store or fit in ahead}

    def _measured(self, name: str) -> list[float]:
        """Seconds on the clock of the fits that are finished; on the processor, where no more is known."""
        return [float(record.get("elapsed", record["seconds"])) for record in self._records(name)]

    def _records(self, name: str) -> list[dict[str, Any]]:
        fits = (self.fit(name, number) for number in range(self.rounds))
        return [self.store[fit] for fit in fits if fit in self.store]
