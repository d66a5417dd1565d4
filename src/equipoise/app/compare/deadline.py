"""A time limit, and a way out of whatever is still running when it is reached."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from equipoise.cores_and_memory import LEFT_BEHIND
from equipoise.errors import EquipoiseError
from equipoise.training.watchers import Silence, watched_by
from equipoise.wording import duration

Clock = Callable[[], float]
"""Seconds from any fixed moment, such as ``time.monotonic``."""
Reading = Callable[[int, int], None]
"""Called with the number of images done, and their total."""
Result = TypeVar("Result")
POLL, GRACE = 0.05, 1.0
"""Seconds between two looks at the clock, and seconds that a call may take to end by itself."""


class OutOfTimeError(EquipoiseError):
    """The time limit was reached; what was finished before is kept."""


@dataclass
class Deadline(Silence):
    """A time limit on a clock.

    Args:
        started: when the time began to run, by the clock.
        seconds: from then on.
        clock: where it is read; in other processes too, so it must be picklable and the same for all of them.
        cancelled: whether the limit counts as reached, whatever the clock says.

    >>> deadline = Deadline(started=100.0, seconds=10.0, clock=lambda: 107.5)
    >>> deadline.spent, deadline.left
    (7.5, 2.5)
    """

    started: float
    seconds: float
    clock: Clock = time.monotonic
    cancelled: bool = False

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def left(self) -> float:
        """Seconds left; 0 or less once the limit is reached."""
        return 0.0 if self.cancelled else self.seconds - self.spent

    def check(self) -> None:
        """Raise OutOfTimeError once the limit is reached."""
        if self.left <= 0:
            raise OutOfTimeError("the time limit was reached.")

    def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
        """End a training at the step at which the limit is reached: a deadline is a watcher."""
        self.check()

    def call(self, function: Callable[[], Result]) -> Result:
        """Return a function's result, or raise OutOfTimeError at the limit.

        A training in it ends at its next step. The function runs in a thread, because compiled code cannot be
        interrupted: at the limit the thread is left behind, and ends with the process at the latest.
        """
        self.check()
        found: list[Result] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with watched_by(self):
                    found.append(function())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and self.left > 0:
                thread.join(POLL)
        except BaseException:  # Ctrl-C: a training ends at its next step
            self.cancelled = True
            thread.join(GRACE)
            raise
        thread.join(GRACE)
        if thread.is_alive():
            thread.name = LEFT_BEHIND
        if failed:
            raise failed[0]
        if not found:
            self.check()
        return found[0]


class Pace:
    """Measures how fast images are processed, and raises once they cannot all be done by the ``limit``."""

    def __init__(self, limit: Deadline, reading: Reading | None) -> None:
        self.limit, self.reading = limit, reading
        self.first: tuple[float, int] | None = None  # the first batch warms up
        self.needed = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Record how many images are done, of how many."""
        if self.reading is not None:
            self.reading(done, total)
        now = self.limit.clock()
        if self.first is None or self.first[1] == 0:
            self.first = now, done
        elif done > self.first[1]:
            self.needed = (now - self.first[0]) / (done - self.first[1]) * (total - done)
        if self.needed > self.limit.left:
            raise OutOfTimeError(self.sentence())

    def sentence(self) -> str:
        """Return a sentence on the missing time, and what to do."""
        missing = f"about {duration(self.needed)} more" if self.needed > 0 else "longer"
        return (
            f"extracting the image features takes {missing}, and the budget leaves less; give more minutes: finished "
            "features are kept, and the same command continues from there."
        )
