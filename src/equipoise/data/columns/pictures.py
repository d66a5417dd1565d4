"""A column of image paths as numbers: the features that a network gives for each picture."""

import os
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from equipoise.data.columns.texts import as_words, without_blanks
from equipoise.errors import InvalidInputError

MOST_FEATURES = 10_000
MOST_UNREAD = 0.5
"""Share of unreadable pictures from which on the column or folder must be wrong."""
FOLDER = "folder"
"""Key of a frame's ``attrs`` with the folder that relative paths start from."""


class Pictures(NamedTuple):
    """Features (rows, features), NaN in rows without an image; by row why one could not be read; and their side."""

    features: NDArray[np.float32]
    unread: dict[int, str]
    side: int


class PictureReader(Protocol):
    """Interface of a reader of image files; ``equipoise.models.PictureFeatures`` implements it."""

    network: str

    def read(self, files: Sequence[str | None], *, side: int | None = None) -> Pictures:
        """Return the features of image files.

        Args:
            files: paths, one per row; None where a row has no image.
            side: side of the square that images are resized to; None chooses it from their sizes.
        """
        ...


class PictureColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features learnt from a column of image paths.

    Args:
        network: that makes the features.
        side: of the square that pictures are brought to.
        averages: of each feature over the training rows, for rows without a picture.
    """

    network: Annotated[str, Meta(max_length=1000)]
    side: Annotated[int, Meta(ge=1, le=4096)]
    averages: Annotated[tuple[float, ...], Meta(min_length=1, max_length=MOST_FEATURES)]

    @classmethod
    def fit(cls, values: Any, name: str, reader: PictureReader) -> tuple["PictureColumn", dict[int, str]]:
        """Fit to a column; also return by row why images could not be read."""
        files = picture_files(values)
        found = reader.read(files)
        if len(found.unread) > MOST_UNREAD * sum(file is not None for file in files):
            row, reason = next(iter(found.unread.items()))
            raise InvalidInputError(
                f"the column {name!r} names {len(found.unread)} pictures that cannot be read, such as {files[row]!r} "
                f"({reason}); relative paths begin at the table's folder. Correct them, or leave the column out."
            )
        averages = np.asarray(np.nanmean(found.features, axis=0, dtype=np.float64))
        return cls(reader.network, found.side, tuple(averages.tolist())), found.unread

    @property
    def sound(self) -> bool:
        """True if all numbers are finite, as those of an untrusted file may not be."""
        return bool(np.isfinite(self.averages).all())

    @property
    def outputs(self) -> list[str]:
        """Suffixes of the output columns of a picture."""
        return [f"picture {number}" for number in range(1, len(self.averages) + 1)]

    def transform(self, values: Any, reader: PictureReader | None) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the features of each row, and a mask of the rows whose image could not be read."""
        if reader is None or reader.network != self.network:
            raise InvalidInputError(
                f"the model takes pictures through {self.network}, which is missing; pip install 'equipoise[images]'."
            )
        found = reader.read(picture_files(values), side=self.side)
        if found.features.shape[1] != len(self.averages):
            raise InvalidInputError(
                f"{self.network} gives {found.features.shape[1]} features and the model has {len(self.averages)}; "
                "train again."
            )
        unread = np.zeros(len(found.features), dtype=np.bool_)
        unread[list(found.unread)] = True
        averages = np.array(self.averages, dtype=np.float32)
        return np.where(np.isnan(found.features), averages, found.features), unread


def picture_files(values: Any) -> list[str | None]:
    """Return the paths of a column's pictures, relative to the folder of its table."""
    base = str(getattr(values, "attrs", {}).get(FOLDER, ""))
    words = as_words(without_blanks(values))
    return [os.path.join(base, os.path.expanduser(word)) if isinstance(word, str) else None for word in words]
