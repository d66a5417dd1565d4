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
        "# Which parts of the blend help",
        "",
        f"How should the members of the blend be combined? {len(tables)} tables, {len(cells)} folds of a split that "
        "no other page uses; means over tables, with mean ranks within this table in brackets. The choices were "
        "made on these tables. The differences between the upper rows are small, and none was tested for "
        "significance. Repeat it with",
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
        "No classifier here has class weights, which would distort its probabilities. Without scaling, average "
        "precision and log loss get worse. A single model needs scaling more than a blend does, because margins take "
        "full effect only on calibrated logits. Margins from counts, corrected by uncertainty beyond its standard "
        "error, do as well as either alone; with equal counts, only such a correction makes margins differ.",
        "",
        "Also tried and dropped (no script repeats it): a network trained with a logit-adjusted loss was no better "
        "than plain cross-entropy once its probabilities were blended. A decision shift per class, fitted by "
        "class-balanced log loss, was no better than margins from class uncertainty. Offsets without a temperature "
        "did as well for the blend, but cost single models four to six points of balanced accuracy, because they "
        "stayed overconfident.",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".",
    ]


def _shown(name: str, mean: float, rank: float) -> str:
    return f"{mean:.3f} ({rank:.1f})" if name == SMALLER else f"{100 * mean:.1f} ({rank:.1f})"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
