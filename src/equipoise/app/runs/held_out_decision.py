"""A run's decision rule, chosen on rows the model was not trained on, and its answers to held-out samples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equipoise.app.runs.trained_run import RunModel
from equipoise.calibration.cross_fitting import HeldOutCalibration
from equipoise.decisions import Chosen, DecisionRule, Evidence, Situation
from equipoise.errors import InvalidInputError


def keep_evidence(model: RunModel, found: HeldOutCalibration, labels: NDArray[np.int64]) -> None:
    """Give a network, which has no out-of-fold predictions, the held-out samples to choose rules on."""
    if found.source != "out_of_fold":
        model.predictor.estimator.evidence_ = Evidence.of(found.probabilities, labels)


def held_out_answers(
    model: RunModel, chosen: Chosen, found: HeldOutCalibration, logits: Tensor, labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Answer the held-out samples by a rule chosen without them.

    For a blend, the training samples' out-of-fold predictions chose it. For a network the held-out samples themselves
    did, so each part is answered by thresholds from the others, or by those of all if the others lack a class.
    """
    if found.source == "out_of_fold":
        return chosen.places(found.model, logits)
    answers = np.empty_like(labels)
    for own, _ in found.parts:
        others = np.setdiff1d(np.arange(len(labels)), own)
        one = _chosen_by(model, chosen.rule, found, labels, others) if len(others) else chosen
        answers[own] = _answers(model, one or chosen, found.probabilities[own])
    return answers


def _chosen_by(
    model: RunModel, rule: DecisionRule, found: HeldOutCalibration, labels: NDArray[np.int64], rows: NDArray[Any]
) -> Chosen | None:
    try:
        return rule.choose(_situation(model, Evidence.of(found.probabilities[rows], labels[rows])))
    except InvalidInputError:
        return None


def _answers(model: RunModel, chosen: Chosen, probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
    several = model.multilabel
    blank = np.zeros(probabilities.shape if several else len(probabilities), dtype=np.int64)
    rows = Evidence(probabilities, blank, np.ones(len(probabilities)))
    here = _situation(model, rows).at(None, chosen.mix)
    return chosen.form.places(here.probabilities)


def _situation(model: RunModel, evidence: Evidence | None) -> Situation:
    prior, aimed = model.calibrated.prior.numpy(), model.calibrated.aimed.numpy()
    return Situation(model.classes, prior, aimed, evidence)
