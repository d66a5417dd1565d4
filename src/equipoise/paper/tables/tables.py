"""The paper's tables, one function a table: its data, its columns and its rows."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from equipoise.app.compare import FitOptions
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone, ImageInput, LeNet, extract_features, image_backbone
from equipoise.paper.sets import DATA_VARIABLE, find_set, locate_set
from equipoise.paper.tables import printed as paper
from equipoise.paper.tables.cases import Case, Cases, Material, Progress

LEVELS = ("cross_entropy", "uncertainty_class_level", "uncertainty_margin")
OURS = (*LEVELS, "uncertainty_uncorrected", "uncertainty_angular", "paper_as_printed")
MODERN = ("focal", "class_balanced", "ldam_drw", "balanced_softmax", "logit_adjustment", "vs")
RESAMPLED = (
    "near_miss",
    "smote",
    "adasyn",
    "cluster_centroids",
    "neighbourhood_cleaning",
    "instance_hardness",
    "random_over",
    "random_under",
)
SMALL = {"lfw_expressions": (64, 64), "ham10000": (64, 80), "dermofit": (64, 64), "dermofit_5": (64, 64)}
"""Height and width at which a set's images are read for VGG16: small enough for a CPU."""
SMOKE = FitOptions(epochs=3, batch_size=16, width=32)
ON_DIGITS = FitOptions(epochs=6)
"""For every method on MNIST's digits."""
FEW = 12
"""Samples of a class and part in a smoke test."""


