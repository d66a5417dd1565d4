"""Do probabilities mean what they say, and do sets of classes hold the true one as often as asked for?

    EQUIPOISE_DATA=… python benchmarks/calibration.py --out benchmarks/results/calibration.json

CIFAR-10 with nine tenths of a random half of the classes left out, and HAM10000 in one fold of three by lesion, as
VGG16's features. A fit's answers to the test samples are kept in ``--fits`` and never made twice; every figure is taken
from them. Test samples are weighed: by what makes their class prior that of the training samples (natural), or equal
shares (balanced).
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.calibration import ClassThresholds
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.reliability import BINS, SMALLEST
from equipoise.calibration.scaling import Scaling
from equipoise.paper.tables.table_cases import Case
from equipoise.paper.tables.table_samples import Source

Floats = NDArray[np.float64]
SETS = {"cifar10": ("CIFAR-10, step 1:10", "step"), "ham10000": ("HAM10000, by lesion", "grouped")}
FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "unmixed": {"sample_level": "none"},
    "validation": {"calibration": "validation"},
    "cross_entropy": {"method": "cross_entropy", "calibration": "none"},
    "cross_entropy_validation": {"method": "cross_entropy", "calibration": "validation"},
}
METHODS = {
    "softmax of the logits": ("default", "raw"),
    "the default, which mixes": ("default", "fitted"),
    'without mixing, calibration="none"': ("unmixed", "none"),
    'without mixing, calibration="held_back"': ("unmixed", "fitted"),
    'the default with calibration="validation"': ("validation", "fitted"),
    "cross-entropy, softmax": ("cross_entropy", "raw"),
    "cross-entropy": ("cross_entropy", "none"),
    'cross-entropy with calibration="validation"': ("cross_entropy_validation", "fitted"),
}
"""Name -> the fit, and what is done to its logits; "none" moves them to the class prior by Bayes' rule, and no more."""
LEVEL, DIVISIONS, ENOUGH = 0.9, 20, 100
MOST_SEEDS = 100


def fit(case: Case, options: dict[str, Any], seed: int) -> dict[str, NDArray[Any]]:
    """Logits of the test samples, their classes' places, and what turns the ones into probabilities."""
    train, test = case.split(seed, 0)
    x, y = case.material.samples.x, case.material.samples.y
    model = UncertaintyBalancedClassifier(**options, random_state=seed).fit(x[train], y[train])
    with torch.no_grad():
        logits = model.network_(torch.from_numpy(np.ascontiguousarray(x[test], dtype=np.float32)))
    known = np.isin(y[test], model.classes_)
    kept = {name: tensor.numpy() for name, tensor in model.calibrated_.tensors().items()}
    return kept | {"logits": logits.numpy()[known], "labels": np.searchsorted(model.classes_, y[test][known])}


def calibrated(kept: dict[str, NDArray[Any]], how: str) -> Calibrated:
    tensors = {name: torch.from_numpy(values) for name, values in kept.items() if name not in ("logits", "labels")}
    found = Calibrated.from_tensors(tuple(tensors["prior"].shape), tensors)
    if how == "fitted":
        return found
    return Calibrated(found.prior, found.aimed, Scaling.identity(tuple(found.prior.shape)))


def figures(p: Floats, labels: NDArray[np.int64], prior: Floats) -> dict[str, float]:
    """Score samples weighted so that their classes are as common as ``prior`` says."""
    size = p.shape[1]
    weight = (prior / np.bincount(labels, minlength=size).clip(1))[labels]
    weight /= weight.sum()
    rows, own = np.arange(len(p)), labels[:, None] == np.arange(size)
    best = p.argmax(1)
    return {
        "ece": binned(p[rows, best], best == labels, weight),
        "class_ece": float(np.mean([binned(p[:, c], own[:, c], weight) for c in range(size)])),
        "brier": float(weight @ ((p - own) ** 2).sum(1)),
        "log_loss": float(-weight @ np.log(p[rows, labels].clip(SMALLEST))),
        "accuracy": float(weight @ (best == labels)),
    }


