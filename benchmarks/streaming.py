"""Memory and time to train on Parquet that stays on disk, by the number of rows.

python benchmarks/streaming.py --rows 1 3 10          # millions; writes results/streaming.json after each size
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from equipoise.training.settings import choose_width

RESULT = Path(__file__).parent / "results" / "streaming.json"
COLUMNS, PART, GROUP, BATCH, SEED = 30, 1_000_000, 100_000, 4096, 0


def write_table(folder: Path, rows: int) -> float:
    """Write parts of a million rows, numbers and two columns of words; return their bytes."""
    import pandas as pd

    rng = np.random.default_rng(SEED)
    slopes = rng.normal(size=COLUMNS - 2) * 0.4
    for part, start in enumerate(range(0, rows, PART)):
        path = folder / f"part-{part:03}.parquet"
        size = min(PART, rows - start)
        x = rng.normal(size=(size, COLUMNS - 2)).astype(np.float32)
        frame = pd.DataFrame(x, columns=[f"x{place}" for place in range(COLUMNS - 2)])
        frame["shade"] = rng.choice(["red", "green", "blue"], size)
        frame["place"] = rng.choice([f"town {number}" for number in range(20)], size)
        score = x @ slopes + (frame["shade"] == "red") + rng.normal(size=size)
        frame["rare"] = (score > 4).astype(np.int64)
        frame.to_parquet(path, row_group_size=GROUP, index=False)
    return sum(path.stat().st_size for path in folder.iterdir())


def own_mb(field: str) -> int:
    """Memory of this process in MB: ``VmRSS``, or its peak ``VmHWM``, which unlike getrusage's is not its parent's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) // 1024


def worker(source: str) -> None:
    """Train in this process, and print what it took beside the bare interpreter."""
    import torch

    import equipoise
    from equipoise.app.runs.run_options import RunOptions
    from equipoise.app.runs.train import train_run

    torch.set_num_threads(1)
    bare = own_mb("VmRSS")
    with tempfile.TemporaryDirectory() as out:
        options = RunOptions(source, target="rare", stream=True, epochs=1, batch_size=BATCH, seed=SEED)
        started, processor = time.perf_counter(), time.process_time()
        result = train_run(options, Path(out) / "run")
        found = {
            "seconds": round(time.perf_counter() - started, 1),
            "processor_seconds": round(time.process_time() - processor, 1),
            "interpreter_mb": bare,
            "above_interpreter_mb": own_mb("VmHWM") - bare,
            "balanced_accuracy": round(float(result.scores.as_dict()["balanced_accuracy"]), 4),
            "versions": {"equipoise": equipoise.__version__, "torch": torch.__version__},
        }
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, nargs="+", default=[1, 3, 10], help="in millions")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for millions in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            size = write_table(Path(folder), int(millions * 1e6))
            environment = os.environ | {"OMP_NUM_THREADS": "1", "EQUIPOISE_BENCHMARK_WORKER": folder}
            done = subprocess.run(
                [sys.executable, __file__], capture_output=True, text=True, check=False, env=environment
            )
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        known |= {
            "versions": found.pop("versions"),
            "seed": SEED,
            "columns": COLUMNS,
            "row_group": GROUP,
            "batch": BATCH,
            "width": choose_width(int(millions * 1e6)),
        }
        rows = known.get("rows", {}) | {f"{millions:g} million": found | {"file_mb": size // 2**20}}
        known["rows"] = dict(sorted(rows.items(), key=lambda row: float(row[0].split()[0])))
        RESULT.write_text(json.dumps(known, indent=2) + "\n")
        print(millions, found, flush=True)


if __name__ == "__main__":
    worker(os.environ["EQUIPOISE_BENCHMARK_WORKER"]) if "EQUIPOISE_BENCHMARK_WORKER" in os.environ else main()
