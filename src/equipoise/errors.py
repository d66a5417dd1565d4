"""One family of errors: every message says what was expected, what came, and what to do."""

from collections.abc import Sequence


class EquipoiseError(Exception):
    """Anything equipoise refuses to do; the message is one sentence for a person."""


class InvalidInputError(EquipoiseError, ValueError):
    """A value that cannot be used: a wrong shape, range, type or name."""


class InvalidStateError(EquipoiseError, RuntimeError):
    """The right call at the wrong time, or on an object that is not ready for it."""


class ShortTrainingWarning(UserWarning):
    """The epochs asked for leave a stage of training too few optimiser steps; the message says how many it takes."""


def listed(names: Sequence[str], *, most: int = 3, quoted: bool = True) -> str:
    """Return the first few names, and how many more there are.

    >>> listed(list("abcde")), listed(list("abcde"), most=4, quoted=False)
    ("'a', 'b', 'c' and 2 more", 'a, b, c, d and 1 more')
    """
    first = ", ".join(repr(name) if quoted else name for name in names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most:,} more"
