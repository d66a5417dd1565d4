"""A finished run, ready to predict: input and network built again from a folder that anyone may have written."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import safetensors
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.app.run_folder import RECORD, RunRecord, finished_record
from equipoise.app.runs.inputs import RunInput, load_input
from equipoise.calibration import estimate_prior
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions.prediction import PredictionModule
from equipoise.errors import InvalidInputError
from equipoise.estimators.network import UncertaintyBalancedClassifier, restore
from equipoise.estimators.persistence import load_model
from equipoise.evaluation import Scores, scores
from equipoise.storage.files import foreign_files
from equipoise.storage.records import read_json
from equipoise.storage.size_limits import load_tensors
from equipoise.tensor_checks import check_finite, new_tensor
from equipoise.training import Network
from equipoise.training.settings import rows_at_once

Prior = NDArray[np.float64]
ESTIMATE = "estimate"
FORWARD_NUMBERS = 64
"""Numbers that a network holds of a row while it predicts, for each number that goes in, roughly."""


class Predictions(NamedTuple):
    """What a run says of each row."""

    probabilities: NDArray[np.float32]  # (rows, classes), or of each attribute being 1, (rows, attributes)
    predicted: NDArray[np.int64]  # the class's place, (rows,), or 0 and 1, (rows, attributes)
    uncertainty: NDArray[np.float32]  # (rows,), of what is predicted
    logits: Tensor  # (rows, classes) or (rows, attributes, 2): what ``calibrated`` takes

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Whether the network gave a row finite numbers, (rows,); others have no prediction."""
        return np.asarray(np.isfinite(self.probabilities).all(1) & np.isfinite(self.uncertainty))


