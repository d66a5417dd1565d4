"""Much data through the command line: a long table, many image files, many classes, many predictions; writes JSON.

Each part stands alone and its figures are kept when another is measured again: ``--only table``. What is made for it
lies in a temporary folder (some 3 GB for the largest) and is deleted after it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL
import pyarrow
import pyarrow.csv
import torch
from numpy.typing import NDArray
from PIL import Image

import equipoise

RESULT = Path(__file__).parent / "results/load.json"
SEED, PART_ROWS, WATCHED_EACH = 0, 50_000, 0.25
Figures = dict[str, Any]


def rows_of(rng: np.random.Generator, centres: NDArray[np.float64], rows: int, *, labelled: bool) -> pd.DataFrame:
    """Numbers around the centre of a class each, the first class the most frequent; and the class where it is asked."""
    share = 1 / np.arange(1, len(centres) + 1)
    label = rng.choice(len(centres), rows, p=share / share.sum())
    values = (centres[label] + rng.normal(size=(rows, centres.shape[1]))).round(3)
    frame = pd.DataFrame(values, columns=[f"number {place}" for place in range(centres.shape[1])])
    return frame.assign(label=[f"class {place}" for place in label]) if labelled else frame


def write_table(path: Path, rows: int, *, columns: int, classes: int, labelled: bool = True) -> Path:
    """A CSV of this many rows, made and written in parts."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(scale=0.5, size=(classes, columns))
    with path.open("wb") as file:
        for start in range(0, rows, PART_ROWS):
            part = rows_of(rng, centres, min(PART_ROWS, rows - start), labelled=labelled)
            options = pyarrow.csv.WriteOptions(include_header=start == 0)
            pyarrow.csv.write_csv(pyarrow.Table.from_pandas(part, preserve_index=False), file, options)
    return path


def write_images(folder: Path, files: int) -> Path:
    """Grey PNG files of 8 × 8 pixels, no two alike, in a bright and a rarer dark class."""
    rng = np.random.default_rng(SEED)
    for name in ("bright", "dark"):
        (folder / name).mkdir(parents=True)
    for number in range(files):
        dark = number % 10 == 0
        pixels = rng.integers(0, 160, (8, 8), dtype=np.uint8) + np.uint8(0 if dark else 90)
        Image.fromarray(pixels).save(folder / ("dark" if dark else "bright") / f"{number:06d}.png")
    return folder


