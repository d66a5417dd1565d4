"""How long training takes: beside the matrix products it consists of, plain torch, skorch and scikit-learn.

    python benchmarks/training_speed.py                  # writes benchmarks/results/training_speed.json
    python benchmarks/training_speed.py --parts steps    # measures one part anew

skorch is no dependency: its row is left out, and said so, where it cannot be imported.
Methods take turns in one run, on one thread; ratios of medians are what counts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn
import torch
from matrix_products import cpu_seconds
from sklearn.neural_network import MLPClassifier
from training_steps import loop_overhead, million_rows, steps_beside_their_products

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.training import ArrayData

ROWS, COLUMNS, CLASSES, BATCH, WIDTH = 27_500, 512, 10, 256, 512
RESULT = Path(__file__).parent / "results" / "training_speed.json"


def imbalanced_features(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes, half of them ten times rarer: the shape of the paper's CIFAR-10 features."""
    rng = np.random.default_rng(seed)
    share = np.where(np.arange(CLASSES) < CLASSES // 2, 1.0, 0.1)
    y = np.sort(rng.choice(CLASSES, size=rows, p=share / share.sum()))
    centres = rng.normal(size=(CLASSES, COLUMNS)) * 0.12
    return (centres[y] + rng.normal(size=(rows, COLUMNS))).astype(np.float32), y


def skorch_epochs(x: np.ndarray, y: np.ndarray, epochs: int) -> Callable[[], object] | None:
    """A fit of the same network by skorch, or None without skorch."""
    try:
        from skorch import NeuralNetClassifier
    except ImportError:
        return None
    layers = (torch.nn.Linear(COLUMNS, WIDTH), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    layers += (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(WIDTH, CLASSES))
    net = NeuralNetClassifier(
        torch.nn.Sequential(*layers),
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        batch_size=BATCH,
        max_epochs=epochs,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
    )
    return lambda: net.fit(x, y.astype(np.int64))


def compare(repeats: int = 3, epochs: int = 12) -> dict[str, object]:
    """Medians over turns."""
    x, y = imbalanced_features()
    common = {"epochs": epochs, "batch_size": BATCH, "width": WIDTH, "random_state": 0}
    peers = ("sklearn_mlp", "skorch")
    peer = MLPClassifier(
        (WIDTH, WIDTH), batch_size=BATCH, max_iter=epochs, n_iter_no_change=epochs, random_state=0, tol=0.0
    )
    methods: dict[str, Callable[[], object] | None] = {
        "cross_entropy": lambda: UncertaintyBalancedClassifier("cross_entropy", **common).fit(x, y),
        "uncertainty_margin": lambda: UncertaintyBalancedClassifier(**common).fit(x, y),
        "sklearn_mlp": lambda: peer.fit(x, y),
        "skorch": skorch_epochs(x, y, epochs),
    }
    present = {name: work for name, work in methods.items() if work}
    taken: dict[str, list[float]] = {name: [] for name in present}
    present["cross_entropy"]()  # imports and caches
    for _ in range(repeats):
        for name, work in present.items():
            taken[name].append(cpu_seconds(work))
    median = {name: statistics.median(values) for name, values in taken.items()}
    ratios = {"Equipoise / cross_entropy": median["uncertainty_margin"] / median["cross_entropy"]}
    ratios |= {f"cross_entropy / {name}": median["cross_entropy"] / median[name] for name in peers if name in median}
    return {
        "epochs": epochs,
        "seconds": {name: round(value, 3) for name, value in median.items()},
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
    }


def margins_by_cap(caps: tuple[int, ...] = (50, 100, 200, 500, 1000, 100_000)) -> dict[str, object]:
    """Margins of one network by how many samples of each class take part in its class uncertainty."""
    from accelerate import Accelerator

    from equipoise.training.measurements import estimate_class_uncertainty
    from equipoise.uncertainty import margins_from_uncertainty

    x, y = imbalanced_features()
    network = UncertaintyBalancedClassifier("cross_entropy", epochs=5, random_state=0).fit(x, y).network_
    data, accelerator = ArrayData(x, torch.as_tensor(y)), Accelerator()
    found = {}
    for cap in caps:
        repeated = [
            margins_from_uncertainty(
                estimate_class_uncertainty(accelerator, network, data, passes=10, cap=cap, seed=seed, kind="unresolved")
            )
            for seed in range(5)
        ]
        found[cap] = torch.stack(repeated)
    whole = found[caps[-1]].mean(0)
    return {
        str(cap): {
            "largest_change_of_the_mean": round(float((margins.mean(0) - whole).abs().max()), 4),
            "spread_over_seeds": round(float(margins.std(0).max()), 4),
        }
        for cap, margins in found.items()
    }


def memory_by_rows() -> list[dict[str, object]]:
    """Memory at two numbers of rows."""
    with tempfile.TemporaryDirectory() as folder:
        return [memory_on_disk(rows, Path(folder)) for rows in (20_000, 200_000)]


def memory_on_disk(rows: int, folder: Path) -> dict[str, object]:
    """Peak resident memory of one epoch over a memory-mapped file, in a process of its own."""
    path = folder / f"{rows}.npy"
    stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
    for start in range(0, rows, 50_000):
        stored[start : start + 50_000] = np.random.default_rng(start).normal(size=(min(50_000, rows - start), COLUMNS))
    stored.flush()
    del stored
    script = (
        "import sys, resource, numpy as np, torch; torch.set_num_threads(1)\n"
        "from equipoise.losses import LOSSES\nfrom equipoise.models import MLP\n"
        "from equipoise.training import ArrayData, Network, Settings, train\n"
        "x = np.load(sys.argv[1], mmap_mode='r'); y = torch.arange(len(x)) % 10\n"
        "net = Network(MLP(x.shape[1]), LOSSES['cross_entropy'](512, 10))\n"
        "train(net, ArrayData(x, y), Settings(epochs=1, batch_size=256))\n"
        "anon = [line for line in open('/proc/self/status') if line.startswith('RssAnon')][0].split()[1]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, int(anon) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    peak, anonymous = map(int, done.stdout.split())
    file_mb = path.stat().st_size // 2**20
    path.unlink()
    return {"rows": rows, "file_mb": file_mb, "peak_mb": peak, "own_mb": anonymous}


PARTS: dict[str, Callable[[], object]] = {
    "fits": compare,
    "steps": steps_beside_their_products,
    "overhead": loop_overhead,
    "million_rows": million_rows,
    "margins_by_cap": margins_by_cap,
    "memory_on_disk": memory_by_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for part in options.parts:
        result[part] = PARTS[part]()
        result["shape"] = {
            "rows": ROWS,
            "columns": COLUMNS,
            "classes": CLASSES,
            "batch": BATCH,
            "hidden": [WIDTH, WIDTH],
        }
        result.setdefault("versions", {})[part] = {
            "equipoise": equipoise.__version__,
            "torch": torch.__version__,
            "sklearn": sklearn.__version__,
            "python": sys.version.split()[0],
        }
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(part, json.dumps(result[part], indent=2), flush=True)


if __name__ == "__main__":
    main()
