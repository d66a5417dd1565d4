"""Alignment and protocol checked with a public face recogniser, and rare people identified on its frozen features.

    python benchmarks/face_recogniser.py --data DIR --weights DIR --recogniser FILE.onnx --out DIR

DATA has ``lfw`` (grey images of 96×96 pixels, pairs.txt), WEIGHTS has MTCNN's pnet.pt, rnet.pt and onet.pt. The
recogniser is any ONNX model of 112×112 faces; ``w600k_mbf.onnx`` (MobileFaceNet trained on WebFace600K by insightface)
was used, whose weights are for non-commercial research and never part of this repository. Aligned faces and features
stay in ``--out``; finished fits are kept, and the same command goes on.
"""

import argparse
import csv
import hashlib
import json
import os
import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.data.images.scan import scan_images
from equipoise.paper.faces import align_folder
from equipoise.paper.faces.alignment_log import LOG
from equipoise.paper.faces.face_encoders import OnnxEncoder, StoredEmbeddings, similarities
from equipoise.paper.faces.pair_files import read_pairs
from equipoise.paper.faces.pairs import FacePairs
from equipoise.paper.faces.verification_scores import verification
from equipoise.paper.faces.verify import fit_same_person
from equipoise.storage.archives import unpack

RESULT = Path(__file__).parent / "results" / "face_recogniser.json"
HALF = (1, 3, 5, 7, 9)
"""Folds of an earlier trial, reported beside all ten."""
HARDEST = 30
BATCH = 64
SEEDS = (0, 1, 2, 3, 4)
METHODS: dict[str, dict[str, Any]] = {
    "softmax": {"method": "cross_entropy"},
    "ArcFace": {"method": "arcface"},
    "Equipoise": {"method": "uncertainty_margin"},
    "Equipoise by uncertainty": {"margins": "uncertainty", "sample_level": "expected", "held_back": 0.1},
}
RARE = 3
"""People with at most this many training images are rare."""


def person(name: str) -> str | None:
    """Return whom an image of LFW shows by its name, such as Ann_Lee_0003.jpg."""
    who, _, number = Path(name).stem.rpartition("_")
    return who if number.isdecimal() else None


def several_images(names: list[str]) -> list[str]:
    """Return the images of everybody with two or more."""
    counts = Counter(person(name) for name in names)
    return [name for name in names if person(name) is not None and counts[person(name)] >= 2]


def embed(aligned: Path, names: list[str], recogniser: Path, folder: Path) -> StoredEmbeddings:
    """Compute the features of aligned faces, each averaged with its mirror image; parts that are done are kept."""
    encoder = OnnxEncoder(recogniser)
    folder.mkdir(exist_ok=True)
    parts = []
    for start in range(0, len(names), BATCH):
        own = names[start : start + BATCH]
        path = folder / f"{hashlib.sha256(' '.join(own).encode()).hexdigest()[:24]}.npy"
        if not path.exists():
            pairs = FacePairs(tuple(own), np.arange(len(own)), *[np.zeros(0, dtype=np.intp)] * 2, np.zeros(0, bool),
                          np.zeros(0, dtype=np.int64), root=aligned)  # fmt: skip
            images = pairs.images(encoder.size, encoder.channels)
            part = path.with_suffix(".part.npy")
            np.save(part, encoder(np.ascontiguousarray(images[slice(0, len(own))])))
            part.replace(path)
            print(start, "of", len(names), flush=True)
        parts.append(np.load(path))
    return StoredEmbeddings(folder, tuple(names), np.concatenate(parts).astype(np.float64))


def verified(stored: StoredEmbeddings, listed: Path, aligned: Path) -> dict[str, Any]:
    """Score the pairs whose faces were found, and list the mistakes with their landmarks' residuals."""
    pairs = read_pairs(listed, stored.named(None), skip_missing=True)[1]
    similarity = similarities(stored.features(pairs), pairs)
    found = verification(similarity, pairs.same, pairs.fold)
    half = np.isin(pairs.fold, HALF)
    part = replace(pairs, **{name: getattr(pairs, name)[half] for name in ("first", "second", "same", "fold")})
    threshold = {fold.name: fold.threshold for fold in found.folds}
    gap = similarity - np.array([threshold[fold] for fold in pairs.fold.tolist()])
    wrong = np.flatnonzero((gap >= 0) != pairs.same)
    with (aligned / LOG).open(encoding="utf-8", newline="") as file:
        residual = {row["image"].removeprefix("./"): float(row["residual"] or "nan") for row in csv.DictReader(file)}
    mistakes = [
        {
            "faces": [str(pairs.files[side[row]]) for side in (pairs.first, pairs.second)],
            "residuals": [residual.get(str(pairs.files[side[row]])) for side in (pairs.first, pairs.second)],
            "same": bool(pairs.same[row]),
            "similarity": float(similarity[row]),
        }
        for row in wrong[np.argsort(-np.abs(gap[wrong]))][:HARDEST].tolist()
    ]
    return {
        "all": found.as_dict() | {"probability": fit_same_person(similarity, pairs.same, pairs.fold).as_dict()},
        "half": verification(similarity[half], part.same, part.fold).as_dict(),
        "wrong": len(wrong),
        "mistakes": mistakes,
    }


