"""Calibration on a run's held-out samples: the model on all of them, its figures by cross-fitting.

No epoch has seen these samples, so they show how far the probabilities can be trusted. Measuring calibration or
coverage on the samples used for calibrating would be optimistic, so each sample's probabilities and prediction set come
from a calibration on folds without it, with groups kept together. Sets use more folds: half of many samples is enough
for a scaling, but a rare class needs nearly all of its samples to be ruled out as often as by the saved model.
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
"""Number of folds for scalings: half of many samples calibrates as well as four fifths, in less time."""
SET_FOLDS = 10
"""Number of folds for sets, whose thresholds are cheap to find."""

Source = Literal["held_out", "held_back", "out_of_fold", "nothing"]
Folds = list[tuple[Any, Any]]  # rows of the other folds, and rows of the fold


@dataclass(frozen=True)
class HeldOutCalibration:
    """A model calibrated on held-out samples, and cross-fitted predictions for those samples.

    Args:
        model: calibrated on all samples.
        source: the samples used for calibration: ``held_back`` are training samples left out of the first two stages,
            ``out_of_fold`` are all training samples, each predicted by models that have not seen it.
        samples: number of those samples.
        folds: number of folds behind the samples' own figures; 0 if they cannot be divided.
        parts: rows, and the calibration that predicts them: fitted on the others, or unchanged if nothing was fitted.
        probabilities, predicted, uncalibrated, sets: of the held-out samples, see ``HeldOut``; the last two are None
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
        """Return plain values for ``run.json``, including the names of classes that the saved model never rules out."""
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
        """A sentence if the held-out samples are too few or cannot be divided."""
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
        calibrated: the calibration after training, whose scaling is replaced.
        logits: (samples, classes) or (samples, attributes, 2).
        labels: (samples,) or (samples, attributes).
        groups: samples of one group stay in one fold.
        seed: of the folds.
    """
    target, none = torch.from_numpy(labels), Scaling.identity(tuple(calibrated.prior.shape))
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
    """Predict held-out samples by a calibration on out-of-fold predictions, in which they had no part.

    Args:
        calibrated: with thresholds; it is not changed.
        logits, labels: as in :func:`calibrate_held_out`.
        samples: number of samples it was calibrated on.
    """
    none = replace(calibrated, scaling=Scaling.identity(tuple(calibrated.prior.shape)))
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
    """Return each sample's prediction set, by thresholds from the other folds; it always has the predicted class."""
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
