"""Running the cells that are not finished, one after the other or in several processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from equipoise.app.compare.deadline import Clock, OutOfTimeError
from equipoise.app.compare.network import CannotRunError
from equipoise.app.compare.results import Cell, CellStore
from equipoise.app.compare.schedule import Schedule
from equipoise.errors import InvalidInputError, InvalidStateError

Run = Callable[[Cell], Mapping[str, Any]]
"""Fits one cell and returns plain values, ``scores`` among them."""
Progress = Callable[[Cell, int, int], None]
"""Told of the cell just finished, and how many of how many are."""
Keep = Callable[[Cell, Mapping[str, Any]], None]


def run_cells(
    cells: Iterable[Cell],
    store: CellStore,
    run: Run,
    *,
    progress: Progress | None = None,
    jobs: int = 1,
) -> None:
    """Run what the store does not hold yet; each result is on disk before the next is waited for.

    A method that cannot run on the data is a result as well: its record has ``cannot_run``, a sentence, and no scores.
    Any other error ends the run, and what was finished is kept.

    Args:
        cells: in the order in which they are run.
        store: open.
        run: with several jobs it is pickled once a process, so it may hold the data.
        progress: told of each finished cell, how many are, and how many there will be.
        jobs: processes, each with one thread for torch.

    >>> cells = [Cell("iris", "focal", seed) for seed in range(3)]
    >>> with CellStore(None, data={}, settings={}) as store:
    ...     run_cells(cells, store, lambda cell: {"scores": {"accuracy": 0.9 + cell.seed / 100}})
    ...     [record["scores"]["accuracy"] for record in store.records]
    [0.9, 0.91, 0.92]
    """
    if jobs < 1:
        raise InvalidInputError(f"jobs must be at least 1, got {jobs}.")
    wanted = list(dict.fromkeys(cells))
    left = [cell for cell in wanted if cell not in store]
    done = len(wanted) - len(left)

    def keep(cell: Cell, result: Mapping[str, Any]) -> None:
        nonlocal done
        store.add(cell, result)
        done += 1
        if progress is not None:
            progress(cell, done, len(wanted))

    _run_each(iter(left), run, keep, min(jobs, max(1, len(left))))


def run_schedule(
    schedule: Schedule, store: CellStore, run: Run, *, progress: Progress | None = None, jobs: int = 1
) -> None:
    """Run what a schedule hands out, until it has nothing more that fits into the time left.

    Args:
        schedule: asked for each cell when there is a process for it.
        store, run, progress, jobs: as in :func:`run_cells`. A run that raises OutOfTimeError ends them all.
    """

    def keep(cell: Cell, result: Mapping[str, Any]) -> None:
        store.add(cell, result)
        if progress is not None:
            progress(cell, schedule.done, schedule.total)

    with suppress(OutOfTimeError):
        _run_each(iter(schedule), run, keep, jobs, schedule.deadline.clock)


def _run_each(
    waiting: Iterator[Cell],
    run: Run,
    keep: Keep,
    jobs: int,
    clock: Clock = time.monotonic,
) -> None:
    if jobs == 1:
        for cell in waiting:
            keep(cell, timed(run, cell, clock))
    else:
        _in_processes(waiting, run, keep, jobs)


def timed(run: Run, cell: Cell, clock: Clock = time.monotonic) -> dict[str, Any]:
    """A cell's result, or the sentence that says why there is none, with the ``seconds`` it took on the processor and
    those that ``elapsed`` on the clock."""
    started, began = time.process_time(), clock()
    try:
        result = dict(run(cell))
    except CannotRunError as error:
        result = {"cannot_run": str(error)}
    return result | {"seconds": round(time.process_time() - started, 3), "elapsed": round(clock() - began, 3)}


def _in_processes(waiting: Iterator[Cell], run: Run, keep: Keep, jobs: int) -> None:
    # spawn: a fork would copy torch's threads in the middle of whatever they do
    context = multiprocessing.get_context("spawn")
    running: dict[Future[dict[str, Any]], Cell] = {}
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(run,)) as pool:
        try:
            for cell in waiting:
                running[pool.submit(_work, cell)] = cell
                if len(running) >= jobs:
                    _keep_finished(running, keep)
            while running:
                _keep_finished(running, keep)
        except BrokenProcessPool as error:
            raise InvalidStateError(
                "a process that ran a cell has died, perhaps for lack of memory; finished cells are kept: run again "
                "with fewer jobs."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _keep_finished(running: dict[Future[dict[str, Any]], Cell], keep: Keep) -> None:
    """Wait for one cell at least; keep all that are finished before an error of one of them is raised."""
    failed: BaseException | None = None
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        cell = running.pop(future)
        error = future.exception()
        if error is None:
            keep(cell, future.result())
        failed = failed or error
    if failed is not None:
        raise failed


_run: Run | None = None  # of this worker process


def _start_worker(run: Run) -> None:
    import torch

    global _run  # noqa: PLW0603
    _run = run
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one answers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed tells nobody: without this its workers would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(cell: Cell) -> dict[str, Any]:
    assert _run is not None
    return timed(_run, cell)
