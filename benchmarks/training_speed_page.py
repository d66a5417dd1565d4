"""docs/results/training-speed.md from the JSON of training_speed.py and two_processes.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/results/training-speed.md"
BAR = 0.7
"""The share of a step that its products should take."""


def beside_products(speed: dict[str, Any]) -> list[str]:
    """Return steps beside the matrix products they consist of."""
    rows = [
        f"| {name} | {own['batch']} | {own['milliseconds_per_step']:.1f} | {own['milliseconds_of_its_products']:.1f} | "
        f"{own['share']:.0%} | {own['gflops']:.0f} | {own['gflops_of_its_products']:.0f} | "
        f"{own['gflops_of_a_large_product']:.0f} |"
        for name, own in speed["steps"].items()
    ]
    spent, below = speed["overhead"], [name for name, own in speed["steps"].items() if own["share"] < BAR]
    missed = (
        f" Below it: {', '.join(below)}, where AdamW, dropout and many small operations are the rest." if below else ""
    )
    return [
        "## A step beside its matrix products",
        "",
        "How much of a training step is unavoidable? We alternate a whole step (forward pass, backward pass, AdamW, "
        "the margins of our loss, dropout) with its bare matrix products: the same shapes, on separate operands, by "
        "torch's sgemm. A convolution counts as the product of its im2col matrix. The large product multiplies two "
        "1,024 x 1,024 matrices.",
        "",
        "| network | batch | ms, step | ms, its products | share | GFLOP/s, step | its products | a large product |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"The target was {BAR:.0%}.{missed} Compare within a row, where step and products were timed in turns.",
        "",
        f"A step of a tiny network takes {spent['torch']:.0f} µs in plain torch, {spent['loop']:.0f} µs in our loop "
        f"and {spent['accelerate']:.0f} µs through Accelerate's wrappers, which a single process bypasses. A step of "
        f"`train` takes {spent['train']:.0f} µs, including cutting the batch, checking the loss and recording it.",
        "",
    ]


def million(speed: dict[str, Any]) -> list[str]:
    """Epochs of a million rows."""
    found = speed["million_rows"]
    plain = found["seconds"]["torch, cross_entropy"]
    return [
        "## An epoch of a million rows",
        "",
        f"{found['rows']:,} × {found['columns']} numbers in memory, hidden layers {found['hidden']}, batch "
        f"{found['batch']:,}: CPU seconds of one epoch, on one thread.",
        "",
        "| | seconds | ratio |",
        "|---|---|---|",
        *(f"| {name} | {value:.0f} | {value / plain:.2f} |" for name, value in found["seconds"].items()),
        "",
    ]


def versions(speed: dict[str, Any]) -> str:
    """Which versions measured what."""
    told: dict[str, list[str]] = {}
    for part, used in speed["versions"].items():
        told.setdefault(", ".join(f"{name} {version}" for name, version in used.items()), []).append(part)
    return "Versions: " + "; ".join(f"{', '.join(parts)}: {used}" for used, parts in told.items()) + "."


def lines() -> list[str]:
    """The page, line by line."""
    speed = json.loads((RESULTS / "training_speed.json").read_text())
    two = json.loads((RESULTS / "two_processes.json").read_text())
    shape, fits = speed["shape"], speed["fits"]
    return [
        "# Speed of training",
        "",
        "How much longer does Equipoise train than plain cross-entropy, and where does the time go? "
        f"{shape['rows']:,} × {shape['columns']} features, {shape['classes']} classes, hidden layers "
        f"{shape['hidden']}, batch {shape['batch']}, {fits['epochs']} epochs, one thread; "
        "median CPU times, with the methods taking turns in one run. “Equipoise” is the default, mixing included; "
        "from 2,000 rows on it trains one network. Repeat it with",
        "",
        "```text",
        "python benchmarks/training_speed.py && python benchmarks/two_processes.py && "
        "python benchmarks/training_speed_page.py",
        "```",
        "",
        "| ratio | measured |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in fits["ratios"].items()),
        f"| seconds of an epoch, two processes / one, same machine | {two['ratio two / one']} |",
        "",
        *beside_products(speed),
        *million(speed),
        "## How many samples the class uncertainty needs",
        "",
        "How many samples per class are enough to measure its uncertainty? For one network and margins from 1 to 3: "
        "the change of the mean margin over five seeds compared with all samples, and its standard deviation over "
        "the seeds, each for the worst class. The spread that remains with all samples comes from the sub-networks: "
        "every sample passes through the same ones.",
        "",
        "| at most | change of the mean | spread over seeds |",
        "|---|---|---|",
        *(
            f"| {int(cap):,} | {row['largest_change_of_the_mean']} | {row['spread_over_seeds']} |"
            for cap, row in speed["margins_by_cap"].items()
        ),
        "",
        "## Memory as the data on disk grow",
        "",
        "One epoch over a memory-mapped file, in a fresh process. The peak includes pages of the file that the "
        "system caches in free memory; the process's own memory does not.",
        "",
        "| rows | file, MB | peak, MB | of its own, MB |",
        "|---|---|---|---|",
        *(
            f"| {row['rows']:,} | {row['file_mb']} | {row['peak_mb']} | {row['own_mb']} |"
            for row in speed["memory_on_disk"]
        ),
        "",
        versions(speed),
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
