"""One process against two on the same machine: seconds an epoch of the paper's network, and the same margins.

python benchmarks/two_processes.py            # runs itself under torchrun, writes results/two_processes.json
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import equipoise
from equipoise.losses import LOSSES
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, train

RESULT = Path(__file__).parent / "results" / "two_processes.json"
ROWS, COLUMNS, CLASSES, EPOCHS = 27_500, 512, 10, 4


def worker() -> None:
    """Train, and let the first process print what it took."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([1.0] * 5 + [0.1] * 5)
    y = torch.multinomial(shares, ROWS, replacement=True, generator=generator)
    centres = torch.randn(CLASSES, COLUMNS, generator=generator) * 0.12
    x = centres[y] + torch.randn(ROWS, COLUMNS, generator=generator)
    torch.manual_seed(0)
    network = Network(MLP(COLUMNS), LOSSES["uncertainty_margin"](512, CLASSES, dropout=0.5))
    curriculum = Curriculum(EPOCHS)
    history = train(network, ArrayData(x, y), Settings(epochs=EPOCHS, batch_size=256), curriculum=curriculum)
    if int(os.environ.get("RANK", "0")) == 0:
        seconds = sorted(record["seconds"] for record in history)[len(history) // 2]
        print(json.dumps({"seconds_an_epoch": seconds, "margins": network.head.margins.tolist()}))


def launch(processes: int) -> dict[str, object]:
    """The worker under torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    one, two = launch(1), launch(2)
    result = {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__},
        "shape": {"rows": ROWS, "columns": COLUMNS, "batch": 256, "epochs": EPOCHS, "threads a process": 1},
        "seconds_an_epoch": {"one": one["seconds_an_epoch"], "two": two["seconds_an_epoch"]},
        "ratio two / one": round(float(str(two["seconds_an_epoch"])) / float(str(one["seconds_an_epoch"])), 3),
        "margins": {"one": one["margins"], "two": two["margins"]},
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    worker() if os.environ.get("EQUIPOISE_BENCHMARK_WORKER") else main()
