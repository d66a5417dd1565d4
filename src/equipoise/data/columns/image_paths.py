"""Columns of image paths: learnt and encoded by the features of the images they name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.encoding import Column, Compact, EncodingTools, LearningTools
from equipoise.data.columns.guess_kind import INDICATOR_SHARE, ColumnGuess
from equipoise.data.columns.pictures import PictureColumn
from equipoise.data.columns.texts import without_blanks
from equipoise.wording import counted


def learn_images(guess: ColumnGuess, values: Any, notes: list[str], using: LearningTools) -> Column | None:
    """Fit the features of the images that a column names."""
    if using.pictures is None:
        notes.append(f"{guess.name}: ignored, {guess.reason}; pip install 'equipoise[images]' to learn from them.")
        return None
    found, unread = PictureColumn.fit(values, guess.name, using.pictures)
    notes.append(f"{guess.name}: {guess.reason}, encoded as {len(found.outputs)} features of {found.network}.")
    if unread:
        row, reason = next(iter(unread.items()))
        notes.append(
            f"{guess.name}: {counted(len(unread), 'picture')} that cannot be read treated as missing, such as "
            f"{values.iloc[row]!r} ({reason})."
        )
    gone = int(values.isna().sum()) + len(unread)
    return Column(guess.name, "image", 0.0, 0 < INDICATOR_SHARE * len(values) <= gone, (), False, picture=found)


def encode_images(values: Any, column: Column, out: NDArray[np.floating[Any]], using: EncodingTools) -> Compact:
    """Write the features of images into ``out`` (rows, outputs)."""
    assert column.picture is not None
    values = without_blanks(values)
    made, unread = column.picture.transform(values, using.pictures)
    out[:, : made.shape[1]] = made
    if column.indicator:
        out[:, -1] = values.isna().to_numpy() | unread
    return Compact(column, unread=unread)
