"""Heads of 8,631 identities on 512 features, batch 256: time of a step and peak of memory, as ratios to plain softmax.

    python benchmarks/face_head.py            writes results/face_head.json

The heads take turns, step by step, so that a disturbance meets all of them; times are medians of process CPU time,
with wall time beside them. Memory is measured in a fresh process for each head: how far resident memory rises above
where it stood before the first step.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

import equipoise
from equipoise.losses import LOSSES, ClassVectorLoss, UncertaintyMarginLoss
from equipoise.uncertainty import ClassMoments, margins_from_uncertainty

RESULT = Path(__file__).parent / "results" / "face_head.json"
CLASSES, FEATURES, BATCH, DROPOUT, SEED = 8_631, 512, 256, 0.5, 0
STEPS, WARM_UP, PEAKS = 25, 3, 3
MOST_IMAGES, FEWEST_IMAGES = 843, 80  # of an identity of VGGFace2
PASSES, UNCERTAINTY_BATCH = 10, 48
HEADS: dict[str, str] = {
    "softmax": "`cross_entropy`: free class vectors and a bias",
    "ArcFace": "`arcface`: unit vectors, margin 0.5 on the angle",
    "Equipoise, class level only": "`uncertainty_margin`: one margin per class, additive on all classes",
    "Equipoise": "the same with the closed-form variance of each sample (`expected`)",
    "Equipoise, angular form, complement": "the same, margins on the angle and F̂ on the true logit (`complement`)",
}


def long_tail() -> torch.Tensor:
    """Images an identity: falling geometrically between VGGFace2's largest and smallest."""
    return torch.from_numpy(np.geomspace(MOST_IMAGES, FEWEST_IMAGES, CLASSES).round())


def build(name: str) -> ClassVectorLoss:
    if name in ("softmax", "ArcFace"):
        return LOSSES["cross_entropy" if name == "softmax" else "arcface"](FEATURES, CLASSES, dropout=DROPOUT)
    papers = name.startswith("paper")
    head = UncertaintyMarginLoss(
        FEATURES,
        CLASSES,
        form="angular" if papers else "additive",
        sample_level="none" if name.endswith("class level") else "complement" if papers else "expected",
        dropout=DROPOUT,
    )
    head.margins = margins_from_uncertainty(1 / long_tail())
    head.strength = 0.5
    return head


def step_of(name: str) -> Callable[[], None]:
    """One forward and backward pass, down to the gradient of the features."""
    torch.manual_seed(SEED)
    features = torch.randn(BATCH, FEATURES, requires_grad=True)
    target = torch.multinomial(long_tail(), BATCH, replacement=True)
    head = build(name)

    def step() -> None:
        features.grad = None
        head.zero_grad(set_to_none=True)
        head(features, target).backward()

    return step


def times() -> dict[str, dict[str, float]]:
    """Median milliseconds of a step of each head."""
    steps = {name: step_of(name) for name in HEADS}
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in HEADS}
    for repetition in range(-WARM_UP, STEPS):
        for name, step in steps.items():
            cpu, wall = time.process_time(), time.perf_counter()
            step()
            if repetition >= 0:
                spent[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {
        name: {
            "cpu_ms": 1e3 * statistics.median(cpu for cpu, _ in all_steps),
            "cpu_ms_least": 1e3 * min(cpu for cpu, _ in all_steps),
            "wall_ms": 1e3 * statistics.median(wall for _, wall in all_steps),
        }
        for name, all_steps in spent.items()
    }


def peak_of(name: str) -> None:
    """Print by how many MB this process's resident memory rises over three steps."""
    torch.set_num_threads(1)
    step = uncertainty_step() if name == "class uncertainty" else step_of(name)
    small = torch.randn(8, 8, requires_grad=True)
    (small @ small).exp().sum().backward()  # loads what every step needs
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    for _ in range(3):
        step()
    print((_status("VmHWM") - before) / 1024)


def uncertainty_step() -> Callable[[], None]:
    """What class uncertainty takes at a time: ten passes of as many samples as training passes on together."""
    torch.manual_seed(SEED)
    logits = torch.randn(PASSES, UNCERTAINTY_BATCH, CLASSES)

    def step() -> None:
        ClassMoments.of(logits.softmax(-1), torch.zeros(UNCERTAINTY_BATCH, dtype=torch.long))

    return step


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit(f"/proc/self/status has no {field}; the peak of memory is measured on Linux only.")
    return int(found[1])


def peaks() -> dict[str, float]:
    """Peak MB of each head: the median of fresh processes."""

    def run(name: str) -> float:
        # large tensors always from the system and back to it: the peak is then the tensors', not the allocator's
        fixed = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1048576"}
        command = [sys.executable, __file__, "--peak-of", name]
        found = [subprocess.run(command, check=True, capture_output=True, text=True, env=fixed) for _ in range(PEAKS)]
        return statistics.median(float(each.stdout) for each in found)

    return {name: run(name) for name in (*HEADS, "class uncertainty")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak-of", metavar="HEAD", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        peak_of(options.peak_of)
        return
    torch.set_num_threads(1)
    spent, memory = times(), peaks()
    record = {
        "settings": {
            "classes": CLASSES,
            "features": FEATURES,
            "batch": BATCH,
            "dropout": DROPOUT,
            "seed": SEED,
            "steps": STEPS,
            "threads": 1,
            "images_an_identity": [FEWEST_IMAGES, MOST_IMAGES],
            "passes": PASSES,
            "uncertainty_batch": UNCERTAINTY_BATCH,
        },
        "versions": {
            "equipoise": equipoise.__version__,
            "torch": str(torch.__version__),
            "python": sys.version.split()[0],
        },
        "heads": {
            name: spent[name]
            | {
                "what": what,
                "time_ratio": spent[name]["cpu_ms"] / spent["softmax"]["cpu_ms"],
                "peak_mb": memory[name],
                "memory_ratio": memory[name] / memory["softmax"],
            }
            for name, what in HEADS.items()
        },
        "class_uncertainty_mb": memory["class uncertainty"],
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
