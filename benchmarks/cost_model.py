"""A cost model for a billion rows and for a hundred million faces, from the constants that other benchmarks stored."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ROWS, COLUMNS, HIDDEN, TABLE_BATCH = 1_000_000_000, 30, 512, 65_536
"""The table: a billion rows of 30 columns through two layers of 512."""
IMAGES, PEOPLE, FEATURES, VISITS, FACE_BATCH = 100_000_000, 10_000_000, 512, 20, 8192
"""The faces: 100 million images of 10 million people, 20 passes."""
BACKBONE_GFLOP, BACKBONE_MB = 3.3, 90.0
"""ResNet-50 at 112 x 112: forward and backward pass of an image, three times 1.1 GFLOP; its gradients."""
MACHINES, CORES, MEMORY_GB = 8, 16, 64
"""The plan for the table: machines like this one, with more cores."""
GPU_GFLOPS, NETWORK_MB, GPUS, WORKERS = 40_000.0, 1250.0, 64, 8
"""Assumed, not measured: what a GPU reaches in training, a network of 10 Gbit/s; workers that decode for each GPU."""
SHARED = "1,000,000 classes, four processes"


def read(name: str) -> Any:
    """Return a stored result, or None before its benchmark was run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def constants() -> dict[str, float]:
    """Constants of one core, all of them measured."""
    speed, head, known = (read(name) for name in ("training_speed", "class_parallel", "scaling_constants"))
    shared = head["cross_entropy"][SHARED]
    return {
        "table_gflops": speed["steps"]["table network"]["gflops"],
        "backbone_gflops": speed["steps"]["ResNet-18"]["gflops"],
        "head_gflops": 6e-9 * 1_000_000 * FEATURES * head["shape"]["batch"] / shared["processor_seconds_per_step"],
        "head_kb_per_class": shared["mb_per_process"] * 1024 / 250_000,
        "rows": known["tables"]["rows_per_second"],
        "row_bytes": known["tables"]["bytes_per_row"],
        "images": known["images"]["images_per_second"],
        "image_bytes": known["images"]["bytes_per_image"],
        "disk_mb": known["storage"]["mb_per_second"],
        "reduce_mb": known["all_reduce"]["mb_per_processor_second"],
    }


def table_plan(known: dict[str, float]) -> dict[str, float]:
    """Hours of one pass over the table, and bytes that do not divide."""
    weights = COLUMNS * HIDDEN + HIDDEN * HIDDEN + HIDDEN * 2
    compute = ROWS * 6 * weights / 1e9 / known["table_gflops"]
    reading = ROWS / known["rows"]
    gradients = ROWS / TABLE_BATCH * 4 * weights / 2**20  # MB that every process reduces
    cores = MACHINES * CORES
    exchange = gradients * max(1 / known["reduce_mb"], 2 * CORES / NETWORK_MB)
    disk = ROWS * known["row_bytes"] / 2**20 / known["disk_mb"] / MACHINES
    seconds = max((compute + reading) / cores, disk) + exchange
    return {
        "compute_core_hours": compute / 3600,
        "reading_core_hours": reading / 3600,
        "minutes": seconds / 60,
        "disk_minutes": disk / 60,
        "exchange_share": exchange / seconds,
        "storage_gb": ROWS * known["row_bytes"] / 1e9,
        "held_gb": ROWS * streamed_bytes_per_row() / 1e9,
    }


def streamed_bytes_per_row() -> float:
    """Memory that a process needs for every further row of a table on disk: labels, row groups, the order."""
    runs = {float(name.split()[0]): run["above_interpreter_mb"] for name, run in read("streaming")["rows"].items()}
    small, large = min(runs), max(runs)
    return float((runs[large] - runs[small]) * 2**20 / ((large - small) * 1e6))


def faces_plan(known: dict[str, float]) -> dict[str, float]:
    """Hours of the faces: a pass on CPUs, all passes on GPUs, and the memory of the head."""
    head = 6e-9 * PEOPLE * FEATURES  # GFLOP of an image
    seconds = IMAGES * VISITS * (BACKBONE_GFLOP + head) / GPU_GFLOPS / GPUS
    steps = IMAGES * VISITS / FACE_BATCH
    features_mb = FACE_BATCH * FEATURES * 4 / 2**20
    exchange = steps * (2 * BACKBONE_MB + 2 * features_mb) / NETWORK_MB
    core_seconds = IMAGES * (
        BACKBONE_GFLOP / known["backbone_gflops"] + head / known["head_gflops"] + 1 / known["images"]
    )
    return {
        "head_gflop": head,
        "core_years": core_seconds / 3.15e7,
        "machines": core_seconds / (7 * 86_400) / CORES,
        "hours": seconds / 3600,
        "exchange_hours": exchange / 3600,
        "decoding_hours": IMAGES * VISITS / known["images"] / (GPUS * WORKERS) / 3600,
        "storage_tb": IMAGES * known["image_bytes"] / 1e12,
        "disk_mb": IMAGES * VISITS * known["image_bytes"] / 2**20 / seconds,
        "head_gb": PEOPLE * known["head_kb_per_class"] / 1e6,
        "logits_gb": FACE_BATCH * PEOPLE / GPUS * 4 / 1e9,
    }


