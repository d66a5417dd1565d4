"""Faces found and aligned by MTCNN: how many, how steadily, and how long it takes beside plain decoding.

    python benchmarks/face_alignment.py --data DIR --weights DIR    # writes benchmarks/results/face_alignment.json

DATA has ``orl`` and ``lfw``, and perhaps ``ham10000``, skin without faces; WEIGHTS has pnet.pt, rnet.pt and onet.pt.
Aligned faces stay in ``--out``: an interrupted run resumes where it stopped. ``--sheet FILE`` draws some of them.
"""

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image

import equipoise
from equipoise.data.images.decode import GREY_MODES, decode_image, header, read_bytes
from equipoise.data.images.scan import scan
from equipoise.paper.face_options import AlignmentOptions
from equipoise.paper.faces import MTCNN, align_folder, find_faces, load_mtcnn
from equipoise.paper.faces.alignment_log import COLUMNS, LOG
from equipoise.paper.faces.alignment_worker import align_files
from equipoise.paper.sets.lfw import FACE
from equipoise.storage.archives import unpack

RESULT = Path(__file__).parent / "results" / "face_alignment.json"
SEED = 0
MIRRORED = [1, 0, 2, 4, 3]  # the landmarks of the mirrored face
CUTS = (8, 14)  # pixels off each side of ORL's images
TIMED, ROUNDS = 256, 5
WITHOUT = 1_000


def pixels(path: Path) -> np.ndarray:
    """An image at its own size."""
    content = read_bytes(path)
    height, width, mode = header(content)
    return decode_image(content, size=(height, width), channels=1 if mode in GREY_MODES else 3)


def images_of(archive: Path) -> tuple[Path, list[str]]:
    """The unpacked folder and the names in it."""
    root = unpack(archive)
    return root, scan(root).images


def rows(folder: Path) -> list[dict[str, str]]:
    """The record of an alignment."""
    with (folder / LOG).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def over_centre(root: Path, row: dict[str, str]) -> bool:
    """Whether the face's box has the image's centre in it, as that of a picture of one face should."""
    height, width, _ = header(read_bytes(root / row["image"]))
    left, top, right, bottom = (float(row[name]) for name in ("left", "top", "right", "bottom"))
    return left < width / 2 < right and top < height / 2 < bottom


def found(root: Path, own: list[dict[str, str]]) -> dict[str, Any]:
    """Shares and counts of one set."""
    faces = [row for row in own if row["residual"]]
    residuals = np.array([float(row["residual"]) for row in faces])
    points = np.array([[float(row[column]) for column in COLUMNS[10:20]] for row in faces]).reshape(-1, 5, 2)
    in_order = (points[:, 0, 0] < points[:, 1, 0]) & (points[:, 3, 0] < points[:, 4, 0])
    upright = points[:, :2, 1].mean(1) < points[:, 3:, 1].mean(1)
    return {
        "images": len(own),
        "found": len(faces),
        "share": round(100 * len(faces) / len(own), 2),
        "at_attempt": dict(sorted(Counter(row["attempt"] for row in faces).items())),
        "several": sum(row["status"] == "several" for row in own),
        "over_the_centre": sum(over_centre(root, row) for row in faces),
        "eyes_and_mouth_in_order": int((in_order & upright).sum()),
        "residual": {str(share): round(float(np.percentile(residuals, share)), 2) for share in (5, 50, 95)},
    }


def steadiness(root: Path, names: list[str], networks: MTCNN) -> dict[str, Any]:
    """Landmarks of the same faces in other views, as shares of the box's width: mirrored, and cut closer."""
    images = [pixels(root / name) for name in names]
    faces = [found for found, _ in find_faces(images, networks)]
    mirrored = [found for found, _ in find_faces([image[:, :, ::-1] for image in images], networks)]
    shifts, apart = [], []
    for image, own, other in zip(images, faces, mirrored, strict=True):
        if len(own) and len(other):
            back = other.landmarks[0][MIRRORED] * (-1, 1) + (image.shape[2], 0)
            difference = (own.landmarks[0] - back) / (own.boxes[0, 2] - own.boxes[0, 0])
            shifts.append(difference[:, 0].mean() / 2)
            apart.append(np.hypot(*difference.T).mean())
    result: dict[str, Any] = {
        "faces": len(shifts),
        "mirrored": {
            "bias_across": round(float(np.mean(shifts)), 4),
            "distance_median": round(float(np.median(apart)), 4),
        },
        "cut": {},
    }
    for cut in CUTS:
        closer = find_faces([image[:, cut:-cut, cut:-cut] for image in images], networks)
        distances = [
            np.hypot(*(other.landmarks[0] + cut - own.landmarks[0]).T).mean() / (own.boxes[0, 2] - own.boxes[0, 0])
            for own, (other, _) in zip(faces, closer, strict=True)
            if len(own) and len(other)
        ]
        result["cut"][str(cut)] = {
            "found": len(distances),
            "distance_median": round(float(np.median(distances)), 4),
            "distance_95": round(float(np.percentile(distances, 95)), 4),
        }
    return result


