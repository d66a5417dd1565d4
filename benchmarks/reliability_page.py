"""docs/reliability.md from the JSON of load.py, of ``python -m tests.fuzz`` and of kill_points.py."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kill_points_page

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/reliability.md"
Figures = dict[str, Any]


def read(name: str) -> Figures:
    """Return a result, or nothing if it was never measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return Markdown with a blank line after it."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]


def versions(figures: Iterable[Figures]) -> list[str]:
    """Return the versions used; parts that were measured again may differ."""
    found: dict[str, set[str]] = {}
    for part in figures:
        for name, version in part.get("versions", {}).items():
            found.setdefault(name, set()).add(version)
    if not found:
        return []
    return ["Versions: " + ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in found) + ".", ""]


def fuzz_section() -> list[str]:
    """Return the section on damaged files."""
    found = read("fuzz")
    lines = [
        "## Damaged files",
        "",
        "What happens if a file is damaged or malicious? We fuzz every reader of untrusted files with random bytes "
        "and with mutated valid files: bits flipped; parts cut, repeated, swapped or replaced by keywords of the "
        "format; also inside zip, gzip, JSON and safetensors, with checksums corrected.",
        "",
        "A reader must either read the file or refuse it in one sentence. Anything else counts as a fault: another "
        "error, a warning, a crash, or more than 5 seconds of CPU time or 300 MB for one file.",
        "",
        "Small files made to exhaust the machine have tests of their own (`tests/faults/test_limits.py`). The "
        "limits: a compressed file may unpack to 32 MB, or to 100 times its own size if that is more; a table may "
        "have 100,000 columns, an options file 65,536 characters and 100 dots in a line, a weights file 20,000 "
        "tensors, and JSON a million lists and objects. Fitting the encoder of a table takes about 0.3 ms per "
        "column, 6 s for 20,000 columns.",
        "",
        "The test suite fuzzes for a minute in total. To fuzz for longer:",
        "",
        "```text",
        "python -m tests.fuzz --minutes 10 && python benchmarks/reliability_page.py",
        "```",
        "",
    ]
    if not found:
        return [*lines, "It has not been run for longer yet.", ""]
    own, guided = found.get("mutations", {}), found.get("atheris", {})
    rows = [
        [
            name,
            _minutes(one.get("processor_seconds", 0)),
            f"{one.get('files', 0):,}",
            f"{one.get('read', 0):,}",
            len(one["faults"]),
        ]
        for name, one in own.items()
    ]
    head = ("reader", "minutes of CPU time", "files", "read without error", "faults found")
    lines += [
        "Every fault found was fixed and became a test, and the reader was fuzzed again with another seed. The table "
        "shows the last long run, for the readers that had one.",
        "",
        *table(head, rows),
    ]
    if guided:
        lines += ["The same with atheris, which mutates the files that reach new code:", ""]
        lines += table(
            ("reader", "minutes", "files", "faults found"),
            (
                [name, _minutes(one.get("seconds", 0)), f"{one.get('files', 0):,}", len(one["faults"])]
                for name, one in guided.items()
            ),
        )
    seeds = sorted({one["seed"] for one in (*own.values(), *guided.values())})
    return [*lines, f"Seeds: {', '.join(map(str, seeds))}.", "", *versions([*own.values(), *guided.values()])]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def load_section() -> list[str]:
    """Return the section on large data."""
    parts = read("load").get("parts", {})
    lines = [
        "## Large data",
        "",
        "How much memory do the commands need? The tables show peak resident memory on one thread, including Python "
        "and torch (together about 400 MB). To repeat one part, or all without `--only`:",
        "",
        "```text",
        "python benchmarks/load.py --only table && python benchmarks/reliability_page.py",
        "```",
        "",
    ]
    for name, section in LOADS.items():
        if name in parts:
            lines += section(parts[name])
    if not parts:
        return [*lines, "Nothing has been measured yet.", ""]
    seeds = sorted({part["seed"] for part in parts.values()})
    return [*lines, f"Seed {', '.join(map(str, seeds))}.", "", *versions(parts.values())]


def _table_lines(part: Figures) -> list[str]:
    return [
        f"### A table of {part['rows']:,} × {part['columns']}",
        "",
        f"A CSV file of {part['source_mb']:,} MB, or {part['float32_mb']:,} MB as float32 in memory. One command "
        f"trains for {part['epochs']} epoch and scores a held-out fifth of the rows; the other predicts every row.",
        "",
        *table(
            ("command", "peak memory, MB"),
            ([f"`equipoise {name}`", f"{part[name]['peak_mb']:,}"] for name in ("train", "predict")),
        ),
    ]


def _images_lines(part: Figures) -> list[str]:
    return [
        f"### {part['files']:,} image files",
        "",
        f"PNG files of {part['side']} × {part['side']} pixels, all different, in two folders; {part['epochs']} epoch "
        f"of `{part['backbone']}`, then a prediction for every file. Memory includes all worker processes.",
        "",
        *table(
            ("command", "peak memory, MB"),
            ([f"`equipoise {name}`", f"{part[name]['together_mb']:,}"] for name in ("train", "predict")),
        ),
    ]


def _classes_lines(part: Figures) -> list[str]:
    rows = [
        [
            f"{number:,}",
            f"{part[f'{name}_train']['peak_mb']:,}",
            f"{part[f'{name}_predict']['peak_mb']:,}",
            part[f"{name}_report_mb"],
        ]
        for name, number in (("fewer", part["fewer"]), ("many", part["classes"]))
    ]
    head = ("classes", "train, peak MB", "predict, peak MB", "report, MB")
    return [
        f"### {part['classes']:,} classes",
        "",
        f"{part['rows']:,} rows of {part['columns']} columns with a long tail of classes: training for "
        f"{part['epochs']} epoch, then predictions for {part['predicted']:,} more rows. The row with "
        f"{part['fewer']} classes is for comparison.",
        "",
        *table(head, rows),
    ]


def _stream_lines(part: Figures) -> list[str]:
    rows = [
        [
            f"{part[name]:,}",
            f"{part[f'{key}_source_mb']:,}",
            f"{part[f'{key}_predict']['peak_mb']:,}",
        ]
        for name, key in (("fewer", "fewer"), ("rows", "many"))
    ]
    head = ("rows", "source, MB", "peak memory, MB")
    return [
        f"### {part['rows']:,} predictions",
        "",
        f"`equipoise predict RUN DATA --out FILE.csv` on a CSV file with {part['columns']} columns.",
        "",
        *table(head, rows),
    ]


LOADS = {"table": _table_lines, "images": _images_lines, "classes": _classes_lines, "stream": _stream_lines}


def lines() -> list[str]:
    """Return the page, line by line."""
    return ["# Reliability", "", *fuzz_section(), *load_section(), *kill_points_page.lines()]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()).rstrip("\n") + "\n", encoding="utf-8")