def model() -> list[str]:
    """The cost model."""
    if any(read(name) is None for name in ("class_parallel", "scaling_constants", "streaming")):
        return []
    known = constants()
    return [
        "## A cost model",
        "",
        "Constants of one core, measured as CPU time on a busy machine with two cores:",
        "",
        "| constant | value | from |",
        "|---|---|---|",
        f"| training a table network | {known['table_gflops']:.0f} GFLOP/s | [speed of training](training-speed.md) |",
        f"| training ResNet-18 | {known['backbone_gflops']:.0f} GFLOP/s | [speed of training](training-speed.md) |",
        f"| training a head of a million classes | {known['head_gflops']:.0f} GFLOP/s | above |",
        f"| memory of a class of 512 features, SGD | {known['head_kb_per_class']:.1f} kB | above |",
        f"| reading and encoding rows of 30 numbers | {known['rows']:,} rows/s | `benchmarks/scaling_constants.py` |",
        f"| such a row in Parquet | {known['row_bytes']:.0f} bytes | the same |",
        f"| decoding JPEG of 112 x 112 | {known['images']:,} images/s | the same |",
        f"| such an image | {known['image_bytes']:,} bytes | the same |",
        f"| reading the disk | {known['disk_mb']:,} MB/s | the same |",
        f"| all-reduce between two processes, gloo | {known['reduce_mb']:,} MB per CPU second | the same |",
        "",
        f"Assumed, not measured: {GPU_GFLOPS / 1000:.0f} TFLOP/s of a GPU in training, a network of "
        f"{NETWORK_MB * 8 / 1000:.0f} Gbit/s between machines.",
        "",
        *table_model(table_plan(known)),
        *faces_model(faces_plan(known)),
    ]


def table_model(plan: dict[str, float]) -> list[str]:
    """What a billion rows take."""
    return [
        f"**A billion rows of {COLUMNS} columns**, one pass over the data, a network of two layers of {HIDDEN}:",
        "",
        f"- {plan['compute_core_hours']:.1f} core hours of training and {plan['reading_core_hours']:.1f} of reading "
        f"and encoding; {plan['storage_gb']:.0f} GB of Parquet.",
        f"- {MACHINES} machines of {CORES} cores take {plan['minutes']:.0f} minutes. Exchanging gradients is "
        f"{plan['exchange_share']:.1%} of that at batches of {TABLE_BATCH:,}, because every process exchanges its own "
        f"gradients. Reading the rows from their disks takes {plan['disk_minutes']:.1f} minutes and runs alongside.",
        "- What breaks first is memory: every process holds the labels, the row groups and the order of all rows. "
        f"Extrapolated from the runs above, that is {plan['held_gb']:.0f} GB per process at a billion rows, and a "
        f"machine runs {CORES} processes. With {MEMORY_GB} GB per machine, the limit is "
        f"{MEMORY_GB / CORES / plan['held_gb'] * 1000:,.0f} million rows; beyond that, each process would have to hold "
        "only its own share.",
        "",
    ]


def faces_model(plan: dict[str, float]) -> list[str]:
    """What a hundred million faces take."""
    return [
        f"**{IMAGES // 10**6} million faces of {PEOPLE // 10**6} million people**, ResNet-50 at 112 x 112:",
        "",
        f"- The head takes {plan['head_gflop']:.0f} GFLOP per image, the backbone {BACKBONE_GFLOP:g}. On CPUs, at the "
        f"measured constants, one pass takes {plan['core_years']:.0f} core years: {plan['machines']:,.0f} machines of "
        f"{CORES} cores for a week. That is work for GPUs.",
        f"- On {GPUS} GPUs, as assumed, {VISITS} passes take {plan['hours']:.0f} hours, and "
        f"{plan['exchange_hours']:.0f} for exchanging gradients and features if that does not overlap. Decoding takes "
        f"{plan['decoding_hours']:.1f} hours with {WORKERS} workers per GPU, beside the training.",
        f"- {plan['storage_tb']:.1f} TB of images, read at {plan['disk_mb']:,.0f} MB/s in all.",
        f"- Class vectors and their gradients take {plan['head_gb']:.0f} GB, {plan['head_gb'] / GPUS:.1f} GB on each "
        f"of {GPUS} GPUs; AdamW would take twice as much.",
        f"- What breaks first: the logits, {plan['logits_gb']:.1f} GB per GPU for a batch of {FACE_BATCH:,}, and the "
        "softmax and its gradient as much each. Partial FC's remedy, a tenth of the negative classes per step, is not "
        "built here.",
        "",
    ]
