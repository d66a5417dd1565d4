"""How long one fit of each method takes, from its first steps and from small samples of the rows."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from equipoise.app.compare.deadline import Deadline
from equipoise.app.compare.methods import METHODS
from equipoise.app.compare.network import CannotRunError
from equipoise.app.compare.single_fit import FoldRun
from equipoise.training.callbacks import Record

STEPS, FEWEST_STEPS = 10, 3
SHARE = 0.01
"""Of the time left: a measurement that takes more is not made more precise."""
SMALL, ENOUGH = 500, 1 / 8
"""Rows of the first sample, and share of all rows beyond which no larger one is tried."""


class _Measured(Exception):  # noqa: N818
    """Ends a training of which enough is known."""


class FirstSteps:
    """A watcher that times the first steps of a training and then ends it.

    Args:
        deadline: of the measurement too.
        steps: how many intervals between steps; 0 ends at the first step.
    """

    def __init__(self, deadline: Deadline, steps: int) -> None:
        self.deadline, self.steps = deadline, steps
        self.times: list[float] = []
        self.in_an_epoch = 0
        self.patience = SHARE * deadline.left

    def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
        """Note the time; raise once there is enough."""
        self.deadline.check()
        self.times.append(self.deadline.clock())
        self.in_an_epoch = steps
        done = len(self.times) - 1
        if done >= self.steps or (done >= FEWEST_STEPS and self.times[-1] - self.times[0] > self.patience):
            raise _Measured

    def epoch(self, record: Record) -> None:
        """Nothing: steps are what is timed."""

    @property
    def seconds_a_step(self) -> float:
        """The median interval; 0 where the training had one step."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else 0.0


def estimate_costs(names: Iterable[str], run: FoldRun, deadline: Deadline, found: dict[str, float]) -> None:
    """Put the seconds of one fit of each method into ``found``, one by one.

    All networks have the same size, rows and steps, so the first steps of one tell of all; a resampler changes the
    number of steps where epochs are asked for, and takes time itself, as a support vector machine does. That time is
    measured on samples of the rows, and taken to grow with the square of their number.
    """
    train = run.split(0)[0][0]
    sizes = run.options.settings(len(train), 0)
    watcher = FirstSteps(deadline, STEPS)
    setup = _small_fit(run, "cross_entropy", train, watcher)
    network = setup + watcher.in_an_epoch * sizes.epochs * watcher.seconds_a_step
    for name in names:
        if METHODS[name].family in ("resampling", "svm"):
            before, steps = _growing(run, name, train, deadline, setup)
            found[name] = before + steps * watcher.seconds_a_step
        else:
            found[name] = network
        if run.tune and len(METHODS[name].grid) > 1:
            found[name] *= 1 + len(METHODS[name].grid)


def _growing(run: FoldRun, name: str, rows: NDArray[np.intp], deadline: Deadline, setup: float) -> tuple[float, float]:
    """Seconds before the first step, and steps of a fit, on all rows; (0, 0) where the sample does not allow it."""
    number = min(SMALL, len(rows))
    while True:
        watcher = FirstSteps(deadline, 0)
        patience = SHARE * deadline.left
        try:
            taken = _small_fit(run, name, _spread(run.samples.y[rows], rows, number), watcher)
        except CannotRunError:
            return 0.0, 0.0
        if number >= ENOUGH * len(rows) or taken > patience:
            ratio = len(rows) / number
            own = max(0.0, taken - setup) * ratio**2 if watcher.times else taken * ratio**2
            visits, epochs = run.options.epochs, run.options.settings(len(rows), 0).epochs
            steps = watcher.in_an_epoch * (epochs if visits is None else visits * ratio)
            return own + (setup if watcher.times else 0.0), steps
        number = min(2 * number, len(rows))


def _small_fit(run: FoldRun, name: str, rows: NDArray[np.intp], watcher: FirstSteps) -> float:
    """Seconds until the first step of a fit on some rows, or until its end where it has no steps."""
    all_rows = len(run.split(0)[0][0])
    sizes = run.options.settings(all_rows, 0)
    options = replace(
        run.options,
        batch_size=sizes.batch_size,
        width=run.options.width_for(all_rows),
        watcher=watcher,
    )
    started = watcher.deadline.clock()
    try:
        replace(run, options=options, tune=False, deadline=None).fit(name, rows, rows[:1], seed=0)
    except _Measured:
        return watcher.times[0] - started
    return (watcher.times[0] if watcher.times else watcher.deadline.clock()) - started


def _spread(y: NDArray[np.generic], rows: NDArray[np.intp], number: int) -> NDArray[np.intp]:
    """So many of the rows, with every class in its share."""
    if number >= len(rows) or y.ndim > 1:
        return rows[:number]
    codes = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes))
    place[order] = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    return np.sort(rows[np.argsort(place, kind="stable")[:number]])
