"""The models that a run can hold, alike in use: logits, uncertainty, and model-specific information."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.app.run_folder import BlendPart
from equipoise.app.runs.choose_split import Targets
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.held_out_calibration import HeldOutCalibration, calibrate_held_out, score_held_out
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.families import family_label
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.estimators.network_prediction import PredictionModule
from equipoise.evaluation.label_quality import LabelDoubt, LabelJudge, class_sizes, doubt_of_probabilities
from equipoise.storage.size_limits import load_tensors
from equipoise.tensor_checks import new_tensor
from equipoise.training import Network
from equipoise.training.settings import rows_at_once

FORWARD_NUMBERS = 64
"""Rough count of the numbers that a network holds for each input number of a row while predicting."""
LARGEST = 1e38
"""Largest value that trees accept, as they compare in single precision."""


class Unbalanced(NamedTuple):
    """A model that decides at the training samples' class prior: by its ``calibrated``, or by asking for ``prior``."""

    predictor: "Predictor"
    calibrated: Calibrated
    prior: ArrayLike | None


@dataclass(frozen=True)
class NetworkPredictor:
    """A network of this library.

    Args:
        estimator: fitted.
        network: its own, or that of an earlier stage.
    """

    estimator: UncertaintyBalancedClassifier
    network: Network

    @property
    def multilabel(self) -> bool:
        """True if a sample has several labels."""
        return bool(self.network.head.multilabel)

    @property
    def blend(self) -> None:
        """Nothing: a network has no classifiers to blend."""
        return None

    @torch.no_grad()
    def logits_and_uncertainty(
        self, rows: Any, calibrated: Calibrated, prior: ArrayLike | None
    ) -> tuple[Tensor, Tensor]:
        """Return logits, (rows, classes) or (rows, attributes, 2), and the uncertainty of the decision, (rows,)."""
        module = PredictionModule(self.network, calibrated, target_prior=prior)
        parts = [module.logits_and_uncertainty(new_tensor(rows[part])) for part in _parts(rows)]
        if not parts:
            return torch.zeros(0, *calibrated.prior.shape), torch.zeros(0)
        logits, uncertainty = (torch.cat(tensors).float() for tensors in zip(*parts, strict=True))
        return logits, uncertainty

    def before(self, softmax: Path, calibrated: Calibrated) -> Unbalanced | None:
        """Return the model at the end of the softmax stage, by its optional file of weights, or None."""
        early = self._softmax_stage(softmax)
        return None if early is None else Unbalanced(early, Calibrated.of_plain_softmax(calibrated.prior), None)

    def _softmax_stage(self, softmax: Path) -> "NetworkPredictor | None":
        if not softmax.is_file():
            return None
        network = copy.deepcopy(self.network)
        try:
            network.load_state_dict(load_tensors(softmax))
        except (safetensors.SafetensorError, RuntimeError, OSError) as error:
            raise InvalidInputError(f"{softmax} is damaged ({error}); delete it and continue with --resume.") from error
        return replace(self, network=network)

    def calibrate(
        self, logits: Tensor, labels: NDArray[np.int64], *, groups: NDArray[Any] | None, seed: int
    ) -> HeldOutCalibration:
        """Predict held-out samples by a calibration that has not seen them, and return the model's own calibration."""
        return calibrate_held_out(self.estimator.calibrated_, logits, labels, groups=groups, seed=seed)

    def label_doubt(self, rows: Any, tested: Any, targets: Targets, softmax: Path) -> LabelDoubt:
        """Judge by features, which are computed twice, a part at a time, and never held together.

        The softmax stage's network has memorised the fewest labels; without its file, the final one is used.
        """
        early = self._softmax_stage(softmax) or self
        judge = LabelJudge(class_sizes(targets.train, len(targets.classes)), several=self.multilabel)
        for features, part in early._features(rows):
            judge.add(features, targets.train[part])
        for features, part in early._features(rows):
            judge.look(features, targets.train[part], added=True)
        for features, part in early._features(tested):
            judge.look(features, targets.test[part], added=False)
        return judge.doubt()

    def column_weights(self) -> NDArray[np.float64]:
        """Return the largest first-layer weights of the standardised columns."""
        weight = next(tensor for _, tensor in self.network.backbone.named_parameters() if tensor.ndim == 2)
        return np.asarray(weight.detach().square().sum(0).double().numpy())

    @torch.inference_mode()
    def _features(self, rows: Any) -> Iterator[tuple[NDArray[np.float32], slice]]:
        """Yield the last layer's features, before its dropout."""
        backbone = self.network.eval().backbone
        for part in _parts(rows, least=len(self.estimator.classes_)):  # the judge needs memory for every class
            yield backbone(new_tensor(rows[part])).float().numpy(), part


