"""How many labels flipped at random are at the top of the list, and which correct ones are suspected with them?

    python benchmarks/mislabelled.py --out benchmarks/results/mislabelled.json

Every rule judges the same fits: the estimator with its defaults, or one made to memorise labels, on training
labels with a twentieth flipped to any other class. A finished cell is kept in the file and never run twice.
MNIST is read from ``--data`` or EQUIPOISE_DATA and left out where it is not.
"""

import argparse
import copy
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.torch
import sklearn
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors
from strength_rule import read_idx

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import step
from equipoise.evaluation.label_quality import LabelJudge, class_sizes
from equipoise.training import Network
from equipoise.uncertainty import dropout_error_moments, strongest_rival

FLIPPED, TOP, NEIGHBOURS = 0.05, 0.1, 10
BY_HEART = {"weight_decay": 0.0, "dropout": 0.2, "epochs": 60}


class Weighted(LabelJudge):
    """The rule with classes that weigh n to another power than ½."""

    def __init__(self, sizes: np.ndarray, *, power: float) -> None:
        super().__init__(sizes)
        self.power = power

    def _weight(self, labels: np.ndarray) -> np.ndarray:
        return np.maximum(self.sizes, 1).astype(float)[labels] ** -self.power


def left_out(features: np.ndarray, labels: np.ndarray, *, power: float = 0.5) -> np.ndarray:
    judge = Weighted(class_sizes(labels, int(labels.max()) + 1), power=power)
    judge.add(features, labels)
    judge.look(features, labels, added=True)
    return np.nan_to_num(judge.doubt().error, nan=-np.inf)


