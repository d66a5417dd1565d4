"""The target column: finding it, and converting its values to class labels."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError

INTEGER = r"[+-]?(?:0|[1-9][0-9]{0,17})(?:\.0*)?"
USUAL_NAMES = ("target", "label", "class", "y")
MOST_LISTED = 30


def check_columns(names: Sequence[object], where: str) -> None:
    """Raise an error for a table with no column besides its target."""
    if len(names) == 0:
        raise InvalidInputError(f"{where} has no column; a table must have a target and at least one other.")
    if len(names) == 1:
        name = " ".join(str(names[0]).split())
        raise InvalidInputError(f"{where} has only one column ({name}); a table must have a target and one other.")


def choose_target(names: Sequence[str], target: str | Sequence[str] | None, where: str) -> list[str]:
    """Return the target columns by name: one, or several 0/1 columns."""
    if target is None:
        usual = [name for name in names if name.lower() in USUAL_NAMES]
        if len(usual) == 1:
            return usual
        found = f"has the columns {', '.join(usual)}" if usual else "has no column named target, label, class or y"
        raise InvalidInputError(
            f"{where} {found}; choose the target with --target (target= in Python), one of: {_listed(names)}."
        )
    if isinstance(target, str):
        wanted = [target] if target in names else [part.strip() for part in target.split(",") if part.strip()]
    else:
        wanted = [str(name) for name in target]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidInputError(f"target must name one column or several different ones, got {target!r}.")
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=1)
            hint = next((f"did you mean {other!r}? Its" for other in names if [other.lower()] == near), "its")
            raise InvalidInputError(f"{where} has no column {name!r}; {hint} columns are: {_listed(names)}.")
    return wanted


def _listed(names: Sequence[str]) -> str:
    names = [" ".join(name.split()) for name in names]  # a quoted name may span lines, a sentence may not
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    half = MOST_LISTED // 2  # labels are often the last column
    return f"{', '.join(names[:half])}, … ({len(names) - MOST_LISTED} more), {', '.join(names[-half:])}"


def labels_of(values: Any) -> tuple[NDArray[Any], list[str]]:
    """Return labels as booleans, integers or strings, (rows,), with notes on anything odd about them."""
    import pandas as pd

    from equipoise.data.columns.texts import distinct, is_packed

    name, series = str(values.name), pd.Series(values).reset_index(drop=True)
    if isinstance(series.dtype, pd.CategoricalDtype) and not is_packed(series):
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
        texts = distinct(series)
        y = _from_text((series if texts is None else texts.values).astype(str).str.strip(), name)
        if texts is not None:
            return y[texts.codes], _odd(np.unique(y), len(series), name)
    return y, _odd(np.unique(y), len(y), name)


def multilabel_of(values: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return a matrix of 0 and 1, (rows, attributes); −1 and 1 become 0 and 1, with a note."""
    import pandas as pd

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
    import pandas as pd

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
            "ones), but this library predicts classes; divide them into classes first, for example with pandas.cut."
        )
    return numbers.astype(np.int64)


def _odd(classes: NDArray[Any], rows: int, name: str) -> list[str]:
    if len(classes) == rows > 2:
        raise InvalidInputError(
            f"all {rows} rows have different values in the target column {name!r}; a class needs several rows: "
            "choose another target."
        )
    if len(classes) == 1:
        return [f"every row has the target {classes[0]!s}: training needs at least two classes."]
    return []
