"""docs/results/many-classes.md from the JSON of many_classes.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/many_classes.json", ROOT / "docs/results/many-classes.md"


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    rows = []
    for key, cell in found["cells"].items():
        name, variant = key.split(" | ")
        facts = found["sets"][name]
        rows.append(
            f"| {name} | {facts['classes']} | {facts['rows']:,} | {variant} | {cell['seconds']:.0f} s | "
            f"{100 * cell['balanced_accuracy']:.1f} | {cell['log_loss']:.3f} | {cell['weight']:.2f} |"
        )
    return [
        "# Many classes",
        "",
        "Boosting fits a tree for each class in every round. With many classes, is it worth the time? The same blend "
        "with boosting, without it, and with few rounds at a higher learning rate. TREC's questions (n-grams reduced "
        "to 50 numbers) are scored on the official test set, synthetic clouds on 6,000 other rows, equally many of "
        "each class on average. Each row is one fit with one seed, so small differences mean nothing. Times are "
        "CPU seconds on one thread of a shared machine: compare the ratios. Repeat it with",
        "",
        "```text",
        "EQUIPOISE_DATA=… OMP_NUM_THREADS=1 python benchmarks/many_classes.py && "
        "python benchmarks/many_classes_page.py",
        "```",
        "",
        "| data | classes | rows | blend | fit | balanced accuracy, % | log loss | weight of boosting |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        "So the default leaves boosting out above 30 classes, and `equipoise train` says so. "
        "The limit itself is a guess: nothing between 30 and 50 classes was tried. To include it anyway, "
        'name it: `BalancedClassifier(["network", "forest", "extra_trees", "boosting"])`.',
        "",
        f"Versions: {', '.join(f'{name} {value}' for name, value in found['versions'].items())}.",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n")
