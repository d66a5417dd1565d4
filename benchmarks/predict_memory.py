"""Peak memory of ``equipoise predict`` for tables of growing length; writes JSON."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import equipoise
from equipoise.app.runs import RunOptions, train_run

RESULT = Path(__file__).parent / "results/predict_memory.json"
LENGTHS = (10_000, 100_000, 1_000_000)
NUMBERS, WORDS, SEED, ROWS_AT_ONCE = 12, 2, 0, 100_000


def table(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Columns of numbers and of words; a rare class of one in twenty."""
    frame = pd.DataFrame(rng.normal(size=(rows, NUMBERS)).round(5), columns=[f"number {n}" for n in range(NUMBERS)])
    for place in range(WORDS):
        frame[f"word {place}"] = rng.choice([f"level {level}" for level in range(8)], rows)
    score = frame["number 0"] + frame["number 1"] + rng.normal(size=rows) / 2
    frame["label"] = np.where(score > 2.5, "rare", "common")
    return frame


def write(path: Path, rows: int, rng: np.random.Generator) -> None:
    """A CSV of this many rows, without holding them all."""
    for start in range(0, rows, ROWS_AT_ONCE):
        part = table(min(ROWS_AT_ONCE, rows - start), rng).drop(columns="label")
        part.to_csv(path, index=False, mode="a", header=start == 0)


def measure(run: Path, source: Path, out: Path) -> dict[str, Any]:
    """One command in a process of its own."""
    command = [sys.executable, "-m", "equipoise", "predict", str(run), str(source), "--out", str(out), "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return {"peak_mb": usage.ru_maxrss // 1024, "seconds": round(time.perf_counter() - start, 1)}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rng = np.random.default_rng(SEED)
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(5_000, rng).to_csv(folder / "train.csv", index=False)
        run = train_run(RunOptions(str(folder / "train.csv"), epochs=5), folder / "run").folder
        for rows in LENGTHS:
            source = folder / f"{rows}.csv"
            write(source, rows, rng)
            for kind in ("csv", "parquet"):
                entry = {"rows": rows, "format": kind, "source_mb": round(source.stat().st_size / 2**20)}
                found.append(entry | measure(run, source, folder / f"answers {rows}.{kind}"))
                print(found[-1], flush=True)
    versions = {"equipoise": equipoise.__version__, "torch": str(torch.__version__), "pandas": pd.__version__}
    versions["python"] = sys.version.split()[0]
    columns = {"numbers": NUMBERS, "words": WORDS}
    RESULT.write_text(json.dumps({"versions": versions, "seed": SEED, "columns": columns, "runs": found}, indent=1))


if __name__ == "__main__":
    main()
