"""Frozen EfficientNet-Lite features of CIFAR-10: which stages, at which input size, of which network.

    python benchmarks/pretrained_features.py --data DIR          # writes benchmarks/results/pretrained_features.json

DIR has ``cifar10``. Everything is chosen on images of the training part: 150 a class to learn from, 150 to score.
Networks that are not installed are left out; features are cached, so that an interrupted run resumes where it stopped.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from feature_extraction import probe

import equipoise
from equipoise.models import ImageBackbone, ImageInput, extract_features, load_weights
from equipoise.models.efficientnet_lite import EfficientNetLite
from equipoise.models.pretrained_weights import packaged_weights
from equipoise.paper.sets.cifar10 import read_cifar10

NETWORKS = {
    "efficientnet_lite0": {},
    "efficientnet_lite1": {"depth": 1.1},
    "efficientnet_lite2": {"width": 1.1, "depth": 1.2},
}
SIZES = {
    "efficientnet_lite0": (128, 96, 160, 64, 192),
    "efficientnet_lite1": (128,),
    "efficientnet_lite2": (128,),
}
CHOICES = ((8,), (7,), (6, 7), (5, 6, 7), (5, 6, 7, 8), (4, 5, 6, 7), (5, 6))
OF_A_CLASS, HELD_OUT = 300, 150  # of the training images
TIMED = 200
RESULT = Path(__file__).parent / "results" / "pretrained_features.json"


def network(name: str, size: int) -> ImageBackbone:
    """All eight stages at once: a choice of them is a choice of columns."""
    body = EfficientNetLite(**NETWORKS[name], stages=tuple(range(1, 9)), enlarge=size)
    load_weights(body, packaged_weights(name))
    return ImageBackbone(ImageInput(3, **body.default_cfg), body)


def columns(name: str, stages: Sequence[int]) -> np.ndarray:
    """Where the features of these stages are."""
    with torch.device("meta"):
        widths = [EfficientNetLite(**NETWORKS[name], stages=(stage,)).out_features for stage in range(1, 9)]
    ends = np.cumsum([0, *widths])
    return np.concatenate([np.arange(ends[stage - 1], ends[stage]) for stage in stages])


def milliseconds(name: str, size: int, images: np.ndarray) -> float:
    """CPU time of one image on one thread, of the network up to its seventh stage."""
    body = EfficientNetLite(**NETWORKS[name], enlarge=size)
    load_weights(body, packaged_weights(name))
    made = ImageBackbone(ImageInput(3, **body.default_cfg), body)
    extract_features(images[:16], made, cache=False)
    start = time.process_time()
    extract_features(images[:TIMED], made, cache=False)
    return round(1000 * (time.process_time() - start) / TIMED, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"))
    parser.add_argument("--cache", type=Path, default=None, help="where features are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = read_cifar10(Path(options.data) / "cifar10")
    y = np.unique(samples.y, return_inverse=True)[1]
    train = np.flatnonzero(samples.partition == "train")
    rng = np.random.default_rng(0)
    subset = np.concatenate([rng.permutation(train[y[train] == label])[:OF_A_CLASS] for label in range(10)])
    images, labels = np.asarray(samples.x[subset]), y[subset]
    held_out = np.tile(np.arange(OF_A_CLASS) < HELD_OUT, 10)
    result = {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__, "python": sys.version.split()[0]},
        "images": "JPEG CIFAR-10" if samples.notes else "CIFAR-10",
        "seed": 0,
        "choice": {"train": int((~held_out).sum()), "held_out": int(held_out.sum())},
        "found": [],
    }
    for name in (name for name in NETWORKS if packaged_weights(name)):
        for size in SIZES[name]:
            x = extract_features(images, network(name, size), cache=options.cache)
            row = {"network": name, "size": size, "milliseconds": milliseconds(name, size, images), "accuracy": {}}
            for stages in CHOICES:
                own = x[:, columns(name, stages)]
                score = probe(own[~held_out], labels[~held_out], own[held_out], labels[held_out])
                row["accuracy"][str(list(stages))] = score
                print(f"{name}, {size} px, stages {stages}: {score} % of the held-out images", flush=True)
            result["found"].append(row)
            RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
