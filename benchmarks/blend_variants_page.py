"""docs/results/blend-variants.md from the JSON of blend_variants.py."""

import json
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/blend_variants.json", ROOT / "docs/results/blend-variants.md"
SCORES = {
    "balanced_accuracy": "balanced accuracy, %",
    "macro_f1": "macro F1, %",
    "average_precision": "average precision, %",
    "log_loss": "log loss",
}
SMALLER = "log_loss"


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    cells = found["cells"]
    tables = list(dict.fromkeys(key.split(" | ")[0] for key in cells))
    variants = list(next(iter(cells.values())))
    means = {  # (variants, tables)
        name: np.array(
            [
                [np.mean([c[v][name] for key, c in cells.items() if key.split(" | ")[0] == t]) for t in tables]
                for v in variants
            ]
        )
        for name in SCORES
    }
    ranks = {name: rankdata(m if name == SMALLER else -m, axis=0).mean(1) for name, m in means.items()}
    return [
        "# Which parts of the blend earn their place",
        "",
        f"The same members, combined in other ways: {len(tables)} tables, {len(cells)} folds of a split that no "
        "other page uses. Means over tables, and in brackets mean ranks among the rows of this table. The choices were "
        "made on these tables; the differences between the upper rows are small, and none was tested for chance. "
        "Repeat it with",
        "",
        "```text",
        "python benchmarks/blend_variants.py && python benchmarks/blend_variants_page.py",
        "```",
        "",
        "| | " + " | ".join(SCORES.values()) + " |",
        "|---|" + "---|" * len(SCORES),
        *(
            f"| {v} | " + " | ".join(_shown(name, means[name][row].mean(), ranks[name][row]) for name in SCORES) + " |"
            for row, v in enumerate(variants)
        ),
        "",
        "No classifier has class weights here that would distort it. Without scaling, average precision and log "
        "loss get worse; a single model needs it more than a blend, since margins only take full effect on calibrated "
        "logits. Margins from counts, corrected by uncertainty beyond its standard error, perform like either one "
        "alone, and equal counts give equal margins.",
        "",
        "Also tried and dropped, without a script that repeats it: a network trained with a logit-adjusted loss, no "
        "better than plain cross-entropy once its probabilities were blended; a decision shift per class fitted by "
        "class-balanced log loss, no better than margins from class uncertainty; offsets without a temperature, equal "
        "for the blend and four to six points of balanced accuracy worse for single models, which stayed "
        "overconfident.",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".",
    ]


def _shown(name: str, mean: float, rank: float) -> str:
    return f"{mean:.3f} ({rank:.1f})" if name == SMALLER else f"{100 * mean:.1f} ({rank:.1f})"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
