"""docs/results/face-alignment.md from the JSON of face_alignment.py."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/face_alignment.json", ROOT / "docs/results/face-alignment.md"


def sets(found: dict[str, Any]) -> list[str]:
    """A row for each set of images."""
    return [
        "| set | images | faces found | % | at the second attempt | over the centre | several | residual (5–95 %) |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {own['images']:,} | {own['found']:,} | {own['share']} | {own['at_attempt'].get('2', 0):,} | "
            f"{own['over_the_centre']:,} | {own['several']:,} | "
            f"{own['residual']['50']} ({own['residual']['5']}–{own['residual']['95']}) |"
            for name, own in found["sets"].items()
        ),
    ]


def without_faces(found: dict[str, Any]) -> list[str]:
    """What was taken for a face where there is none; nothing where it has not been run."""
    if "without_faces" not in found:
        return []
    own = found["without_faces"]
    wrong = sum(own["found_at_attempt"].values())
    return [
        f"Of {own['images']:,} images without any face ({own['set']}, skin seen closely), {wrong} were said to have "
        f"one ({own['found_at_attempt'].get('1', 0)} at the first attempt).",
        "",
    ]


def lines() -> list[str]:
    """The page, line by line."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    steady, batched, speed = found["steadiness"], found["batched"], found["speed"]
    ordered = sum(own["eyes_and_mouth_in_order"] for own in found["sets"].values())
    faces = sum(own["found"] for own in found["sets"].values())
    return [
        "# Faces found and aligned",
        "",
        "`equipoise faces align` with the published weights of MTCNN and its usual thresholds, on grey ORL images "
        "(92×112) and grey LFW crops (96×96), both smaller and tighter than the photographs MTCNN was made for. Repeat "
        "it with",
        "",
        "```text",
        "python benchmarks/face_alignment.py --data DIR --weights DIR && python benchmarks/face_alignment_page.py",
        "```",
        "",
        "## How many",
        "",
        *sets(found),
        "",
        "An image in which nothing is found is looked at once more, with a border that continues its edge and for "
        "faces half as large. The residual is the distance of the aligned landmarks from the template, in pixels of "
        "112×112, the median and most of them. Each picture is of one face, so its box should lie over the centre. "
        "The left eye and corner of the mouth lie left of the right ones, and the eyes above the mouth, in "
        f"{ordered:,} of {faces:,} faces. The others beside LFW are squeezed to squares.",
        "",
        *without_faces(found),
        "## How steadily",
        "",
        f"Landmarks of the same face in another view of it ({steady['faces']} of ORL), their mean distance from where "
        "they were, in % of the face's width.",
        "",
        "| view | found | median | 95 % |",
        "|---|---|---|---|",
        f"| mirrored | {steady['faces']} | {100 * steady['mirrored']['distance_median']:.1f} | |",
        *(
            f"| {cut} pixels cut off each side | {own['found']} | {100 * own['distance_median']:.1f} | "
            f"{100 * own['distance_95']:.1f} |"
            for cut, own in steady["cut"].items()
        ),
        "",
        f"The mirrored image shows the landmarks' own bias across: {100 * steady['mirrored']['bias_across']:.2f} % of "
        "the face's width.",
        "",
        f"{batched['images']} images together or one by one: {batched['other_number_of_faces']} with another number of "
        f"faces; landmarks differ by {batched['largest_difference_pixels']:g} pixels at the most.",
        "",
        "## What it costs",
        "",
        f"On one core, {speed['images_a_second']:g} images of 96×96 a second by processor time, from file to file: "
        f"{speed['times_decoding']:g} times as long as decoding them (median of {speed['rounds']} rounds of "
        f"{speed['images']} images, in turns with decoding).",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
