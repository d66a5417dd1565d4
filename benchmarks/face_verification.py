"""Verify faces of people who were not trained on, with Equipoise, softmax and ArcFace; writes JSON.

    python benchmarks/face_verification.py --data DIR     DIR holds lfw and orl; resumes where it stopped

Training: every person of LFW who is in no pair of the evaluated folds and has two images or more, and all of ORL.
Evaluation: the pairs of LFW's folds 1 to 5 whose images are there. LFW's folds share no person.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor, nn

import equipoise
from equipoise.losses import LOSSES
from equipoise.models import Augment, ImageBackbone, ImageInput
from equipoise.models.resnet import BasicBlock
from equipoise.paper.faces.pair_files import read_lfw_pairs
from equipoise.paper.faces.pairs import FacePairs
from equipoise.paper.faces.verification_scores import averaged, cosines, verification
from equipoise.paper.sets import load_set
from equipoise.training import ArrayData, Curriculum, Network, Settings, train

RESULT = Path(__file__).parent / "results" / "face_verification.json"
SIDE, EPOCHS, BATCH, RATE, DECAY = 40, 20, 64, 2e-3, 0.5
SEEDS = (0, 1, 2)
FOLDS = (1, 2, 3, 4, 5)
WIDTHS = (16, 32, 64, 128)
METHODS = {
    "softmax": "cross_entropy",
    "ArcFace": "arcface",
    "Equipoise": "uncertainty_margin",
    "ArcFace behind dropout": "arcface",
}
NOISY = "ArcFace behind dropout"
DROPOUT = {"softmax": 0.5, "ArcFace": 0.0, "Equipoise": 0.5, NOISY: 0.5}
"""In front of the class vectors. ArcFace has none, as published; what it costs it is shown by one seed."""


class SmallResNet(nn.Module):
    """ResNet's blocks, one for each width, on grey images; features after global pooling."""

    in_channels = 1

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, WIDTHS[0], 3, 2, 1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU())
        before = (WIDTHS[0], *WIDTHS)
        blocks = [BasicBlock(before[place], width, 1 if place == 0 else 2) for place, width in enumerate(WIDTHS)]
        self.blocks = nn.Sequential(*blocks)
        self.out_features = WIDTHS[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x)).mean((-2, -1))


class Faces:
    """What is trained on and what is evaluated."""

    def __init__(self, data: Path) -> None:
        lfw, orl = load_set("lfw_people", data / "lfw"), load_set("orl", data / "orl")
        archive = next((data / "lfw").glob("images*.tar*"), data / "lfw")
        listed = read_lfw_pairs(data / "lfw" / "pairs.txt", archive, skip_missing=True)
        self.pairs = chosen_folds(listed, FOLDS)
        shown = {Path(listed.files[face]).stem.rsplit("_", 1)[0] for face in self.used(self.pairs)}
        names, counts = np.unique(lfw.y, return_counts=True)
        kept = [name for name, count in zip(names.tolist(), counts, strict=True) if count > 1 and name not in shown]
        rows = np.flatnonzero(np.isin(lfw.y, kept))
        assert not shown & set(lfw.y[rows].tolist()), "nobody who is evaluated is trained on"
        x = [small(lfw.x.take(rows)), small(orl.x)]
        self.x = np.concatenate(x)
        people = np.concatenate([lfw.y[rows], [f"ORL {name}" for name in orl.y]])
        self.people, self.y = np.unique(people, return_inverse=True)
        self.seen = self.used(self.pairs)
        images = listed.images((SIDE, SIDE), 1)
        self.evaluated = images[self.seen]
        self.place = np.zeros(len(listed.files), dtype=np.intp)
        self.place[self.seen] = np.arange(len(self.seen))

    @staticmethod
    def used(pairs: FacePairs) -> np.ndarray:
        return np.unique(np.concatenate([pairs.first, pairs.second]))

    def score(self, features: np.ndarray) -> dict[str, Any]:
        """The protocol's figures for one feature an evaluated image."""
        first, second = self.place[self.pairs.first], self.place[self.pairs.second]
        found = verification(cosines(features[first], features[second]), self.pairs.same, self.pairs.fold)
        return found.as_dict()


def chosen_folds(pairs: FacePairs, folds: tuple[int, ...]) -> FacePairs:
    rows = np.isin(pairs.fold, folds)
    parts = {name: getattr(pairs, name)[rows] for name in ("first", "second", "same", "fold")}
    return FacePairs(pairs.files, pairs.face, root=pairs.root, **parts)