def cifar10(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:
    """Table "Performance on imbalanced CIFAR-10", and the ablations of N and m."""
    material = _features("cifar10", data, smoke, progress)
    options = SMOKE if smoke else FitOptions()
    methods = (*OURS, "svm_linear", *RESAMPLED, *MODERN)
    cases = {"cifar10": Case("JPEG CIFAR-10, step 1:10", material, "step", methods, options, paper.CIFAR10)}
    for passes, figure in paper.PASSES.items():
        own = replace(options, passes=passes)
        printed = {"uncertainty_margin": {"accuracy": figure}}
        cases[f"N={passes}"] = Case(f"N = {passes} passes", material, "step", ("uncertainty_margin",), own, printed)
    for margin, figure in paper.LARGEST_MARGIN.items():
        own = replace(options, m_max=float(margin))
        printed = {"uncertainty_angular": {"accuracy": figure}}
        title = f"largest margin m = {margin}, in the angular form"
        cases[f"m={margin}"] = Case(title, material, "step", ("uncertainty_angular",), own, printed)
    return cases


def margins(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:
    """Table "other recent margin-based loss formulations with uncertainty"."""
    methods = (*paper.MARGINS, "uncertainty_margin")
    options = SMOKE if smoke else FitOptions()
    material = _features("cifar10", data, smoke, progress)
    return {"margins": Case("JPEG CIFAR-10, step 1:10", material, "step", methods, options, paper.MARGINS)}


def mnist(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:  # noqa: ARG001
    """Tables "digit classification on MNIST" and "ablation study": a LeNet, from pixels."""
    material = _as_it_is(_smaller(find_set("mnist", data), smoke), "pixels")
    cases = {}
    for dropout, printed in paper.MNIST.items():
        options = replace(SMOKE if smoke else ON_DIGITS, dropout=dropout, backbone=digit_network)
        methods = (*OURS, *MODERN) if dropout == 0.5 else LEVELS
        cases[f"dropout={dropout}"] = Case(
            f"MNIST, step 1:10, dropout {dropout}", material, "step", methods, options, printed
        )
    return cases


def skin(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:
    """Table "Skin Lesion Classification": Dermofit where it is given, HAM10000 as its stand-in."""
    cases = {}
    options = SMOKE if smoke else FitOptions()
    for name, printed in {**paper.SKIN, "ham10000": {}}.items():
        if name != "ham10000" and not _is_there(name, data):
            continue
        material = _features(name, data, smoke, progress, paper_has="a ResNet-18 that it trains")
        title = "HAM10000, 3-fold by lesion (stand-in for Dermofit)" if name == "ham10000" else f"{name}, 3-fold"
        cases[name] = Case(title, material, "grouped", (*OURS, *MODERN), options, printed)
    return cases


def expressions(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:
    """LFW's expressions: a natural long tail, 6,868 to 9; not in the paper."""
    material = _features("lfw_expressions", data, smoke, progress)
    options = SMOKE if smoke else FitOptions()
    title = "LFW expressions, 30 % of the people held out"
    return {"expressions": Case(title, material, "held_out", (*OURS, *MODERN), options)}


def attributes(data: Path | None, smoke: bool, progress: Progress | None) -> Mapping[str, Case]:
    """Table "Multi-label attribute prediction": CelebA where it is given, else attributes of MNIST's digits."""
    methods = (*OURS, "focal", "class_balanced", "balanced_softmax", "logit_adjustment", "weighted")
    if _is_there("celeba", data):
        material = _features("celeba", data, smoke, progress, paper_has="a ResNet-50 that it trains")
        printed, options = (paper.CELEBA, paper.CELEBA_BCA), SMOKE if smoke else FitOptions()
        return {"celeba": Case("CelebA, 40 attributes", material, "official", methods, options, *printed)}
    digits = _smaller(find_set("mnist", data), smoke)
    named = {
        "is 0": [0],
        "is 1": [1],
        "0 or 8": [0, 8],
        "prime": [2, 3, 5, 7],
        "square": [0, 1, 4, 9],
        "even": [0, 2, 4, 6, 8],
        "at least 5": [5, 6, 7, 8, 9],
        "not 7": [0, 1, 2, 3, 4, 5, 6, 8, 9],
    }
    y = np.stack([np.isin(digits.y, members) for members in named.values()], axis=1).astype(np.int64)
    x = digits.x.reshape(len(digits), -1).astype(np.float32)
    material = _as_it_is(Samples(x, y, attributes=tuple(named), partition=digits.partition), "pixels")
    title = "attributes of MNIST's digits (stand-in for CelebA)"
    return {"digits": Case(title, material, "official", methods, SMOKE if smoke else ON_DIGITS)}


TABLES: dict[str, Cases] = {
    "cifar10": cifar10,
    "mnist": mnist,
    "margins": margins,
    "skin": skin,
    "attributes": attributes,
    "expressions": expressions,
}
"""A new table is a function above and a line here."""


def digit_network() -> nn.Module:
    """The network of the MNIST experiment; the only dropout is the head's."""
    return ImageBackbone(ImageInput(1, mean=(0.1307,), std=(0.3081,)), LeNet())  # of MNIST's training pixels


def _features(name: str, data: Path | None, smoke: bool, progress: Progress | None, *, paper_has: str = "") -> Material:
    """VGG16's features of a set, extracted once and kept; known by the images and the weights, not by their bits."""
    images, weights = _smaller(find_set(name, data, size=SMALL.get(name)), smoke), _weights(data)
    network = image_backbone("vgg16", weights=weights, frozen=True)
    known = hashlib.blake2b(weights.read_bytes(), digest_size=8).hexdigest()
    features = extract_features(images.x, network, progress=progress)
    size = " × ".join(map(str, images.x.shape[2:]))
    what = f"{features.shape[1]:,} features of {size} pixels by a frozen VGG16"
    what += f" (the paper has {paper_has})" if paper_has else ""
    return Material(replace(images, x=features), f"{images.checksum()} {known}", what, features=True)


def _as_it_is(samples: Samples, what: str) -> Material:
    return Material(samples, samples.checksum(), what)


def _weights(data: Path | None) -> Path:
    """VGG16's convolutions, a ``.pth`` or ``.safetensors`` file in ``vgg16`` below the data folder."""
    root = data or Path(os.environ.get(DATA_VARIABLE) or "data")
    found = sorted(path for path in (root / "vgg16").glob("*") if path.suffix in (".pth", ".pt", ".safetensors"))
    if not found:
        raise InvalidInputError(f"no weights of VGG16 in {root / 'vgg16'}; put torchvision's vgg16 .pth file there.")
    return found[0]


def _is_there(name: str, data: Path | None) -> bool:
    try:
        return locate_set(name, data).is_dir()
    except InvalidInputError:
        return False


def _smaller(samples: Samples, smoke: bool) -> Samples:
    """For a smoke test, the first few samples of each class and official part."""
    if not smoke:
        return samples
    parts = np.full(len(samples), "") if samples.partition is None else samples.partition
    labels = samples.y if samples.y.ndim == 1 else samples.y[:, 0]
    rows = [
        np.flatnonzero((labels == label) & (parts == part))[:FEW]
        for label in np.unique(labels)
        for part in np.unique(parts)
    ]
    return samples.take(np.sort(np.concatenate(rows)))
