"""docs/results/table-scaling.md from the JSON of table_scaling.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/table_scaling.json", ROOT / "docs/results/table-scaling.md"


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    return [
        "# Larger tables",
        "",
        "How does the blend scale with rows? One synthetic table of each size, with 30 columns (10 of them "
        "informative), 1 % positives and 0.1 % random labels, scored on 200,000 other rows. Times are CPU "
        "seconds on one thread of a shared machine: compare the ratios. Repeat it with",
        "",
        "```text",
        "OMP_NUM_THREADS=1 python benchmarks/table_scaling.py && python benchmarks/table_scaling_page.py",
        "```",
        "",
        "| rows | fit, LightGBM balanced | fit, Equipoise | ratio | average precision, LightGBM | Equipoise |",
        "|---|---|---|---|---|---|",
        *(_size(int(rows), cell) for rows, cell in found["sizes"].items()),
        "",
        "A member of the blend is fitted to at most 100,000 rows, a member of a forest to at most 10,000. They are "
        "drawn separately for each member, with as much of the rare class as fits. So the time stops growing "
        "with the rows.",
        "",
        "## Members and speed",
        "",
        "At 10,000 rows; prediction of 20,000 rows on one thread.",
        "",
        "| | fit, s | rows predicted per second | average precision | log loss |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {cell['fit_seconds']:.1f} | {cell['rows_a_second']:,} | {cell['average_precision']:.3f} | "
            f"{cell['log_loss']:.4f} |"
            for name, cell in found["trades"].items()
        ),
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".",
    ]


def _size(rows: int, cell: dict[str, dict[str, float]]) -> str:
    other, ours = cell["lightgbm_balanced"], cell["equipoise"]
    ratio = ours["fit_seconds"] / other["fit_seconds"]
    return (
        f"| {rows:,} | {other['fit_seconds']:.1f} s | {ours['fit_seconds']:.1f} s | {ratio:.1f} | "
        f"{other['average_precision']:.3f} | {ours['average_precision']:.3f} |"
    )


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
