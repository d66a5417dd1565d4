"""docs/results/training-speed.md from the JSON of training_speed.py and two_processes.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/results/training-speed.md"


def lines() -> list[str]:
    """The page, line by line."""
    speed = json.loads((RESULTS / "training_speed.json").read_text())
    two = json.loads((RESULTS / "two_processes.json").read_text())
    shape = speed["shape"]
    return [
        "# Speed of training",
        "",
        f"{shape['rows']:,} × {shape['columns']} features, {shape['classes']} classes, hidden layers "
        f"{shape['hidden']}, batch {shape['batch']}, {speed['epochs']} epochs, one thread, {speed['clock']}, "
        "medians; the methods take turns in one run. Repeat it with",
        "",
        "```text",
        "python benchmarks/training_speed.py && python benchmarks/two_processes.py && "
        "python benchmarks/training_speed_page.py",
        "```",
        "",
        "| ratio | measured |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in speed["ratios"].items()),
        f"| seconds of an epoch, two processes / one, same machine | {two['ratio two / one']} |",
        "",
        "## How many samples the class uncertainty needs",
        "",
        "How many samples per class are enough to measure its uncertainty? For one network and margins from 1 to 3: "
        "the change of the mean margin over five seeds compared with all samples, and its standard deviation over "
        "the seeds, each for the worst class.",
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
        "Versions: " + ", ".join(f"{name} {version}" for name, version in speed["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
