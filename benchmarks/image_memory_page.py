"""docs/results/image-memory.md from the JSON of image_memory.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/image_memory.json", ROOT / "docs/results/image-memory.md"


def table(marks: list[dict[str, Any]]) -> list[str]:
    """A row for each time that memory was read."""
    rows = ["| images seen | parent, MB | workers, MB | of the workers' own, MB |", "|---|---|---|---|"]
    for mark in marks:
        resident = " + ".join(str(worker["resident_mb"]) for worker in mark["workers"])
        own = " + ".join(str(worker["own_mb"]) for worker in mark["workers"])
        rows.append(f"| {mark['images']:,} | {mark['parent']['resident_mb']} | {resident} | {own} |")
    return rows


def growth(marks: list[dict[str, Any]]) -> int:
    """Megabytes of their own by which parent and workers together grew from the first mark to the last."""
    first, last = (
        mark["parent"]["own_mb"] + sum(worker["own_mb"] for worker in mark["workers"]) for mark in (marks[0], marks[-1])
    )
    return int(last - first)


def lines() -> list[str]:
    """The page, line by line."""
    result = json.loads(RESULT.read_text())
    shape, streamed, control = result["shape"], result["equipoise"], result["list_of_paths"]
    return [
        "# Memory of streaming images",
        "",
        f"Does memory grow while images are read from disk? {shape['images']:,} JPEG files of {shape['file'][1]} × "
        f"{shape['file'][0]} pixels in class folders (about the size and number of CelebA; links to a few different "
        f"pictures), not checked beforehand, are read at {shape['read'][0]} × {shape['read'][1]} in shuffled batches "
        f"of {shape['batch']} by {result['workers']} worker processes, for one epoch. Figures are resident memory; a "
        "process's own memory is what it shares with no other. Repeat it with",
        "",
        "```text",
        "python benchmarks/image_memory.py && python benchmarks/image_memory_page.py",
        "```",
        "",
        *table(streamed),
        "",
        f"From the first row to the last, the processes' own memory changed by {growth(streamed):+d} MB in total.",
        "",
        "## The same names as a list of path objects",
        "",
        "Why not simply keep a list of paths? A worker that touches a Python object updates its reference count, "
        "writes to the memory page and so gets its own copy. The same loader on a list of path objects, with the "
        "same allocator settings and without decoding:",
        "",
        *table(control),
        "",
        f"The processes' own memory changed by {growth(control):+d} MB in total.",
        "",
        f"Seed {result['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
