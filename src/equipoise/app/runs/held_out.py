"""Predictions for held-out samples, by a calibration and a decision rule that have not seen them."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equipoise.app.runs.choose_split import SplitSamples
from equipoise.app.runs.trained_run import RunModel
from equipoise.app.stored_arrays import HeldOut, Trust
from equipoise.calibration.held_out_calibration import HeldOutCalibration
from equipoise.decisions import Chosen, DecisionRule, Evidence
from equipoise.errors import InvalidInputError
from equipoise.evaluation import Scores
from equipoise.tensor_checks import check_finite


@dataclass(frozen=True)
class HeldOutResult:
    """Predictions for held-out samples, their calibration, scores, those before balancing, and the rule, if any."""

    held: HeldOut
    calibration: HeldOutCalibration
    scores: Scores
    before: Scores | None
    decision: Chosen | None


def predict_held_out(
    model: RunModel, parts: SplitSamples, inputs: Any, *, softmax: Path, seed: int, rule: DecisionRule | None = None
) -> HeldOutResult:
    """Predict the test samples by a calibration that has not seen them.

    Args:
        inputs: the test samples as ``model.input.rows`` gives them.
        softmax: weights at the end of a network's softmax stage; the file is optional.
        rule: the rule that answers; None is the default.
    """
    labels, counts = parts.targets.test, parts.targets.counts
    first = model.predict_rows(inputs)
    check_finite(first.finite)
    found = model.predictor.calibrate(first.logits, labels, groups=parts.test.groups, seed=seed)
    uncertainty = first.uncertainty
    if found.source == "held_out":  # by the calibration that made each part's predictions; the network runs once more
        for own, calibrated in found.parts:
            part = replace(model, calibrated=calibrated).predict_rows(inputs.take(own, axis=0))
            uncertainty[own] = part.uncertainty
    if found.source != "out_of_fold":  # a network has no out-of-fold predictions to choose rules on
        model.predictor.estimator.evidence_ = Evidence.of(found.probabilities, labels)
    chosen, predicted = None, found.predicted
    if rule is not None:
        chosen = rule.choose(replace(model, calibrated=found.model).situation())
        predicted = _by_rule(model, chosen, found, first.logits, labels)
    trust, before, old = None, model.predict_before(inputs, softmax), None
    if found.uncalibrated is not None and found.sets is not None:
        trust = Trust(found.uncalibrated, found.sets, model.calibrated.prior.numpy())
    if before is not None:
        old = model.scores(before.probabilities, before.predicted, labels, counts, intervals=False)
    early = None if before is None else before.predicted
    held = HeldOut(found.probabilities, labels, predicted, uncertainty, parts.test_rows, early, trust)
    scores = model.scores(held.probabilities, held.predicted, labels, counts)
    return HeldOutResult(held, found, scores, old, chosen)


def _by_rule(
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
        others, one = np.setdiff1d(np.arange(len(labels)), own), chosen
        with suppress(InvalidInputError):
            if len(others):
                one = chosen.rule.choose(model.situation(Evidence.of(found.probabilities[others], labels[others])))
        rows = Evidence(found.probabilities[own], np.zeros_like(labels[own]), np.ones(len(own)))
        answers[own] = one.policy.places(model.situation(rows).at(None, one.target_prior).probabilities)
    return answers
