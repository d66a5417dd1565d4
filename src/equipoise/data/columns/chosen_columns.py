"""The user's choice of columns to learn from, and of their kinds."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equipoise.errors import InvalidInputError, listed
from equipoise.registry_names import column_kind_names

if TYPE_CHECKING:  # imports numpy, and a command should be refused before that
    from equipoise.data.samples import Samples

ANSWERS = ("row", "file", "class", "rule", "uncertainty", "human", "set", "abstain")
"""Names reserved for columns of predictions."""


@dataclass(frozen=True)
class ChosenColumns:
    """The user's choices for a table's columns.

    Args:
        drop: columns to leave out: one name, or several separated by commas.
        keep: the only columns to learn from, in the same form.
        kind: kinds of columns, such as ``notes=text,zip=category``.
        id: the column that names the rows; not learnt from.

    >>> import numpy as np, pandas as pd
    >>> from equipoise.data.samples import Samples
    >>> table = pd.DataFrame({"who": ["x", "y"], "age": [3, 4], "zip": ["01", "02"]})
    >>> chosen = ChosenColumns(kind="zip=category", id="who")
    >>> chosen.of(Samples(table, np.array([0, 1]))).x.columns.tolist(), chosen.kinds(["age", "zip"])
    (['age', 'zip'], {'zip': 'category'})
    """

    drop: str | None = None
    keep: str | None = None
    kind: str | None = None
    id: str | None = None

    @property
    def given(self) -> bool:
        """True if anything was chosen."""
        return any(value is not None for value in (self.drop, self.keep, self.kind, self.id))

    def check(self, names: Sequence[str]) -> None:
        """Raise an error for unknown columns or kinds, and for choices that leave nothing to learn from."""
        if self.id is not None:
            _named("--id", self.id, names, single=True)
            if self.id in ANSWERS or self.id.startswith(("p_", "is_", "set_")):
                raise InvalidInputError(f"--id {self.id} clashes with a column of the predictions; rename the column.")
        kinds = self.kinds(names)
        if not self.left(names):
            raise InvalidInputError("--drop, --keep and --id leave no column to learn from; name fewer or others.")
        gone = [name for name in kinds if name not in self.left(names)]
        if gone:
            raise InvalidInputError(f"--kind names {gone[0]!r}, which is left out; remove one of the two.")

    def left(self, names: Sequence[str]) -> list[str]:
        """Return the columns to learn from, in order."""
        kept = set(names if self.keep is None else _named("--keep", self.keep, names))
        kept -= set() if self.drop is None else set(_named("--drop", self.drop, names))
        return [name for name in names if name in kept and name != self.id]

    def kinds(self, names: Sequence[str]) -> dict[str, str]:
        """Return the chosen kind of each column that has one."""
        found = {}
        for part in (self.kind or "").split(","):
            name, sign, kind = (piece.strip() for piece in part.rpartition("="))
            if not part.strip():
                continue
            if not sign or kind not in column_kind_names():
                raise InvalidInputError(
                    f"--kind must be COLUMN=KIND, KIND one of {', '.join(column_kind_names())}, got {part.strip()!r}."
                )
            found[_named("--kind", name, names, single=True)[0]] = kind
        return found

    def of(self, samples: "Samples") -> "Samples":
        """Return samples with only the columns to learn from."""
        if not self.given:
            return samples
        if not samples.columns:
            raise InvalidInputError("--drop, --keep, --kind and --id name columns; give a table with named columns.")
        self.check(samples.columns)
        return replace(samples, x=samples.x[self.left(samples.columns)])


def check_time(name: str, names: Sequence[str]) -> None:
    """Raise an error for a ``--time`` that is not a column of the table."""
    if name not in names:
        raise InvalidInputError(
            f"--time names {name!r}, which is not a column of the table; there are {', '.join(names)}."
            if names
            else "--time names a column; give a table with named columns."
        )


def _named(flag: str, text: str, names: Sequence[str], *, single: bool = False) -> list[str]:
    """Return the columns named in a text; all must exist."""
    wanted = [text] if single or text in names else [part.strip() for part in text.split(",") if part.strip()]
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(names, most=30, quoted=False)}."
            raise InvalidInputError(f"{flag} names {name!r}, which is not a column to learn from; {hint}")
    return wanted
