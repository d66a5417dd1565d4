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
        f"What does the head cost at {settings['classes']:,} identities? {settings['features']} features, batch "
        f"{settings['batch']}: one forward and backward step of the head, down to the gradient of the features, on "
        "one CPU thread. Repeat it with",
        "",
        "```text",
        "python benchmarks/face_head.py && python benchmarks/face_head_page.py",
        "```",
        "",
        "| head | what it is | CPU ms per step | against softmax | peak MB | against softmax |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Equipoise's memory is {within} twice that of a plain softmax head; that of the paper's own form is "
        f"{papers_within}. Margins are those of a long tail of {fewest} to {most} images per identity. Times are "
        f"medians of {settings['steps']} steps in which the heads take turns. Other work ran on the machine; process "
        "CPU time excludes most of it, but not all. Memory is the rise of resident memory above its state before "
        "the first step, in a fresh process, median of three. It excludes the weights and the optimiser's moments, "
        "which are the same for all.",
        "",
        "To save memory, the closed-form variance and the gradient of the normalisation are computed for a part of "
        "the class vectors at a time. Class uncertainty, measured once per training, takes "
        f"{result['class_uncertainty_mb']:.0f} MB for {settings['passes']} passes of {settings['uncertainty_batch']} "
        "samples at a time, whatever their total number.",
        "",
        f"Seed {settings['seed']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
