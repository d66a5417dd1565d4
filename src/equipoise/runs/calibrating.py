"""Calibration on the samples that a run holds out: of its model on all of them, of its figures on the others each time.

No epoch has seen these samples, so that they tell how far the probabilities can be believed. A figure of calibration
or coverage on the very samples that were calibrated on would flatter, so each sample's probabilities and set of classes
come from a calibration on folds without it, groups kept together.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.splits import grouped_folds, stratified_folds
from equipoise.evaluation.calibrated import Calibrated
from equipoise.training.scaling import Scaling

FEWEST = 50
"""Held-out samples from which on a scaling is fitted to them: of fewer, one number strays by a third or more."""
FOLDS, FOLDS_OF_MANY, MANY = 5, 2, 2000
"""Half of many samples calibrates as well as four fifths do, in less time."""
LEVEL = 0.9
"""Of the sets that the report shows."""

Source = Literal["held_out", "held_back", "nothing"]


@dataclass(frozen=True)
class HeldOutCalibration:
    """What :func:`calibrate_held_out` found.

    Args:
        model: calibrated on all samples.
        source: which samples the probabilities are calibrated on; ``held_back`` are training samples that the first
            two stages have left out.
        folds: how many parts the samples' own figures come from; 0 for too few samples.
        probabilities, uncalibrated, sets: of the held-out samples, see ``HeldOut``.
    """

    model: Calibrated
    source: Source
    folds: int
    probabilities: NDArray[np.float32]
    uncalibrated: NDArray[np.float32]
    sets: NDArray[np.bool_]

    def as_dict(self) -> dict[str, Any]:
        """For ``run.json``."""
        return {"source": self.source, "samples": len(self.probabilities), "folds": self.folds}

    @property
    def note(self) -> str | None:
        """A sentence where the held-out samples are too few."""
        if self.source == "held_out":
            return None
        rest = "are not calibrated" if self.source == "nothing" else "stay calibrated on training samples held back"
        return (
            f"{len(self.probabilities)} held-out samples are too few to calibrate on, {FEWEST} are needed; "
            f"probabilities {rest}."
        )


def calibrate_held_out(
    calibrated: Calibrated, logits: Tensor, labels: NDArray[np.int64], *, groups: NDArray[Any] | None, seed: int
) -> HeldOutCalibration:
    """Calibrate on samples that no epoch has seen.

    Args:
        logits: (samples, classes) or (samples, attributes, 2).
        labels: (samples,) or (samples, attributes).
        groups: samples of one group are calibrated on or scored together.
        seed: of the folds.
    """
    plain = replace(calibrated, scaling=Scaling.none(tuple(calibrated.prior.shape)))
    probabilities, sets = calibrated.probabilities(logits), np.ones(tuple(logits.shape), dtype=np.bool_)
    parts = _folds(labels, groups, seed)
    enough = len(labels) >= FEWEST
    for others, own in parts:
        fitted = _fitted(calibrated, logits[others], labels[others], enough)
        probabilities[torch.from_numpy(own)] = fitted.probabilities(logits[own])
        sets[own] = fitted.sets(logits[own], LEVEL)
    source: Source = "held_out" if enough else "nothing" if _is_none(calibrated.scaling) else "held_back"
    several = labels.ndim == 2
    return HeldOutCalibration(
        _fitted(calibrated, logits, labels, enough),
        source,
        len(parts),
        _own(probabilities, several),
        _own(plain.probabilities(logits), several),
        sets,
    )


def _fitted(calibrated: Calibrated, logits: Tensor, labels: NDArray[np.int64], enough: bool) -> Calibrated:
    target = torch.from_numpy(labels)
    return calibrated.fitted(logits, target) if enough else calibrated.with_thresholds(logits, target)


def _folds(labels: NDArray[np.int64], groups: NDArray[Any] | None, seed: int) -> list[tuple[Any, Any]]:
    units = len(labels) if groups is None else len(set(groups.tolist()))
    folds = min(FOLDS_OF_MANY if len(labels) >= MANY else FOLDS, units)
    if folds < 2:
        return []
    if groups is None:
        return stratified_folds(labels, folds, seed=seed, allow_missing=True)
    return grouped_folds(labels, groups, folds, seed=seed, allow_missing=True)


def _is_none(scaling: Scaling) -> bool:
    return bool((scaling.scale == 1).all()) and bool((scaling.bias == 0).all())


def _own(probabilities: Tensor, several: bool) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (probabilities[..., 1] if several else probabilities).float().numpy()
    return found
