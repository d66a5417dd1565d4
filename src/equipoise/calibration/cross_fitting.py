"""Calibration on the samples that a run holds out: of its model on all of them, of its figures on the others each time.

No epoch has seen these samples, so that they tell how far the probabilities can be believed. A figure of calibration
or coverage on the very samples that were calibrated on would flatter, so each sample's probabilities and set of classes
come from a calibration on folds without it, groups kept together. Sets take more folds: a scaling fits as well to half
of many samples, but a rare class needs nearly all of its own to be ruled out as the saved model does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.conformal import LEVEL
from equipoise.calibration.scaling import FEWEST_SAMPLES, Scaling
from equipoise.data.splits import stratified_folds

FOLDS, FOLDS_OF_MANY, MANY = 5, 2, 2000
"""Half of many samples calibrates as well as four fifths do, in less time."""
SET_FOLDS = 10
"""For sets, whose thresholds cost little to find."""

Source = Literal["held_out", "held_back", "out_of_fold", "nothing"]
Folds = list[tuple[Any, Any]]  # the others' rows, and the fold's own


@dataclass(frozen=True)
class HeldOutCalibration:
    """A model calibrated on held-out samples, and their own predictions by calibrations without them.

    Args:
        model: calibrated on all samples.
        source: which samples the probabilities are calibrated on; ``held_back`` are training samples that the first
            two stages have left out, ``out_of_fold`` all training samples, each by models that have not seen it.
        samples: how many those are.
        folds: how many parts the samples' own figures come from; 0 where they cannot be divided.
        parts: rows, and the calibration that predicts them: on the others, or as before where nothing was fitted.
        probabilities, predicted, uncalibrated, sets: of the held-out samples, see ``HeldOut``; the latter two None
            without folds.
    """

    model: Calibrated
    source: Source
    samples: int
    folds: int
    parts: tuple[tuple[NDArray[np.intp], Calibrated], ...]
    probabilities: NDArray[np.float32]
    predicted: NDArray[np.int64]
    uncalibrated: NDArray[np.float32] | None
    sets: NDArray[np.bool_] | None

    def as_dict(self, classes: Sequence[str]) -> dict[str, Any]:
        """Return plain values for ``run.json``; which classes the saved model never rules out, by their names."""
        assert self.model.thresholds is not None
        always = np.flatnonzero(self.model.thresholds.never_ruled_out(LEVEL))
        return {
            "source": self.source,
            "samples": self.samples,
            "folds": self.folds,
            "level": LEVEL,
            "never_ruled_out": [classes[place] for place in always.tolist()],
        }

    @property
    def note(self) -> str | None:
        """A sentence where the held-out samples are too few, or cannot be divided."""
        if self.source in ("held_out", "out_of_fold"):
            return None
        rest = "are not calibrated" if self.source == "nothing" else "stay calibrated on training samples held back"
        samples, fewest = len(self.probabilities), FEWEST_SAMPLES
        if samples >= fewest:
            return (
                f"all {samples} held-out samples are of one group, and too alike to calibrate on; probabilities {rest}."
            )
        return f"{samples} held-out samples are too few to calibrate on, {fewest} are needed; probabilities {rest}."


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
    target, none = torch.from_numpy(labels), Scaling.none(tuple(calibrated.prior.shape))
    folds = _folds(labels, groups, FOLDS_OF_MANY if len(labels) >= MANY else FOLDS, seed)
    enough = len(labels) >= FEWEST_SAMPLES and len(folds) > 0
    parts: list[tuple[NDArray[np.intp], Calibrated]] = [(np.arange(len(labels)), calibrated)]
    if enough:
        parts = [(own, calibrated.fit_on(logits[others], target[others])) for others, own in folds]
    probabilities, predicted = torch.empty(logits.shape, dtype=torch.float64), torch.empty_like(target)
    for own, part in parts:
        probabilities[own], predicted[own] = part.probabilities(logits[own]), part.decided(logits[own])
    uncalibrated = replace(calibrated, scaling=none).probabilities(logits)
    unscaled = bool((calibrated.scaling.scale == 1).all() & (calibrated.scaling.bias == 0).all())

    return HeldOutCalibration(
        model=calibrated.fit_on(logits, target) if enough else calibrated.with_thresholds(logits, target),
        source="held_out" if enough else "nothing" if unscaled else "held_back",
        samples=len(labels),
        folds=len(folds),
        parts=tuple(parts),
        probabilities=_kept(probabilities, target),
        predicted=predicted.numpy(),
        uncalibrated=_kept(uncalibrated, target) if folds else None,
        sets=_sets(calibrated, logits, target, predicted, _folds(labels, groups, SET_FOLDS, seed)) if folds else None,
    )


def score_held_out(
    calibrated: Calibrated, logits: Tensor, labels: NDArray[np.int64], *, samples: int
) -> HeldOutCalibration:
    """Answer for held-out samples by a calibration on out-of-fold predictions, which they have no part in.

    Args:
        calibrated: with thresholds; it stays as it is.
        logits, labels: as in :func:`calibrate_held_out`.
        samples: how many it was calibrated on.
    """
    none = replace(calibrated, scaling=Scaling.none(tuple(calibrated.prior.shape)))
    target = torch.from_numpy(labels)
    return HeldOutCalibration(
        model=calibrated,
        source="out_of_fold",
        samples=samples,
        folds=0,
        parts=((np.arange(len(labels)), calibrated),),
        probabilities=_kept(calibrated.probabilities(logits), target),
        predicted=calibrated.decided(logits).numpy(),
        uncalibrated=_kept(none.probabilities(logits), target),
        sets=calibrated.sets(logits, LEVEL),
    )


def _kept(found: Tensor, target: Tensor) -> NDArray[np.float32]:
    """Return probabilities of the classes, or of each attribute being 1."""
    return np.asarray((found[..., 1] if target.ndim == 2 else found).float().numpy())


def _sets(calibrated: Calibrated, logits: Tensor, target: Tensor, predicted: Tensor, folds: Folds) -> NDArray[np.bool_]:
    """Return the possible classes of each sample, by thresholds from the other parts; the predicted one always."""
    found = np.ones(tuple(logits.shape), dtype=np.bool_)
    for others, own in folds:
        found[own] = calibrated.with_thresholds(logits[others], target[others]).sets(logits[own], LEVEL)
    np.put_along_axis(found, predicted.numpy()[..., None], True, -1)
    return found


def _folds(labels: NDArray[np.int64], groups: NDArray[Any] | None, most: int, seed: int) -> Folds:
    folds = min(most, len(labels) if groups is None else len(set(groups.tolist())))
    if folds < 2:
        return []
    return stratified_folds(labels, folds, groups=groups, seed=seed, allow_missing=True)
