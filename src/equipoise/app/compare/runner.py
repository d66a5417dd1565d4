"""Running the fits that are not finished, one after the other or in several processes."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from equipoise.app.compare.deadline import Clock, OutOfTimeError
from equipoise.app.compare.results import CannotRunError, Fit, ResultStore
from equipoise.app.compare.schedule import Schedule
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.resources import begin_worker

Run = Callable[[Fit], Mapping[str, Any]]
"""Fits one fit and returns plain values, ``scores`` among them."""
Progress = Callable[[Fit, int, int], None]
"""Told of the fit just finished, and how many of how many are."""
Keep = Callable[[Fit, Mapping[str, Any]], None]


def run_fits(
    fits: Iterable[Fit],
    store: ResultStore,
    run: Run,
    *,
    progress: Progress | None = None,
    jobs: int = 1,
) -> None:
    """Run what the store does not hold yet; each result is on disk before the next is waited for.

    A method that cannot run on the data is a result as well: its record has ``cannot_run``, a sentence, and no scores.
    Any other error ends the run, and what was finished is kept.

    Args:
        fits: in the order in which they are run.
        store: open.
        run: with several jobs it is pickled once a process, so it may hold the data.
        progress: told of each finished fit, how many are, and how many there will be.
        jobs: processes, each with one thread for torch.

    >>> fits = [Fit("iris", "focal", seed) for seed in range(3)]
    >>> with ResultStore(None, data={}, settings={}) as store:
    ...     run_fits(fits, store, lambda fit: {"scores": {"accuracy": 0.9 + fit.seed / 100}})
    ...     [record["scores"]["accuracy"] for record in store.records]
    [0.9, 0.91, 0.92]
    """
    if jobs < 1:
        raise InvalidInputError(f"jobs must be at least 1, got {jobs}.")
    wanted = list(dict.fromkeys(fits))
    left = [fit for fit in wanted if fit not in store]
    done = len(wanted) - len(left)

    def keep(fit: Fit, result: Mapping[str, Any]) -> None:
        nonlocal done
        store.add(fit, result)
        done += 1
        if progress is not None:
            progress(fit, done, len(wanted))

    _run_each(iter(left), run, keep, min(jobs, max(1, len(left))))


def run_schedule(
    schedule: Schedule, store: ResultStore, run: Run, *, progress: Progress | None = None, jobs: int = 1
) -> None:
    """Run what a schedule hands out, until it has nothing more that fits into the time left.

    Args:
        schedule: asked for each fit when there is a process for it.
        store, run, progress, jobs: as in :func:`run_fits`. A run that raises OutOfTimeError ends them all.
    """

    def keep(fit: Fit, result: Mapping[str, Any]) -> None:
        store.add(fit, result)
        if progress is not None:
            progress(fit, schedule.done, schedule.total)

    with suppress(OutOfTimeError):
        _run_each(iter(schedule), run, keep, jobs, schedule.deadline.clock)


def _run_each(
    waiting: Iterator[Fit],
    run: Run,
    keep: Keep,
    jobs: int,
    clock: Clock = time.monotonic,
) -> None:
    if jobs == 1:
        for fit in waiting:
            keep(fit, timed(run, fit, clock))
    else:
        _in_processes(waiting, run, keep, jobs)


def timed(run: Run, fit: Fit, clock: Clock = time.monotonic) -> dict[str, Any]:
    """A fit's result, or the sentence that says why there is none, with the ``seconds`` it took on the processor and
    those that ``elapsed`` on the clock."""
    started, began = time.process_time(), clock()
    try:
        result = dict(run(fit))
    except CannotRunError as error:
        result = {"cannot_run": str(error)}
    return result | {"seconds": round(time.process_time() - started, 3), "elapsed": round(clock() - began, 3)}


def _in_processes(waiting: Iterator[Fit], run: Run, keep: Keep, jobs: int) -> None:
    # spawn: a fork would copy torch's threads in the middle of whatever they do
    context = multiprocessing.get_context("spawn")
    running: dict[Future[dict[str, Any]], Fit] = {}
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(run,)) as pool:
        try:
            for fit in waiting:
                running[pool.submit(_work, fit)] = fit
                if len(running) >= jobs:
                    _keep_finished(running, keep)
            while running:
                _keep_finished(running, keep)
        except BrokenProcessPool as error:
            raise InvalidStateError(
                "a process that ran a fit has died, perhaps for lack of memory; finished fits are kept: run again "
                "with fewer jobs."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _keep_finished(running: dict[Future[dict[str, Any]], Fit], keep: Keep) -> None:
    """Wait for one fit at least; keep all that are finished before an error of one of them is raised."""
    failed: BaseException | None = None
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        fit = running.pop(future)
        error = future.exception()
        if error is None:
            keep(fit, future.result())
        failed = failed or error
    if failed is not None:
        raise failed


_run: Run | None = None  # of this worker process


def _start_worker(run: Run) -> None:
    import torch

    global _run  # noqa: PLW0603
    _run = run
    torch.set_num_threads(1)
    begin_worker()


def _work(fit: Fit) -> dict[str, Any]:
    assert _run is not None
    return timed(_run, fit)