def batched(root: Path, names: list[str], networks: MTCNN) -> dict[str, Any]:
    """Together or one by one: the largest difference of any number."""
    images = [pixels(root / name) for name in names]
    together = find_faces(images, networks)
    alone = [find_faces([image], networks)[0] for image in images]
    pairs = [(one, other) for (one, _), (other, _) in zip(together, alone, strict=True)]
    largest = max(
        (float(np.abs(one.landmarks - other.landmarks).max()) for one, other in pairs if len(one) == len(other) > 0),
        default=0.0,
    )
    return {
        "images": len(names),
        "other_number_of_faces": sum(len(one) != len(other) for one, other in pairs),
        "largest_difference_pixels": float(f"{largest:.2g}"),
    }


def speed(root: Path, names: list[str], networks: MTCNN, folder: Path) -> dict[str, Any]:
    """CPU seconds of one thread, decoding and the whole in turns, so that a busy machine slows both."""
    options = AlignmentOptions(min_face=0.1, choose="centre", side=112)
    decoding, whole = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        for name in names:
            pixels(root / name)
        decoding.append(time.process_time() - start)
        start = time.process_time()
        for first in range(0, len(names), 32):
            align_files(names[first : first + 32], root, folder, networks, options)
        whole.append(time.process_time() - start)
    ratios = np.array(whole) / decoding
    return {
        "images": len(names),
        "rounds": ROUNDS,
        "images_a_second": round(len(names) / float(np.median(whole)), 1),
        "decoded_a_second": round(len(names) / float(np.median(decoding)), 1),
        "times_decoding": round(float(np.median(ratios)), 1),
    }


def draw(path: Path, folder: Path, names: list[str]) -> None:
    """Aligned faces side by side."""
    sheet = Image.new("L", (16 * 112, -(-len(names) // 16) * 112))
    for place, name in enumerate(names):
        sheet.paste(Image.open(folder / name), (place % 16 * 112, place // 16 * 112))
    sheet.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"))
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "equipoise-aligned")
    parser.add_argument("--sheet", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    networks = load_mtcnn(options.weights)
    rng = np.random.default_rng(SEED)
    result: dict[str, Any] = {
        "versions": {
            "equipoise": equipoise.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "pillow": PIL.__version__,
            "python": sys.version.split()[0],
        },
        "seed": SEED,
        "sets": {},
    }

    def progress(done: int, total: int) -> None:
        if done % 640 == 0 or done == total:
            print(f"{done:,} of {total:,}", file=sys.stderr, flush=True)

    archives = {
        "orl": next((options.data / "orl").glob("*.tar.xz")),
        "lfw": next((options.data / "lfw").glob("*.tar.xz")),
    }
    for name, archive in archives.items():
        align_folder(archive, options.out / name, weights=options.weights, progress=progress)
    lfw = rows(options.out / "lfw")
    is_lfw = [bool(FACE.fullmatch(row["image"].rsplit("/", 1)[-1])) for row in lfw]
    root = unpack(archives["lfw"])
    result["sets"]["ORL"] = found(unpack(archives["orl"]), rows(options.out / "orl"))
    result["sets"]["LFW"] = found(root, [row for row, own in zip(lfw, is_lfw, strict=True) if own])
    result["sets"]["others beside LFW"] = found(root, [row for row, own in zip(lfw, is_lfw, strict=True) if not own])

    root, names = images_of(archives["orl"])
    result["steadiness"] = steadiness(root, names, networks)
    root, names = images_of(archives["lfw"])
    some = [names[place] for place in np.sort(rng.choice(len(names), TIMED, replace=False))]
    result["batched"] = batched(root, some, networks)
    with tempfile.TemporaryDirectory() as folder:
        result["speed"] = speed(root, some, networks, Path(folder))
    skin = sorted((options.data / "ham10000").glob("*.tar.xz"))
    if skin:
        root, names = images_of(skin[0])
        some = [names[place] for place in np.sort(rng.choice(len(names), WITHOUT, replace=False))]
        taken: Counter[str] = Counter()
        for first in range(0, len(some), 32):
            part = find_faces([pixels(root / name) for name in some[first : first + 32]], networks)
            taken.update(str(attempt) for faces, attempt in part if len(faces))
        result["without_faces"] = {"set": "HAM10000", "images": len(some), "found_at_attempt": dict(taken)}
    if options.sheet:
        there = [row["image"] for row in lfw if row["residual"]]
        draw(options.sheet, options.out / "lfw", [there[place] for place in rng.choice(len(there), 160, replace=False)])
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
