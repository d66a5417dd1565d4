"""Does a sample level by mixing help, and which prior should its partners and margins start from?

    python benchmarks/mixing.py --out benchmarks/results/mixing.json
    python benchmarks/mixing.py --test --out benchmarks/results/mixing.json   # MNIST's test images, looked at once

Everything is chosen on training data: MNIST's training images, split anew for each seed; digits; and the rows of the
KEEL tables that keel.py leaves to choices. Every method has the same network, epochs and batches. A finished cell is
kept in the file and never run twice.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keel
import numpy as np
import sklearn
import torch
from mixing_page import page
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from strength_rule import read_idx
from torch import nn

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import exponential, step
from equipoise.evaluation import scores
from equipoise.losses import LOSSES, LogitLoss
from equipoise.losses.logit_losses import logit_adjustment
from equipoise.models import MLP, LeNet
from equipoise.training import ArrayData, Curriculum, EpochBatches, Network, Settings
from equipoise.training.mixing import DrawnData

Rows = tuple[np.ndarray, np.ndarray]
HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "mixing.md"
EPOCHS, WIDTH, MOST, SCORED = 30, 128, 500, 10_000
TABLE_ROWS, FOLDS = 1_000, 3
unit_vectors = partial(LogitLoss, criterion=logit_adjustment, normalize=True)
"""Logit adjustment from the first step on, with the class vectors of ours: of unit length, without bias."""
TABLES = [name for names in keel.TABLES.values() for name in names.split()] + list(keel.UCI_TABLES)


@dataclass(kw_only=True, eq=False, repr=False)
class Varied(UncertaintyBalancedClassifier):
    """The estimator, with what only a curriculum or a training loop of one's own can be told otherwise."""

    stages: Any = None
    order: str = "shuffled"

    def _curriculum(self, epochs: int, mixing: bool) -> Curriculum:  # noqa: ARG002
        own = {"kind": self.kind, "margins": self.margins, "held_back": self.held_back}
        return Curriculum(epochs, **(own | (self.stages or {})))

    def _settings(self, samples: int, seed: int) -> Settings:
        return replace(super()._settings(samples, seed), order=self.order)


def ours(prior: str, sample_level: str, *, held_back: float = 0.0, **stages: Any) -> dict[str, Any]:
    return {"margins": prior, "sample_level": sample_level, "held_back": held_back, "stages": stages}


METHODS: dict[str, dict[str, Any]] = {
    "logit adjustment": {"method": "logit_adjustment"},
    "logit adjustment, our head": {"method": unit_vectors},
    "ours before: uncertainty, dropout variance, corrected": ours("uncertainty", "expected", held_back=0.1),
    "counts, no sample level": ours("counts", "none"),
    "counts, mixing": ours("counts", "mixing"),
    "counts, mixing, class shift out of fold": ours("counts", "mixing") | {"out_of_fold": True},
    "corrected counts, no sample level": ours("corrected", "none"),
    "corrected counts, mixing": ours("corrected", "mixing"),
    "uncertainty, no sample level": ours("uncertainty", "none"),
    "uncertainty, mixing": ours("uncertainty", "mixing"),
    "corrected counts, mixing in the last stage": ours("corrected", "mixing", mix_from="sample"),
    "corrected counts, mixing, a tenth held back": ours("corrected", "mixing", held_back=0.1),
    "counts, mixing with partners as they come (plain mixup)": ours("counts", "mixing", partner_power=1.0),
    "counts, mixing with partners of all classes alike": ours("counts", "mixing", partner_power=0.0),
    "cross-entropy": {"method": "cross_entropy"},
    "cross-entropy, classes drawn alike": {"method": "cross_entropy", "order": "balanced"},
    "VS": {"method": "vs"},
    "LDAM-DRW": {"method": "ldam_drw"},
}


FIRST = [
    "logit adjustment",
    "counts, mixing",
    "counts, no sample level",
    "ours before: uncertainty, dropout variance, corrected",
]
"""Methods whose cells are run before those of the others; tables have these alone."""


def mnist_images(folder: Path, part: str) -> Rows:
    """All images at 14×14 pixels, from 0 to 1."""
    images = read_idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz")
    small = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(images), -1) / 255
    return small.astype(np.float32), labels.astype(np.int64)


