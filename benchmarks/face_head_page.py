"""docs/results/face-head.md from the JSON of face_head.py."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/face_head.json", ROOT / "docs/results/face-head.md"


def lines() -> list[str]:
    """The page, line by line."""
    result = json.loads(RESULT.read_text())
    settings, heads = result["settings"], result["heads"]
    rows = [
        f"| {name} | {head['what']} | {head['cpu_ms']:.0f} | {head['time_ratio']:.2f} | {head['peak_mb']:.0f} | "
        f"{head['memory_ratio']:.2f} |"
        for name, head in heads.items()
    ]
    full, papers = heads["Equipoise"], heads["Equipoise, angular form, complement"]
    within = "within" if full["memory_ratio"] <= 2 else "**not** within"
    papers_within = "too" if papers["memory_ratio"] <= 2 else "not"
    fewest, most = settings["images_an_identity"]
    return [
        "# The head at the size of VGGFace2",
        "",
        f"{settings['classes']:,} identities, {settings['features']} features, batch {settings['batch']}: one step of "
        "the head, forward and backward, down to the gradient of the features, on one thread of a processor. Repeat it "
        "with",
        "",
        "```text",
        "python benchmarks/face_head.py && python benchmarks/face_head_page.py",
        "```",
        "",
        "| head | what it is | CPU ms a step | against softmax | peak MB | against softmax |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Equipoise's memory is {within} twice that of a plain softmax head; the paper's own form is "
        f"{papers_within}. Margins are those of a long tail of {fewest} to {most} images an identity. Times are "
        f"medians of {settings['steps']} steps in which the heads take turns; other work ran on the machine, which "
        "process CPU time leaves out mostly, not wholly. Memory is how far resident memory rises above its state "
        "before the first step, in a fresh process, the median of three; the weights themselves, and an optimiser's "
        "moments, are the same for all and are not in it.",
        "",
        "The class vectors are squared a part at a time for the closed-form variance, and the gradient of their unit "
        "length is worked out in parts. Class uncertainty, once in a training, takes "
        f"{result['class_uncertainty_mb']:.0f} MB for {settings['passes']} passes of {settings['uncertainty_batch']} "
        "samples at a time, however many there are.",
        "",
        f"Seed {settings['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
