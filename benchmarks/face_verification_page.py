"""docs/results/face-verification.md from the JSON of face_verification.py."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/face_verification.json", ROOT / "docs/results/face-verification.md"
METHODS = ("softmax", "ArcFace", "Equipoise")
T_TWO_SIDED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Student's 97.5 % quantile by degrees of freedom."""


def figures(result: dict[str, Any], name: str, field: str) -> list[float]:
    """A figure of every seed."""
    found = [result["runs"].get(f"{name} {seed}") for seed in result["settings"]["seeds"]]
    return [100 * (run["tar_at_far"]["0.01"] if field == "tar" else run[field]) for run in found if run is not None]


def spread(values: list[float]) -> str:
    """Mean and standard deviation over the seeds."""
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return f"{statistics.mean(values):.1f} ± {deviation:.1f}"


def difference(result: dict[str, Any], one: str, other: str) -> str:
    """Seed by seed: the same start, the same batches."""
    paired = zip(figures(result, one, "accuracy"), figures(result, other, "accuracy"), strict=True)
    gaps = [first - second for first, second in paired]
    if len(gaps) < 2:
        return "one seed only"
    half = T_TWO_SIDED[len(gaps) - 1] * statistics.stdev(gaps) / math.sqrt(len(gaps))
    mean = statistics.mean(gaps)
    word = "not significant" if abs(mean) <= half else "significant"
    return f"{mean:+.1f} points (each seed: {', '.join(f'{gap:+.1f}' for gap in gaps)}; 95 % ± {half:.1f}): {word}"


def table(result: dict[str, Any]) -> list[str]:
    rows = []
    pixels = result["runs"]["pixels"]
    rows.append(
        f"| the pixels themselves | {100 * pixels['accuracy']:.1f} | {100 * pixels['auc']:.1f} | "
        f"{100 * pixels['tar_at_far']['0.01']:.1f} |"
    )
    for name in ("untrained", *METHODS):
        cells = [spread(figures(result, name, field)) for field in ("accuracy", "auc", "tar")]
        rows.append(f"| {'an untrained network' if name == 'untrained' else name} | {' | '.join(cells)} |")
    return rows


def lines() -> list[str]:
    """The page, line by line."""
    result = json.loads(RESULT.read_text())
    settings, training, evaluation = result["settings"], result["training"], result["evaluation"]
    seconds = {
        name: statistics.mean(result["runs"][f"{name} {seed}"]["cpu_seconds"] for seed in settings["seeds"])
        for name in METHODS
    }
    dropout, noisy = settings["dropout"], result["runs"]["ArcFace behind dropout 0"]
    return [
        "# Faces of strangers: a small trial",
        "",
        f"Does the method help to recognise strangers? We trained on {training['images']:,} images of "
        f"{training['people']:,} people (from {training['smallest']} to {training['largest']} images each, half of "
        f"them {training['median']:.0f} or fewer): ORL, and everybody in LFW with two images or more who is in none "
        f"of the evaluated pairs. We evaluated on the {evaluation['pairs']:,} available pairs of LFW's folds "
        f"{settings['folds'][0]} to {settings['folds'][-1]} ({evaluation['same']:,} of one person), whose people no "
        "network has seen. Each fold's threshold is chosen on the others. Repeat it with",
        "",
        "```text",
        "python benchmarks/face_verification.py --data DIR && python benchmarks/face_verification_page.py",
        "```",
        "",
        "| features | accuracy, % | area under the ROC, % | TAR at FAR 0.01, % |",
        "|---|---|---|---|",
        *table(result),
        "",
        f"Mean ± standard deviation over {len(settings['seeds'])} seeds. Accuracy of Equipoise",
        "",
        f"- against softmax: {difference(result, 'Equipoise', 'softmax')};",
        f"- against ArcFace: {difference(result, 'Equipoise', 'ArcFace')}.",
        "",
        "This is not the paper's experiment, which has 3.1 million aligned colour images and a network of 26 "
        f"million parameters. Ours is a residual network of widths {', '.join(map(str, settings['widths']))} on "
        f"unaligned grey images of {settings['side']} × {settings['side']} pixels, with {settings['epochs']} epochs "
        f"of AdamW (rate {settings['learning_rate']}, batch {settings['batch']}) for every method. One thing was "
        f"chosen after a look at the evaluated pairs: with the others' dropout of {dropout['softmax']} in front of "
        f"its unit vectors, ArcFace hardly learnt ({100 * noisy['accuracy']:.1f} % with one seed), so it has "
        f"{dropout['ArcFace']:g}, as published. Nothing else was tuned for any method: another scale, margin or rate "
        "may suit ArcFace better, and so small a trial does not rank methods for large ones. The intervals are over "
        "seeds; all seeds are evaluated on the same pairs. Softmax has free class vectors and Equipoise unit ones, "
        "so the gain over softmax is that of the whole head, not of the uncertainty alone. No samples are held back "
        "(`held_back=0`), because they would correct logits, and pairs are compared by features.",
        "",
        "CPU seconds of a fit: " + ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items()) + ".",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
