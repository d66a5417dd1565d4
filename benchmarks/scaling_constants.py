"""Constants of a cost model, on one thread: steps beside the matrix-product peak, all-reduce, reading, decoding.

python benchmarks/scaling_constants.py          # writes results/scaling_constants.json
"""

import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

import equipoise
from equipoise.losses import LOSSES
from equipoise.models import MLP, LeNet
from equipoise.models.resnet import resnet18
from equipoise.training import ArrayData, Network, Settings, train
from equipoise.training.accelerate_setup import make_accelerator, make_optimizer, take_step

RESULT = Path(__file__).parent / "results" / "scaling_constants.json"
REPEATS, SEED = 7, 0


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median processor time, which a busy machine does not stretch much."""
    taken = []
    work()
    for _ in range(repeats):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def sgemm_peak(size: int = 1024) -> float:
    """GFLOP per second of a large square product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / median_seconds(lambda: a @ b) / 1e9


def networks() -> dict[str, tuple[Network, torch.Tensor]]:
    """A table network, LeNet and ResNet-18, each with a batch."""
    torch.manual_seed(SEED)
    table = Network(MLP(512, (512, 512), dropout=0.0), LOSSES["uncertainty_margin"](512, 10, strength=0.5, margin=2.0))
    grey = Network(LeNet(), LOSSES["uncertainty_margin"](500, 10, strength=0.5, margin=2.0))
    body = resnet18()
    colour = Network(body, LOSSES["uncertainty_margin"](body.out_features, 10, strength=0.5, margin=2.0))
    return {
        "table network": (table, torch.randn(256, 512)),
        "LeNet": (grey, torch.randn(128, 1, 28, 28)),
        "ResNet-18": (colour, torch.randn(8, 3, 224, 224)),
    }


def share_of_peak(network: Network, x: torch.Tensor) -> dict[str, float]:
    """A whole training step, optimiser included, beside the peak measured just before and after it."""
    target = torch.arange(len(x)) % 10
    optimizer, _ = make_optimizer(network, Settings(epochs=1, batch_size=len(x)), 100)
    with FlopCounterMode(display=False) as counter:
        network(x, target).backward()

    def step() -> None:
        network(x, target).backward()
        optimizer.step()
        optimizer.zero_grad()

    before = sgemm_peak()
    seconds = median_seconds(step)
    peak = (before + sgemm_peak()) / 2
    found = counter.get_total_flops() / seconds / 1e9
    return {
        "batch": len(x),
        "gflop_per_step": round(counter.get_total_flops() / 1e9, 3),
        "milliseconds_per_step": round(seconds * 1e3, 3),
        "gflops": round(found, 1),
        "sgemm_gflops": round(peak, 1),
        "share_of_peak": round(found / peak, 3),
    }


def overhead_of_a_step() -> dict[str, float]:
    """A small network's step by the loop's calls of Accelerate, and by torch alone, in microseconds."""
    torch.manual_seed(SEED)
    settings = Settings(epochs=1, batch_size=32)
    x, target = torch.randn(32, 8), torch.arange(32) % 3
    bare, wrapped = (Network(MLP(8, (16,), dropout=0.0), LOSSES["cross_entropy"](16, 3)) for _ in range(2))
    optimizer, scheduler = make_optimizer(bare, settings, 1000)

    def by_torch() -> None:
        for _ in range(100):
            bare(x, target).backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()

    accelerator = make_accelerator(settings, None, None)
    model, prepared, schedule = accelerator.prepare(wrapped, *make_optimizer(wrapped, settings, 1000))

    def by_accelerate() -> None:
        for _ in range(100):
            with accelerator.accumulate(model):
                accelerator.backward(model(x, target))
                take_step(accelerator, prepared)
                schedule.step()

    alone, together = median_seconds(by_torch), median_seconds(by_accelerate)
    return {"torch_microseconds": round(alone * 1e4, 1), "accelerate_microseconds": round(together * 1e4, 1)}


def rows_per_second() -> dict[str, float]:
    """Reading and encoding Parquet, and training a table network of 30 columns on the rows."""
    import pandas as pd

    from equipoise.data.encoder import TableEncoder
    from equipoise.data.tables.parquet_shards import ParquetShards

    rng = np.random.default_rng(SEED)
    frame = pd.DataFrame(rng.normal(size=(100_000, 30)).astype(np.float32), columns=[f"x{n}" for n in range(30)])
    encoder = TableEncoder().fit(frame)
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(Path(folder) / "rows.parquet")
        shards = ParquetShards(Path(folder) / "rows.parquet")
        reading = median_seconds(lambda: encoder.transform(shards.read(0, shards.columns)), 3)
    torch.manual_seed(SEED)
    data = ArrayData(encoder.transform(frame), rng.integers(0, 2, len(frame)))

    def epoch() -> None:
        network = Network(MLP(30, (512, 512)), LOSSES["cross_entropy"](512, 2))
        train(network, data, Settings(epochs=1, batch_size=4096))

    return {
        "read_and_encode": round(len(frame) / reading),
        "train": round(len(frame) / median_seconds(epoch, 3)),
        "bytes_per_row": 120,
    }


def images_per_second() -> float:
    """JPEG of 112 x 112 in colour, decoded."""
    from PIL import Image

    rng = np.random.default_rng(SEED)
    smooth = np.repeat(np.repeat(rng.integers(0, 255, (14, 14, 3), dtype=np.uint8), 8, 0), 8, 1)
    buffer = io.BytesIO()
    Image.fromarray(smooth).save(buffer, format="JPEG", quality=90)

    def decode() -> None:
        for _ in range(100):
            np.asarray(Image.open(io.BytesIO(buffer.getvalue())))

    return round(100 / median_seconds(decode, 3))


def worker() -> None:
    """One of two processes that reduce 32 MB over the loopback device."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values = torch.ones(2**23)
    seconds = median_seconds(lambda: dist.all_reduce(values), 5)
    if dist.get_rank() == 0:
        print(json.dumps({"mb_per_processor_second": round(32 / seconds)}))
    dist.destroy_process_group()


def all_reduce() -> dict[str, float]:
    """MB that one of two processes reduces in a second of its processor time."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__},
        "clock": "process time, one thread",
        "seed": SEED,
    }
    result["steps"] = {name: share_of_peak(*made) for name, made in networks().items()}
    result["overhead"] = overhead_of_a_step()
    result["rows_per_second"] = rows_per_second()
    result["images_per_second"] = images_per_second()
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    result["all_reduce"] = all_reduce()
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    worker() if os.environ.get("EQUIPOISE_BENCHMARK_WORKER") else main()
