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
    """False faces in images without any; nothing if this was not run."""
    if "without_faces" not in found:
        return []
    own = found["without_faces"]
    wrong = sum(own["found_at_attempt"].values())
    return [
        f"In {own['images']:,} images without any face ({own['set']}, close-ups of skin), {wrong} false faces were "
        f"found ({own['found_at_attempt'].get('1', 0)} at the first attempt).",
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
        "How many faces does `equipoise faces align` find, how steadily and how fast? With MTCNN's published weights "
        "and usual thresholds, on grey ORL images (92×112) and grey LFW crops (96×96), both smaller and tighter than "
        "the photographs MTCNN was made for. Repeat it with",
        "",
        "```text",
        "python benchmarks/face_alignment.py --data DIR --weights DIR && python benchmarks/face_alignment_page.py",
        "```",
        "",
        "## How many",
        "",
        *sets(found),
        "",
        "If nothing is found, the image is searched again with its edges extended and for faces half as large: the "
        "second attempt. Every picture shows one face, so the box should lie over the centre. The residual is the "
        "distance between the aligned landmarks and the template in pixels of the 112×112 crop, as median and 5 to "
        f"95 % range. In {ordered:,} of {faces:,} faces the landmarks are in anatomical order: left before right, "
        "eyes above mouth. “Others beside LFW” are faces of other sets, squeezed to squares.",
        "",
        *without_faces(found),
        "## How steadily",
        "",
        "How far do the landmarks of a face move if the image is mirrored or cropped? Mean distance in % of the "
        f"face's width, for {steady['faces']} faces of ORL.",
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
        f"Mirroring also reveals a horizontal bias of the landmarks: {100 * steady['mirrored']['bias_across']:.2f} % "
        "of the face's width.",
        "",
        f"{batched['images']} images in one batch or one by one: the number of faces differs in "
        f"{batched['other_number_of_faces']}, and landmarks by at most {batched['largest_difference_pixels']:g} "
        "pixels.",
        "",
        "## What it costs",
        "",
        f"One core aligns {speed['images_a_second']:g} images of 96×96 per second of CPU time, from file to "
        f"file, which is {speed['times_decoding']:g} times as long as decoding them (median of {speed['rounds']} "
        f"rounds of {speed['images']} images, alternating with decoding).",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()) + ".",
    ]


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
