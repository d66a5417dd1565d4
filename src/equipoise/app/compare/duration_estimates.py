"""Estimates of a fit's duration: networks are timed over a few steps, other methods on a part of the rows."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from equipoise.app.compare.deadline import Deadline
from equipoise.app.compare.fit_store import CannotRunError
from equipoise.app.compare.single_fit import FoldFitter
from equipoise.data.splits import hold_out
from equipoise.training.watchers import Silence, watched_by

STEPS, FEWEST_STEPS = 10, 3
"""Training steps that are timed, and how many suffice if each takes long."""
SHARE = 0.01
"""Share of the remaining time that a measurement may take; a longer one is cut short."""
SHARE_OF_ALL = 1 / 4
"""Share that all measurements may take together, so that fits follow; no further method is measured then."""
SMALL, ENOUGH = 500, 1 / 8
"""Rows of the first sample, and share of all rows beyond which no larger one is tried."""


class Measured(Exception):  # noqa: N818
    """Raised to end a training once enough has been measured."""


class FirstSteps(Silence):
    """A watcher that times the first steps of a training, none of them with 0 ``steps``, and then ends it."""

    def __init__(self, deadline: Deadline, steps: int) -> None:
        self.deadline, self.steps = deadline, steps
        self.times: list[float] = []
        self.in_an_epoch = 0
        self.patience = SHARE * deadline.left

    def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
        """Record the time; raise once there is enough."""
        self.times.append(self.deadline.clock())
        self.in_an_epoch = steps
        done = len(self.times) - 1
        if done >= self.steps or (done >= FEWEST_STEPS and self.times[-1] - self.times[0] > self.patience):
            raise Measured

    @property
    def seconds_a_step(self) -> float:
        """Median interval; 0 if the training had one step."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else 0.0


def estimate_durations(names: Iterable[str], run: FoldFitter, deadline: Deadline, found: dict[str, float]) -> None:
    """Store the estimated seconds of one fit of each method in ``found``, one by one.

    All networks have the same size, rows and steps, so timing one is enough; a resampler changes the
    number of steps where epochs are asked for, and takes time itself, as a method without a network does. That time is
    measured on samples of the rows, once for all methods of a model, and taken to grow as the method declares. Methods
    are left out once a share of the time is spent.
    """
    until = deadline.clock() + SHARE_OF_ALL * deadline.left
    train = run.split(0)[0][0]
    watcher, setup = FirstSteps(deadline, STEPS), 0.0
    models: dict[str, float] = {}
    for name in names:
        if deadline.clock() > until:
            break
        method = run.method(name)
        if method.has_network and not watcher.times:
            setup = _small_fit(run, "cross_entropy", train, deadline, watcher)
        if method.network_only:
            epochs = run.options.length(len(train)).epochs
            found[name] = setup + watcher.in_an_epoch * epochs * watcher.seconds_a_step
        elif method.model in models:
            found[name] = models[method.model]
        else:
            before, steps = _growing(run, name, train, deadline, setup)
            found[name] = before + steps * watcher.seconds_a_step
            models |= {method.model: found[name]} if method.model else {}
        if run.tune and len(method.grid) > 1:
            found[name] *= 1 + len(method.grid)


def _growing(
    run: FoldFitter, name: str, rows: NDArray[np.intp], deadline: Deadline, setup: float
) -> tuple[float, float]:
    """Estimate the seconds before the first step, and the steps, of a fit on all rows; (0, 0) if it cannot run."""
    method = run.method(name)
    number, resampled = min(SMALL, len(rows)), method.has_network
    if not resampled:
        method.build(0, {}, run.options)  # its package is imported before time is taken
    while True:
        watcher = FirstSteps(deadline, 0) if resampled else None
        patience = SHARE * deadline.left
        some = (
            rows if number == len(rows) else rows[hold_out(run.samples.encoded[1][rows], number / len(rows), seed=0)[1]]
        )
        try:
            taken = _small_fit(run, name, some, deadline, watcher)
        except CannotRunError:
            return 0.0, 0.0
        if number >= ENOUGH * len(rows) or taken > patience:
            ratio = len(rows) / number
            if watcher is None:
                return taken * ratio**method.growth, 0.0
            length = run.options.length(len(rows))
            steps = watcher.in_an_epoch * length.epochs * (ratio if length.epoch_batches is None else 1)
            return setup + max(0.0, taken - setup) * ratio**method.growth, steps
        number = min(2 * number, len(rows))


def _small_fit(
    run: FoldFitter, name: str, rows: NDArray[np.intp], deadline: Deadline, watcher: FirstSteps | None
) -> float:
    """Time a fit on some rows until its first step, or until its end without a watcher."""
    options = run.options.sized(len(run.split(0)[0][0]))
    started = deadline.clock()
    with suppress(Measured), watched_by(watcher or Silence()):
        replace(run, options=options, tune=False).fit(name, rows, rows[:1], seed=0)
    return (watcher.times[0] if watcher is not None and watcher.times else deadline.clock()) - started