def neighbours(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Share of the nearest others, by the angle between features, with another label."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    found = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(unit).kneighbors(unit, return_distance=False)
    return (labels[found[:, 1:]] != labels[:, None]).mean(1)


def rules(network: Network, x: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """What each rule says of every label, larger where it is more doubtful."""
    network.eval()
    target = torch.tensor(labels)
    with torch.no_grad():
        features = network.backbone(torch.tensor(x))
        own = network.head.logits(features).softmax(-1).numpy()[np.arange(len(labels)), labels]
        vectors = network.head.class_vectors(features.dtype)
        moments = dropout_error_moments(features, vectors, target, rate=network.head.dropout.p)
    level = np.array([own[labels == c].mean() if (labels == c).any() else 0.0 for c in range(labels.max() + 1)])
    found = features.numpy()
    return {
        "left out": left_out(found, labels),
        "left out, classes weigh n": left_out(found, labels, power=0.0),
        "left out, classes weigh alike": left_out(found, labels, power=1.0),
        "own probability": 1 - own,
        "own probability, less the class's mean": level[labels] - own,
        "F̂ under dropout": strongest_rival(moments, target).double().numpy(),
        f"{NEIGHBOURS} nearest others": neighbours(found, labels),
    }


def measured(doubt: np.ndarray, flipped: np.ndarray, rare: np.ndarray) -> dict[str, float]:
    """How much of what was flipped is at the top, and how much else."""
    top = np.zeros(len(doubt), dtype=bool)
    top[np.argsort(-doubt, kind="stable")[: round(TOP * len(doubt))]] = True
    found = {"found": top[flipped].mean(), "average precision": average_precision_score(flipped, doubt.clip(-1e9))}
    if rare.any():
        found |= {"rare accused": top[rare & ~flipped].mean(), "others accused": top[~rare & ~flipped].mean()}
    return {name: round(float(value), 5) for name, value in found.items()}


def suspected(doubt: np.ndarray, flipped: np.ndarray, rare: np.ndarray) -> dict[str, float]:
    """The same for labels that fit another class better than their own."""
    accused = doubt > 0
    found = {"suspected": accused.mean()}
    if flipped.any():
        found |= {"suspected, found": accused[flipped].mean(), "suspected, right": flipped[accused].mean()}
    if rare.any():
        found["suspected, rare accused"] = accused[rare & ~flipped].mean()
    return {name: round(float(value), 5) for name, value in found.items()}


def mnist(rng: np.random.Generator, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = (read_idx(folder / f"train-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1"))
    rows = rng.permutation(len(labels))[:10_000]
    return (images[rows].reshape(len(rows), -1) / np.float32(255)).astype(np.float32), labels[rows].astype(int)


def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG001
    x, y = load_digits(return_X_y=True)
    return x.astype(np.float32), y


def cases(data: Path | None) -> dict[str, tuple[Callable, bool, float, dict[str, object]]]:
    """Each case: the data, whether half of the classes keep a tenth, the share flipped, the estimator's options."""
    found: dict[str, tuple[Callable, bool, float, dict[str, object]]] = {
        "digits": (digits, False, FLIPPED, {}),
        "digits step 1:10": (digits, True, FLIPPED, {}),
        "digits, none flipped": (digits, False, 0.0, {}),
        "digits step 1:10, none flipped": (digits, True, 0.0, {}),
        "digits step 1:10, cross-entropy": (digits, True, FLIPPED, {"method": "cross_entropy"}),
        "digits step 1:10, by heart": (digits, True, FLIPPED, BY_HEART),
    }
    if data is not None and (data / "mnist").is_dir():
        images = partial(mnist, folder=data / "mnist")
        found |= {
            "MNIST, 10,000": (images, False, FLIPPED, {"epochs": 15}),
            "MNIST step 1:10": (images, True, FLIPPED, {"epochs": 15}),
        }
    return found


def run(case: tuple[Callable, bool, float, dict[str, object]], seed: int) -> dict[str, dict[str, float]]:
    """One fit, judged by every rule."""
    read, stepped, share, options = case
    rng = np.random.default_rng(seed)
    x, y = read(rng)
    if stepped:
        kept = step(y, keep=0.1, rng=rng)
        x, y = x[kept], y[kept]
    chosen = rng.permutation(len(y))[: round(share * len(y))]
    given = y.copy()
    given[chosen] = (y[chosen] + rng.integers(1, 10, len(chosen))) % 10
    counts = np.bincount(y)
    rare = (counts < np.sqrt(counts.min() * counts.max()))[y] if stepped else np.zeros(len(y), dtype=bool)
    with tempfile.TemporaryDirectory() as folder:
        model = UncertaintyBalancedClassifier(**options, random_state=seed, run_dir=folder).fit(x, given)
        networks = {"trained": model.network_}
        if (weights := Path(folder) / "softmax.safetensors").is_file():
            networks["softmax stage"] = copy.deepcopy(model.network_)
            networks["softmax stage"].load_state_dict(safetensors.torch.load_file(weights))
    flipped = np.isin(np.arange(len(y)), chosen)
    found: dict[str, dict[str, float]] = {"": {"learnt": round(float((model.predict(x) == given).mean()), 5)}}
    for stage, network in networks.items():
        for name, doubt in rules(network, x, given).items():
            cell = measured(doubt, flipped, rare) if flipped.any() else {}
            found[f"{name}; {stage}"] = cell | (suspected(doubt, flipped, rare) if name == "left out" else {})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mislabelled.json")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103, 104, 105])
    parser.add_argument("--only", nargs="*", help="cases whose names contain one of these words")
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    known["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": torch.__version__,
        "sklearn": sklearn.__version__,
        "python": sys.version.split()[0],
    }
    for name, case in cases(options.data).items():
        for seed in options.seeds:
            cell = f"{name} | {seed}"
            if cell in known["cells"] or (options.only and not any(word in name for word in options.only)):
                continue
            known["cells"][cell] = run(case, seed)
            options.out.parent.mkdir(exist_ok=True)
            options.out.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
            print(cell, known["cells"][cell].get("left out; softmax stage"), flush=True)


if __name__ == "__main__":
    main()
