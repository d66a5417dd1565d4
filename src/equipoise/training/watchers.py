"""Watchers that are notified of every step and epoch, and the progress bar."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

Record = dict[str, Any]


class Watcher(Protocol):
    """Interface of a watcher: called at every step and every epoch."""

    def step(self, epoch: int, stage: str, steps: int) -> None:
        """Handle one more of the ``steps`` of an epoch."""

    def epoch(self, record: Record) -> None:
        """Handle the end of an epoch."""


class Silence:
    """No-op watcher."""

    def step(self, epoch: int, stage: str, steps: int) -> None:
        """Do nothing."""

    def epoch(self, record: Record) -> None:
        """Do nothing."""


_around: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers of every training", default=())


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Notify a watcher of every training inside the block, even within other estimators; it may raise to end it."""
    token = _around.set((*_around.get(), watcher))
    try:
        yield
    finally:
        _around.reset(token)


def all_watchers(own: Watcher | None) -> tuple[Watcher, ...]:
    """Return a training's own watcher combined with those of the enclosing blocks."""
    return (*(() if own is None else (own,)), *_around.get())


class Bar:
    """A progress bar with stage, epoch, loss and validation recall; it draws nothing without a terminal.

    Args:
        epochs: total number of epochs.
        shown: False draws nothing.
        console: the rich console to draw on; None is standard error.

    >>> with Bar(epochs=2) as bar:  # ``train(..., watcher=bar)`` calls both
    ...     bar.step(0, "softmax", 10)
    ...     bar.epoch({"epoch": 0, "loss": 0.5, "recall_rare": 0.25})
    ...     bar.progress.tasks[0].fields["scores"]
    'loss 0.500 · recall rare 0.250'
    """

    def __init__(self, epochs: int, *, shown: bool = True, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
        )
        self.epochs = epochs
        self.task = self.progress.add_task("starting", total=epochs, scores="")

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def step(self, epoch: int, stage: str, steps: int) -> None:
        """Advance the bar by one of the ``steps`` of an ``epoch``, counted from 0, in a ``stage``."""
        self.progress.update(self.task, advance=1 / steps, description=f"{stage:<7} epoch {epoch + 1}/{self.epochs}")

    def epoch(self, record: Record) -> None:
        """Show the loss and the recalls of an epoch's ``record``."""
        parts = [f"loss {record['loss']:.3f}"]
        groups = [group for group in ("rare", "common") if f"recall_{group}" in record]
        if groups:
            parts.append(" ".join(["recall", *(f"{group} {record[f'recall_{group}']:.3f}" for group in groups)]))
        self.progress.update(self.task, completed=float(record["epoch"] + 1), scores=" · ".join(parts))