def small(images: Any) -> np.ndarray:
    """Read at the network's size."""
    read = type(images).of_table(images.table, size=(SIDE, SIDE), channels=1).take(images._rows)
    return read[np.arange(len(read))]


def backbone(faces: Faces, seed: int) -> ImageBackbone:
    torch.manual_seed(seed)
    first = ImageInput(1, augment=Augment(crop=0.1, flip=0.5, colour=0.2)).fit(faces.x)
    return ImageBackbone(first, SmallResNet())


@torch.inference_mode()
def features(network: nn.Module, images: np.ndarray) -> np.ndarray:
    """Return features averaged over each image and its mirror image."""
    network.eval()
    found = []
    for start in range(0, len(images), 256):
        part = torch.from_numpy(images[start : start + 256])
        found.append((network(part) + network(part.flip(-1))).numpy())
    return np.concatenate(found)


def fit(faces: Faces, name: str, seed: int) -> dict[str, Any]:
    """Train, and score what was learnt."""
    method = METHODS[name]
    body = backbone(faces, seed)
    counts = torch.from_numpy(np.bincount(faces.y))
    own = {"sample_level": "expected"} if method == "uncertainty_margin" else {}
    head = LOSSES[method](body.out_features, len(counts), dropout=DROPOUT[name], class_counts=counts, **own)
    network = Network(body, head)
    # no sample is held back: what is held back corrects predictions of the trained people, and none is made here
    curriculum = Curriculum(EPOCHS, held_back=0.0) if method == "uncertainty_margin" else None
    settings = Settings(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, weight_decay=DECAY, seed=seed)
    started, cpu = time.perf_counter(), time.process_time()
    history = train(network, ArrayData(faces.x, faces.y), settings, curriculum=curriculum)
    spent = {"seconds": round(time.perf_counter() - started, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    return faces.score(features(body, faces.evaluated)) | spent | {"loss": [round(r["loss"], 4) for r in history]}


def pixels(faces: Faces) -> np.ndarray:
    """Each image with its mirror image averaged, less its mean: no network at all."""
    flat = faces.evaluated.astype(np.float64)
    flat = averaged(
        np.concatenate([flat, flat[..., ::-1]]).reshape(2 * len(flat), -1), np.tile(np.arange(len(flat)), 2), len(flat)
    )
    return flat - flat.mean(1, keepdims=True)


def described(faces: Faces) -> dict[str, Any]:
    counts = np.bincount(faces.y)
    return {
        "settings": {
            "side": SIDE,
            "epochs": EPOCHS,
            "batch": BATCH,
            "learning_rate": RATE,
            "weight_decay": DECAY,
            "dropout": DROPOUT,
            "widths": WIDTHS,
            "folds": FOLDS,
            "seeds": SEEDS,
            "threads": torch.get_num_threads(),
        },
        "training": {
            "people": len(counts),
            "images": len(faces.y),
            "largest": int(counts.max()),
            "smallest": int(counts.min()),
            "median": float(np.median(counts)),
        },
        "evaluation": {
            "pairs": len(faces.pairs),
            "same": int(faces.pairs.same.sum()),
            "images": len(faces.seen),
        },
        "versions": {
            "equipoise": equipoise.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": sys.version.split()[0],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("EQUIPOISE_DATA"), help="holds lfw and orl")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    faces = Faces(options.data)
    record = json.loads(json.dumps(described(faces)))
    record["runs"] = {}
    if options.result.exists():
        known = json.loads(options.result.read_text())
        if known["settings"] != record["settings"]:
            raise SystemExit(f"{options.result} was made with other settings; move it away first.")
        record["runs"] = known["runs"]
    jobs: dict[str, Any] = {"pixels": lambda: faces.score(pixels(faces))}
    for seed in SEEDS:
        jobs[f"untrained {seed}"] = lambda seed=seed: faces.score(features(backbone(faces, seed), faces.evaluated))
        for name in METHODS if seed == SEEDS[0] else [name for name in METHODS if name != NOISY]:
            jobs[f"{name} {seed}"] = lambda name=name, seed=seed: fit(faces, name, seed)
    for name, job in jobs.items():
        if name not in record["runs"]:
            record["runs"][name] = job()
            options.result.write_text(json.dumps(record, indent=1) + "\n")
            print(name, f"{record['runs'][name]['accuracy']:.4f}", record["runs"][name].get("seconds"), flush=True)


if __name__ == "__main__":
    main()
