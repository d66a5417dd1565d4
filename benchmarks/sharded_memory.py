"""Memory of a process that shares a network with others by FSDP2: one process, two and four.

python benchmarks/sharded_memory.py           # writes results/sharded_memory.json
"""

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
from torch import nn
from torch.distributed.tensor import DTensor

import equipoise
from equipoise.losses import LOSSES
from equipoise.training import Network
from equipoise.training.sharding import shard_network

RESULT = Path(__file__).parent / "results" / "sharded_memory.json"
WIDTH, LAYERS, CLASSES, BATCH, STEPS, SEED = 2048, 24, 10, 64, 4, 0


def own_mb(tensors: list[torch.Tensor]) -> float:
    """Megabytes of this process's share of some tensors."""
    local = [each.to_local() if isinstance(each, DTensor) else each for each in tensors]
    return sum(each.numel() * each.element_size() for each in local) / 2**20


def worker() -> None:
    """Build the network, share it unless alone, take steps, and print what this process holds."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    bare = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True))]
    network = Network(nn.Sequential(*layers), LOSSES["uncertainty_margin"](WIDTH, CLASSES, strength=0.5, margin=2.0))
    if size > 1:
        shard_network(network)
    optimizer = torch.optim.AdamW(network.parameters())
    generator = torch.Generator().manual_seed(SEED + rank)
    seconds = []
    for _ in range(STEPS):
        x = torch.randn(BATCH // size, WIDTH, generator=generator)
        target = torch.randint(CLASSES, (BATCH // size,), generator=generator)
        started = time.process_time()
        network(x, target).backward()
        optimizer.step()
        seconds.append(time.process_time() - started)
        held = own_mb([*network.parameters(), *(each.grad for each in network.parameters() if each.grad is not None)])
        optimizer.zero_grad()
    held += own_mb([value for state in optimizer.state.values() for value in state.values()])
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - bare) / 1024
    found = {"held_mb": round(held, 1), "peak_mb": round(peak, 1), "cpu_s": statistics.median(seconds[1:])}
    sys.stdout.write(json.dumps(found) + "\n")  # in one piece: the processes share a pipe
    dist.destroy_process_group()


def launch(processes: int) -> dict[str, float]:
    """The worker under torchrun: the most that a process holds, and the CPU time of all."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": "1"}
    environment["MALLOC_MMAP_THRESHOLD_"] = str(2**20)  # otherwise glibc keeps layers that were freed
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == processes
    return {
        "held_mb": max(each["held_mb"] for each in found),
        "peak_mb": max(each["peak_mb"] for each in found),
        "processor_seconds_per_step": round(sum(each["cpu_s"] for each in found), 3),
    }


def main() -> None:
    result = {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__},
        "shape": {"layers": LAYERS, "width": WIDTH, "batch": BATCH, "steps": STEPS, "seed": SEED, "optimizer": "AdamW"},
        "processes": {},
    }
    for processes in (1, 2, 4):
        result["processes"][str(processes)] = launch(processes)
        print(processes, result["processes"][str(processes)], flush=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    worker() if os.environ.get("EQUIPOISE_BENCHMARK_WORKER") else main()
