"""docs/results/scaling.md: what was measured on this scale, and a cost model from constants of other benchmarks.

python benchmarks/scaling_page.py
"""

import itertools
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/results/scaling.md"

ROWS, COLUMNS, HIDDEN = 1_000_000_000, 30, 512
"""The table: a billion rows of 30 columns through two layers of 512."""
IMAGES, PEOPLE, FEATURES, VISITS = 100_000_000, 10_000_000, 512, 20
"""The faces: 100 million images of 10 million people, 20 visits."""
BACKBONE_GFLOP = 3.3
"""Forward and backward pass of ResNet-50 at 112 x 112, per image: three times 1.1 GFLOP."""
GPU_GFLOPS, NETWORK_MB = 40_000.0, 1250.0
"""Assumed, not measured: what a GPU reaches in training, and a network of 10 Gbit/s."""
MACHINES, CORES, GPUS, WORKERS = 8, 16, 64, 8
"""Of the plan: machines with cores for the table; GPUs for the faces, and workers that decode for each."""


def read(name: str) -> Any:
    """Return a stored result, or None before its benchmark was run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def constants() -> dict[str, float]:
    """Constants of one core, from stored results."""
    speed, head, images, reading = (read(n) for n in ("training_speed", "face_head", "image_memory", "table_reading"))
    shape = speed["shape"]
    layers = [shape["columns"], *shape["hidden"], shape["classes"]]
    flop_row = 6 * sum(a * b for a, b in itertools.pairwise(layers))
    rows = speed["epochs"] * shape["rows"] / speed["seconds"]["uncertainty_margin"]
    asked, own = head["settings"], head["heads"]["Equipoise, class level only"]
    flop_head = 6 * asked["classes"] * asked["features"] * asked["batch"]
    decoded = images["equipoise"][1]
    encoded = reading["tables"]["numbers"]["equipoise"]
    return {
        "table_gflops": rows * flop_row / 1e9,
        "head_gflops": flop_head / (own["cpu_ms"] / 1e3) / 1e9,
        "images_per_worker": decoded["images"] / decoded["seconds"] / images["workers"],
        "encode_microseconds": (encoded["seconds"] - encoded["read_seconds"]) / reading["rows"] * 1e6,
        "read_microseconds": encoded["read_seconds"] / reading["rows"] * 1e6,
    }


def table_plan(known: dict[str, float]) -> dict[str, float]:
    """Hours of one visit of the table, and bytes that do not divide."""
    weights = COLUMNS * HIDDEN + HIDDEN * HIDDEN + HIDDEN * 2
    compute = ROWS * 6 * weights / 1e9 / known["table_gflops"]
    reading = ROWS * (known["encode_microseconds"] + known["read_microseconds"]) / 1e6
    cores, batch = MACHINES * CORES, 65_536
    exchange = ROWS / batch * 2 * 4 * weights / 2**20 / NETWORK_MB
    return {
        "compute_core_hours": compute / 3600,
        "reading_core_hours": reading / 3600,
        "minutes_per_visit": ((compute + reading) / cores + exchange) / 60,
        "exchange_share": exchange / ((compute + reading) / cores + exchange),
        "storage_gb": ROWS * COLUMNS * 4 / 1e9,
        "order_gb": ROWS * 5 * 8 / 1e9,
    }


def faces_plan(known: dict[str, float]) -> dict[str, float]:
    """Hours of all visits of the faces on GPUs, and the memory of the head."""
    head = 6 * PEOPLE * FEATURES / 1e9
    seconds = IMAGES * VISITS * (BACKBONE_GFLOP + head) / GPU_GFLOPS
    decoding = IMAGES * VISITS / known["images_per_worker"]
    batch = 128 * GPUS
    return {
        "head_gflop": head,
        "gpu_hours": seconds / 3600,
        "hours": seconds / GPUS / 3600,
        "decoding_hours": decoding / (GPUS * WORKERS) / 3600,
        "core_years": IMAGES * VISITS * (BACKBONE_GFLOP + head) / known["head_gflops"] / 3.15e7,
        "weights_gb": PEOPLE * FEATURES * 4 / 1e9,
        "per_gpu_gb": PEOPLE * FEATURES * 4 * 4 / GPUS / 1e9,
        "logits_gb": batch * PEOPLE / GPUS * 4 / 1e9,
    }


def streaming() -> list[str]:
    """Measured: Parquet on disk."""
    found = read("streaming")
    if found is None:
        return []
    rows = [
        f"| {name} | {run['file_mb']:,} | {run['above_interpreter_mb']:,} | {run['processor_seconds']:,} | "
        f"{run['balanced_accuracy']:.3f} |"
        for name, run in found["rows"].items()
    ]
    return [
        "## Tables on disk",
        "",
        f"`equipoise train` on Parquet of {found['columns']} columns in row groups of {found['row_group']:,}, one "
        f"visit, batches of {found['batch']:,}, one thread (`python benchmarks/streaming.py`).",
        "",
        "| rows | files, MB | memory above the interpreter, MB | processor seconds, all in all | balanced accuracy |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def class_parallel() -> list[str]:
    """Measured: classes shared by processes."""
    found = read("class_parallel")
    if found is None:
        return []
    rows = []
    for name, own in found.items():
        if name not in ("versions", "shape"):
            (_, whole), (label, shared), (_, ratios) = own.items()
            rows.append(
                f"| `{name}` | {whole['mb_per_process']:,} | {shared['mb_per_process']:,} | "
                f"{ratios['mb_per_process']:.2f} | {ratios['processor_seconds_per_step']:.2f} |"
            )
    return [
        "## Classes shared by four processes",
        "",
        f"{label}, beside 100,000 classes in one process: 512 features, a batch of {found['shape']['batch']}, SGD "
        "(`python benchmarks/class_parallel.py`). Ten times the classes on four processes would be 2.5 times the "
        "memory "
        "of each and ten times the work of all.",
        "",
        "| loss | MB, one process | MB, each of four | ratio of memory | ratio of processor time |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def steps() -> list[str]:
    """Measured: share of the matrix-product peak."""
    found = read("scaling_constants")
    if found is None:
        return []
    rows = [
        f"| {name} | {own['batch']} | {own['milliseconds_per_step']:g} | {own['gflops']:g} | {own['sgemm_gflops']:g} | "
        f"{own['share_of_peak']:.0%} |"
        for name, own in found["steps"].items()
    ]
    overhead = found["overhead"]
    return [
        "## Steps beside the peak of the machine",
        "",
        "A whole step (forward, backward, AdamW) and a product of two 1,024 x 1,024 matrices in the same run, one "
        "thread, process time (`python benchmarks/scaling_constants.py`).",
        "",
        "| network | batch | ms per step | GFLOP/s | sgemm, GFLOP/s | share |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"A step of a tiny network takes {overhead['torch_microseconds']:g} µs by torch alone and "
        f"{overhead['accelerate_microseconds']:g} µs through the calls of Accelerate that the loop makes.",
        "",
    ]


def model() -> list[str]:
    """The cost model."""
    known = constants()
    table, faces = table_plan(known), faces_plan(known)
    return [
        "## A cost model",
        "",
        "Constants of one core, from stored results of other pages:",
        "",
        "| constant | value | from |",
        "|---|---|---|",
        f"| training a table network | {known['table_gflops']:.0f} GFLOP/s | [speed of training](training-speed.md) |",
        f"| training a head of 8,631 classes | {known['head_gflops']:.0f} GFLOP/s | [face head](face-head.md) |",
        f"| decoding JPEG of 218 x 178 | {known['images_per_worker']:.0f} images/s | [image memory](image-memory.md) |",
        f"| reading a row of 30 numbers, CSV | {known['read_microseconds']:.1f} µs | `benchmarks/table_reading.py` |",
        f"| encoding it | {known['encode_microseconds']:.1f} µs | `benchmarks/table_reading.py` |",
        "",
        f"Assumed, not measured: {GPU_GFLOPS / 1000:.0f} TFLOP/s of a GPU in training, a network of "
        f"{NETWORK_MB * 8 / 1000:.0f} Gbit/s.",
        "",
        f"**A billion rows of {COLUMNS} columns**, one visit, a network of two layers of {HIDDEN}:",
        "",
        f"- {table['compute_core_hours']:.1f} core hours of training and {table['reading_core_hours']:.1f} of "
        "reading and "
        f"encoding; {table['storage_gb']:.0f} GB as float32.",
        f"- On {MACHINES} machines of {CORES} cores {table['minutes_per_visit']:.0f} minutes, of which exchanging "
        "gradients "
        f"takes {table['exchange_share']:.1%} at batches of 65,536.",
        f"- What breaks first: every process holds the labels, the row groups and the order of all rows, about "
        f"{table['order_gb']:.0f} GB. Up to 100 million rows that is {table['order_gb'] / 10:.0f} GB. Beyond, each "
        "process "
        "must hold those of its own share.",
        "",
        f"**{IMAGES // 10**6} million faces of {PEOPLE // 10**6} million people**, {VISITS} visits, ResNet-50 at 112 "
        "x 112:",
        "",
        f"- The head takes {faces['head_gflop']:.0f} GFLOP per image, the backbone {BACKBONE_GFLOP:g}: on CPUs "
        f"{faces['core_years']:.0f} core years, on GPUs {faces['gpu_hours']:,.0f} hours, {faces['hours']:.1f} on "
        f"{GPUS}.",
        f"- Decoding takes {faces['decoding_hours']:.1f} hours with {WORKERS} workers per GPU, beside the training.",
        f"- Class vectors take {faces['weights_gb']:.0f} GB, with gradients and AdamW {faces['per_gpu_gb']:.1f} GB "
        "on each of "
        f"{GPUS} GPUs.",
        f"- What breaks first: the logits, {faces['logits_gb']:.1f} GB per GPU for a batch of {128 * GPUS:,}, and "
        "the softmax "
        "and its gradient as much each. Partial FC's remedy, a tenth of the negative classes per step, is not built "
        "here.",
        "",
    ]


def lines() -> list[str]:
    """The page, line by line."""
    return [
        "# Beyond one machine",
        "",
        "What was measured, and what follows for data that do not fit here. [Scaling out](../scaling-out.md) says "
        "how to use "
        "it. Repeat the page with `python benchmarks/scaling_page.py`.",
        "",
        *streaming(),
        *class_parallel(),
        *steps(),
        *model(),
    ][:-1]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
