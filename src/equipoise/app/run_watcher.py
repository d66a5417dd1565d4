"""The progress of a run, and who receives it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.data.profile import ColumnProfile
    from equipoise.data.summary import ClassSummary


class RunWatcher:
    """Receives the progress of a run, and keeps its sentences. This one is silent; the command line's prints."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, *sentences: str) -> None:
        """Receive sentences about the data or about a choice."""
        self.notes += sentences

    def summary(self, classes: "ClassSummary", *, train: int, test: int) -> None:  # noqa: ARG002
        """Receive the classes and the numbers of training and test samples, before training starts."""
        self.note(*classes.notes)

    def columns(self, profiles: "Sequence[ColumnProfile]") -> None:
        """Receive the profile of a table's columns, before training starts."""

    def progress(self, done: int, total: int) -> None:
        """Receive the number of images done, and their total."""
