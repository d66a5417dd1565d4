"""docs/results/face-recogniser.md from the JSON of face_recogniser.py."""

import json
import math
import statistics
import textwrap
from pathlib import Path
from typing import Any

from scipy.stats import t

from equipoise.wording import counted

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/face_recogniser.json", ROOT / "docs/results/face-recogniser.md"
METHODS = ("nearest mean", "softmax", "ArcFace", "Equipoise")
VARIANT = "Equipoise by uncertainty"
SOMEBODY_ELSE = [
    "Arminio_Fraga_0001",
    "Arturo_Gatti_0002",
    "Chok_Tong_Goh_0001",
    "Erika_Harold_0003",
    "Hugh_Grant_0008",
    "Jeanne_Moreau_0001",
    "Martha_Lucia_Ramirez_0003",
    "Silvio_Berlusconi_0017",
    "Todd_Haynes_0001",
    "Vojislav_Kostunica_0005",
    "William_Bulger_0001",
    "Yasser_Arafat_0003",
]
"""Images that plainly do not show the person whom they are named after; looked at by eye."""
NO_FACE = ["Jiang_Zemin_0007"]
"""Images in which something else was detected as the face: a lens of his glasses."""
SCORES = {"balanced_accuracy": "balanced accuracy", "rare": "rare people", "others": "others", "accuracy": "accuracy"}


def seeds(result: dict[str, Any], methods: tuple[str, ...] = METHODS) -> list[int]:
    """Return the seeds with a fit of every method."""
    every = sorted({int(name.rsplit(" ", 1)[1]) for name in result["identified"]})
    return [seed for seed in every if all(f"{name} {seed}" in result["identified"] for name in methods)]


def values(result: dict[str, Any], method: str, score: str, used: list[int] | None = None) -> list[float]:
    """Return a method's score in percent, one for each of the ``used`` seeds."""
    return [100 * result["identified"][f"{method} {seed}"][score] for seed in used or seeds(result, (method,))]


def spread(found: list[float]) -> str:
    return f"{statistics.mean(found):.1f} ± {statistics.stdev(found):.1f}" if len(found) > 1 else f"{found[0]:.1f}"


def difference(result: dict[str, Any], other: str, score: str, own: str = "Equipoise") -> tuple[float, float] | None:
    """Return the paired difference of a method and another, and half of its 95 % interval; from 3 seeds on."""
    used = seeds(result, (own, other))
    if len(used) < 3:
        return None
    pairs = zip(values(result, own, score, used), values(result, other, score, used), strict=True)
    gaps = [one - two for one, two in pairs]
    return statistics.mean(gaps), t.ppf(0.975, len(gaps) - 1) * statistics.stdev(gaps) / math.sqrt(len(gaps))


def shown_difference(result: dict[str, Any], other: str, score: str, own: str = "Equipoise") -> str:
    found = difference(result, other, score, own)
    return "–" if found is None else f"{found[0]:+.2f} [{found[0] - found[1]:+.2f}, {found[0] + found[1]:+.2f}]"


def labelled(result: dict[str, Any], name: str) -> str:
    """Return a method's name, with its seeds if they are not those of all."""
    own = len(seeds(result, (name,)))
    return name if own == len(seeds(result)) else f"{name} ({counted(own, 'seed')})"


