"""Predictions of another model, from a table: checked probabilities per class, and true labels if there are any."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.texts import without_blanks
from equipoise.data.data_frames import relabelled
from equipoise.data.labels import class_indices
from equipoise.data.tables.read_table import PART_ROWS, iterate_table
from equipoise.data.tables.target_column import check_columns, choose_target, labels_of
from equipoise.data.tables.text_layout import check_names
from equipoise.errors import InvalidInputError, listed

IDS = ("id", "row", "file", "name", "key", "index", "sample")
TOLERANCE = 0.01
"""Tolerance for a row's probabilities to sum to 1, as they may be rounded."""
FEWEST_ROWS, FEWEST_OF_A_CLASS = 50, 2
"""Fewest rows of each class, to fit on some and score on others."""
Floats = NDArray[np.float64]
PREFIXES = ("p_", "prob_", "probability_", "")
"""Prefixes of a class's name in the name of its column."""
ALONE = ("p", "prob", "probability", "score")
"""Names of a column with the probability of one of two classes."""


@dataclass(frozen=True)
class LabelledPredictions:
    """Predictions with their true labels.

    Args:
        probabilities: (rows, classes).
        target: class indices, (rows,).
        classes: their names, sorted like the labels.
        columns: column of each class; None for the one that gets the rest.
        names: one column that names the rows, by its own name.
        notes: sentences on what was chosen or left out.
    """

    probabilities: Floats
    target: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: tuple[str | None, ...]
    names: dict[str, Any]
    notes: tuple[str, ...]


def read_labelled(source: str | Path, *, target: str | None, columns: str | None = None) -> LabelledPredictions:
    """Read predictions and labels from a CSV or Parquet file.

    Args:
        target: the label column; None takes the one column named target, label, class or y.
        columns: columns of the probabilities in the order of the sorted labels, or ``class=column``, separated by
            commas; None finds them by their names.
    """
    where = str(source)
    frame = pd.concat(iterate_predictions(source, rows=PART_ROWS))
    header = list(frame.columns)
    if len(frame) == 0:
        raise InvalidInputError(f"{where} has no rows; give a table with column names and rows.")
    check_columns(header, where)
    chosen = choose_target(header, target, where)
    if len(chosen) > 1:
        raise InvalidInputError(f"rebalance takes one column of labels, got {listed(chosen)}; choose one.")
    labels = without_blanks(frame[chosen[0]])
    known = labels.notna().to_numpy()
    if not known.any():
        raise InvalidInputError(f"{where} has no value in the target column {chosen[0]!r}; choose another target.")
    notes = []
    if not known.all():
        notes.append(f"{int((~known).sum())} of {len(known)} rows left out: no value in the column {chosen[0]!r}.")
    y, _ = labels_of(labels[known])
    found, place = class_indices(y)
    _check_counts(found, np.bincount(place), where)
    rest = [name for name in header if name != chosen[0]]
    classes = tuple(map(str, found))
    if columns is None:
        taken = found_columns(frame.loc[known, rest], found, place, where)
    else:
        taken = asked_columns(columns, rest, classes, where)
    notes += _taken_notes(taken, classes, asked=columns is not None)
    p = read_probabilities(frame[known], taken, where)
    if np.isnan(p).any():
        row = frame.index[known][int(np.isnan(p).any(1).argmax())]
        raise InvalidInputError(f"row {row} of {where} lacks a probability; fill it in, or leave the row out.")
    names = row_names(frame[known], taken, chosen[0])
    return LabelledPredictions(p, place.astype(np.int64), classes, tuple(taken), names, tuple(notes))


def _taken_notes(taken: Sequence[str | None], classes: Sequence[str], *, asked: bool) -> list[str]:
    """Return a note on which column was read as which class, if not obvious."""
    if None not in taken and not asked:
        return []
    pairs = [f"{name} is read as the probability of {own}" for name, own in zip(taken, classes, strict=True) if name]
    return [f"{listed(pairs, most=10, quoted=False)}."]


