"""What a run keeps of the samples it was scored on: every answer, before and after the margins."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
from numpy.typing import NDArray

from equipoise.app.runs.trained import RunModel
from equipoise.app.stored_run import HeldOut, Trust
from equipoise.calibration.cross_fitting import HeldOutCalibration, calibrate_held_out
from equipoise.errors import InvalidInputError
from equipoise.evaluation import Scores, scores
from equipoise.storage.limits import load_tensors
from equipoise.tensors import check_finite
from equipoise.training import Network


@dataclass(frozen=True)
class Tested:
    """What :func:`answer_held_out` found.

    Args:
        model: as it was, calibrated on the samples.
        calibration: how.
        earlier: the softmax stage's probabilities where it is known.
    """

    held: HeldOut
    model: RunModel
    calibration: HeldOutCalibration
    earlier: NDArray[np.float32] | None


def answer_held_out(
    model: RunModel,
    inputs: Any,
    labels: NDArray[np.int64],
    rows: NDArray[Any],
    softmax: Path,
    *,
    groups: NDArray[Any] | None = None,
    seed: int = 0,
) -> Tested:
    """All answers for the rows that the network takes, and the model calibrated on them.

    Args:
        inputs: rows as ``model.input.rows`` gives them.
        softmax: the weights at the end of the softmax stage; the file may not be there.
        groups: of the rows, which calibration keeps together.
    """
    answered = model.predict_rows(inputs)
    check_finite(answered.finite)
    found = calibrate_held_out(model.calibrated, answered.logits, labels, groups=groups, seed=seed)
    earlier = None
    if softmax.is_file():
        earlier = model.with_network(network_before(model.network, softmax)).predict_rows(inputs)
    trust = None
    if found.uncalibrated is not None and found.sets is not None:
        trust = Trust(found.uncalibrated, found.sets, model.calibrated.prior.numpy())
    held = HeldOut(
        found.probabilities,
        labels,
        found.predicted,
        _uncertainty(model, inputs, found) if found.source == "held_out" else answered.uncertainty,
        np.asarray(rows, dtype=np.int64),
        None if earlier is None else earlier.predicted,
        trust,
    )
    earlier_found = None if earlier is None else earlier.probabilities
    return Tested(held, replace(model, calibrated=found.model), found, earlier_found)


def _uncertainty(model: RunModel, inputs: Any, found: HeldOutCalibration) -> NDArray[np.float32]:
    """Of each part's predictions, by the calibration that makes them; the network runs once more."""
    uncertainty = np.empty(len(inputs), dtype=np.float32)
    for own, calibrated in found.parts:
        rows = inputs.take(own, axis=0)
        uncertainty[own] = replace(model, calibrated=calibrated).predict_rows(rows).uncertainty
    return uncertainty


def network_before(network: Network, weights: Path) -> Network:
    """The same network with the weights of an earlier moment."""
    earlier = copy.deepcopy(network)
    try:
        earlier.load_state_dict(load_tensors(weights))
    except (safetensors.SafetensorError, RuntimeError, OSError) as error:
        raise InvalidInputError(f"{weights} is damaged ({error}); delete it, and go on with --resume.") from error
    return earlier


def score(
    probabilities: NDArray[Any],
    predicted: NDArray[np.int64],
    labels: NDArray[np.int64],
    classes: Sequence[str],
    counts: Sequence[int],
) -> Scores:
    """Score predictions; ``labels`` and ``predicted`` are places in the classes, or 0 and 1 of the attributes."""
    total = probabilities.astype(np.float64)
    if labels.ndim == 1:
        total /= total.sum(1, keepdims=True)
    places = range(len(classes))
    found = scores(labels, predicted, probabilities=total, classes=places, train_counts=counts)
    return replace(found, classes=tuple(classes))
