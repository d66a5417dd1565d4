"""Constants of a cost model, on one thread: reading, encoding and decoding, storage, all-reduce.

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
import pandas as pd
import torch
import torch.distributed as dist
from matrix_products import cpu_seconds
from PIL import Image

import equipoise
from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.parquet_shards import ParquetShards

RESULT = Path(__file__).parent / "results" / "scaling_constants.json"
ROUNDS, SEED = 5, 0
ROWS, COLUMNS, SIDE, STORED, REDUCED = 100_000, 30, 112, 2**28, 2**23
"""Rows and columns of a table, pixels of an image's side, bytes of a file, numbers of an all-reduce."""


def median_seconds(work: Callable[[], object], times: int = 1) -> float:
    """Median CPU time of one call, which a busy machine does not stretch much."""
    work()
    return statistics.median(cpu_seconds(work, times) for _ in range(ROUNDS))


def tables() -> dict[str, float]:
    """Rows that are read from Parquet and encoded in a second, and the bytes of one."""
    rng = np.random.default_rng(SEED)
    frame = pd.DataFrame(rng.normal(size=(ROWS, COLUMNS)).astype(np.float32), columns=[f"x{n}" for n in range(COLUMNS)])
    encoder = TableEncoder().fit(frame)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        frame.to_parquet(path)
        shards = ParquetShards(path)
        seconds = median_seconds(lambda: encoder.transform(shards.read(0, shards.columns)))
        return {"rows_per_second": round(ROWS / seconds), "bytes_per_row": round(path.stat().st_size / ROWS)}


def images() -> dict[str, float]:
    """JPEG images in colour that are decoded in a second, and the bytes of one."""
    rng = np.random.default_rng(SEED)
    coarse = Image.fromarray(rng.integers(0, 256, (14, 14, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(buffer, format="JPEG", quality=90)
    seconds = median_seconds(lambda: np.asarray(Image.open(io.BytesIO(buffer.getvalue()))), times=200)
    return {"images_per_second": round(1 / seconds), "bytes_per_image": buffer.tell()}


def storage() -> dict[str, float]:
    """MB that one reader gets from the disk in a second on the clock, past the page cache where the system allows."""
    with tempfile.NamedTemporaryFile(dir=os.environ.get("TMPDIR")) as file:
        block = np.random.default_rng(SEED).bytes(2**22)
        for _ in range(STORED // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        found = []
        for _ in range(ROUNDS):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            started = time.perf_counter()
            for start in range(0, STORED, len(block)):
                os.pread(file.fileno(), len(block), start)
            found.append(time.perf_counter() - started)
    return {"mb_per_second": round(STORED / 2**20 / statistics.median(found))}


def worker() -> None:
    """One of two processes that reduce over the loopback device."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values = torch.ones(REDUCED)
    seconds = median_seconds(lambda: dist.all_reduce(values))
    if dist.get_rank() == 0:
        print(json.dumps({"mb_per_processor_second": round(REDUCED * 4 / 2**20 / seconds)}))
    dist.destroy_process_group()


def all_reduce() -> dict[str, float]:
    """MB of gradients that one of two processes reduces in a second of its CPU time."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {
        "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__, "pillow": Image.__version__},
        "clock": "process time, one thread; storage on the clock",
        "seed": SEED,
    }
    for part in (tables, images, storage, all_reduce):
        result[part.__name__] = part()
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    worker() if os.environ.get("EQUIPOISE_BENCHMARK_WORKER") else main()
