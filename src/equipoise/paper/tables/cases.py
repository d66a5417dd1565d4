"""The experiments: which data, made imbalanced how, under which network, for which methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.app.compare import FitOptions
from equipoise.data.imbalance import step
from equipoise.data.samples import Samples
from equipoise.data.splits import grouped_folds, hold_out, official
from equipoise.paper.tables.printed import Figures

Protocol = Literal["step", "official", "grouped", "held_out"]
Rows = NDArray[np.intp]
FOLDS = 3
"""As the paper does for skin lesions."""
TEST_SHARE = 0.3
"""Held out where a set has no official test part."""


@dataclass(frozen=True)
class Material:
    """Samples, a checksum of what they were made from, and what the columns are, for a reader."""

    samples: Samples
    checksum: str
    what: str
    features: bool = False
    """Whether a backbone made the columns, before any fit."""


@dataclass(frozen=True)
class Case:
    """One column of a table: some data under one protocol.

    Args:
        material: features or images as an array, with labels.
        protocol: ``step`` drops 90 % of a random half of the classes of the official training part; ``official`` leaves
            it as it is; ``grouped`` is 3-fold by group; ``held_out`` holds out 30 % by group.
        options: of the network.
        methods: contestants, by name.
        paper: the paper's figures for them.
        paper_bca: the paper's figure for each attribute, where there are several labels.
        title: for a reader.
    """

    title: str
    material: Material
    protocol: Protocol
    methods: tuple[str, ...]
    options: FitOptions = field(default_factory=FitOptions)
    paper: Figures = field(default_factory=dict)
    paper_bca: Mapping[str, float] = field(default_factory=dict)

    @property
    def samples(self) -> Samples:
        """The material's."""
        return self.material.samples

    @property
    def folds(self) -> int:
        """Fits a seed."""
        return FOLDS if self.protocol == "grouped" else 1

    @property
    def test_to_train(self) -> float:
        """Test over training rows where each run draws both from the same samples, for ``paired_interval``; 0 where
        the test rows are apart and each seed draws its own training rows."""
        if self.protocol == "grouped":
            return 1 / (FOLDS - 1)
        return TEST_SHARE / (1 - TEST_SHARE) if self.protocol == "held_out" else 0.0

    def split(self, seed: int, fold: int) -> tuple[Rows, Rows]:
        """Rows to train on and rows to test on; the same for every method."""
        samples = self.samples
        if self.protocol == "grouped":
            return grouped_folds(samples.y, _groups(samples), FOLDS, seed=seed, allow_missing=True)[fold]
        if self.protocol == "held_out":
            return hold_out(samples.y, TEST_SHARE, seed=seed, groups=samples.groups)
        parts = official(samples)
        train, test = parts["train"], parts["test"]
        if self.protocol == "step":
            train = train[step(samples.y[train], rng=seed)]
        return train, test


def _groups(samples: Samples) -> NDArray[Any]:
    return np.arange(len(samples)) if samples.groups is None else samples.groups


Progress = Callable[[int, int], None]
"""Told of so many images of so many, while features are extracted."""
Cases = Callable[[Path | None, bool, Progress | None], Mapping[str, Case]]
"""From a data folder, whether a smoke test is wanted, and who is told, to the cases of a table."""