def _check_counts(labels: NDArray[Any], counts: NDArray[np.int64], where: str) -> None:
    total, fewest = int(counts.sum()), int(counts.min())
    if len(labels) < 2:
        raise InvalidInputError(f"every row of {where} has the label {labels[0]!s}; at least two classes are needed.")
    if total < FEWEST_ROWS:
        raise InvalidInputError(f"{where} has {total} labelled rows, at least {FEWEST_ROWS} are needed; give more.")
    if fewest < FEWEST_OF_A_CLASS:
        rare = labels[int(counts.argmin())]
        raise InvalidInputError(
            f"{where} has one row with the label {rare!s}, each class needs at least {FEWEST_OF_A_CLASS}: one "
            "to fit to and another to score on; give more rows, or leave it out."
        )


def read_probabilities(frame: Any, columns: Sequence[str | None], where: str) -> Floats:
    """Return the probabilities, (rows, classes), NaN in rows that lack one; raise an error if they are not.

    Args:
        columns: column of each class in the frame; None for the one that gets the rest.
    """
    named = [name for name in columns if name is not None]
    given = np.column_stack([_number_column(frame[name], where) for name in named])
    whole = np.asarray(~np.isnan(given).any(1))
    total = given.sum(1)
    known = given[whole]
    if len(known) and known.max() > 1.5 and known.min() >= 0 and _are_percentages(known, len(columns)):
        raise InvalidInputError(f"the values of {listed(named)} in {where} look like percentages; divide them by 100.")
    outside = whole & ((given < 0) | (given > 1 + TOLERANCE)).any(1)
    if outside.any():
        row = int(outside.argmax())
        value = given[row][(given[row] < 0) | (given[row] > 1 + TOLERANCE)][0]
        raise InvalidInputError(
            f"row {frame.index[row]} of {where} holds {value:g} in a column of probabilities, which lie between 0 and "
            "1; apply softmax to logits, or name other columns with --columns."
        )
    wrong = whole & ((total > 1 + TOLERANCE) | ((total < 1 - TOLERANCE) & (len(named) == len(columns))))
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInputError(
            f"the probabilities in row {frame.index[row]} of {where} add up to {total[row]:.4g} instead of 1; give one "
            f"column for each of the {len(columns)} classes, here {listed(named)}."
        )
    places = {name: place for place, name in enumerate(named)}
    rest = 1 - total
    found = [rest if name is None else given[:, places[name]] for name in columns]
    probabilities: Floats = np.where(whole[:, None], np.column_stack(found).clip(0, 1), np.nan)
    return probabilities


def _are_percentages(given: Floats, classes: int) -> bool:
    if given.shape[1] < classes:
        return bool(given.max() <= 100)
    return bool((np.abs(given.sum(1) - 100) <= 100 * TOLERANCE).all())


def _number_column(values: Any, where: str) -> Floats:
    words = without_blanks(values)
    numbers = pd.to_numeric(words, errors="coerce")
    text = words.notna() & numbers.isna()
    if text.any():
        raise InvalidInputError(
            f"{where} holds {str(words[text].iloc[0])!r} in the column {values.name!r}, where probabilities were "
            "expected; give plain numbers between 0 and 1."
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def row_names(frame: Any, taken: Sequence[str | None], target: str | None = None) -> dict[str, Any]:
    """Return the column that names the rows: an identifier if there is one, otherwise row numbers."""
    for name in frame.columns:
        if _names_rows(name) and name not in taken and name != target:
            return {name: frame[name].astype("string").to_numpy(dtype=object, na_value="")}
    return {"row": frame.index.to_numpy()}


def _names_rows(name: str) -> bool:
    """Return whether a column's name says that it is an identifier."""
    lower = name.lower()
    return lower in IDS or (lower.endswith(("_id", " id")) and not lower.startswith("p_"))


def iterate_predictions(source: Any, *, rows: int) -> Iterator[Any]:
    """Yield frames whose index numbers the rows from 0, with identifiers as text."""
    with closing(iterate_table(source, rows=1)) as first:  # type: ignore[type-var]
        header = [str(name) for name in next(first, pd.DataFrame()).columns]
    if not header:
        raise InvalidInputError(f"{source} has no rows; give a table with column names and rows.")
    check_names(header, str(source))
    start = 0
    for part in iterate_table(source, rows=rows, text=list(filter(_names_rows, header))):
        frame = relabelled(part, header)
        frame.index = pd.RangeIndex(start, start + len(frame))
        yield frame
        start += len(frame)


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
    """Assign a column without a class in its name to one of two classes.

    It is the second one's if they are numbers; of words, it is that of the class whose rows have higher values.
    """
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
