"""The paper's tables, one function each: the cases that are its columns, with data, imbalance, network and methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from equipoise.app.compare import FitOptions
from equipoise.data.imbalance import exponential, step
from equipoise.data.samples import Samples
from equipoise.data.splits import hold_out, official, stratified_folds
from equipoise.models import Augment, ImageBackbone, ImageInput, LeNet, resnet32
from equipoise.paper.tables import printed_results as paper
from equipoise.paper.tables.printed_results import Figures
from equipoise.paper.tables.table_samples import Material, Source

Rows = NDArray[np.intp]
FOLDS = 3
"""Number of folds, as in the paper for skin lesions."""
TEST_SHARE = 0.3
"""Share held out if a set has no official test part."""
LEVELS = ("cross_entropy", "uncertainty_class_level", "uncertainty_margin")
OURS = (*LEVELS, "uncertainty_uncorrected", "uncertainty_angular", "paper_as_printed")
ADJUSTED = ("logit_adjustment", "logit_adjustment_our_head")
"""Logit adjustment, and the control for what the unit class vectors of Equipoise's head add by themselves."""
MODERN = ("focal", "class_balanced", "ldam_drw", "balanced_softmax", *ADJUSTED, "vs")
FEW_METHODS = ("cross_entropy", "ldam_drw", *ADJUSTED, "vs", "uncertainty_margin")
RESAMPLED = (
    *("near_miss", "smote", "adasyn", "cluster_centroids", "neighbourhood_cleaning", "instance_hardness"),
    *("random_over", "random_under"),
)
ON_DIGITS = FitOptions(epochs=6)
"""Options of every method on MNIST's digits."""
LONG = FitOptions(epochs=200, batch_size=128)
"""Options of every method on long-tailed CIFAR-10 and CIFAR-100: the field's length, though by AdamW."""


@dataclass(frozen=True)
class Case:
    """One column of a table: some data under one protocol, and the paper's figures for the methods.

    The protocol ``step`` drops 90 % of a random half of the classes of the official training part, ``long_tail`` an
    exponential share of every class, down to 1/``ratio`` of the last; ``official`` leaves it unchanged; ``grouped`` is
    3-fold by group; ``held_out`` holds out 30 % by group. ``paper_bca`` has the paper's figure for each attribute, if
    there are several labels. ``network`` is the name of the options' backbone, if they have one, and ``printed_in``
    where the figures were published.
    """

    title: str
    material: Material
    protocol: Literal["step", "long_tail", "official", "grouped", "held_out"]
    methods: tuple[str, ...]
    options: FitOptions = field(default_factory=FitOptions)
    paper: Figures = field(default_factory=dict)
    paper_bca: Mapping[str, float] = field(default_factory=dict)
    ratio: float = 1.0
    network: str = "a LeNet"
    printed_in: str = "paper"

    @property
    def folds(self) -> int:
        """Fits per seed."""
        return FOLDS if self.protocol == "grouped" else 1

    @property
    def test_to_train(self) -> float:
        """Ratio of test to training rows if each run draws both from the same samples, for ``paired_interval``.

        0 if the test rows are fixed and each seed draws its own training rows.
        """
        if self.protocol == "grouped":
            return 1 / (FOLDS - 1)
        return TEST_SHARE / (1 - TEST_SHARE) if self.protocol == "held_out" else 0.0

    def split(self, seed: int, fold: int) -> tuple[Rows, Rows]:
        """Return training rows and test rows, the same for every method."""
        samples = self.material.samples
        if self.protocol == "grouped":
            groups = np.arange(len(samples)) if samples.groups is None else samples.groups
            return stratified_folds(samples.y, FOLDS, groups=groups, seed=seed, allow_missing=True)[fold]
        if self.protocol == "held_out":
            return hold_out(samples.y, TEST_SHARE, seed=seed, groups=samples.groups)
        parts = official(samples)
        train, test = parts["train"], parts["test"]
        if self.protocol == "step":
            train = train[step(samples.y[train], rng=seed)]
        elif self.protocol == "long_tail":
            train = train[exponential(samples.y[train], self.ratio, rng=seed, in_order=True)]
        return train, test


