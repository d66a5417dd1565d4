"""Checks for leaks: columns that give the target away, repeated rows, and contradictory labels."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.column_score import decided_alone, judged_rows
from equipoise.data.columns.guess_kind import ID_NAME
from equipoise.data.labels import class_indices
from equipoise.data.samples import Samples
from equipoise.wording import counted

NEARLY = 0.97
"""Balanced accuracy from which a column alone nearly determines the target, up to a few wrong labels."""
MOST_COLUMNS = 300
UNIT = re.compile(r"(?i)^(patient|person|customer|client|user|subject|lesion|household)s?([_ ]?(no|nr|number|name))?$")
"""Names of columns whose equal values are one unit, besides those of identifiers."""
FEWEST_UNITS, LEAST_ROWS, MOST_ROWS = 20, 1.2, 50
"""Different values of such a column, and its rows for each of them on average."""
REPEATED_SHARE, REPEATED_ROWS = 0.01, 5
"""Smallest share and number of repeated rows worth a note."""


def leak_notes(train: Samples, test: Samples | None = None) -> list[str]:
    """Return a sentence for everything suspicious about a table; image readers find copies of images themselves.

    Args:
        train: the rows to learn from, or all of them.
        test: the rows to score on, or None.

    >>> rows = pd.DataFrame({"age": [40, 40, 51, 62] * 9, "paid": [1, 0, 0, 1] * 9})
    >>> for note in leak_notes(Samples(rows, np.array(["ill", "well", "well", "ill"] * 9))):
    ...     print(note)
    the column 'paid' alone decides the target; if it is only known afterwards, leave it out: --drop paid.
    32 of 36 rows repeat another row; weigh or remove them unless they are separate cases.
    """
    if train.x.ndim != 2:
        return []
    found = _deciding(train.x, train.encoded[1]) if isinstance(train.x, pd.DataFrame) and not train.multilabel else []
    rows, labels = row_hashes(train.x), row_hashes(train.encoded[1].reshape(len(train), -1))
    return [
        *found,
        *_repeated(rows, labels),
        *_contradictions(rows, labels),
        *_shared(rows, test, getattr(train.x, "columns", None)),
        *(_divided(train.x, test) if isinstance(train.x, pd.DataFrame) and train.groups is None else []),
    ]


def row_hashes(x: Any) -> NDArray[np.uint64]:
    """Return a number for each row, equal for rows that agree in every column."""
    frame = x if isinstance(x, pd.DataFrame) else pd.DataFrame(np.asarray(x))
    try:
        hashed = pd.util.hash_pandas_object(frame, index=False)
    except TypeError:  # cells that hold lists
        hashed = pd.util.hash_pandas_object(frame.astype(str), index=False)
    return np.asarray(hashed.to_numpy(), dtype=np.uint64)


def _deciding(frame: Any, y: NDArray[Any]) -> Sequence[str]:
    """Return the columns that alone determine the target; skipped for very many columns."""
    notes: list[str] = []
    if len(frame.columns) > MOST_COLUMNS:
        return notes
    rows = judged_rows(len(y))
    labels = class_indices(y[rows])[1]
    for name in frame.columns:
        found = decided_alone(frame[name].iloc[rows], str(name), labels)
        if found is not None and found.score >= NEARLY:
            how = "decides" if found.score == 1 else "nearly decides"
            by = ", by whether it is missing" if found.by_missing else ""
            notes.append(
                f"the column {str(name)!r} alone {how} the target{by}; if it is only known afterwards, leave it out: "
                f"--drop {name}."
            )
    return notes


def _repeated(rows: NDArray[np.uint64], labels: NDArray[np.uint64]) -> list[str]:
    different = len(pd.DataFrame({"row": rows, "label": labels}).drop_duplicates())
    copies = len(rows) - different
    if copies < REPEATED_ROWS and copies <= REPEATED_SHARE * len(rows):
        return []
    return [
        f"{copies:,} of {len(rows):,} rows repeat another row; weigh or remove them unless they are separate cases."
    ]


def _contradictions(rows: NDArray[np.uint64], labels: NDArray[np.uint64]) -> list[str]:
    pairs = pd.DataFrame({"row": rows, "label": labels})
    kinds = pairs.groupby("row")["label"].transform("nunique").to_numpy()
    number = int((kinds > 1).sum())
    if number == 0:
        return []
    return [
        f"{counted(number, 'row')} have a different label than another row with the same values; no model can tell "
        "them apart."
    ]


def _shared(rows: NDArray[np.uint64], test: Samples | None, columns: Any) -> list[str]:
    if test is None:
        return []
    x = test.x[list(columns)] if columns is not None and set(columns) <= set(test.x.columns) else test.x
    both = int(np.isin(row_hashes(x), rows).sum())
    if both == 0:
        return []
    return [
        f"{both:,} of {counted(len(test), 'test row')} also appear in the training rows, so the scores may be "
        "too optimistic; remove them, or keep them together with --group."
    ]


def _divided(frame: Any, test: Samples | None) -> list[str]:
    """Return a note for columns that name units, such as patients, whose rows a split would divide."""
    notes = []
    for name in map(str, frame.columns):
        if not (UNIT.search(name) or ID_NAME.search(name)):
            continue
        values = frame[name].dropna()
        different = values.nunique()
        if different < FEWEST_UNITS or not LEAST_ROWS * different <= len(values) <= MOST_ROWS * different:
            continue
        where = "a split may divide them"
        if test is not None:
            both = int(test.x[name].isin(values).sum()) if name in test.columns else 0
            if not both:
                continue
            where = f"{both:,} of {counted(len(test), 'test row')} share theirs with training rows"
        notes.append(
            f"the column {name!r} has {different:,} values in {counted(len(values), 'row')}, and {where}; if rows of "
            f"one value belong together, such as visits of a patient, keep them on one side: --group {name}."
        )
    return notes
