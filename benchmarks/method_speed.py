"""Speed and memory of the method, as ratios within one run on one thread.

    python benchmarks/method_speed.py                    measure, write the JSON and the page
    python benchmarks/method_speed.py --page             write the page again from the JSON
    python benchmarks/method_speed.py --peers FOLDER     a folder with pytorch-metric-learning in it, made by
                                                         pip install pytorch-metric-learning --no-deps --target FOLDER

All methods of a comparison take turns, repetition by repetition, so that a disturbance meets all of them. Ratios
are of the medians of process CPU time, in which other processes do not count; wall time stands beside it.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.nn.functional as F
from method_speed_page import page
from torch import Tensor, nn

from equipoise.losses import UncertaintyMarginLoss
from equipoise.models import resnet18
from equipoise.uncertainty import dropout_error_moments, mc_dropout

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "method_speed.json"
PAGE = HERE.parent / "docs" / "results" / "method-speed.md"
BATCH, FEATURES, IMAGES, PIXELS, PASSES, SEED = 256, 512, 16, 112, 10, 0
REPETITIONS = {10: 40, 8631: 9}
CALLS = {10: 5, 8631: 1}  # a repetition; a millisecond alone is too short to time
LOSSES = {
    "cross-entropy": "linear layer with normalised class vectors, then cross-entropy",
    "additive": "UncertaintyMarginLoss, form additive",
    "angular": "UncertaintyMarginLoss, form angular",
    "additive + sample level": "the same, sample level expected in closed form, dropout 0.5",
    "angular + sample level": "the same, sample level expected in closed form, dropout 0.5",
    "LargeMarginSoftmaxLoss": "pytorch-metric-learning, margin 3",
}
PEER = "LargeMarginSoftmaxLoss"


class PlainSoftmax(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, FEATURES) / FEATURES**0.5)

    def forward(self, features: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(features, F.normalize(self.weight, dim=-1)), target)


def build_loss(name: str, classes: int) -> nn.Module:
    """The method by name, with a margin of its own for every class."""
    if name == "cross-entropy":
        return PlainSoftmax(classes)
    if name == PEER:
        from pytorch_metric_learning.losses import LargeMarginSoftmaxLoss

        return LargeMarginSoftmaxLoss(classes, FEATURES, margin=3)
    sample_level = name.endswith("sample level")
    loss = UncertaintyMarginLoss(
        FEATURES,
        classes,
        form=name.split(maxsplit=1)[0],
        placement="all",
        sample_level="expected" if sample_level else "none",
        dropout=0.5 if sample_level else 0.0,
    )
    loss.margins, loss.strength = torch.linspace(1, 3, classes), 0.5
    return loss


def loss_step(name: str, classes: int) -> Callable[[], None]:
    """One forward and backward pass, down to the gradient of the features."""
    torch.manual_seed(SEED)
    features = torch.randn(BATCH, FEATURES, requires_grad=True)
    target = torch.randint(classes, (BATCH,))
    loss = build_loss(name, classes)

    def step() -> None:
        features.grad = None
        loss.zero_grad(set_to_none=True)
        loss(features, target).backward()

    return step


def network_steps() -> dict[str, Callable[[], object]]:
    torch.manual_seed(SEED)
    backbone, drop, head = resnet18(), nn.Dropout(0.5), nn.Linear(FEATURES, 10)
    model = nn.Sequential(backbone, drop, head).eval()
    x, target = torch.randn(IMAGES, 3, PIXELS, PIXELS), torch.randint(10, (IMAGES,))

    def whole_passes() -> Tensor:
        drop.train()
        outputs = torch.stack([model(x) for _ in range(PASSES)])
        drop.eval()
        return outputs

    def with_sample_level() -> object:
        features = backbone(x)
        return head(features), dropout_error_moments(features, head.weight, target, rate=drop.p)

    return {
        "plain forward": lambda: model(x),
        "plain forward + closed-form sample level": with_sample_level,
        "mc_dropout": lambda: mc_dropout(model, x, PASSES),
        "ten whole passes": whole_passes,
    }


def interleaved(steps: dict[str, Callable[[], object]], repetitions: int, calls: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of one call of each step, CPU and wall."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for repetition in range(-2, repetitions):  # two rounds to warm up
        for name, step in steps.items():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(calls):
                step()
            spent = time.process_time() - cpu, time.perf_counter() - wall
            if repetition >= 0:
                times[name].append(spent)
    return {
        name: {
            "cpu_ms": 1e3 * statistics.median(cpu for cpu, _ in spent) / calls,
            "wall_ms": 1e3 * statistics.median(wall for _, wall in spent) / calls,
        }
        for name, spent in times.items()
    }


def peak_of(name: str, classes: int) -> None:
    """Print by how many MB the resident memory of this process peaks above its state before the first step."""
    torch.set_num_threads(1)
    loss_step(name, 10)()  # loads the libraries' kernels
    step = loss_step(name, classes)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    for _ in range(3):
        step()
    print((_status("VmHWM") - before) / 1024)


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {field}; the peak of memory is measured on Linux only.")
    return int(found[1])


def peaks(names: list[str], classes: int, peers: list[str]) -> dict[str, float]:
    """Peak MB of each method, each in a fresh process."""

    def run(name: str) -> float:
        command = [sys.executable, __file__, *peers, "--peak-of", name, "--classes", str(classes)]
        # large tensors always from the system and back to it: the peak is then the tensors', not the allocator's
        fixed = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1048576"}
        return float(subprocess.run(command, check=True, capture_output=True, text=True, env=fixed).stdout)

    return {name: run(name) for name in names}


def measure(peers: list[str]) -> dict:
    torch.set_num_threads(1)
    try:
        peer_version = importlib.metadata.version("pytorch-metric-learning")
    except importlib.metadata.PackageNotFoundError:
        peer_version = "not installed: its rows are left out"
    names = [name for name in LOSSES if name != PEER or "not installed" not in peer_version]
    losses = {
        str(classes): interleaved(
            {name: loss_step(name, classes) for name in names}, REPETITIONS[classes], CALLS[classes]
        )
        for classes in REPETITIONS
    }
    with torch.no_grad():
        network = interleaved(network_steps(), 5, 1)
    record = {
        "settings": {
            "threads": torch.get_num_threads(),
            "seed": SEED,
            "batch": BATCH,
            "features": FEATURES,
            "images": IMAGES,
            "pixels": PIXELS,
            "passes": PASSES,
            "placement": "all",
            "strength": 0.5,
            "margins": "1 to 3, evenly",
            "repetitions": {str(classes): count for classes, count in REPETITIONS.items()} | {"network": 5},
            "memory": "VmHWM less VmRSS before the first of three steps, in a fresh process",
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "equipoise": importlib.metadata.version("equipoise"),
            "pytorch-metric-learning": peer_version,
        },
        "losses": losses,
        "peak_mb": {"8631": peaks(names, 8631, peers)},
        "network": network,
    }
    record["targets"] = targets(record)
    return record


def targets(record: dict) -> list[dict]:
    """Each target of the project beside its measured ratio."""
    rows = []

    def row(what: str, ratio: float, limit: float, *, wall: float | None = None, at_least: bool = False) -> None:
        met = ratio >= limit if at_least else ratio <= limit
        word = "at least" if at_least else "at most"
        rows.append({"what": what, "ratio": ratio, "wall_ratio": wall, "target": f"{word} {limit:g}", "met": met})

    def ratio(times: dict, over: str, under: str) -> dict[str, float]:
        return {"ratio": times[over]["cpu_ms"] / times[under]["cpu_ms"]} | {
            "wall": times[over]["wall_ms"] / times[under]["wall_ms"]
        }

    for classes, limit in (("10", 2.0), ("8631", 1.5)):
        times = record["losses"][classes]
        for form in ("additive", "angular"):
            row(
                f"{form} loss against cross-entropy, {classes} classes",
                limit=limit,
                **ratio(times, form, "cross-entropy"),
            )
    for classes, limit in (("10", 4.0), ("8631", 1.0)):
        times = record["losses"][classes]
        for form in ("additive", "angular") if PEER in times else ():
            row(
                f"{PEER} against {form} loss, {classes} classes", limit=limit, at_least=True, **ratio(times, PEER, form)
            )
    memory = record["peak_mb"]["8631"]
    for form in ("additive", "angular"):
        row(
            f"peak memory of the {form} loss against cross-entropy, 8631 classes",
            memory[form] / memory["cross-entropy"],
            2,
        )
    network = record["network"]
    plain, sample = "plain forward", "plain forward + closed-form sample level"
    row(
        "ten whole passes against mc_dropout",
        limit=5,
        at_least=True,
        **ratio(network, "ten whole passes", "mc_dropout"),
    )
    row("closed-form sample level against a plain forward", limit=1.2, **ratio(network, sample, plain))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the page again from the JSON, measure nothing")
    parser.add_argument("--peers", metavar="FOLDER", help="folder with pytorch-metric-learning in it")
    parser.add_argument("--peak-of", metavar="LOSS", help=argparse.SUPPRESS)  # the fresh process of a memory row
    parser.add_argument("--classes", type=int, default=8631, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peers:
        sys.path.append(options.peers)
    if options.peak_of:
        peak_of(options.peak_of, options.classes)
        return
    if not options.page:
        record = measure(["--peers", options.peers] if options.peers else [])
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(json.loads(RESULTS.read_text()), LOSSES))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