def people(stored: StoredEmbeddings) -> tuple[np.ndarray, np.ndarray]:
    """Return features and names of everybody with two images or more."""
    wanted = several_images(list(stored.names))
    rows = np.flatnonzero(np.isin(stored.names, wanted))
    unit = stored.values[rows] / np.linalg.norm(stored.values[rows], axis=1, keepdims=True)
    return unit, np.array([person(name) for name in wanted])


def split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep a third of each person's images, at least one, for the test."""
    rng = np.random.default_rng(seed)
    test = [rng.permutation(np.flatnonzero(y == name)) for name in np.unique(y)]
    chosen = np.concatenate([rows[: max(1, len(rows) // 3)] for rows in test])
    return np.setdiff1d(np.arange(len(y)), chosen), chosen


def scored(y_train: np.ndarray, truth: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Return recalls averaged over people: all, and those with few training images."""
    names, counts = np.unique(y_train, return_counts=True)
    recall = np.array([(answers[truth == name] == name).mean() for name in names])
    rare = counts <= RARE
    return {
        "accuracy": float((answers == truth).mean()),
        "balanced_accuracy": float(recall.mean()),
        "rare": float(recall[rare].mean()),
        "others": float(recall[~rare].mean()),
        "rare_people": int(rare.sum()),
        "people": len(names),
    }


def nearest_mean(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    names, place = np.unique(y, return_inverse=True)
    means = np.zeros((len(names), x.shape[1]))
    np.add.at(means, place, x)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return names[(test @ means.T).argmax(1)]


def identified(stored: StoredEmbeddings, name: str, seed: int) -> dict[str, float]:
    x, y = people(stored)
    train, test = split(y, seed)
    start = time.process_time()
    if name == "nearest mean":
        answers = nearest_mean(x[train], y[train], x[test])
    else:
        model = UncertaintyBalancedClassifier(width=512, random_state=seed, **METHODS[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = model.fit(x[train] * np.sqrt(x.shape[1]), y[train]).predict(x[test] * np.sqrt(x.shape[1]))
    return scored(y[train], y[test], answers) | {"cpu_seconds": time.process_time() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"), help="holds lfw")
    parser.add_argument("--weights", type=Path, default=os.environ.get("EQUIPOISE_MTCNN"), help="of MTCNN")
    parser.add_argument("--recogniser", type=Path, required=True, help="an ONNX file")
    parser.add_argument("--out", type=Path, required=True, help="for aligned faces and features")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--identify-only", action="store_true", help="keep the stored verification")
    options = parser.parse_args()
    torch.set_num_threads(1)
    archive = next((options.data / "lfw").glob("images*.tar*"))
    aligned = options.out / "steadied"
    done = align_folder(unpack(archive), aligned, weights=options.weights, lenient=True)
    record: dict[str, Any] = json.loads(options.result.read_text()) if options.result.exists() else {"identified": {}}
    record["versions"] = {
        "equipoise": equipoise.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }
    names = several_images(scan_images(aligned).images)
    stored = embed(aligned, names, options.recogniser, options.out / "embedded")
    if not options.identify_only:
        rest = sorted(set(scan_images(aligned).images) - set(names))
        others = embed(aligned, rest, options.recogniser, options.out / "embedded")
        every = StoredEmbeddings(
            stored.path, stored.names + others.names, np.concatenate([stored.values, others.values])
        )
        record |= {
            "recogniser": {
                "file": options.recogniser.name,
                "sha256": hashlib.sha256(options.recogniser.read_bytes()).hexdigest(),
            },
            "alignment": {name: getattr(done, name) for name in ("images", "aligned", "without", "several")},
            "verified": verified(every, options.data / "lfw" / "pairs.txt", aligned),
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{record['verified']['all']['accuracy']:.4%} of {record['verified']['all']['pairs']:,} pairs")
    for seed in SEEDS:
        for name in ("nearest mean", *METHODS):
            if f"{name} {seed}" not in record["identified"]:
                record["identified"][f"{name} {seed}"] = identified(stored, name, seed)
                options.result.write_text(json.dumps(record, indent=1) + "\n")
                print(name, seed, record["identified"][f"{name} {seed}"], flush=True)


if __name__ == "__main__":
    main()
