"""The progress of a run: who receives it, and a record of its sentences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.data.profile import ColumnProfile
    from equipoise.data.summary import ClassSummary


class RunWatcher:
    """Receives the progress of a run. This one is silent; the command line's prints."""

    def note(self, sentence: str) -> None:
        """Receive a sentence about the data or about a choice."""

    def summary(self, classes: "ClassSummary", *, train: int, test: int) -> None:
        """Receive the classes and the numbers of training and test samples, before training starts."""

    def columns(self, profiles: "Sequence[ColumnProfile]") -> None:
        """Receive the profile of a table's columns, before training starts."""

    def progress(self, done: int, total: int) -> None:
        """Receive the number of images done, and their total."""


class NoteTaker(RunWatcher):
    """Watcher that passes everything on and records the sentences."""

    def __init__(self, watcher: RunWatcher) -> None:
        self.watcher, self.notes = watcher, list[str]()

    def note(self, sentence: str) -> None:
        """Pass on and record a note."""
        self.notes.append(sentence)
        self.watcher.note(sentence)

    def summary(self, classes: "ClassSummary", *, train: int, test: int) -> None:
        """Pass on a summary, and record its notes."""
        self.notes += classes.notes
        self.watcher.summary(classes, train=train, test=test)

    def columns(self, profiles: "Sequence[ColumnProfile]") -> None:
        """Pass on the columns."""
        self.watcher.columns(profiles)

    def progress(self, done: int, total: int) -> None:
        """Pass on the progress."""
        self.watcher.progress(done, total)