def listed(names: list[str]) -> str:
    """Return names with commas and an "and" before the last."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def outcome(result: dict[str, Any], rivals: list[str]) -> str:
    """Say plainly against whom Equipoise is ahead on rare people, behind, or neither."""
    told: dict[str, list[str]] = {"ahead of": [], "behind": [], "not significantly different from": []}
    for name in rivals:
        found = difference(result, name, "rare")
        if found is None:
            continue
        mean, half = found
        kind = "ahead of" if mean > half else "behind" if mean < -half else "not significantly different from"
        told[kind].append(f"the {name}" if name == "nearest mean" else name)
    parts = [f"{kind} {listed(names)}" for kind, names in told.items() if names]
    return (
        f"On rare people Equipoise is {'; '.join(parts)}. It has an [earlier default](index.md#earlier-defaults) with "
        f"margins by class counts and mixing, so uncertainty does not explain this gain. “{VARIANT}” takes margins and "
        "the sample level from dropout's uncertainty instead. Its recall of rare people differs from softmax by "
        f"{shown_difference(result, 'softmax', 'rare', VARIANT)} points and from ArcFace by "
        f"{shown_difference(result, 'ArcFace', 'rare', VARIANT)}. So uncertainty helps a trained head, and counts help "
        "it more. The nearest mean of a person's features, which needs no training, is better than all of them."
    )


def scores_row(name: str, found: dict[str, Any]) -> str:
    far = found["tar_at_far"]["0.01"]
    return (
        f"| {name} | {found['pairs']:,} | {100 * found['accuracy']:.2f} ± {100 * found['standard_error']:.2f} | "
        f"{found['auc']:.4f} | {'–' if far is None else f'{100 * far:.1f} %'} |"
    )


def mistakes(result: dict[str, Any]) -> str:
    """Return how many mistakes there are of each kind, and how many of them have a badly aligned face."""
    found = result["verified"]["mistakes"]
    off = sum(max(value or 0.0 for value in each["residuals"]) > 6 for each in found)
    same = sum(each["same"] for each in found)
    return (
        f"{result['verified']['wrong']} pairs are classified wrongly. We looked at the {len(found)} furthest from "
        f"their threshold. {same} of them are labelled as the same person and {len(found) - same} as different people. "
        f"In {off}, the landmarks of a face are more than 6 pixels off the template (profiles). In "
        f"{shown(found, SOMEBODY_ELSE)}, an aligned image shows somebody other than the person named, mostly a "
        f"bystander, and in {shown(found, NO_FACE)} something else was detected as a face. The others are hard: "
        "blurred, in profile, or behind sunglasses."
    )


def shown(mistakes: list[dict[str, Any]], names: list[str]) -> int:
    """Return how many pairs have one of these images."""
    return sum(any(Path(face).stem in names for face in each["faces"]) for each in mistakes)


def page() -> str:
    """Return the page."""
    result = json.loads(RESULT.read_text())
    found, aligned, used = result["verified"], result["alignment"], seeds(result)
    probability, some = found["all"]["probability"], result["identified"][f"softmax {used[0]}"]
    shown_methods = [name for name in (*METHODS, VARIANT) if seeds(result, (name,))]
    rivals = [name for name in shown_methods if name != "Equipoise"]
    parts = [
        "# A public recogniser on our alignment",
        "Do alignment and protocol hold at the level of published face recognition? A public recogniser answers that: "
        f"`{result['recogniser']['file']}`, a MobileFaceNet for which its authors publish 99.70 % on LFW in colour. "
        "Here it sees grey images of 96×96 pixels, found and aligned by `equipoise faces align`. Its weights are for "
        "non-commercial research, so you need a file of your own to repeat this:",
        """```text
python benchmarks/face_recogniser.py --data DIR --weights DIR --recogniser FILE.onnx --out DIR
python benchmarks/face_recogniser_page.py
```""",
        "## Verification",
        f"Faces were found in {aligned['aligned']:,} of {aligned['images']:,} images. Accuracy is the mean over folds "
        "± its standard error, each fold at the threshold that is best on the others. An earlier trial used five of "
        "the folds.",
        "\n".join(
            [
                "| | pairs | accuracy, % | area under the ROC | true accepts at 1 % false accepts |",
                "|---|---|---|---|---|",
                scores_row("all ten folds", found["all"]),
                scores_row("folds 1, 3, 5, 7, 9", found["half"]),
            ]
        ),
        mistakes(result),
        "The landmarks of a face are averaged with those found in the mirrored image, and `--lenient` accepts less "
        "certain faces; both were tried once, on these pairs.",
        "The probability of one person, fitted to the other folds, has an expected calibration error of "
        f"{100 * probability['ece']:.2f} % and a log loss of {probability['log_loss']:.3f}.",
        "## Does uncertainty help to identify rare people?",
        f"{some['people']:,} people have two images or more. A third of each person's images, at least one, are test "
        "images. On the recogniser's frozen features of the other images we train a network with two hidden layers of "
        f"512, with the same options for every loss and {counted(len(used), 'seed')}. The {some['rare_people']:,} "
        "people with three training images or fewer count as rare. Recalls are averaged over people, in percent.",
        "\n".join(
            [
                "| | " + " | ".join(SCORES.values()) + " |",
                "|---|" + "---|" * len(SCORES),
                *(
                    f"| {labelled(result, name)} | "
                    + " | ".join(spread(values(result, name, score)) for score in SCORES)
                    + " |"
                    for name in shown_methods
                ),
            ]
        ),
        "Equipoise against the others, paired by seed, in points with 95 % intervals:",
        "\n".join(
            [
                "| against | balanced accuracy | rare people |",
                "|---|---|---|",
                *(
                    f"| {name} | {shown_difference(result, name, 'balanced_accuracy')} | "
                    f"{shown_difference(result, name, 'rare')} |"
                    for name in rivals
                ),
            ]
        ),
        outcome(result, rivals),
        f"Versions: {', '.join(f'{name} {value}' for name, value in result['versions'].items())}.",
    ]
    return "\n\n".join(part if part[0] in "#|`" else textwrap.fill(part, 120) for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