def of_each_class(x: np.ndarray, y: np.ndarray, rows: np.ndarray, most: int) -> Rows:
    """The first ``most`` rows of each class."""
    kept = np.concatenate([rows[y[rows] == c][:most] for c in np.unique(y)])
    return x[kept], y[kept]


Case = Callable[[int], tuple[Rows, Rows]]
IMBALANCE: dict[str, Callable[..., np.ndarray]] = {
    "step 1:10": partial(step, keep=0.1),
    "step 1:50": partial(step, keep=0.02),
    "exponential 1:100": partial(exponential, ratio=100),
}


def images_case(read: Callable[[], tuple[Rows, Rows | None]], thin: Callable[..., np.ndarray], seed: int, scored: int):
    """Rows to fit, thinned out, and rows to score on: the others of the same images unless there are more."""
    (x, y), others = read()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))
    fit = of_each_class(x, y, rows[scored:] if others is None else rows, MOST)
    kept = thin(fit[1], rng=rng)
    return (fit[0][kept], fit[1][kept]), (x[rows[:scored]], y[rows[:scored]]) if others is None else others


def table_case(name: str, seed: int) -> tuple[Rows, Rows]:
    return keel.held_out(*keel.training_rows(*keel.read(name)), seed, TABLE_ROWS)


def cases(data: Path, *, test: bool) -> dict[str, tuple[str, Case]]:
    """Each case: its group, and from a seed to rows to fit and rows to score on."""
    if test:
        train, last = mnist_images(data, "train"), mnist_images(data, "t10k")
        read: Callable[[], tuple[Rows, Rows | None]] = lambda: (train, last)  # noqa: E731
        return {
            f"MNIST's test images, {name}": ("test", partial(images_case, read, thin, scored=0))
            for name, thin in IMBALANCE.items()
        }
    images = mnist_images(data, "train")
    digits = load_digits(return_X_y=True)
    found: dict[str, tuple[str, Case]] = {}
    for name, thin in IMBALANCE.items():
        found[f"MNIST, {name}"] = "images", partial(images_case, lambda: (images, None), thin, scored=SCORED)
    for name in ("step 1:10", "exponential 1:100"):
        small = partial(images_case, lambda: (digits, None), IMBALANCE[name], scored=600)
        found[f"digits, {name}"] = "images", small
    return found | {name: ("tables", partial(table_case, name)) for name in TABLES}


def class_shift(model: Varied, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """What the logits of three folds' networks lack for each class, by class-balanced log loss over Kish's effective
    number of samples, with a temperature, and held towards 0 with a standard deviation of ½.
    """
    logits = np.zeros((len(y), len(np.unique(y))))
    for fit, rest in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        part = clone(model).fit(x[fit], y[fit])
        logits[np.ix_(rest, np.searchsorted(np.unique(y), part.classes_))] = part._logits(x[rest]).numpy()
    target = np.searchsorted(np.unique(y), y)
    weight = 1 / np.bincount(target)[target]
    weight *= weight.sum() / (weight**2).sum()  # adds up to the effective number

    def loss(values: np.ndarray) -> float:
        chance = log_softmax((logits + values[1:]) / np.exp(values[0]), axis=1)
        return float(-weight @ chance[np.arange(len(y)), target] + 2 * values[1:] @ values[1:])

    found: np.ndarray = minimize(loss, np.zeros(1 + logits.shape[1]), method="L-BFGS-B").x[1:]
    return found


def run(case: Case, options: dict[str, Any], seed: int) -> dict[str, float]:
    """Scores of one fit, and the seconds of process time that it took."""
    (x, y), (x_scored, y_scored) = case(seed)
    own = {name: value for name, value in options.items() if name != "out_of_fold"}
    model = Varied(epochs=EPOCHS, width=WIDTH, random_state=seed, **own)
    started = time.process_time()
    shift = class_shift(model, x, y, seed) if "out_of_fold" in options else None
    model.fit(x, y)
    seconds = time.process_time() - started
    answers = model.predict(x_scored)
    if shift is not None:
        answers = model.classes_[(model._logits(x_scored).numpy() + shift).argmax(1)]
    found = scores(y_scored, answers).as_dict()
    recalls = np.maximum(found["recall"]["each"], 1e-3)
    kept = {"balanced_accuracy": found["balanced_accuracy"], "macro_f1": found["f1"]["mean"]}
    kept["geometric_mean"] = float(np.exp(np.log(recalls).mean()))
    return kept | {"seconds": round(seconds, 3)}


SPEED = {
    "LeNet on images of 28×28, batches of 128": (784, None, 128),
    "images of 28×28, two layers of 512, batches of 128": (784, 512, 128),
    "a table of 20 columns, two layers of 256, batches of 64": (20, 256, 64),
}
"""Columns, width (None: LeNet) and batch of the training steps whose time is compared."""


def steps_of(name: str, columns: int, width: int | None, batch: int) -> Callable[[], None]:
    """One visit of 20 batches: drawing, mixing, forward, backward and the optimiser's step."""
    rng = np.random.default_rng(0)
    rows = 20 * batch
    data = ArrayData(rng.normal(size=(rows, columns)).astype(np.float32), rng.integers(10, size=rows))
    loss = "cross_entropy" if name == "cross-entropy" else "uncertainty_margin"
    torch.manual_seed(0)
    convolutions = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), LeNet())
    backbone = convolutions if width is None else MLP(columns, (width, width), dropout=0.5)
    network = Network(backbone, LOSSES[loss](width or LeNet().out_features, 10, dropout=0.5)).train()
    if network.head.margins is not None:
        network.head.margins, network.head.strength = torch.linspace(1, 3, 10), torch.tensor(1.0)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    batches, drawn = EpochBatches(data.y, batch, seed=0), DrawnData(data)
    batches.partners = torch.full((10,), 0.1) if name == "mixing" else None

    def visit() -> None:
        for each in batches:
            optimizer.zero_grad()
            network(*drawn.__getitems__(each)).backward()
            optimizer.step()

    return visit