def measured(*arguments: str | Path) -> Figures:
    """One command in processes of its own: seconds, the largest process's peak, and the peak of all of them together.

    The first is what the kernel noted of the process itself; the second, where pages that several share count once, is
    read four times a second while there are several.
    """
    command = [sys.executable, "-m", "equipoise", *map(str, arguments), "--quiet"]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=said
        )
        peak = together = 0
        while process.poll() is None:
            peak = max(peak, _field(process.pid, "status", "VmHWM"))
            family = _with_children(process.pid)
            if len(family) > 1:
                together = max(together, sum(_field(pid, "smaps_rollup", "Pss") for pid in family))
            time.sleep(WATCHED_EACH)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {said.read().decode()}")
    seconds = round(time.perf_counter() - start, 1)
    return {"peak_mb": peak // 1024, "together_mb": max(together, peak) // 1024, "seconds": seconds}


def _field(pid: int, file: str, name: str) -> int:
    """Kilobytes of a field of a process; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _with_children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(other for child in children for other in _with_children(child))]


def long_table(folder: Path, *, rows: int = 1_000_000, columns: int = 100) -> Figures:
    """A table of this many rows and columns: one epoch of training, then a prediction for every row of it."""
    source = write_table(folder / "table.csv", rows, columns=columns, classes=5)
    start = time.perf_counter()
    for _ in pd.read_csv(source, chunksize=PART_ROWS):
        pass
    read = time.perf_counter() - start
    return {
        "rows": rows,
        "columns": columns,
        "source_mb": source.stat().st_size >> 20,
        "float32_mb": 4 * rows * columns >> 20,
        "epochs": 1,
        "pandas_seconds": round(read, 1),
        "train": measured("train", source, "--epochs", "1", "--out", folder / "run"),
        "predict": measured("predict", folder / "run", source, "--out", folder / "answers.csv"),
        "predictions": _lines(folder / "answers.csv"),
    }


def image_files(folder: Path, *, files: int = 200_000) -> Figures:
    """So many tiny image files: one epoch of training the small network, then a prediction for every file."""
    photos = write_images(folder / "photos", files)
    start = time.perf_counter()
    for path in photos.rglob("*.png"):
        with Image.open(path) as image:
            image.load()
    decoded = time.perf_counter() - start
    return {
        "files": files,
        "side": 8,
        "backbone": "lenet",
        "epochs": 1,
        "pillow_seconds": round(decoded, 1),
        "train": measured("train", photos, "--epochs", "1", "--backbone", "lenet", "--out", folder / "run"),
        "predict": measured("predict", folder / "run", photos, "--out", folder / "answers.csv"),
        "predictions": _lines(folder / "answers.csv"),
    }


def many_classes(folder: Path, *, rows: int = 100_000, predicted: int = 10_000, classes: int = 1000) -> Figures:
    """A table of many classes, and one as long of ten: an epoch of training, and predictions for some further rows."""
    found: Figures = {"rows": rows, "predicted": predicted, "columns": 32, "classes": classes, "fewer": 10, "epochs": 1}
    for name, number in (("fewer", 10), ("many", classes)):
        source = write_table(folder / f"{name}.csv", rows, columns=32, classes=number)
        run, answers = folder / f"run {name}", folder / f"answers {name}.csv"
        found[f"{name}_train"] = measured("train", source, "--epochs", "1", "--out", run)
        write_table(source, predicted, columns=32, classes=number, labelled=False)
        found[f"{name}_predict"] = measured("predict", run, source, "--out", answers)
        found[f"{name}_report_mb"] = round((run / "report.html").stat().st_size / 2**20, 1)
        found["predictions"] = _lines(answers)
        answers.unlink()
    return found


def many_predictions(folder: Path, *, fewer: int = 1_000_000, rows: int = 10_000_000) -> Figures:
    """Predictions for a CSV of this many rows, against those for a shorter one of the same kind."""
    columns, classes = 4, 2
    learnt = write_table(folder / "train.csv", 20_000, columns=columns, classes=classes)
    measured("train", learnt, "--epochs", "2", "--out", folder / "run")
    found: Figures = {"rows": rows, "fewer": fewer, "columns": columns, "classes": classes}
    for name, number in (("fewer", fewer), ("many", rows)):
        source = write_table(folder / "source.csv", number, columns=columns, classes=classes, labelled=False)
        found[f"{name}_source_mb"] = source.stat().st_size >> 20
        answers = folder / "answers.csv"
        found[f"{name}_predict"] = measured("predict", folder / "run", source, "--out", answers)
        found["predictions"] = _lines(answers)
        answers.unlink()
    return found


def _lines(path: Path) -> int:
    """Lines below the header."""
    with path.open("rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 22), b"")) - 1


PARTS: dict[str, Callable[[Path], Figures]] = {
    "table": long_table,
    "images": image_files,
    "classes": many_classes,
    "stream": many_predictions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="measure this part; the others' figures stay")
    only = parser.parse_args().only
    for name in [only] if only else PARTS:
        with tempfile.TemporaryDirectory(prefix="equipoise-load-") as folder:
            os.environ["EQUIPOISE_CACHE"] = str(Path(folder) / "cache")
            figures = PARTS[name](Path(folder))
        versions = {
            "equipoise": equipoise.__version__,
            "torch": str(torch.__version__),
            "pandas": pd.__version__,
            "pillow": PIL.__version__,
            "python": sys.version.split()[0],
        }
        known = json.loads(RESULT.read_text()) if RESULT.exists() else {"parts": {}}
        known["parts"][name] = figures | {"seed": SEED, "versions": versions}
        RESULT.write_text(json.dumps(known, indent=1) + "\n")
        print(name, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
