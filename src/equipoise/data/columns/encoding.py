"""What is learnt of one column of a table, and the rows of a column on their way into the matrix."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.notation import NOTATIONS, PLAIN
from equipoise.data.columns.number_range import largest
from equipoise.data.columns.parsing import Read
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.columns.texts import as_words, distinct, fold_case
from equipoise.data.encoded_rows import LogOddsColumns
from equipoise.data.samples import Progress

OTHER, MISSING = "(other)", "(missing)"
Halves = list[tuple[NDArray[np.intp], NDArray[np.intp]]]  # rows to fit on, and the rest to rank


class LearningTools(NamedTuple):
    """Labels, encoder and readers that learning a column may use.

    Args:
        y: labels of the rows, used to encode text; None does without.
        text_encoder: of :class:`~equipoise.data.encoder.TableEncoder`.
        pictures: reads the pictures that a column names; None leaves it out.
        progress: called as sentences are embedded.
    """

    y: NDArray[Any] | None = None
    text_encoder: str | None = None
    pictures: PictureReader | None = None
    progress: Progress | None = None


class EncodingTools(NamedTuple):
    """Labels, readers and parsed numbers that encoding a column may use.

    Args:
        trained: labels and groups of the rows, where they are those that the column was learnt from.
        pictures: reads the pictures that a column names.
        read: the numbers and what is not one of them, where they need not be parsed again.
    """

    trained: tuple[Any, Any] | None = None
    pictures: PictureReader | None = None
    read: Read | None = None


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The encoding of one column.

    ``fill`` stands for missing numbers and dates, ``notation`` is how they are written, ``wide`` whether they need
    float64; ``levels`` are a category's values, or words that stand among numbers; ``folded`` whether case makes no
    difference to them; ``text`` is what was learnt from the n-grams of free text, ``sentences`` from its embeddings,
    ``picture`` from the pictures that image paths name.
    """

    name: str
    kind: str
    fill: float
    indicator: bool
    levels: tuple[str, ...]
    other: bool
    notation: str = msgspec.field(default=PLAIN, name="form")  # missing in earlier records, like the next
    wide: bool = False
    folded: bool = False
    text: TextFeatures | None = None
    sentences: SentenceFeatures | None = None
    picture: PictureColumn | None = None

    @property
    def features(self) -> tuple[TextFeatures | SentenceFeatures | PictureColumn, ...]:
        """Encodings of free text or of pictures, in the order of their columns."""
        return tuple(each for each in (self.text, self.sentences, self.picture) if each is not None)

    @property
    def outputs(self) -> list[str]:
        """Names of the output columns."""
        ends = [OTHER] * self.other + [MISSING] * self.indicator
        named = [f"{self.name}={level}" for level in (*self.levels, *ends)]
        if self.features:
            return [f"{self.name} {output}" for each in self.features for output in each.outputs] + named
        return [self.name, *named] if self.kind in NOTATIONS else named

    @property
    def log_odds(self) -> LogOddsColumns:
        """Indices among ``outputs`` of the log-odds of each class, for each encoding of the text that has them."""
        found, start = [], 0
        for each in (self.text, self.sentences):
            if each is not None:
                stop = start + len(each.outputs)
                found += [tuple(range(start + each.dimensions, stop))] * bool(each.scores)
                start = stop
        return tuple(found)

    @property
    def sound(self) -> bool:
        """True if the values are consistent, as those of an untrusted file may not be; the kind checks more."""
        levels = [fold_case(level) for level in self.levels] if self.folded else self.levels
        return (
            bool(abs(self.fill) <= np.finfo(np.float64).max)
            and self.notation in NOTATIONS.get(self.kind, (PLAIN,))
            and len(set(levels)) == len(levels)
            and all(each.sound for each in self.features)
        )


class Compact(NamedTuple):
    """An encoded column in compact form, to be written into the matrix in parts.

    ``places`` are those of the 0/1 outputs that are 1, -1 where none is; ``unread`` marks values that are not numbers
    or dates where they should be, or pictures that cannot be read: they count as missing.
    """

    column: Column
    numbers: NDArray[Any] | None = None
    places: NDArray[np.signedinteger[Any]] | None = None
    unread: NDArray[np.bool_] | None = None

    def write(self, rows: slice, out: NDArray[np.floating[Any]]) -> None:
        """Write these rows into ``out`` (rows, outputs), initially zeros."""
        places = None if self.places is None else self.places[rows]
        if self.numbers is not None:
            with np.errstate(over="ignore"):  # what float32 cannot hold counts as missing
                numbers = self.numbers[rows].astype(out.dtype, copy=False)
            gone = ~(np.abs(numbers) <= largest(self.column.fill))
            out[:, 0] = np.where(gone, self.column.fill, numbers) if gone.any() else numbers
            if self.column.indicator:
                out[:, -1] = gone if places is None else gone & (places < 0)
        if places is not None:
            known = np.flatnonzero(places >= 0)
            out[known, places[known]] = 1


def level_codes(words: Any, column: Column) -> NDArray[np.intp]:
    """Return the index of each value among the levels; -1 if it is none of them."""
    texts = distinct(words)
    if texts is not None and len(texts.values) < len(words):
        return texts.spread(level_codes(texts.values, column), -1)
    words = as_words(words)
    levels = column.levels
    if column.folded:
        levels = tuple(map(fold_case, levels))
        words = words.map(fold_case, na_action="ignore")
    return np.asarray(pd.Index(levels, dtype=object).get_indexer(words))
