"""docs/results/features.md from the JSON of feature_extraction.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/feature_extraction.json", ROOT / "docs/results/features.md"
IMAGES, CORES = 60_000, 2


def blocks(names: list[int]) -> str:
    """Blocks as a reader says them: 3 + 4 + 5."""
    return " + ".join(str(name) for name in names)


def validation(found: dict[str, Any]) -> list[str]:
    """Accuracy on the held-out images, a row for each choice of blocks."""
    sizes = list(found["validation"])
    choices = list(found["validation"][sizes[0]])
    return [
        f"| blocks | {' | '.join(f'{size} px' for size in sizes)} |",
        "|---|" + "---|" * len(sizes),
        *(
            f"| {blocks(json.loads(choice))} | " + " | ".join(f"{found['validation'][s][choice]}" for s in sizes) + " |"
            for choice in choices
        ),
    ]


def error(found: dict[str, Any]) -> float:
    """The standard error of the best accuracy, in points."""
    best = max(max(row.values()) for row in found["validation"].values()) / 100
    return float(100 * (best * (1 - best) / found["choice"]["held_out"]) ** 0.5)


def minutes(a_second: float) -> int:
    """For all images, on cores that do nothing else."""
    return round(IMAGES / a_second / CORES / 60)


def on_test(found: dict[str, Any]) -> list[str]:
    """The test set, for the choice and for images as they are; nothing where it has not been run."""
    if "test" not in found:
        return []
    return [
        "## On the test set",
        "",
        "Logistic regression on all 50,000 training images, and on the paper's imbalanced split of them (90 % of "
        "five random classes dropped, seed 0), where the paper's softmax with two hidden layers reaches 76.8 %.",
        "",
        "| input | blocks | features | all, % | imbalanced, % |",
        "|---|---|---|---|---|",
        *(
            f"| {row['size']} px | {blocks(row['blocks'])} | {row['features']:,} | {row['test']} | "
            f"{row['test_from_imbalanced']} |"
            for row in found["test"]
        ),
        "",
    ]


def lines() -> list[str]:
    """The page, line by line."""
    found = json.loads(RESULT.read_text())
    choice, speed, chosen = found["choice"], found["speed"], found["chosen"]
    return [
        "# Frozen VGG16 features",
        "",
        f"How good are frozen VGG16 features, and what do they cost? {found['images']} through the convolutions of "
        f"VGG16 ({found['weights']}); the outputs of some of its five blocks, each averaged over the image, are "
        "concatenated. Repeat it with",
        "",
        "```text",
        "python benchmarks/feature_extraction.py --data DIR && python benchmarks/feature_extraction_page.py",
        "```",
        "",
        "## Which blocks, at which size",
        "",
        f"Accuracy in % of a logistic regression (decay {found['probe']['decay']}) fitted to {choice['train']:,} "
        f"training images and scored on {choice['held_out']:,} others. Images are 32 pixels wide; larger inputs are "
        "enlarged.",
        "",
        *validation(found),
        "",
        f"Chosen: **{chosen['size']} px, blocks {blocks(chosen['blocks'])}**, the smallest input and the fewest "
        "blocks within half a point of the best. With this many held-out images, a figure has a standard error of "
        f"about {error(found):.1f} points: neighbours in the table are not significantly different.",
        "",
        *on_test(found),
        "## What it costs",
        "",
        f"Images per second of CPU time on one core, and minutes for {IMAGES:,} images on {CORES} idle cores, "
        "assuming that these are twice as fast as one.",
        "",
        "| input | images/s of one core | minutes |",
        "|---|---|---|",
        *(f"| {size} px | {rate} | {minutes(rate)} |" for size, rate in speed["images_a_second"].items()),
        "",
        *(
            f"Wall-clock time: all {whole['images']:,} images at {size} px in {whole['seconds'] / 60:.1f} minutes "
            f"with {whole['threads']} threads."
            for size, whole in found.get("whole", {}).items()
        ),
        "",
        f"Channels-first takes {speed['channels_first / channels_last']} times as long as channels-last, so "
        f"prediction uses channels-last. bfloat16 takes {speed['bfloat16 / float32']} times as long as float32 on "
        "this processor, which has no instructions for it, so it is not used.",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
