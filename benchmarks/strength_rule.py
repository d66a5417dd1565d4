"""Does the rule that sets the margins' strength hold, from 1:1 to 1:100 and from 2 to 1,000 classes?

    python benchmarks/strength_rule.py --out benchmarks/results/strength_rule.json

Every method has the same network, epochs and optimiser, the estimator's defaults, and is scored at its last epoch
on a balanced test set which nothing was chosen by. A finished cell is kept in the file and never run twice. MNIST is
read from ``--data`` or EQUIPOISE_DATA and left out where it is not.
"""

import argparse
import gzip
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.metrics import confusion_matrix

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import exponential, step
from equipoise.losses import LOSSES, LogitLoss
from equipoise.losses.logit_losses import logit_adjustment

Data = tuple[np.ndarray, np.ndarray]
LOSSES["logit_adjustment_1.3"] = partial(LogitLoss, criterion=partial(logit_adjustment, tau=1.3))

ALONE = {"margins": "uncertainty", "sample_level": "none", "members": 1}
"""Margins whose strength follows from uncertainty alone, one network, no sample level."""
METHODS: dict[str, dict[str, object]] = {
    "cross-entropy": {"method": "cross_entropy"},
    "logit adjustment": {"method": "logit_adjustment"},
    "logit adjustment, τ = 1.3": {"method": "logit_adjustment_1.3"},
    "VS": {"method": "vs"},
    "LDAM-DRW": {"method": "ldam_drw"},
    "Equipoise, class level only, uncorrected": ALONE | {"held_back": 0.0},
    "Equipoise, uncorrected": ALONE | {"sample_level": "expected", "held_back": 0.0},
    "Equipoise": ALONE | {"sample_level": "expected"},
    "Equipoise, complement, uncorrected": ALONE | {"sample_level": "complement", "held_back": 0.0},
    "Equipoise, angular form, class level only, uncorrected": ALONE | {"form": "angular", "held_back": 0.0},
    "Equipoise, angular form, complement, uncorrected": ALONE
    | {"form": "angular", "sample_level": "complement", "held_back": 0.0},
    "Equipoise, relative variance": ALONE | {"kind": "relative", "held_back": 0.0},
    "Equipoise, relative variance, fed back": ALONE | {"kind": "relative", "strength": "feedback", "held_back": 0.0},
}


def read_idx(path: Path) -> np.ndarray:
    """An idx file of bytes, gzipped."""
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def split(x: np.ndarray, y: np.ndarray, per_class: int, rng: np.random.Generator) -> tuple[Data, Data]:
    """A balanced test set of ``per_class`` samples per class, and the rest."""
    test = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)])
    rest = np.setdiff1d(np.arange(len(y)), test)
    return (x[rest], y[rest]), (x[test], y[test])


def digits(rng: np.random.Generator) -> tuple[Data, Data]:
    return split(*load_digits(return_X_y=True), 50, rng)


def cancer(rng: np.random.Generator) -> tuple[Data, Data]:
    return split(*load_breast_cancer(return_X_y=True), 60, rng)


def mnist(rng: np.random.Generator, folder: Path) -> tuple[Data, Data]:
    """1,000 training images per class, all test images."""
    parts = [read_idx(folder / f"{name}-ubyte.gz") for name in ("train-images-idx3", "train-labels-idx1")]
    tests = [read_idx(folder / f"{name}-ubyte.gz") for name in ("t10k-images-idx3", "t10k-labels-idx1")]
    rows = np.concatenate([rng.permutation(np.flatnonzero(parts[1] == c))[:1000] for c in range(10)])
    flat = [(images.reshape(len(images), -1) / np.float32(255)).astype(np.float32) for images in (parts[0], tests[0])]
    return (flat[0][rows], parts[1][rows].astype(int)), (flat[1], tests[1].astype(int))


