"""Running unfinished fits, one after the other or in several processes."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from equipoise.app.compare.deadline import Clock
from equipoise.app.compare.fit_store import CannotRunError, Fit, ResultStore
from equipoise.cores_and_memory import begin_worker
from equipoise.errors import InvalidInputError, InvalidStateError

FitFunction = Callable[[Fit], Mapping[str, Any]]
"""Makes one fit and returns plain values, ``scores`` among them."""
Progress = Callable[[Fit, int, int], None]
"""Called with the fit just finished, the number finished, and the total."""
Finished = tuple[Fit, dict[str, Any]]


def run_fits(
    fits: Iterable[Fit],
    store: ResultStore,
    run: FitFunction,
    *,
    progress: Progress | None = None,
    jobs: int = 1,
    clock: Clock = time.monotonic,
    counts: Callable[[], tuple[int, int]] | None = None,
) -> None:
    """Run fits that the store does not hold yet; each result is on disk before the next is waited for.

    A method that cannot run on the data is a result as well: its record has ``cannot_run``, a sentence, and no scores.
    Any other error ends the run, and what was finished is kept.

    Args:
        fits: in the order in which they are run; the next is asked for when there is a process for it.
        store: open.
        run: with several jobs it is pickled once per process, so it may hold the data.
        progress: called with each finished fit, the number finished, and the number in all.
        jobs: processes, each with one thread for torch.
        clock: seconds, of fits in this process.
        counts: returns the numbers of finished and expected fits, where ``fits`` are generated on the way.

    >>> fits = [Fit("iris", "focal", seed) for seed in range(3)]
    >>> with ResultStore(None, data={}, settings={}) as store:
    ...     run_fits(fits, store, lambda fit: {"scores": {"accuracy": 0.9 + fit.seed / 100}})
    ...     [record["scores"]["accuracy"] for record in store.records]
    [0.9, 0.91, 0.92]
    """
    if jobs < 1:
        raise InvalidInputError(f"jobs must be at least 1, got {jobs}.")
    if counts is None:
        wanted = list(dict.fromkeys(fits))
        fits = [fit for fit in wanted if fit not in store]
        jobs = min(jobs, max(1, len(fits)))
        counts = partial(_counted, wanted, store)
    for fit, result in _in_processes(fits, run, jobs) if jobs > 1 else ((fit, timed(run, fit, clock)) for fit in fits):
        store.add(fit, result)
        if progress is not None:
            progress(fit, *counts())


def _counted(wanted: list[Fit], store: ResultStore) -> tuple[int, int]:
    return sum(fit in store for fit in wanted), len(wanted)


def timed(run: FitFunction, fit: Fit, clock: Clock = time.monotonic) -> dict[str, Any]:
    """Return the result, or why there is none, with its ``seconds`` of CPU time and ``elapsed`` wall time."""
    started, began = time.process_time(), clock()
    try:
        result = dict(run(fit))
    except CannotRunError as error:
        result = {"cannot_run": str(error)}
    return result | {"seconds": round(time.process_time() - started, 3), "elapsed": round(clock() - began, 3)}


def _in_processes(fits: Iterable[Fit], run: FitFunction, jobs: int) -> Iterator[Finished]:
    # spawn: a fork would copy torch's threads in the middle of whatever they do
    context = multiprocessing.get_context("spawn")
    running: dict[Future[dict[str, Any]], Fit] = {}
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(run,)) as pool:
        try:
            for fit in fits:
                running[pool.submit(_work, fit)] = fit
                if len(running) >= jobs:
                    yield from _finished(running)
            while running:
                yield from _finished(running)
        except BrokenProcessPool as error:
            raise InvalidStateError(
                "a process that ran a fit has died, perhaps because memory ran out; finished fits are kept: run "
                "again with fewer jobs."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _finished(running: dict[Future[dict[str, Any]], Fit]) -> Iterator[Finished]:
    """Wait for at least one fit; yield all that are finished before raising an error of one of them."""
    done = [(running.pop(future), future) for future in wait(running, return_when=FIRST_COMPLETED).done]
    for fit, future in sorted(done, key=lambda each: each[1].exception() is not None):
        yield fit, future.result()


_run: FitFunction | None = None  # of this worker process


def _start_worker(run: FitFunction) -> None:
    import torch

    global _run  # noqa: PLW0603
    _run = run
    torch.set_num_threads(1)
    begin_worker()


def _work(fit: Fit) -> dict[str, Any]:
    assert _run is not None
    return timed(_run, fit)
