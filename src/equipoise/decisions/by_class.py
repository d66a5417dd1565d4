"""Numbers by class, as in ``{"fraud": 0.95}``, and class names."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from equipoise.errors import InvalidInputError, listed
from equipoise.storage.records import MOST_CLASSES

Label = str | int | float | bool


class ByClass(Mapping[Label, float]):
    """An immutable mapping from labels to numbers that keeps and compares their order.

    >>> ByClass({"fraud": 0.95}), ByClass({"a": 1, "b": 2}) == ByClass({"b": 2, "a": 1})
    ({'fraud': 0.95}, False)
    """

    __slots__ = ("_pairs",)

    def __init__(self, given: Mapping[Any, Any] | Iterable[Any], what: str = "numbers by class") -> None:
        try:
            pairs = [(label, number) for label, number in (given.items() if isinstance(given, Mapping) else given)]
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{what} must be given by class, such as {{'fraud': 0.95}}, got {given!r}."
            ) from None
        self._pairs = tuple((plain_label(label, what), _number(number, label, what)) for label, number in pairs)
        names = [str(label) for label, _ in self._pairs]
        if not names:
            raise InvalidInputError(f"{what} must name at least one class, such as {{'fraud': 0.95}}, got none.")
        if len(names) > MOST_CLASSES or len(set(names)) < len(names):
            raise InvalidInputError(f"{what} must name each class once, got {listed(names)}.")

    def __getitem__(self, label: Label) -> float:
        return dict(self._pairs)[label]

    def __iter__(self) -> Iterator[Label]:
        return (label for label, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return self._pairs == other._pairs if isinstance(other, ByClass) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return repr(dict(self._pairs))

    def __reduce__(self) -> tuple[Any, ...]:
        return ByClass, (self._pairs,)

    def to_json(self) -> list[list[Any]]:
        """Return pairs, since JSON has no numbers as keys."""
        return [list(pair) for pair in self._pairs]

    def within(self, low: float, high: float, what: str) -> "ByClass":
        """Return itself if all numbers lie strictly between ``low`` and ``high``."""
        for label, number in self._pairs:
            if not low < number < high:
                hint = f"; did you mean {number / 100:g}?" if high == 1 and 2 <= number < 100 else "."
                raise InvalidInputError(
                    f"{what} of {label!r} must be above {low:g} and below {high:g}, got {number:g}{hint}"
                )
        return self


def plain_label(label: Any, what: str) -> Label:
    """Return a class name as Python's own text or number, as JSON stores it; an error calls it by ``what``.

    >>> plain_label(np.int64(1), "of")
    1
    """
    plain = plain_value(label)
    if not isinstance(plain, str | int | float):
        raise InvalidInputError(f"{what} must name classes by text or numbers, got {label!r}.")
    return plain


def plain_value(value: Any) -> Any:
    """Return a numpy scalar as Python's own type, and anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def _number(number: Any, label: Any, what: str) -> float:
    plain = plain_value(number)
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not math.isfinite(plain):
        raise InvalidInputError(f"{what} must be finite numbers, got {number!r} for {label!r}.")
    return float(plain)


def place_of(label: Label, classes: Sequence[Label]) -> int:
    """Return the index of a label among the classes; text from a command line matches numbers, too.

    >>> place_of("1", [0, 1])
    1
    """
    for place, known in enumerate(classes):
        if known == label and isinstance(known, str) == isinstance(label, str):
            return place
    names = [str(known) for known in classes]
    if str(label) in names:
        return names.index(str(label))
    near = get_close_matches(str(label), names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"the classes are {listed(names, most=10, quoted=False)}."
    raise InvalidInputError(f"unknown class {str(label)!r}; {hint}")
