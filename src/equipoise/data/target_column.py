"""The values of the column that is to be learnt, as class labels."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError

INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,17})(?:\.0*)?"


def labels_of(values: Any) -> tuple[NDArray[Any], list[str]]:
    """Labels as booleans, integers or strings, (rows,), and what is odd about them."""
    name, series = str(values.name), pd.Series(values).reset_index(drop=True)
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(series.dtype):
        y = series.to_numpy(dtype=bool)
    elif pd.api.types.is_integer_dtype(series.dtype):
        y = series.to_numpy(dtype=np.int64)
    elif pd.api.types.is_float_dtype(series.dtype):
        y = _whole(series.to_numpy(dtype=np.float64), name)
    elif pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        raise InvalidInputError(
            f"the target column {name!r} holds {series.dtype} values; give class names or integers."
        )
    else:
        y = _from_text(series.astype(str).str.strip(), name)
    return y, _odd(y, name)


def multilabel_of(values: Any) -> tuple[NDArray[np.int64], list[str]]:
    """A matrix of 0 and 1, (rows, attributes); −1 and 1 become 0 and 1, and a note says so."""
    columns, signed, notes = [], [], []
    for name in values.columns:
        words = values[name].astype(str).str.strip().str.lower().replace({"true": "1", "false": "0"})
        numbers = pd.to_numeric(words, errors="coerce").to_numpy(dtype=np.float64)
        given = set(np.unique(numbers).tolist())
        if given in ({-1.0, 1.0}, {-1.0}):
            signed.append(name)
        elif not given <= {0.0, 1.0}:
            example = next(word for word, number in zip(words, numbers, strict=True) if number not in (0.0, 1.0))
            raise InvalidInputError(
                f"the target column {name!r} holds {example!r}, but several targets must hold 0 and 1 only; "
                "give one column of class names, or columns of 0 and 1."
            )
        columns.append((numbers > 0).astype(np.int64))
        if len(given) == 1:
            notes.append(
                f"the target column {name!r} is {int(columns[-1][0])} in every row: there is nothing to learn."
            )
    if signed:
        notes.append(f"-1 and 1 were read as 0 and 1 in {len(signed)} target columns.")
    return np.stack(columns, axis=1), notes


def _from_text(words: Any, name: str) -> NDArray[Any]:
    distinct = words.drop_duplicates()
    if distinct.str.fullmatch(INTEGER).all():
        return np.asarray([int(word.split(".")[0]) for word in words], dtype=np.int64)
    numbers = pd.to_numeric(distinct, errors="coerce")
    if numbers.notna().all() and not distinct.str.fullmatch(r"[0-9]+").all():  # 007 is a name
        _whole(numbers.to_numpy(dtype=np.float64), name)
    if set(distinct.str.lower()) <= {"true", "false"}:
        return np.asarray(words.str.lower() == "true", dtype=bool)
    return np.asarray(words, dtype=str)


def _whole(numbers: NDArray[np.float64], name: str) -> NDArray[np.int64]:
    if not np.isfinite(numbers).all() or not (numbers == np.floor(numbers)).all():
        example = numbers[~(numbers == np.floor(numbers)) | ~np.isfinite(numbers)][0]
        raise InvalidInputError(
            f"the target column {name!r} holds real numbers such as {example:g} ({len(np.unique(numbers))} different "
            "ones), but this library predicts classes; divide them into classes first, for example by pandas.cut."
        )
    return numbers.astype(np.int64)


def _odd(y: NDArray[Any], name: str) -> list[str]:
    classes = np.unique(y)
    if len(classes) == len(y) > 2:
        raise InvalidInputError(
            f"each of the {len(y)} rows has another value in the target column {name!r}; a class needs several rows: "
            "choose another target."
        )
    if len(classes) == 1:
        return [f"every row has the target {classes[0]!s}: training needs at least two classes."]
    return []
