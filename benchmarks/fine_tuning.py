"""What does fine-tuning EfficientNet-Lite0 give, and which loss trains it best on imbalanced pictures?

    python benchmarks/fine_tuning.py ham10000   # every method, fine-tuned and frozen, three seeds
    python benchmarks/fine_tuning.py cifar10
    python benchmarks/fine_tuning.py cifar10_step
    python benchmarks/fine_tuning.py --speed    # CPU time of a training step, by size and layout
    python benchmarks/fine_tuning_page.py       # write the page from the files

The learning rate is chosen first, by cross-entropy on held-out training images. The sets may run at once: each has a
file of its own, and a finished fit is stored at once and never run twice. A round runs all fits of one seed. Needs
``equipoise[images]`` and the sets below ``$EQUIPOISE_DATA``.
"""

import argparse
import itertools
import json
import platform
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from fine_tuning_page import METHODS, file_of

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import exponential, step
from equipoise.data.splits import hold_out, official, stratified_folds
from equipoise.evaluation import scores
from equipoise.models import Augment, ImageBackbone, extract_features, image_backbone
from equipoise.models.pretrained_weights import packaged_weights
from equipoise.paper.sets.registry import find_set
from equipoise.storage.files import write_atomically

NETWORK = "efficientnet_lite0"
SEEDS, FOLDS = 3, 3
SETS = ("ham10000", "cifar10", "cifar10_step")
SIDE, BATCH = 48, 32
"""Pixels of the short side, and batch size: what two cores bear."""
EPOCHS = {"ham10000": 2, "cifar10": 1, "cifar10_step": 1}
"""Passes over the training images while fine-tuning, for the same reason."""
FROZEN_EPOCHS = 10
"""Passes over frozen features."""
RATES = (1e-3, 3e-3)
"""Learning rates to choose from; pretrained layers have a tenth of it."""
FEW_ROWS, FEW_EPOCHS = 2_000, 2
"""Training images and epochs of a fit that tries a learning rate."""
SCORED = 300
"""Test images of each class of CIFAR-10, drawn once."""


class Rows(NamedTuple):
    """Images, uint8 (rows, 3, height, width), and labels (rows,)."""

    x: np.ndarray
    y: np.ndarray


