"""docs/results/table-reading.md from the JSON of table_reading.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/table_reading.json", ROOT / "docs/results/table-reading.md"
COLUMNS = {"numbers": "numbers", "mixed": "numbers with gaps, categories, dates, amounts, ZIP codes"}


def lines() -> list[str]:
    """Return the page, line by line."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return [
        "# Reading a large table",
        "",
        f"How long does it take to read and encode a CSV file of {found['rows']:,} rows and 30 columns, and how much "
        "memory, against `pandas.read_csv` alone? The shortest of three runs of each in turn, on two cores shared "
        "with other work. Memory is the peak beyond what the imports take, against the size of the frame that pandas "
        "reads; most of it is the matrix itself. Repeat it with",
        "",
        "```text",
        "OMP_NUM_THREADS=1 python benchmarks/table_reading.py && python benchmarks/table_reading_page.py",
        "```",
        "",
        "| columns | CPU seconds | of pandas | ratio | memory, MB | frame, MB | ratio |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {what} | {cell['equipoise']['seconds']:.1f} | {cell['pandas']['seconds']:.1f} | "
            f"{cell['times_the_seconds']:.2f} | {cell['equipoise']['bytes'] / 1e6:,.0f} | "
            f"{cell['pandas']['frame_bytes'] / 1e6:,.0f} | {cell['times_the_frame']:.2f} |"
            for name, what in COLUMNS.items()
            for cell in (found["tables"][name],)
        ),
        "",
        f"Versions: {', '.join(f'{name} {value}' for name, value in found['versions'].items())}.",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
