"""Who is told what a run does."""

from typing import Protocol

from equipoise.data.summary import ClassSummary


class Watcher(Protocol):
    """Told of what a run does; the command line prints it."""

    def note(self, sentence: str) -> None:
        """A sentence about the data or about what was chosen."""

    def summary(self, classes: ClassSummary, *, train: int, test: int) -> None:
        """The classes, before training starts, and how many samples train and test."""

    def progress(self, done: int, total: int) -> None:
        """So many images of so many are through."""


class Silence:
    """Tells nobody."""

    def note(self, sentence: str) -> None: ...

    def summary(self, classes: ClassSummary, *, train: int, test: int) -> None: ...

    def progress(self, done: int, total: int) -> None: ...


class NoteTaker:
    """Passes everything on, and remembers the sentences."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher, self.notes = watcher, list[str]()

    def note(self, sentence: str) -> None:
        """Pass on and remember."""
        self.notes.append(sentence)
        self.watcher.note(sentence)

    def summary(self, classes: ClassSummary, *, train: int, test: int) -> None:
        """Pass on, and remember what it says beside the counts."""
        self.notes += classes.notes
        self.watcher.summary(classes, train=train, test=test)

    def progress(self, done: int, total: int) -> None:
        """Pass on."""
        self.watcher.progress(done, total)
