"""The library's exceptions: every message says what was expected, what was given, and what to do."""

import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class EquipoiseError(Exception):
    """Base class of everything equipoise refuses to do; the message is one sentence for the user."""


class InvalidInputError(EquipoiseError, ValueError):
    """An unusable value: wrong shape, range, type or name."""


class InvalidStateError(EquipoiseError, RuntimeError):
    """A valid call at the wrong time, such as on an object that is not fitted yet."""


class EquipoiseWarning(UserWarning):
    """Base class of what equipoise does although the user should know; the message is one sentence for the user."""


class ShortTrainingWarning(EquipoiseWarning):
    """Too few optimiser steps in a stage of training; the message says how many it needs."""


class OtherProcessesWarning(EquipoiseWarning):
    """A run is resumed by another number of processes; the message says what stays the same."""


class Muted:
    """Context that silences warnings in any thread: filters are global, so the last context to exit restores them."""

    def __init__(self, message: str = "", *, module: str = "") -> None:
        self._wanted, self._lock, self._inside = (message, Warning, module), threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.filterwarnings("ignore", *self._wanted)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._before.__exit__(None, None, None)


def reason(error: BaseException) -> str:
    """Return why an error occurred, as one line to put into a sentence: the system's reason, its text, or its name.

    >>> reason(FileNotFoundError(2, "No such file")), reason(EOFError())
    ('No such file', 'EOFError')
    """
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:200].rstrip(".")


@contextmanager
def readable(what: object, remedy: str, *damage: type[Exception]) -> Iterator[None]:
    """Turn the system's refusal to read, text that is not UTF-8, and signs of ``damage`` into one sentence."""
    refused: tuple[type[Exception], ...] = (OSError, UnicodeDecodeError, *damage)
    try:
        yield
    except refused as error:
        raise InvalidInputError(f"{what} cannot be read ({reason(error)}); {remedy}.") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the known one that was probably meant, or a full stop.

    >>> did_you_mean("focl", ["focal", "vs"]), did_you_mean("boosting", ["focal", "vs"])
    ("; did you mean 'focal'?", '.')
    """
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."


def listed(names: Sequence[str], *, most: int = 3, quoted: bool = True) -> str:
    """Return the first few names and how many more there are.

    >>> listed(list("abcde")), listed(list("abcde"), most=4, quoted=False)
    ("'a', 'b', 'c' and 2 more", 'a, b, c, d and 1 more')
    """
    first = ", ".join(repr(name) if quoted else name for name in names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most:,} more"
