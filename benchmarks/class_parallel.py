"""A head of a million classes on four processes beside an unsharded one of 100,000: memory and time per step.

python benchmarks/class_parallel.py           # writes results/class_parallel.json
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import equipoise
from equipoise.losses import LOSSES, feature_scale
from equipoise.losses.class_parallel import ClassParallelHead, own_classes

RESULT = Path(__file__).parent / "results" / "class_parallel.json"
FEATURES, BATCH, STEPS, SEED = 512, 64, 4, 0
METHODS = ("cross_entropy", "arcface", "uncertainty_margin")


def worker(classes: int, method: str) -> None:
    """Take steps with the head alone, and let every process print what it took."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    bare = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = {"scale": feature_scale(classes)} if method == "arcface" else {}
    shard = LOSSES[method](FEATURES, len(own_classes(classes)), **options)
    if method == "uncertainty_margin":
        shard.margins, shard.strength = torch.full((shard.classes,), 2.0), torch.tensor(0.5)
    head = ClassParallelHead(shard, classes) if size > 1 else shard
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(SEED + dist.get_rank())
    seconds, processor = [], []
    for _ in range(STEPS):
        features = torch.randn(BATCH // size, FEATURES, generator=generator).requires_grad_()
        target = torch.randint(classes, (BATCH // size,), generator=generator)
        started, used = time.perf_counter(), time.process_time()
        head(features, target).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - bare) // 1024
    found = {"mb": above, "s": statistics.median(seconds[1:]), "cpu_s": statistics.median(processor[1:])}
    sys.stdout.write(json.dumps(found) + "\n")  # in one piece: the processes share a pipe
    dist.destroy_process_group()


def launch(classes: int, method: str, processes: int) -> dict[str, float]:
    """The worker under torchrun; the largest memory and the medians of its processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": f"{classes} {method}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == processes
    return {
        "mb_per_process": max(each["mb"] for each in found),
        "seconds_per_step": round(statistics.median(each["s"] for each in found), 3),
        "processor_seconds_per_step": round(sum(each["cpu_s"] for each in found), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--classes", type=int, default=1_000_000)
    arguments = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result |= {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__},
        "shape": {"features": FEATURES, "batch": BATCH, "steps": STEPS, "seed": SEED, "optimizer": "SGD"},
    }
    for method in arguments.methods:
        whole = launch(100_000, method, 1)
        shared = launch(arguments.classes, method, 4)
        names = ("mb_per_process", "seconds_per_step", "processor_seconds_per_step")
        ratios = {name: round(shared[name] / whole[name], 2) for name in names}
        result[method] = {
            "100,000 classes, one process": whole,
            f"{arguments.classes:,} classes, four processes": shared,
            "ratios": ratios,
        }
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(method, result[method], flush=True)


if __name__ == "__main__":
    asked = os.environ.get("EQUIPOISE_BENCHMARK_WORKER")
    worker(int(asked.split()[0]), asked.split()[1]) if asked else main()