@dataclass(frozen=True)
class RunModel:
    """What a run has learnt: ``RunModel.load(folder).predict_proba(x)``.

    Args:
        input: from a data frame or images to what the network takes.
        network: trained.
        classes: their names, in the order of the probabilities; of the attributes where there are several.
        multilabel: whether a sample has several labels.
        record: ``run.json``; no path in it is opened.
        calibrated: from the network's logits to probabilities and to sets of classes.
    """

    input: RunInput
    network: Network
    classes: tuple[str, ...]
    multilabel: bool
    record: RunRecord
    calibrated: Calibrated

    @classmethod
    def load(cls, folder: str | Path) -> "RunModel":
        """Read a finished run from its ``folder``; what does not fit together is refused before it takes memory."""
        folder = Path(folder)
        record = finished_record(folder)
        with foreign_files(folder, "train again"):
            saved = load_model(folder)
            prepared = load_input(record.input, folder, saved)
            found = cls.of(prepared, restore(saved, folder, prepared.backbone), tuple(record.attributes), record)
            if record.classes != list(found.classes):
                raise InvalidInputError(f"{folder / RECORD} names other classes than the model has; train again.")
        return found

    @classmethod
    def of(
        cls,
        prepared: RunInput,
        model: UncertaintyBalancedClassifier,
        attributes: tuple[str, ...] = (),
        record: RunRecord | None = None,
    ) -> "RunModel":
        """Put a fitted estimator and its input together."""
        multilabel = model.network_.head.multilabel
        names = tuple(str(label) for label in (attributes if multilabel and attributes else model.classes_))
        if len(names) != len(model.classes_):
            raise InvalidInputError(f"the run names {len(names)} attributes and its model has {len(model.classes_)}.")
        return cls(prepared, model.network_, names, multilabel, record or RunRecord(options={}), model.calibrated_)

    def softmax_stage(self, weights: Path) -> "RunModel | None":
        """Return the run with the weights at the end of its softmax stage; None where there is no such file.

        Its logits have the training samples' class prior.
        """
        if not weights.is_file():
            return None
        network = copy.deepcopy(self.network)
        try:
            network.load_state_dict(load_tensors(weights))
        except (safetensors.SafetensorError, RuntimeError, OSError) as error:
            raise InvalidInputError(f"{weights} is damaged ({error}); delete it, and go on with --resume.") from error
        return replace(self, network=network, calibrated=Calibrated.of_plain_softmax(self.calibrated.prior))

    def learnt(self, field: Literal["train_counts", "class_uncertainty", "margins"]) -> list[Any] | None:
        """Return a field of the record with a number for each class, or None where it has none."""
        values: list[Any] | None = getattr(self.record, field)
        return values if values is not None and len(values) == len(self.classes) else None

    def predict_proba(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return calibrated probabilities (rows, classes), or of each attribute being 1, of a data frame or of images.

        Args:
            x: a data frame (rows, columns), or images (rows, channels, height, width).
            prior: the class prior where the model is used, (classes,) or (attributes, 2); None is that of the training
                samples.
        """
        return self._certain(x, prior).probabilities

    def uncertainty(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return the variance of the label predicted for each row of x, (rows,), in closed form, see
        :mod:`equipoise.decisions.prediction`; x and ``prior`` as in :meth:`predict`.
        """
        return self._certain(x, prior).uncertainty

    def predict(self, x: Any, prior: ArrayLike | None = None) -> list[str] | NDArray[np.int64]:
        """Return the class of each row; for several labels 0 and 1, (rows, attributes).

        Args:
            x: as in :meth:`predict_proba`.
            prior: the class prior where the model is used: the most probable class there. None takes the one which the
                run's method aims at: for the default method, all classes equally common.
        """
        found = self._certain(x, prior).predicted
        return found if self.multilabel else [self.classes[place] for place in found.tolist()]

    def predictions(self, x: Any, prior: ArrayLike | None = None) -> Predictions:
        """Return everything predicted for x in one pass; ``prior`` as in :meth:`predict`."""
        return self.predict_rows(self.input.rows(x), prior)

    def _certain(self, x: Any, prior: ArrayLike | None) -> Predictions:
        found = self.predictions(x, prior)
        check_finite(found.finite)
        return found

    @torch.no_grad()
    def predict_rows(self, rows: Any, prior: ArrayLike | None = None) -> Predictions:
        """Return the same for rows as the network takes them."""
        module = PredictionModule(self.network, self.calibrated, target_prior=prior)
        step = rows_at_once(FORWARD_NUMBERS * int(np.prod(rows.shape[1:], dtype=np.int64)))
        starts = range(0, len(rows), step)
        parts = [module.logits_and_uncertainty(new_tensor(rows[start : start + step])) for start in starts]
        if parts:
            logits, uncertainty = (torch.cat(tensors).float() for tensors in zip(*parts, strict=True))
        else:
            logits, uncertainty = torch.zeros(0, *self.calibrated.prior.shape), torch.zeros(0)
        return Predictions(*self.decided(logits, prior), uncertainty.numpy(), logits)

    def decided(self, logits: Tensor, prior: ArrayLike | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return ``probabilities`` and ``predicted`` of :class:`Predictions` for these logits."""
        probabilities = self.calibrated.probabilities(logits, prior)
        own = probabilities[..., 1] if self.multilabel else probabilities
        return own.float().numpy(), self.calibrated.decided(logits, prior).numpy()

    def scores(
        self,
        probabilities: NDArray[Any],
        predicted: NDArray[np.int64],
        labels: NDArray[np.int64],
        counts: Sequence[int],
    ) -> Scores:
        """Score predictions; ``labels`` and ``predicted`` are places in the classes, or 0 and 1 of the attributes.

        Args:
            counts: training samples of each class.
        """
        total = probabilities.astype(np.float64)
        if not self.multilabel:
            total /= total.sum(1, keepdims=True)
        places = range(len(self.classes))
        found = scores(labels, predicted, probabilities=total, classes=places, train_counts=counts)
        return replace(found, classes=self.classes)

    def read_prior(self, text: str) -> Prior:
        """Return a class prior in the order of the classes, (classes,) or (attributes, 2).

        Args:
            text: ``natural``, as in training; ``balanced``; ``a=0.2,b=0.8``, of any scale; or a ``.json`` file with
                such an object. For several labels the share of each attribute's ones.
        """
        prior = self.calibrated.prior.numpy()
        if text == "natural":
            return prior
        if text == "balanced":
            return np.full(prior.shape, 1 / prior.shape[-1])
        if text.lower().endswith(".json"):
            remedy = "write an object of shares by class"
            given: dict[str, float] = read_json(Path(text), dict[str, float], remedy=remedy, most_bytes=2**26)
        else:
            given = _pairs(text)
        missing = [name for name in self.classes if name not in given]
        unknown = [name for name in given if name not in self.classes]
        if missing or unknown:
            wrong = f"lacks {missing[0]!r}" if missing else f"names {unknown[0]!r}"
            raise InvalidInputError(
                f"--prior must give each of the run's classes a share, and it {wrong}; the classes are "
                f"{', '.join(self.classes[:10])}{', …' if len(self.classes) > 10 else ''}."
            )
        shares = np.array([given[name] for name in self.classes])
        if not bool((np.isfinite(shares) & (shares >= 0)).all()):
            raise InvalidInputError("the shares of --prior must be numbers, finite and not negative.")
        if self.multilabel and not bool((shares <= 1).all()):
            raise InvalidInputError("the share of an attribute's ones must lie between 0 and 1; check --prior.")
        return self.calibrated.checked(shares)

    def estimate_prior(self, probabilities: NDArray[np.float32]) -> Prior:
        """Estimate the class prior of samples from their probabilities, as :meth:`predict_proba` gives them, by EM."""
        if len(probabilities) == 0:
            raise InvalidInputError("there is no sample to estimate the class prior from; give data with some.")
        given = probabilities.astype(np.float64)
        if self.multilabel:
            given = np.stack((1 - given, given), axis=-1)
        given /= given.sum(-1, keepdims=True)
        return estimate_prior(given, old=self.calibrated.prior.numpy(), smoothing=1)

    def named_shares(self, prior: Prior) -> dict[str, float]:
        """Return a class prior by class; of the ones of each attribute."""
        own = prior[:, 1] if prior.ndim == 2 else prior
        return dict(zip(self.classes, own.tolist(), strict=True))


def _pairs(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = entry.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            number = None
        if number is None or "=" not in entry or name.strip() in found:
            raise InvalidInputError(
                f"--prior must be natural, balanced, estimate, a .json file, or one name=share for each class with "
                f"commas between, got {text!r}."
            )
        found[name.strip()] = number
    return found
