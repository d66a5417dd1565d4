"""How long does it take, and how much memory, to read and encode a table, beside ``pandas.read_csv``?

    OMP_NUM_THREADS=1 python benchmarks/table_reading.py

A million rows of 30 columns, once of numbers, once of numbers with gaps, categories, dates, amounts and yes/no. Each
measurement is a process of its own, both ways in turn; times are CPU seconds, the shortest of three, and every ratio is
of one run. Huge pages are off for both ways: whether the system finds them depends on what else runs, and looking for
them takes up to two seconds. Memory is the peak of the process beyond what its imports take, against the frame that
pandas reads, all of its strings included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS = 1_000_000
PACKAGES = ("equipoise", "pandas", "numpy", "pyarrow")


def numbers(rows: int, rng: np.random.Generator) -> Any:
    """Thirty columns of numbers."""
    columns = {f"x{number}": rng.normal(size=rows).round(4) for number in range(25)}
    columns |= {f"n{number}": rng.integers(0, 1000, rows) for number in range(5)}
    return pd.DataFrame(columns)


def mixed(rows: int, rng: np.random.Generator) -> Any:
    """Thirty columns of what tables contain."""
    columns: dict[str, Any] = {f"x{number}": rng.normal(size=rows).round(4) for number in range(14)}
    for number in range(4):
        columns[f"gaps{number}"] = np.where(rng.random(rows) < 0.05, np.nan, rng.normal(size=rows).round(3))
    for number, size in enumerate((3, 10, 40, 200)):
        columns[f"category{number}"] = rng.choice([f"value {place}" for place in range(size)], rows)
    days = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)
    columns["day"] = days.astype(str)
    columns["moment"] = (days.astype("datetime64[s]") + rng.integers(0, 86400, rows)).astype(str)
    columns["paid"] = [f"{value:,.2f} €" for value in rng.exponential(900, rows)]
    columns["share"] = [f"{value}%" for value in rng.integers(0, 100, rows)]
    columns["consent"] = rng.choice(["yes", "no"], rows)
    columns["score"] = np.where(rng.random(rows) < 0.05, "refused", rng.integers(0, 11, rows).astype(str))
    columns["customer"] = rng.permutation(rows) + 10**16
    columns["zip"] = [f"{value:05d}" for value in rng.integers(1000, 99999, rows)]
    return pd.DataFrame(columns)


TABLES = {"numbers": numbers, "mixed": mixed}


def by_pandas(path: str) -> dict[str, float]:
    """Read the file by ``pandas.read_csv`` alone."""
    frame, found = measured(lambda: pd.read_csv(path))
    return found | {"frame_bytes": int(frame.memory_usage(deep=True).sum())}


def by_equipoise(path: str) -> dict[str, float]:
    """Read the file and encode all of its rows."""
    from equipoise.data.encoder import TableEncoder
    from equipoise.data.tables.read_table import read_table

    def both() -> Any:
        samples = read_table(path, target="label")
        read.append(time.process_time())
        return TableEncoder().fit_transform(samples.x, samples.y)

    read = [time.process_time()]
    matrix, found = measured(both)
    return found | {"read_seconds": round(read[1] - read[0], 2), "outputs": matrix.shape[1]}


def measured(call: Any) -> tuple[Any, dict[str, float]]:
    """Return what a call gives, its CPU seconds, and by how much it raised the peak of the memory."""
    before, start = peak(), time.process_time()
    given = call()
    return given, {"seconds": round(time.process_time() - start, 2), "bytes": peak() - before}


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


WAYS: dict[str, Any] = {"pandas": by_pandas, "equipoise": by_equipoise}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/table_reading.json"))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--files", type=Path, help="a folder that keeps the files from one run to the next")
    parser.add_argument("--do", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do:
        way, *arguments = options.do
        print(json.dumps((WAYS | {"write": write})[way](*arguments)))
        return
    found: dict[str, Any] = {"rows": options.rows, "versions": {name: version(name) for name in PACKAGES}}
    found["tables"] = json.loads(options.out.read_text())["tables"] if options.out.exists() else {}
    with nullcontext(options.files) if options.files else tempfile.TemporaryDirectory() as folder:
        for name in options.tables.split(","):
            path = Path(folder) / f"{name}.csv"
            if not path.exists():
                run("write", path, name, str(options.rows))  # in a process of its own: a child inherits the peak
            runs = [{way: run(way, path) for way in WAYS} for _ in range(options.repeats)]
            cell = {way: min((each[way] for each in runs), key=lambda one: one["seconds"]) for way in WAYS}
            pandas, ours = cell["pandas"], cell["equipoise"]
            cell["times_the_seconds"] = round(ours["seconds"] / pandas["seconds"], 2)
            cell["times_the_frame"] = round(ours["bytes"] / pandas["frame_bytes"], 2)
            found["tables"][name] = cell
            print(name, json.dumps(cell, indent=1), flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")


def write(path: str, name: str, rows: str) -> None:
    """Write a table with its labels."""
    rng = np.random.default_rng(0)
    frame = TABLES[name](int(rows), rng)
    frame.insert(0, "label", np.where(rng.random(len(frame)) < 0.01, "rare", "common"))
    frame.to_csv(path, index=False)


def run(way: str, path: Path, *more: str) -> Any:
    """Do it in a process of its own."""
    command = [sys.executable, __file__, "--do", way, str(path), *more]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"NUMPY_MADVISE_HUGEPAGE": "0"}
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