def binned(confidence: Floats, right: NDArray[np.bool_], weight: Floats) -> float:
    """The expected calibration error of weighed samples, in the bins of the library."""
    place = np.searchsorted(np.arange(BINS + 1) / BINS, confidence, side="left").clip(1, BINS) - 1
    return float(np.abs(np.bincount(place, weights=weight * (confidence - right), minlength=BINS)).sum())


def cell(fits: dict[str, dict[str, NDArray[Any]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Figures of every method on both class priors."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, (source, how) in METHODS.items():
        if source not in fits:
            continue
        kept = fits[source]
        logits, labels = torch.from_numpy(kept["logits"]), kept["labels"]
        turned, size = calibrated(kept, how), kept["logits"].shape[1]
        balanced = np.full(size, 1 / size)
        raw = logits.double().softmax(-1).numpy()
        found[name] = {
            "natural": figures(raw if how == "raw" else turned.probabilities(logits).numpy(), labels, kept["prior"]),
            "balanced": figures(
                raw if how == "raw" else turned.probabilities(logits, balanced).numpy(), labels, balanced
            ),
        }
    return found


def coverage(fits: list[dict[str, NDArray[Any]]]) -> dict[str, Any]:
    """Return each class's coverage: one random half of a fit's test samples calibrates, the other is scored."""
    divisions = [_division(kept, seed) for kept in fits for seed in range(DIVISIONS)]
    shares, counts, sizes = (np.array(part) for part in zip(*divisions, strict=True))
    return {
        "fits": len(fits),
        "calibration_samples": counts.min(0).tolist(),
        "mean": shares.mean(0).tolist(),
        "deviation": shares.std(0, ddof=1).tolist(),
        "classes_a_set": float(sizes.mean()),
    }


def _division(kept: dict[str, NDArray[Any]], seed: int) -> tuple[list[float], list[int], float]:
    """The share of each class that is covered, its calibration samples, and how many classes a set has."""
    labels, size = kept["labels"], kept["logits"].shape[1]
    turned = calibrated(kept, "none")
    p = turned.probabilities(torch.from_numpy(kept["logits"]), np.full(size, 1.0)).numpy()
    rng, first = np.random.default_rng(seed), np.zeros(len(labels), dtype=bool)
    for c in range(size):
        rows = rng.permutation(np.flatnonzero(labels == c))
        first[rows[: len(rows) // 2]] = True
    sets = ClassThresholds.fit(p[first], labels[first]).sets(p[~first], LEVEL)
    held = sets[np.arange(len(sets)), labels[~first]]
    shares = [float(held[labels[~first] == c].mean()) for c in range(size)]
    return shares, np.bincount(labels[first], minlength=size).tolist(), float(sets.sum(1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "calibration.json")
    parser.add_argument("--fits", type=Path, default=Path(tempfile.gettempdir()) / "equipoise-calibration")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", nargs="*", choices=SETS, default=list(SETS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.fits.mkdir(parents=True, exist_ok=True)
    cases = {name: Case(SETS[name][0], Source(options.data).features(name), SETS[name][1], ()) for name in options.only}
    for seed in options.seeds:
        for name, case in cases.items():
            for what, chosen in FITS.items():
                path = options.fits / f"{name}-{what}-{seed}.npz"
                if path.exists():
                    continue
                kept = fit(case, chosen, seed)
                part = path.with_suffix(".part.npz")
                np.savez_compressed(part, **kept)
                part.replace(path)
                write(options.out, options.fits)
                print(path.name, flush=True)
    write(options.out, options.fits)


def write(out: Path, folder: Path) -> None:
    """All figures, from all fits in the folder."""
    cells: dict[str, Any] = {}
    covered: dict[str, Any] = {}
    for name in SETS:
        answers = []
        for seed in range(MOST_SEEDS):
            paths = {what: folder / f"{name}-{what}-{seed}.npz" for what in FITS}
            fits = {what: dict(np.load(path)) for what, path in paths.items() if path.exists()}
            if len(fits) == len(FITS):
                cells[f"{name} | {seed}"] = cell(fits)
            answers += [fits["default"]] if "default" in fits else []
        if answers:
            covered[name] = coverage(answers)
    versions = {"equipoise": equipoise.__version__, "torch": str(torch.__version__), "sklearn": sklearn.__version__}
    content = {"versions": versions | {"python": sys.version.split()[0]}, "cells": cells, "coverage": covered}
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
