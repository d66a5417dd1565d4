"""docs/results/predict-memory.md from the JSON of predict_memory.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/predict_memory.json", ROOT / "docs/results/predict-memory.md"


def lines() -> list[str]:
    """The page, line by line."""
    result = json.loads(RESULT.read_text())
    rows = [
        f"| {run['rows']:,} | {run['source_mb']:,} | {run['format']} | {run['peak_mb']:,} |" for run in result["runs"]
    ]
    columns = result["columns"]
    return [
        "# Memory of `equipoise predict`",
        "",
        "Does the memory of `equipoise predict RUN DATA --out FILE` grow with the table? A CSV of "
        f"{columns['numbers']} columns of numbers and {columns['words']} of words, of growing length, on one thread. "
        "Figures are the peak resident memory of the process, including Python and torch. Repeat it with",
        "",
        "```text",
        "python benchmarks/predict_memory.py && python benchmarks/predict_memory_page.py",
        "```",
        "",
        "| rows | source, MB | written as | peak memory, MB |",
        "|---|---|---|---|",
        *rows,
        "",
        f"Seed {result['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
