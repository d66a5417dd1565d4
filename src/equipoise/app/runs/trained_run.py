"""A finished run, ready to predict: input and model rebuilt from an untrusted folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.app.decision_options import read_prior
from equipoise.app.run_folder import RunRecord, finished_record
from equipoise.app.runs.predictors import BlendPredictor, NetworkPredictor, Predictor
from equipoise.app.runs.preprocessing import RunInput, load_input
from equipoise.calibration import estimate_prior
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions import Chosen, DecisionRule, Evidence, Situation
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.blend_files import is_blend
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.estimators.network_files import load_model
from equipoise.evaluation import Scores, scores
from equipoise.storage.files import foreign_files
from equipoise.storage.run_files import RECORD
from equipoise.tensor_checks import check_finite
from equipoise.training import Network

Prior = NDArray[np.float64]
ESTIMATE = "estimate"


class Predictions(NamedTuple):
    """Predictions for each row."""

    probabilities: NDArray[np.float32]  # (rows, classes), or of each attribute being 1, (rows, attributes)
    predicted: NDArray[np.int64]  # class index, (rows,), or 0 and 1, (rows, attributes)
    uncertainty: NDArray[np.float32]  # (rows,), of what is predicted
    logits: Tensor  # (rows, classes) or (rows, attributes, 2): the input of ``calibrated``

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Mask of the rows with finite numbers from the model, (rows,); others have no prediction."""
        return np.asarray(np.isfinite(self.probabilities).all(1) & np.isfinite(self.uncertainty))


