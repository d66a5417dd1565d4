"""A table's columns at a glance: kinds and reasons, missing values, and what each says about the target."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.column_kinds import COLUMN_KINDS, guess_kinds
from equipoise.data.columns.column_score import rank_rarest
from equipoise.data.columns.guess_kind import ColumnGuess
from equipoise.data.columns.texts import as_words, without_blanks
from equipoise.data.data_frames import as_table
from equipoise.data.labels import class_indices

BINS = 8
BARS = " ▁▂▃▄▅▆▇█"
SAMPLED, MOST_COLUMNS = 20_000, 100
SHOWN, LONGEST = 3, 24
"""Number of examples of a column, and the length of each."""


@dataclass(frozen=True)
class ColumnProfile:
    """Description of a column.

    Args:
        name: name of the column.
        kind, reason: its kind, and why.
        missing: share of the rows without a value.
        distinct: number of distinct values.
        examples: the most frequent values; for numbers and dates the smallest, the median and the largest.
        histogram: distribution of the values in 8 counts: for numbers and dates from the smallest to the largest, for
            categories the most frequent first; none for other kinds.
        auc: how well the column alone ranks the rarest class, from 0.5 to 1; None if it cannot.
        auc_by_missing: whether it ranks that well by being missing or not, which its values do not improve on;
            the reason then says so too.
    """

    name: str
    kind: str
    reason: str
    missing: float
    distinct: int
    examples: tuple[str, ...]
    histogram: tuple[int, ...]
    auc: float | None
    auc_by_missing: bool = False

    @property
    def ignored(self) -> bool:
        """True if the model ignores the column."""
        return COLUMN_KINDS[self.kind].encode is None

    @property
    def time(self) -> bool:
        """True if the values can order rows in time."""
        return COLUMN_KINDS[self.kind].time

    @property
    def bars(self) -> str:
        """The histogram as a line of block characters.

        >>> ColumnProfile("a", "number", "", 0, 4, (), (8, 0, 4, 1), None).bars
        '█ ▄▁'
        """
        most = max(self.histogram, default=0) or 1
        return "".join(BARS[-(-(len(BARS) - 1) * count // most)] for count in self.histogram)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        found = asdict(self)
        return found | {"examples": list(self.examples), "histogram": list(self.histogram)}


def profile_columns(
    x: Any, y: NDArray[Any] | None = None, *, kinds: Mapping[str, str] | None = None
) -> list[ColumnProfile]:
    """Describe each column of a table.

    Args:
        x: a data frame, or an array (rows, columns).
        y: labels (rows,), or a 0/1 matrix (rows, attributes), whose rarest class is ranked; None ranks nothing.
        kinds: the user's choices by column.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"age": [30, 40, 50, 61, 62, 63], "town": ["Rome", "Oslo"] * 3})
    >>> age, town = profile_columns(rows, np.array([0, 0, 0, 0, 1, 1]))
    >>> age.kind, age.examples, age.auc, town.reason, town.bars
    ('number', ('30', '55.5', '63'), 1.0, '2 different values', '██')
    """
    table = as_table(x)
    rare = None if y is None else rarest(np.asarray(y))
    return [_profile(table[guess.name], guess, rare) for guess in guess_kinds(table, kinds)]


def profile_sample(x: Any, y: NDArray[Any], guesses: Sequence[ColumnGuess]) -> list[ColumnProfile]:
    """Describe the columns of a table of any length by some of its rows; kinds and reasons come from all rows.

    Args:
        guesses: of the columns, as an encoder made them.

    Returns:
        An empty list for more than 100 columns, which would take longer to compute than to read.
    """
    if len(guesses) > MOST_COLUMNS or not isinstance(x, pd.DataFrame):
        return []
    rows = np.arange(0, len(x), -(-len(x) // SAMPLED))
    found = profile_columns(x.iloc[rows], np.asarray(y)[rows])
    return [
        replace(each, kind=own.kind, reason=_reason(own, by_missing=each.auc_by_missing))
        for each, own in zip(found, guesses, strict=True)
    ]


def rarest(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows of the rarest class, or those with the rarest attribute; (rows,)."""
    if y.ndim == 2:
        counts = y.astype(np.int64).sum(0)
        return np.asarray(y[:, counts.argmin()] == 1)
    classes, codes = class_indices(y)
    return np.asarray(codes == np.bincount(codes).argmin() if len(classes) else codes == -1)


def _profile(values: Any, guess: ColumnGuess, rare: NDArray[np.bool_] | None) -> ColumnProfile:
    values = without_blanks(values)
    words = as_words(values)
    numbers = None if guess.parsed is None else guess.parsed.known
    ranked = None if rare is None else rank_rarest(values, guess, rare)
    by_missing = ranked is not None and ranked.by_missing
    return ColumnProfile(
        name=guess.name,
        kind=guess.kind,
        reason=_reason(guess, by_missing=by_missing),
        missing=float(values.isna().mean()),
        distinct=int(words.nunique()),
        examples=_examples(words, numbers, guess),
        histogram=_histogram(numbers, guess),
        auc=None if ranked is None else ranked.score,
        auc_by_missing=by_missing,
    )


def _reason(guess: ColumnGuess, *, by_missing: bool) -> str:
    return f"{guess.reason}; the AUC is that of being missing" if by_missing else guess.reason


def _examples(words: Any, numbers: NDArray[np.floating[Any]] | None, guess: ColumnGuess) -> tuple[str, ...]:
    show = COLUMN_KINDS[guess.kind].show
    if numbers is not None and len(numbers) and show is not None:
        return tuple(show(np.quantile(numbers, (0, 0.5, 1))))
    often = guess.counts or words.value_counts().head(SHOWN).to_dict()
    first = [" ".join(word.split()) for word in list(often)[:SHOWN]]
    return tuple(word if len(word) <= LONGEST else word[: LONGEST - 1] + "…" for word in first)


def _histogram(numbers: NDArray[np.floating[Any]] | None, guess: ColumnGuess) -> tuple[int, ...]:
    kind = COLUMN_KINDS[guess.kind]
    if kind.levels:
        return tuple(sorted(guess.counts.values(), reverse=True)[:BINS])
    if numbers is None or len(numbers) == 0 or kind.show is None:
        return ()
    low, high = np.quantile(numbers, (0.01, 0.99))  # otherwise a single outlier would leave one bar
    if high <= low:
        low, high = float(numbers.min()), float(numbers.max())
    with np.errstate(over="ignore"):
        places = (numbers / 2 - low / 2) / ((high / 2 - low / 2) or 1) * BINS  # halves: the range may overflow
    return tuple(np.bincount(np.clip(places, 0, BINS - 1).astype(np.intp), minlength=BINS).tolist())
