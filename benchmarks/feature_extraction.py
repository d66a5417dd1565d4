"""Frozen VGG16 features of CIFAR-10: how good by input size and blocks, and how long they take.

    python benchmarks/feature_extraction.py --data DIR               # writes benchmarks/results/feature_extraction.json
    python benchmarks/feature_extraction.py --data DIR --whole 32    # adds the time for all images at once

DIR has ``cifar10`` and ``vgg16``. Size and blocks are chosen on 2,000 of the training images, held out; only the
choice, and the size as it is, go over all 60,000 images and to the test set. Features are cached: an interrupted run
resumes where it stopped.
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
from torch import nn

import equipoise
from equipoise.data.imbalance import step
from equipoise.models import VGG16, ImageBackbone, extract_features, load_weights
from equipoise.models.image_network import ImageInput
from equipoise.models.vgg import WIDTHS
from equipoise.paper.sets.cifar10 import read_cifar10

SIZES, CHOICES = (32, 48, 64), ((5,), (4, 5), (3, 4, 5), (2, 3, 4, 5))
OF_A_CLASS, HELD_OUT = 1_200, 200  # of the training images, for the choice
DECAY, STEPS = 1e-2, 150  # of 1e-4 to 1e-1, the decay that suited held-out training images best
RESULT = Path(__file__).parent / "results" / "feature_extraction.json"


def vgg16(size: int, weights: Path) -> ImageBackbone:
    """All five blocks at once: a choice of them is a choice of columns."""
    body = VGG16(blocks=(1, 2, 3, 4, 5), enlarge=None if size == 32 else size)
    load_weights(body, weights)
    return ImageBackbone(ImageInput.imagenet(), body)


def columns(blocks: Sequence[int]) -> np.ndarray:
    """Where the features of these blocks are."""
    ends = np.cumsum([0, *(block[-1] for block in WIDTHS)])
    return np.concatenate([np.arange(ends[block - 1], ends[block]) for block in blocks])


def probe(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> float:
    """Accuracy in % of multinomial logistic regression on standardised features, settings fixed."""
    mean, scale = x.mean(0), x.std(0) + 1e-6
    inputs, labels = torch.from_numpy((x - mean) / scale), torch.from_numpy(y)
    layer = nn.Linear(inputs.shape[1], 10)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(layer(inputs), labels) + DECAY * layer.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.inference_mode():
        predicted = layer(torch.from_numpy((x_new - mean) / scale)).argmax(1).numpy()
    return round(100 * float((predicted == y_new).mean()), 2)


def extracted(images: np.ndarray, size: int, options: argparse.Namespace) -> np.ndarray:
    """Features of all blocks, with a line of progress on the terminal."""
    start = time.monotonic()

    def progress(done: int, total: int) -> None:
        if done % 1_000 == 0 or done == total:
            print(f"{size} px: {done:,} of {total:,}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    return extract_features(images, vgg16(size, options.weights), cache=options.cache, progress=progress)


def speed(images: np.ndarray, options: argparse.Namespace) -> dict[str, object]:
    """CPU seconds for 500 images on one thread, by size; and what was tried to make it faster, at 32 px."""
    torch.set_num_threads(1)

    def seconds(network: nn.Module, rows: int = 500) -> float:
        extract_features(images[:50], network, cache=False)
        start = time.process_time()
        extract_features(images[:rows], network, cache=False)
        return time.process_time() - start

    found: dict[str, object] = {
        "images_a_second": {str(size): round(500 / seconds(vgg16(size, options.weights)), 1) for size in SIZES}
    }
    network = vgg16(32, options.weights).eval()
    batch = torch.from_numpy(images[:100])
    floats = network.input(batch)

    def best(memory_format: torch.memory_format, bfloat16: bool, rows: int) -> float:
        taken = []
        for _ in range(2 if bfloat16 else 5):
            start = time.process_time()
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                network.body(floats[:rows].contiguous(memory_format=memory_format))
            taken.append(time.process_time() - start)
        return min(taken) / rows

    last, plain = best(torch.channels_last, False, 100), best(torch.contiguous_format, False, 100)
    found["channels_first / channels_last"] = round(plain / last, 2)
    found["bfloat16 / float32"] = round(best(torch.channels_last, True, 10) / last, 2)
    torch.set_num_threads(options.threads)
    return found


def time_whole(images: np.ndarray, options: argparse.Namespace) -> None:
    """Seconds on the clock for every image, with the default blocks and all threads; added to the JSON."""
    body = VGG16(enlarge=None if options.whole == 32 else options.whole)
    load_weights(body, options.weights)
    start = time.monotonic()
    extract_features(images, ImageBackbone(ImageInput.imagenet(), body), cache=False)
    taken = {"seconds": round(time.monotonic() - start), "images": len(images), "threads": options.threads}
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    result.setdefault("whole", {})[str(options.whole)] = taken
    write(result)
    print(taken)


def choose(validation: dict[str, dict[str, float]]) -> tuple[int, tuple[int, ...]]:
    """The best on the held-out images; of those within half a point of it, the smallest size and fewest blocks."""
    best = max(max(row.values()) for row in validation.values())
    return next(
        (size, blocks) for size in SIZES for blocks in CHOICES if validation[str(size)][str(list(blocks))] >= best - 0.5
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"))
    parser.add_argument("--cache", type=Path, default=None, help="where features are kept")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--whole", type=int, metavar="SIZE", help="only time all 60,000 images at once, without a cache"
    )
    parser.add_argument("--choice-only", action="store_true", help="leave out the 60,000 images and the test set")
    options = parser.parse_args()
    options.weights = next((options.data / "vgg16").glob("*.pth"))
    torch.set_num_threads(options.threads)

    samples = read_cifar10(options.data / "cifar10")
    images = np.asarray(samples.x[:])
    if options.whole:
        time_whole(images, options)
        return
    y = np.unique(samples.y, return_inverse=True)[1]
    train, test = (np.flatnonzero(samples.partition == part) for part in ("train", "test"))
    rng = np.random.default_rng(0)
    subset = np.concatenate([rng.permutation(train[y[train] == label])[:OF_A_CLASS] for label in range(10)])
    held_out = np.tile(np.arange(OF_A_CLASS) < HELD_OUT, 10)

    result: dict[str, object] = {
        "versions": {
            "equipoise": equipoise.__version__,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
        },
        "images": "JPEG CIFAR-10" if samples.notes else "CIFAR-10",
        "weights": options.weights.name,
        "probe": {"decay": DECAY, "steps": STEPS},
        "choice": {"train": int((~held_out).sum()), "held_out": int(held_out.sum())},
        "speed": speed(images, options),
    }
    validation: dict[str, dict[str, float]] = {}
    parts = {}
    for size in SIZES:
        parts[size] = x = extracted(images[subset], size, options)
        validation[str(size)] = {}
        for blocks in CHOICES:
            own = x[:, columns(blocks)]
            score = probe(own[~held_out], y[subset][~held_out], own[held_out], y[subset][held_out])
            validation[str(size)][str(list(blocks))] = score
            print(f"{size} px, blocks {blocks}: {score} % of the held-out images", flush=True)
    size, blocks = choose(validation)
    result |= {"validation": validation, "chosen": {"size": size, "blocks": list(blocks)}}
    write(result)
    if options.choice_only:
        return

    others = np.setdiff1d(np.arange(len(y)), subset)
    final: list[dict[str, object]] = []
    for at in sorted({32, size}):
        x = np.empty((len(y), parts[at].shape[1]), dtype=np.float32)
        x[subset] = parts[at]
        x[others] = extracted(images[others], at, options)
        imbalanced = train[step(y[train], rng=0)]
        for some in sorted({(5,), (4, 5), blocks}, reverse=True):
            own = x[:, columns(some)]
            final.append(
                {
                    "size": at,
                    "blocks": list(some),
                    "features": own.shape[1],
                    "test": probe(own[train], y[train], own[test], y[test]),
                    "test_from_imbalanced": probe(own[imbalanced], y[imbalanced], own[test], y[test]),
                }
            )
            print(final[-1], flush=True)
            write(result | {"test": final})


def write(result: dict[str, object]) -> None:
    """What has been found so far."""
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