@dataclass(frozen=True)
class RunModel:
    """The trained model of a run: ``RunModel.load(folder).predict_proba(x)``.

    Args:
        input: from a data frame or images to what the model takes.
        predictor: the trained model.
        classes: their names, in the order of the probabilities; of the attributes if there are several.
        multilabel: whether a sample has several labels.
        record: ``run.json``; no path in it is opened.
        calibrated: from the model's logits to probabilities and to sets of classes.
        chosen: the rule that answers, with its thresholds; None is the most probable class at the given class prior, or
            at the one that the method aims at.
    """

    input: RunInput
    predictor: Predictor
    classes: tuple[str, ...]
    multilabel: bool
    record: RunRecord
    calibrated: Calibrated
    chosen: Chosen | None = None

    @classmethod
    def load(cls, folder: str | Path) -> "RunModel":
        """Read a finished run from its ``folder``; refuse inconsistent files before they take memory."""
        folder = Path(folder)
        record = finished_record(folder)
        with foreign_files(folder, "train again"):
            prepared, predictor = _load_blend(folder, record) if is_blend(folder) else _load_network(folder, record)
            found = cls.of(prepared, predictor, tuple(record.attributes), record)
            if record.classes != list(found.classes):
                raise InvalidInputError(f"{folder / RECORD} names other classes than the model has; train again.")
        return found

    @classmethod
    def of(
        cls,
        prepared: RunInput,
        predictor: Predictor,
        attributes: tuple[str, ...] = (),
        record: RunRecord | None = None,
    ) -> "RunModel":
        """Combine a trained model with its input."""
        model, multilabel = predictor.estimator, predictor.multilabel
        names = tuple(str(label) for label in (attributes if multilabel and attributes else model.classes_))
        if len(names) != len(model.classes_):
            raise InvalidInputError(f"the run names {len(names)} attributes and its model has {len(model.classes_)}.")
        record = record or RunRecord(options={})
        chosen = None
        if record.decision is not None:
            chosen = Chosen.from_json(record.decision, names, several=multilabel, where=f"the decision in {RECORD}")
        return cls(prepared, predictor, names, multilabel, record, model.calibrated_, chosen)

    def deciding(self, rule: DecisionRule | None, prior: Prior | None = None) -> "RunModel":
        """Return the same model with another rule; None is the run's own.

        Args:
            prior: the class prior where the rule is used, instead of its own.
        """
        own = self.chosen.rule if rule is None and self.chosen is not None else rule
        if own is None or (rule is None and prior is None):
            return self
        return replace(self, chosen=own.choose(self.situation(), target_prior=prior))

    def situation(self, evidence: Evidence | None = None) -> Situation:
        """Return the situation that rules are chosen for: classes, their prior, and predictions for unseen rows.

        Those are the model's own by default.
        """
        prior, aimed = self.calibrated.prior.numpy(), self.calibrated.aimed.numpy()
        return Situation(self.classes, prior, aimed, evidence or self.predictor.estimator.evidence_)

    @property
    def network(self) -> Network:
        """The network if the model is one; otherwise an error says what it is."""
        return self.predictor.network

    @property
    def id_column(self) -> str | None:
        """The column that names the rows in predictions; None if the run was given none."""
        found = self.record.options.get("id")
        return found if isinstance(found, str) else None

    def predict_before(self, rows: Any, softmax: Path) -> Predictions | None:
        """Return the predictions of the model before balancing; None without such a model.

        Args:
            rows: as for :meth:`predict_rows`.
            softmax: weights of a network at the end of its softmax stage; the file is optional.
        """
        found = self.predictor.before(softmax, self.calibrated)
        if found is None:
            return None
        early = replace(self, predictor=found.predictor, calibrated=found.calibrated, chosen=None)
        return early.predict_rows(rows, found.prior)

    def learnt(self, field: Literal["train_counts", "class_uncertainty", "margins"]) -> list[Any] | None:
        """Return a field of the record with a number for each class, or None."""
        values: list[Any] | None = getattr(self.record, field)
        return values if values is not None and len(values) == len(self.classes) else None

    def predict_proba(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return calibrated probabilities (rows, classes), or of each attribute being 1, of a data frame or of images.

        Args:
            x: a data frame (rows, columns), or images (rows, channels, height, width).
            prior: the class prior where the model is used, (classes,) or (attributes, 2); None takes that of the
                training samples.
        """
        return self._certain(x, prior).probabilities

    def uncertainty(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return the variance of the label predicted for each row of x, (rows,).

        For a network it is in closed form, see :mod:`equipoise.estimators.network_prediction`. x and ``prior`` as in
        :meth:`predict`.
        """
        return self._certain(x, prior).uncertainty

    def predict(self, x: Any, prior: ArrayLike | None = None) -> list[str] | NDArray[np.int64]:
        """Return the class of each row; with several labels 0 and 1, (rows, attributes).

        Args:
            x: as in :meth:`predict_proba`.
            prior: the class prior where the model is used: the most probable class there. None takes the one that the
                run's method aims at: a balanced one for the default method.
        """
        found = self._certain(x, prior).predicted
        return found if self.multilabel else [self.classes[place] for place in found.tolist()]

    def predictions(self, x: Any, prior: ArrayLike | None = None) -> Predictions:
        """Return all predictions for x in one pass; ``prior`` as in :meth:`predict`."""
        return self.predict_rows(self.input.rows(x), prior)

    def _certain(self, x: Any, prior: ArrayLike | None) -> Predictions:
        found = self.predictions(x, prior)
        check_finite(found.finite)
        return found

    def predict_rows(self, rows: Any, prior: ArrayLike | None = None) -> Predictions:
        """Return all predictions for preprocessed rows."""
        logits, uncertainty = self.predictor.logits_and_uncertainty(rows, self.calibrated, prior)
        return Predictions(*self.decided(logits, prior), uncertainty.float().numpy(), logits)

    def decided(self, logits: Tensor, prior: ArrayLike | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return ``probabilities`` and ``predicted`` of :class:`Predictions` for these logits."""
        probabilities = self.calibrated.probabilities(logits, prior)
        own = probabilities[..., 1] if self.multilabel else probabilities
        if self.chosen is not None:
            return own.float().numpy(), self.chosen.places(self.calibrated, logits)
        return own.float().numpy(), self.calibrated.decided(logits, prior).numpy()

    def scores(
        self,
        probabilities: NDArray[Any],
        predicted: NDArray[np.int64],
        labels: NDArray[np.int64],
        counts: Sequence[int],
        *,
        intervals: bool = True,
    ) -> Scores:
        """Score predictions; ``labels`` and ``predicted`` are class indices, or 0 and 1 for attributes.

        Args:
            counts: training samples of each class.
            intervals: whether to include bootstrap intervals.
        """
        total = probabilities.astype(np.float64)
        if not self.multilabel:
            total /= total.sum(1, keepdims=True)
        places = range(len(self.classes))
        found = scores(labels, predicted, probabilities=total, classes=places, train_counts=counts, intervals=intervals)
        return replace(found, classes=self.classes)

    def read_prior(self, text: str) -> Prior:
        """Return the class prior of a ``text``, see :func:`equipoise.app.decision_options.read_prior`."""
        return read_prior(text, self.classes, self.calibrated)

    def estimate_prior(self, probabilities: NDArray[np.float32]) -> Prior:
        """Estimate the class prior of samples from their probabilities, as :meth:`predict_proba` gives them, by EM."""
        if len(probabilities) == 0:
            raise InvalidInputError("--prior estimate needs at least one readable sample, got none; give other data.")
        given = probabilities.astype(np.float64)
        if self.multilabel:
            given = np.stack((1 - given, given), axis=-1)
        given /= given.sum(-1, keepdims=True)
        return estimate_prior(given, old=self.calibrated.prior.numpy(), smoothing=1)

    def named_shares(self, prior: Prior) -> dict[str, float]:
        """Return a class prior by class, or by attribute for its ones."""
        own = prior[:, 1] if prior.ndim == 2 else prior
        return dict(zip(self.classes, own.tolist(), strict=True))


def _load_network(folder: Path, record: RunRecord) -> tuple[RunInput, Predictor]:
    saved = load_model(folder)
    prepared = load_input(record.input, folder, saved.recipe.columns, saved)
    estimator = UncertaintyBalancedClassifier._restored(saved, folder, prepared.backbone)
    return prepared, NetworkPredictor(estimator, estimator.network_)


def _load_blend(folder: Path, record: RunRecord) -> tuple[RunInput, Predictor]:
    estimator = BalancedClassifier.load(folder)
    return load_input(record.input, folder, estimator.n_features_in_, None), BlendPredictor(estimator)