@cache
def images(name: str) -> Any:
    """A set; HAM10000's images are decoded at 48 × 64 pixels, CIFAR-10's are enlarged by the network."""
    return find_set(name.removesuffix("_step"), size=(SIDE, SIDE * 4 // 3) if name == "ham10000" else None)


@cache
def pixels(name: str) -> Rows:
    """All images of a set, and their labels as numbers."""
    samples = images(name)
    return Rows(np.asarray(samples.x[:]), np.unique(samples.y, return_inverse=True)[1])


def rows_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and test rows of a seed: a fold by lesion, or an imbalance of its own and the same test images."""
    samples = images(name)
    if name == "ham10000":
        return stratified_folds(samples.y, FOLDS, groups=samples.groups, seed=0, allow_missing=True)[seed]
    parts = official(samples)
    train, test = parts["train"], parts["test"]
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(test[samples.y[test] == label])[:SCORED] for label in np.unique(samples.y)]
    y = samples.y[train]
    kept = step(y, rng=seed) if name == "cifar10_step" else exponential(y, 100, rng=seed)
    return train[kept], np.sort(np.concatenate(drawn))


def rows_to_choose_by(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Some training rows of the first seed, and others of the training part to score on."""
    samples = images(name)
    train = rows_of(name, 0)[0]
    rng = np.random.default_rng(0)
    if name == "ham10000":
        fit, held = hold_out(samples.y[train], 0.2, seed=0, groups=samples.groups[train])
        return rng.permutation(train[fit])[:FEW_ROWS], train[held]
    every = official(samples)["train"]
    held = np.concatenate([rng.permutation(every[samples.y[every] == label])[:100] for label in np.unique(samples.y)])
    return rng.permutation(np.setdiff1d(train, held))[:FEW_ROWS], held


def backbone(*, frozen: bool) -> ImageBackbone:
    """EfficientNet-Lite0 at this size, with the weights of the installed package."""
    augment = None if frozen else Augment()
    found = image_backbone(NETWORK, weights=packaged_weights(NETWORK), frozen=frozen, augment=augment)
    found.body.enlarge = SIDE
    return found


def fine_tuned(method: str, rows: Rows, seed: int, rate: float, epochs: int) -> UncertaintyBalancedClassifier:
    """All layers trained, the pretrained ones at a tenth of the learning rate."""
    return UncertaintyBalancedClassifier(
        method,
        backbone=backbone(frozen=False),
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=rate,
        random_state=seed,
    ).fit(*rows)


def on_features(method: str, rows: Rows, seed: int) -> UncertaintyBalancedClassifier:
    """The default network for tables, on frozen features."""
    return UncertaintyBalancedClassifier(method, epochs=FROZEN_EPOCHS, members=1, random_state=seed).fit(*rows)


def kept_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """The metrics of the page; for the geometric mean, a recall is at least a thousandth."""
    found = scores(y, predicted).as_dict()
    recalls = np.maximum(found["recall"]["each"], 1e-3)
    return {
        "balanced_accuracy": found["balanced_accuracy"],
        "geometric_mean": float(np.exp(np.log(recalls).mean())),
        "macro_f1": found["f1"]["mean"],
        "accuracy": found["accuracy"],
    }


def run(name: str, kind: str, method: str, seed: int, rate: float) -> dict[str, float]:
    """Scores of one fit at its last epoch, and the CPU seconds of its training."""
    train, test = rows_of(name, seed)
    x, y = pixels(name)
    fit, scored = Rows(x[train], y[train]), Rows(x[test], y[test])
    if kind == "frozen":
        features = extract_features(np.concatenate((fit.x, scored.x)), backbone(frozen=True))
        fit, scored = Rows(features[: len(train)], fit.y), Rows(features[len(train) :], scored.y)
    started = time.process_time()
    if kind == "frozen":
        model = on_features(METHODS[method], fit, seed)
    else:
        model = fine_tuned(METHODS[method], fit, seed, rate, EPOCHS[name])
    seconds = time.process_time() - started
    sizes = {"rows": len(train), "scored": len(test), "rarest": int(np.bincount(fit.y).min())}
    return kept_scores(scored.y, model.predict(scored.x)) | sizes | {"seconds": round(seconds, 1)}


def try_rate(name: str, rate: float) -> dict[str, float]:
    """Scores of a short cross-entropy fit on training images that it has not seen."""
    fit, held = rows_to_choose_by(name)
    x, y = pixels(name)
    model = fine_tuned("cross_entropy", Rows(x[fit], y[fit]), 0, rate, FEW_EPOCHS)
    return kept_scores(y[held], model.predict(x[held])) | {"rows": len(fit), "held_out": len(held)}


LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
SIZES, REPEATS = ((48, 32), (48, 64), (64, 32), (96, 32)), 5
"""Pixels a side and images of a timed step, and how often the layouts take turns."""


def speed() -> dict[str, dict[str, float]]:
    """Least CPU milliseconds per image of a forward and a backward pass; the layouts take turns."""
    bodies = {name: backbone(frozen=True).body.to(memory_format=layout).train() for name, layout in LAYOUTS.items()}
    found: dict[str, dict[str, float]] = {}
    for side, batch in SIZES:
        x, seconds = torch.randn(batch, 3, side, side), {name: [] for name in bodies}
        for _ in range(REPEATS):
            for name, body in bodies.items():
                body.enlarge = side
                started = time.process_time()
                body(x).square().mean().backward()
                seconds[name].append(time.process_time() - started)
        found[f"{side} px, batch {batch}"] = {name: round(1000 * min(own) / batch, 1) for name, own in seconds.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", choices=SETS)
    parser.add_argument("--speed", action="store_true", help="time a training step instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.speed:
        file_of("speed").write_text(json.dumps(speed(), indent=1) + "\n")
    if options.set is None:
        return
    warnings.simplefilter("ignore")
    name, path = options.set, file_of(options.set)
    record = json.loads(path.read_text()) if path.exists() else {"rates": {}, "fits": {}}
    record["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
    record["versions"] |= {"equipoise": equipoise.__version__}
    record["settings"] = {"side": SIDE, "batch": BATCH, "epochs": EPOCHS[name], "frozen_epochs": FROZEN_EPOCHS}

    def keep(part: str, key: str, call: Callable[..., dict[str, float]], *arguments: Any) -> None:
        if key not in record[part]:
            record[part][key] = call(*arguments)
            write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
            print(key, record[part][key], flush=True)

    for rate in RATES:
        keep("rates", str(rate), try_rate, name, rate)
    chosen = max(RATES, key=lambda rate: record["rates"][str(rate)]["balanced_accuracy"])
    for seed, kind, method in itertools.product(range(SEEDS), ("fine-tuned", "frozen"), METHODS):
        keep("fits", f"{kind} | {method} | {seed}", run, name, kind, method, seed, chosen)


if __name__ == "__main__":
    main()