def cifar10(source: Source) -> dict[str, Case]:
    """Return table "Performance on imbalanced CIFAR-10", and the ablations of N and m."""
    options, methods = source.options(), (*OURS, "svm_linear", *RESAMPLED, *MODERN)
    whole = Case("JPEG CIFAR-10, step 1:10", source.features("cifar10"), "step", methods, options, paper.CIFAR10)
    cases = {"cifar10": whole}
    for passes, figure in paper.PASSES.items():
        title = f"N = {passes} passes, margins from uncertainty"
        cases[f"N={passes}"] = _varied(whole, title, "uncertainty_alone", figure, passes=passes)
    for margin, figure in paper.LARGEST_MARGIN.items():
        title = f"largest margin m = {margin}, in the angular form"
        cases[f"m={margin}"] = _varied(whole, title, "uncertainty_angular", figure, m_max=float(margin))
    return cases


def _varied(case: Case, title: str, method: str, figure: float, **changed: Any) -> Case:
    """Return the case for a single method with some options changed, and the paper's accuracy."""
    options = replace(case.options, **changed)
    return replace(case, title=title, methods=(method,), options=options, paper={method: {"accuracy": figure}})


def long_tailed(name: str, title: str, source: Source) -> dict[str, Case]:
    """Return the field's table of a long-tailed set, Cao's split: a ResNet-32, from pixels; not in the paper."""
    images = source.samples(name)
    material = Material(images, images.checksum(), "pixels, cropped and mirrored")
    options = replace(source.options(LONG), backbone=partial(small_resnet, images.x))
    return {
        f"ratio={ratio}": Case(
            f"{title}, long tail 1:{ratio}",
            material,
            "long_tail",
            FEW_METHODS,
            options,
            printed,
            ratio=ratio,
            network="a ResNet-32",
            printed_in="published",
        )
        for ratio, printed in paper.LONG_TAILED[name].items()
    }


def small_resnet(images: Any) -> nn.Module:
    """Return ResNet-32 with the field's crops and mirror images; its only dropout is the head's."""
    return ImageBackbone(ImageInput(3, augment=Augment(colour=0.0)).fit(images), resnet32())


def margins(source: Source) -> dict[str, Case]:
    """Return table "other recent margin-based loss formulations with uncertainty"."""
    methods, material = (*paper.MARGINS, *ADJUSTED, "uncertainty_margin"), source.features("cifar10")
    return {"margins": Case("JPEG CIFAR-10, step 1:10", material, "step", methods, source.options(), paper.MARGINS)}


def mnist(source: Source) -> dict[str, Case]:
    """Return tables "digit classification on MNIST" and "ablation study": a LeNet, from pixels."""
    digits = source.samples("mnist")
    material = Material(digits, digits.checksum(), "pixels")
    return {
        f"dropout={dropout}": Case(
            f"MNIST, step 1:10, dropout {dropout}",
            material,
            "step",
            (*OURS, *MODERN, "cosen") if dropout == 0.5 else LEVELS,
            replace(source.options(ON_DIGITS), dropout=dropout, backbone=digit_network),
            printed,
        )
        for dropout, printed in paper.MNIST.items()
    }


def digit_network() -> nn.Module:
    """Return the network of the MNIST experiment; its only dropout is the head's."""
    return ImageBackbone(ImageInput(1, mean=(0.1307,), std=(0.3081,)), LeNet())  # of MNIST's training pixels


def skin(source: Source) -> dict[str, Case]:
    """Return table "Skin Lesion Classification": Dermofit if available, and HAM10000 as its stand-in."""
    titles = {name: f"{name}, 3-fold" for name in paper.SKIN if source.has(name)}
    titles["ham10000"] = "HAM10000, 3-fold by lesion (stand-in for Dermofit)"
    return {
        name: Case(
            title,
            source.features(name, paper_has="a ResNet-18 that it trains"),
            "grouped",
            (*OURS, *MODERN, "cosen"),
            source.options(),
            paper.SKIN.get(name, {}),
        )
        for name, title in titles.items()
    }


