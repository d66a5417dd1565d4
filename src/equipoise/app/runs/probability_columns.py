"""Matching of columns in a table of predictions to the classes whose probabilities they hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError, listed

PREFIXES = ("p_", "prob_", "probability_", "")
"""Prefixes of a class's name in the name of its column."""
ALONE = ("p", "prob", "probability", "score")
"""Names of a column with the probability of one of two classes."""


def found_columns(frame: Any, labels: NDArray[Any], place: NDArray[np.intp], where: str) -> list[str | None]:
    """Find the column of each of the sorted labels by name; None for the one of two labels that gets the rest.

    ``place`` has the index of each row's label, (rows,).
    """
    taken = _named(list(frame.columns), labels, where)
    return _alone(str(taken[1]), frame, labels, place) if None in taken and str(taken[1]).lower() in ALONE else taken


def _named(header: list[str], labels: NDArray[Any], where: str) -> list[str | None]:
    """Find a column for each label by name; with two labels, one is enough."""
    by_name = {name.lower(): name for name in reversed(header)} | {name: name for name in header}
    several: dict[str, list[str | None]] = {}
    for prefix in PREFIXES:
        wanted = [f"{prefix}{label}" for label in labels]
        several[prefix] = [by_name.get(name, by_name.get(name.lower())) for name in wanted]
        if len(set(filter(None, several[prefix]))) < sum(map(bool, several[prefix])):  # classes differ only in case
            several[prefix] = [name if name in header else None for name in wanted]
        if None in several[prefix]:
            continue
        more = [name for name in header if prefix and name.startswith(prefix) and name not in several[prefix]]
        if more:
            raise InvalidInputError(
                f"{where} has the column {more[0]!r} and no row with the label {more[0].removeprefix(prefix)!r}; give "
                "labelled rows of every class, or choose columns with --columns."
            )
        return several[prefix]
    if len(labels) == 2:
        single = next((taken for taken in several.values() if any(taken)), None)
        if single is not None:
            return single
        alone = next((by_name[name] for name in ALONE if name in by_name), None)
        if alone is not None:
            return [None, alone]
    prefix, best = max(several.items(), key=lambda pair: sum(name is not None for name in pair[1]))
    lacks = str(labels[best.index(None)])
    if not any(best):
        ways = f"p_{lacks}, prob_{lacks}, probability_{lacks} or {lacks}"
        raise InvalidInputError(
            f"{where} has no column of probabilities named {ways}; rename them, or name them with --columns."
        )
    raise InvalidInputError(
        f"{where} has rows with the label {lacks!r} and no column {prefix + lacks!r}; give the probability of every "
        "class, or name the columns with --columns."
    )


def _alone(column: str, frame: Any, labels: NDArray[Any], place: NDArray[np.intp]) -> list[str | None]:
    """Assign a column without a class in its name: to the second of two numbers, or of two words to the class whose
    rows have higher values."""
    if labels.dtype.kind in "biu":
        return [None, column]
    values = pd.to_numeric(frame[column], errors="coerce")
    first = values[place == 0].mean() > values[place == 1].mean()
    return [column, None] if first else [None, column]


def asked_columns(asked: str, header: Sequence[str], classes: Sequence[str], where: str) -> list[str | None]:
    """Return the columns named by ``--columns``, in the order of the classes; None for the one that gets the rest.

    Args:
        asked: columns in the order of the classes, or ``class=column``, separated by commas. With two classes, the
            second one's column is enough; with ``class=column``, one class may be left out.
    """
    entries = [_entry(part.strip(), header) for part in asked.split(",") if part.strip()]
    wanted = [column for _, column in entries]
    for name in wanted:
        if name not in header:
            raise InvalidInputError(f"{where} has no column {name!r}; its columns are: {listed(header, most=10)}.")
    by_class = {own: column for own, column in entries if own}
    if by_class and (set(by_class) - set(classes) or len(by_class) < len(entries)):
        raise InvalidInputError(
            f"--columns must be columns, or class=column for each of the classes {listed(classes)}, got {asked!r}."
        )
    fewest = len(classes) - 1 if by_class or len(classes) == 2 else len(classes)
    if not fewest <= len(wanted) <= len(classes) or len(set(wanted)) < len(wanted):
        raise InvalidInputError(
            f"--columns must name {len(classes)} different columns, one for each of {listed(classes)}, got {asked!r}."
        )
    if by_class:
        return [by_class.get(name) for name in classes]
    return [None, *wanted] if len(wanted) < len(classes) else list(wanted)


def _entry(part: str, header: Sequence[str]) -> tuple[str, str]:
    """Return the class, if named, and the column."""
    own, equals, column = part.partition("=")
    return ("", part) if part in header or not equals else (own.strip(), column.strip())
