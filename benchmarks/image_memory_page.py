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
        f"{shape['images']:,} names of JPEG files of {shape['file'][1]} × {shape['file'][0]} pixels (CelebA's size and "
        "about its number; links to a few different pictures) in class folders, not checked beforehand, read at "
        f"{shape['read'][0]} × {shape['read'][1]} in shuffled batches of {shape['batch']} by "
        f"{result['workers']} worker processes, one epoch. Megabytes are resident memory; a process's own is what it "
        "shares with no other. Repeat it with",
        "",
        "```text",
        "python benchmarks/image_memory.py && python benchmarks/image_memory_page.py",
        "```",
        "",
        *table(streamed),
        "",
        f"From the first row to the last the processes' own memory changed by {growth(streamed):+d} MB together.",
        "",
        "## The same names as a list of path objects",
        "",
        "A worker that looks at a Python object writes to its page, to count the reference, and so gets a copy of it. "
        "The same loader on a list of path objects, with the allocator set alike and without decoding anything:",
        "",
        *table(control),
        "",
        f"The processes' own memory changed by {growth(control):+d} MB together.",
        "",
        f"Seed {result['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
