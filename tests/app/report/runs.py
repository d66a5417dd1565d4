"""Folders of runs: made up in any shape, or of a model that was really trained on digits."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data.imbalance import step
from equipoise.evaluation import scores

HOSTILE = "<script>alert(1)</script>"


def write_run(
    folder: Path,
    *,
    probabilities: np.ndarray,
    labels: np.ndarray,
    before: np.ndarray | None,
    counts: list[int],
    names: list[str],
    uncertainty: np.ndarray | None = None,
    class_uncertainty: list[float] | None = None,
    margins: list[float] | None = None,
    epochs: list[dict[str, Any]] | None = None,
    gallery: dict[str, Any] | None = None,
    method: str = "uncertainty_margin",
    seed: int = 0,
    trust: dict[str, np.ndarray] | None = None,
    calibration: dict[str, Any] | None = None,
) -> Path:
    """The files that training leaves behind; ``before`` are the softmax stage's probabilities."""
    folder.mkdir(parents=True, exist_ok=True)
    several = labels.ndim == 2
    predict = (lambda p: (p > 0.5).astype(np.int64)) if several else (lambda p: p.argmax(1))
    classes = list(range(len(names)))
    predicted = predict(probabilities)
    if uncertainty is None:
        uncertainty = np.abs(probabilities - 0.5).mean(1) * -1 if several else 1 - probabilities.max(1)
    arrays = {"probabilities": probabilities.astype(np.float32), "labels": labels, "predicted": predicted}
    arrays |= {"uncertainty": uncertainty.astype(np.float32), "rows": np.arange(len(labels))}
    if before is not None:
        arrays["before"] = predict(before)
    np.savez_compressed(folder / "held_out.npz", **arrays, **({} if trust is None else trust))
    for name, p in (("scores.json", probabilities), ("before_scores.json", before)):
        if p is not None:
            found = scores(labels, predict(p), probabilities=p, classes=classes, train_counts=counts)
            if len(names) > 200:  # the answers hold it as well, and a million numbers take seconds to write
                found = replace(found, confusion=None)
            dump(folder / name, found.as_dict())
    about = {
        "options": {"data": "made up", "method": method, "seed": seed, "epochs": None},
        "versions": {"equipoise": "0.1.0.dev0", "python": "3.11"},
        "command": "equipoise train data.csv --target label",
        "seconds": 12.5,
        "notes": ["one class is small."],
        "classes": names,
        "attributes": names if several else [],
        "train_counts": counts,
        "class_uncertainty": class_uncertainty,
        "margins": margins,
        "input": {"kind": "table"},
        "training": {"settings": {"epochs": 9, "batch_size": 32}, "curriculum": {}},
        "calibration": calibration,
    }
    dump(folder / "run.json", about)
    lines = [json.dumps(record) for record in (staged(9) if epochs is None else epochs)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if gallery is not None:
        dump(folder / "gallery.json", gallery)
    return folder


def made_up(
    folder: Path, classes: int = 7, *, samples: int = 900, seed: int = 0, names: list[str] | None = None, **options: Any
) -> Path:
    """A long tail from 2,000 samples down to 20 whose rare classes the final model finds more often."""
    rng = np.random.default_rng(seed)
    share = np.geomspace(1, 0.01, classes)
    counts = np.maximum(2, np.round(2000 * share)).astype(int)
    labels = rng.choice(classes, samples, p=share / share.sum())
    spread = 1.8 / np.sqrt(np.log(classes))
    noise = rng.normal(size=(samples, classes)) * spread
    truth = 3.0 * (labels[:, None] == np.arange(classes))
    early, final = (softmax(truth + noise + slant * np.log(share)) for slant in (1.0, 0.25))
    names = [f"class {place:03d}" for place in range(classes)] if names is None else names
    options = {
        "class_uncertainty": (0.4 * share**-0.4 * rng.uniform(0.8, 1.25, classes)).tolist(),
        "margins": np.linspace(1, 3, classes).tolist(),
        "before": early,
        "gallery": gallery(names, np.random.default_rng(seed)),
        "trust": trusted(final, counts / counts.sum()),
        "calibration": {"source": "held_out", "samples": samples, "folds": 5},
    } | options
    return write_run(folder, probabilities=final, labels=labels, counts=counts.tolist(), names=names, **options)


def made_up_attributes(folder: Path, attributes: int = 6, *, samples: int = 500) -> Path:
    """Several labels a sample, from frequent to rare."""
    rng = np.random.default_rng(0)
    share = np.geomspace(0.6, 0.02, attributes)
    labels = (rng.uniform(size=(samples, attributes)) < share).astype(np.int64)
    noise = rng.normal(size=labels.shape) * 1.2
    early, final = (1 / (1 + np.exp(-(4.0 * labels - 2 - shift * (1 - share) + noise))) for shift in (1.5, 0.2))
    return write_run(
        folder,
        probabilities=final,
        labels=labels,
        before=early,
        counts=(2000 * share).astype(int).tolist(),
        names=[f"attribute {place}" for place in range(attributes)],
        class_uncertainty=(0.3 * share**-0.5).tolist(),
        margins=np.linspace(1, 3, attributes).tolist(),
        trust=trusted(final, np.stack((1 - share, share), axis=-1)),
        calibration={"source": "held_out", "samples": samples, "folds": 5},
    )


def trusted(probabilities: np.ndarray, prior: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities that were twice as sure before, and sets of what is not improbable."""
    pairs = np.stack((1 - probabilities, probabilities), axis=-1) if prior.ndim == 2 else probabilities
    sharp = pairs**2 / (pairs**2).sum(-1, keepdims=True)
    uncalibrated = (sharp[..., 1] if prior.ndim == 2 else sharp).astype(np.float32)
    return {"uncalibrated": uncalibrated, "sets": pairs > 0.15, "prior": prior}


def digits_run(folder: Path, *, epochs: int = 6, method: str = "uncertainty_margin", seed: int = 0) -> Path:
    """Really trained: digits with nine tenths of half of the classes dropped, and the model of the softmax stage."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from equipoise import UncertaintyBalancedClassifier

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    kept = step(y, rng=seed)
    x, y = x[kept], y[kept]
    model = UncertaintyBalancedClassifier(method, epochs=epochs, random_state=seed).fit(x, y)
    early = 0 if model.class_uncertainty_ is None else max(1, epochs // 6)
    softmax_stage = UncertaintyBalancedClassifier("cross_entropy", epochs=max(early, 1), random_state=seed).fit(x, y)
    return write_run(
        folder,
        probabilities=model.predict_proba(x_test),
        labels=y_test.astype(np.int64),
        before=softmax_stage.predict_proba(x_test) if early else None,
        counts=np.bincount(y).tolist(),
        names=[str(label) for label in model.classes_],
        uncertainty=model.uncertainty(x_test),
        class_uncertainty=None if model.class_uncertainty_ is None else model.class_uncertainty_.tolist(),
        margins=None if model.margins_ is None else model.margins_.tolist(),
        epochs=model.history_["epochs"],
        method=method,
        seed=seed,
    )


def gallery(names: list[str], rng: np.random.Generator, items: int = 4) -> dict[str, Any]:
    """Pictures of one pixel, and columns."""

    def item(row: int) -> dict[str, Any]:
        true, predicted = rng.choice(names, 2)
        chosen = {"row": row, "name": f"row {row}", "true": str(true), "predicted": str(predicted)}
        chosen |= {"probability": 0.8, "uncertainty": 0.3}
        return chosen | ({"thumbnail": jpeg()} if row % 2 else {"columns": {"age": "41", names[0]: "<b>bold</b>"}})

    return {"kind": "images", "uncertain": [item(row) for row in range(items)], "wrong": [item(7)]}


def jpeg() -> str:
    """A small picture, as text."""
    file = io.BytesIO()
    Image.new("RGB", (24, 16), (200, 120, 60)).save(file, "JPEG")
    return base64.b64encode(file.getvalue()).decode()


def staged(epochs: int) -> list[dict[str, Any]]:
    """Three equal stages."""
    return [
        {
            "epoch": epoch,
            "stage": ("softmax", "class", "sample")[3 * epoch // epochs],
            "loss": 1 / (1 + epoch),
            "strength": 0.1 * max(0, epoch - epochs // 3),
            "balanced_accuracy": 0.6 + 0.3 * epoch / epochs,
            "recall_rare": 0.4 + 0.4 * epoch / epochs,
            "recall_common": 0.9,
            "seconds": 1.0,
        }
        for epoch in range(epochs)
    ]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