def speed(repetitions: int = 15) -> dict[str, dict[str, float]]:
    """Least process time of a step in milliseconds, the methods one after the other in every repetition."""
    found: dict[str, dict[str, float]] = {}
    for name, sizes in SPEED.items():
        visits = {method: steps_of(method, *sizes) for method in ("cross-entropy", "class level", "mixing")}
        own = found.setdefault(name, dict.fromkeys(visits, float("inf")))
        for _ in range(repetitions):
            for method, visit in visits.items():
                started = time.process_time()
                visit()
                own[method] = min(own[method], (time.process_time() - started) / 20 * 1e3)
    return found


def cells(data: Path, seeds: dict[str, int], *, test: bool, first: bool) -> Iterator[tuple[str, str, str, int, Case]]:
    """Every cell: of the first methods, one seed of all cases before the next, then of the others."""
    every = cases(data, test=test)
    for methods in (FIRST, [] if first else [name for name in METHODS if name not in FIRST]):
        for seed in range(max(seeds.values())):
            for name, (group, case) in every.items():
                if seed < seeds[group] and (group != "tables" or methods is FIRST):
                    yield from ((f"{name} | {method} | {seed}", name, method, seed, case) for method in methods)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "mixing.json")
    parser.add_argument("--seeds", type=int, default=3, help="of each case of images")
    parser.add_argument("--table-seeds", type=int, default=1, help="of each table")
    parser.add_argument("--test", action="store_true", help="score on MNIST's test images instead")
    parser.add_argument("--only", nargs="*", help="parts of the names of cases to run")
    parser.add_argument("--first", action="store_true", help="run the methods of FIRST alone")
    parser.add_argument("--speed", action="store_true", help="compare the times of trainings, and score nothing")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    LOSSES["unit_vectors"] = unit_vectors
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    if not options.page:
        record["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
        record["versions"] |= {"scikit-learn": sklearn.__version__, "equipoise": equipoise.__version__}
        record["settings"] = {"epochs": EPOCHS, "width": WIDTH, "images_a_class": MOST, "table_rows": TABLE_ROWS}
    seeds = {"images": options.seeds, "tables": options.table_seeds, "test": options.seeds}
    if options.speed:
        record["speed"] = speed()
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    idle = options.page or options.speed
    for key, name, method, seed, case in (
        () if idle else cells(options.data, seeds, test=options.test, first=options.first)
    ):
        if key in record["cells"] or (options.only and not any(part in name for part in options.only)):
            continue
        record["cells"][key] = run(case, METHODS[method], seed)
        print(f"{key}: {record['cells'][key]}", file=sys.stderr, flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record, list(METHODS), TABLES))


if __name__ == "__main__":
    main()