@dataclass(frozen=True)
class BlendPredictor:
    """Cross-fitted classifiers of any kind.

    Args:
        estimator: fitted.
    """

    estimator: BalancedClassifier

    @property
    def multilabel(self) -> bool:
        """True if a sample has several labels."""
        return self.estimator._multilabel

    @property
    def network(self) -> Network:
        """Raise an error that says what the model is."""
        names = ", ".join(part.name for part in self.blend)
        raise InvalidInputError(f"a network is needed, and this run's model is {names}; train with --model network.")

    @property
    def blend(self) -> list[BlendPart]:
        """Classifiers and weights."""
        each = zip(self.estimator.members_, self.estimator.weights_.tolist(), strict=True)
        return [BlendPart(_family(members), weight, len(members)) for members, weight in each]

    @torch.no_grad()
    def logits_and_uncertainty(
        self, rows: Any, calibrated: Calibrated, prior: ArrayLike | None
    ) -> tuple[Tensor, Tensor]:
        """Return logits, (rows, classes) or (rows, attributes, 2), and the uncertainty of the decision, (rows,)."""
        numbers = len(self.estimator.members_) * len(self.estimator.members_[0]) * calibrated.prior.numel()
        parts = [self.estimator._logits(within_reach(rows[part])) for part in _parts(rows, least=numbers)]
        logits = torch.cat(parts) if parts else torch.zeros(0, *calibrated.prior.shape, dtype=torch.float64)
        p = calibrated.decision(logits, prior).softmax(-1)
        return logits, (p * (1 - p)).flatten(1).sum(-1)

    def before(self, softmax: Path, calibrated: Calibrated) -> Unbalanced:  # noqa: ARG002
        """Return the same model, decided at the class prior of the training samples."""
        return Unbalanced(self, calibrated, calibrated.prior.numpy())

    def calibrate(
        self,
        logits: Tensor,
        labels: NDArray[np.int64],
        *,
        groups: NDArray[Any] | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> HeldOutCalibration:
        """Keep the calibration on out-of-fold predictions: more samples than are held out, and just as honest."""
        judged = np.isfinite(self.estimator.out_of_fold_.reshape(len(self.estimator.out_of_fold_), -1)).all(1)
        return score_held_out(self.estimator.calibrated_, logits, labels, samples=int(judged.sum()))

    def label_doubt(self, rows: Any, tested: Any, targets: Targets, softmax: Path) -> LabelDoubt:  # noqa: ARG002
        """Judge by members that have not seen the sample: out of fold, and by all of them for held-out samples."""
        calibrated = self.estimator.calibrated_
        logits, _ = self.logits_and_uncertainty(tested, calibrated, None)
        p = np.concatenate((self.estimator.out_of_fold_, calibrated.probabilities(logits).numpy()))
        sizes = class_sizes(targets.train, len(targets.classes))
        return doubt_of_probabilities(p, np.concatenate((targets.train, targets.test)), sizes)

    def column_weights(self) -> NDArray[np.float64] | None:
        """Return the mean of the members' feature importances, as far as they have any."""
        single = [one for own in self.estimator.members_ for one in single_members(own)]
        known = [np.asarray(one.feature_importances_) for one in single if hasattr(one, "feature_importances_")]
        return np.mean([each / (each.sum() or 1) for each in known], axis=0) if known else None


Predictor = NetworkPredictor | BlendPredictor
"""A trained model of any kind."""


def within_reach(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows in double precision, with values that trees can compare."""
    return np.clip(np.asanyarray(rows, dtype=np.float64), -LARGEST, LARGEST)


def _family(members: list[Any]) -> str:
    """Return a classifier's name in reports, from the first member with more than one class."""
    models = [one.steps[-1][1] if hasattr(one, "named_steps") else one for one in single_members(members)]
    return family_label(next((model for model in models if len(model.classes_) > 1), models[0]))


def single_members(members: list[Any]) -> list[Any]:
    """Return fitted classifiers one by one if each attribute has its own."""
    return [one for each in members for one in (each if isinstance(each, list) else [each])]


def _parts(rows: Any, *, least: int = 0) -> Iterator[slice]:
    """Split rows into parts that take little memory; a row takes at least this many numbers."""
    step = rows_at_once(max(FORWARD_NUMBERS * int(np.prod(rows.shape[1:], dtype=np.int64)), least))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))
