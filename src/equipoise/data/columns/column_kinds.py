"""The kinds of columns.

``guess_kind`` chooses one by a column's values, ``learn_column`` and ``encoding`` make numbers of it, and
``notation`` reads its cells. A new kind begins here.
"""

from typing import Literal

EncodedKind = Literal["number", "date", "category", "text", "image"]
"""Kinds of columns that are learnt from."""
ColumnKind = Literal[EncodedKind, "identifier", "constant"]
"""Kinds that a column can have."""