def synthetic(rng: np.random.Generator, *, classes: int, per_class: int, test: int, columns: int) -> tuple[Data, Data]:
    """Overlapping Gaussian clusters, one to a class."""
    x, y = make_classification(
        n_samples=classes * (per_class + test),
        n_features=columns,
        n_informative=columns * 3 // 4,
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        flip_y=0.0,
        class_sep=2.0,
        random_state=int(rng.integers(2**31)),
    )
    return split(x.astype(np.float32), y, test, rng)


def cases(data: Path | None) -> dict[str, tuple[Callable[[np.random.Generator], tuple[Data, Data]], Callable]]:
    """Each case: where the data come from, and which of the training samples stay."""

    def whole(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
        return np.arange(len(y))

    def stepped(ratio: int) -> Callable:
        return lambda y, rng: step(y, keep=1 / ratio, rng=rng)

    def tailed(ratio: int) -> Callable:
        return lambda y, rng: exponential(y, ratio=ratio, rng=rng)

    two = partial(synthetic, classes=2, per_class=5000, test=1000, columns=20)
    hundred = partial(synthetic, classes=100, per_class=60, test=20, columns=64)
    thousand = partial(synthetic, classes=1000, per_class=30, test=4, columns=128)
    found: dict[str, tuple[Callable, Callable]] = {
        "digits 1:1": (digits, whole),
        "digits step 1:10": (digits, stepped(10)),
        "digits step 1:50": (digits, stepped(50)),
        "breast cancer, natural": (cancer, whole),
        "breast cancer step 1:10": (cancer, stepped(10)),
        "2 classes step 1:100": (two, stepped(100)),
        "100 classes exponential 1:10": (hundred, tailed(10)),
        "1,000 classes exponential 1:10": (thousand, tailed(10)),
    }
    if data is not None and (data / "mnist").is_dir():
        images = partial(mnist, folder=data / "mnist")
        found |= {
            "MNIST 1:1": (images, whole),
            "MNIST step 1:10": (images, stepped(10)),
            "MNIST step 1:50": (images, stepped(50)),
            "MNIST exponential 1:100": (images, tailed(100)),
        }
    return found


def run(case: tuple[Callable, Callable], options: dict[str, object], seed: int) -> dict[str, float]:
    """Balanced accuracy and G-mean of one fit, and the rank correlation of margins with rarity."""
    rng = np.random.default_rng(seed)
    (x, y), (x_test, y_test) = case[0](rng)
    kept = case[1](y, rng)
    model = UncertaintyBalancedClassifier(**options, random_state=seed).fit(x[kept], y[kept])
    table = confusion_matrix(y_test, model.predict(x_test), labels=model.classes_)
    recall = np.diag(table) / np.maximum(table.sum(1), 1)
    counts = np.unique(y[kept], return_counts=True)[1]
    rare = counts < np.sqrt(counts.min() * counts.max())
    found = {"accuracy": float(recall.mean()), "g_mean": float(np.exp(np.log(np.maximum(recall, 1e-3)).mean()))}
    shift = [record["shift"] for record in model.history_["epochs"] if "shift" in record]
    if shift:
        found["shift"] = shift[0]
    if rare.any() and not rare.all():
        found |= {"rare": float(recall[rare].mean()), "common": float(recall[~rare].mean())}
    return {name: round(value, 5) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "strength_rule.json")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103, 104, 105])
    parser.add_argument("--only", nargs="*", help="cases whose names contain one of these words")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    known["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": torch.__version__,
        "sklearn": sklearn.__version__,
        "python": sys.version.split()[0],
    }
    for seed in options.seeds:
        for name, case in cases(None if options.data is None else Path(options.data)).items():
            if options.only and not any(word in name for word in options.only):
                continue
            for method in options.methods:
                cell = f"{name} | {method} | {seed}"
                if cell in known["cells"]:
                    continue
                known["cells"][cell] = run(case, METHODS[method], seed)
                options.out.parent.mkdir(exist_ok=True)
                options.out.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
                print(cell, known["cells"][cell], flush=True)


if __name__ == "__main__":
    main()