def attributes(source: Source) -> dict[str, Case]:
    """Return table "Multi-label attribute prediction": CelebA if available, otherwise attributes of digits."""
    losses = ("focal", "class_balanced", "balanced_softmax", *ADJUSTED, "weighted")
    methods = (*OURS, *losses, "logit_adjustment_post_hoc", "random_over", "random_under")
    if source.has("celeba"):
        material = source.features("celeba", paper_has="a ResNet-50 that it trains")
        printed = paper.CELEBA, paper.CELEBA_BCA
        return {"celeba": Case("CelebA, 40 attributes", material, "official", methods, source.options(), *printed)}
    digits = source.samples("mnist")
    named = {
        **{"is 0": [0], "is 1": [1], "0 or 8": [0, 8], "prime": [2, 3, 5, 7], "square": [0, 1, 4, 9]},
        **{"even": [0, 2, 4, 6, 8], "at least 5": [5, 6, 7, 8, 9], "not 7": [0, 1, 2, 3, 4, 5, 6, 8, 9]},
    }
    y = np.stack([np.isin(digits.y, members) for members in named.values()], axis=1).astype(np.int64)
    x = digits.x.reshape(len(digits), -1).astype(np.float32)
    samples = Samples(x, y, attributes=tuple(named), partition=digits.partition)
    title = "attributes of MNIST's digits (stand-in for CelebA)"
    material = Material(samples, samples.checksum(), "pixels")
    return {"digits": Case(title, material, "official", methods, source.options(ON_DIGITS))}


def expressions(source: Source) -> dict[str, Case]:
    """Return LFW's expressions: a natural long tail, 6,868 to 9; not in the paper."""
    title, material = "LFW expressions, 30 % of the people held out", source.features("lfw_expressions")
    return {"expressions": Case(title, material, "held_out", (*OURS, *MODERN), source.options())}


def cifar10_lite0(source: Source) -> dict[str, Case]:
    """Return CIFAR-10 with the features that image folders get by default; not in the paper."""
    title, material = "JPEG CIFAR-10, step 1:10", source.packaged_features("cifar10")
    return {"cifar10": Case(title, material, "step", FEW_METHODS, source.options(), paper.CIFAR10)}


def skin_lite0(source: Source) -> dict[str, Case]:
    """Return HAM10000 with the features that image folders get by default; not in the paper."""
    title, material = "HAM10000, 3-fold by lesion", source.packaged_features("ham10000")
    return {"ham10000": Case(title, material, "grouped", FEW_METHODS, source.options())}


@dataclass(frozen=True)
class Experiment:
    """A table: the heading of its page, and its cases."""

    heading: str
    cases: Callable[[Source], dict[str, Case]]


TABLES: dict[str, Experiment] = {
    "cifar10": Experiment("CIFAR-10 made imbalanced", cifar10),
    "cifar10_lt": Experiment("Long-tailed CIFAR-10, ResNet-32", partial(long_tailed, "cifar10", "JPEG CIFAR-10")),
    "cifar100_lt": Experiment("Long-tailed CIFAR-100, ResNet-32", partial(long_tailed, "cifar100", "CIFAR-100")),
    "mnist": Experiment("MNIST made imbalanced", mnist),
    "margins": Experiment("Margin losses, with fixed margins and with margins from uncertainty", margins),
    "skin": Experiment("Skin lesions", skin),
    "attributes": Experiment("Attributes, several labels per sample", attributes),
    "expressions": Experiment("Expressions of faces", expressions),
    "cifar10_lite0": Experiment("CIFAR-10 made imbalanced, by EfficientNet-Lite0", cifar10_lite0),
    "skin_lite0": Experiment("Skin lesions, by EfficientNet-Lite0", skin_lite0),
}
"""Tables by name. To add one, write a function above and a line here."""
