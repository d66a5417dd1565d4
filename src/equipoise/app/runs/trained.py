"""A finished run, ready to answer: input and network built again from a folder that anyone may have written."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.app.run_folder import RECORD, InputRecord, RunRecord, finished_record
from equipoise.app.runs.inputs import FeaturesInput, ImagesInput, RunInput, TableInput, load_backbone
from equipoise.calibration import estimate_prior
from equipoise.calibration.calibrated import Calibrated
from equipoise.data.encoder import TableEncoder
from equipoise.decisions.prediction import PredictionModule
from equipoise.errors import InvalidInputError
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.estimators.persistence import load_model
from equipoise.storage.files import foreign_files, read_plain
from equipoise.storage.limits import parse_json
from equipoise.tensors import check_finite, new_tensor
from equipoise.training import Network, Recipe
from equipoise.training.settings import rows_at_once

Mix = NDArray[np.float64]
ESTIMATE = "estimate"
LARGEST_FILE = 2**26
FORWARD_NUMBERS = 64
"""Numbers that a network holds of a row while it answers, for each number that goes in, roughly."""


class Answered(NamedTuple):
    """What a run says of each row."""

    probabilities: NDArray[np.float32]  # (rows, classes), or of each attribute being 1, (rows, attributes)
    predicted: NDArray[np.int64]  # the class's place, (rows,), or 0 and 1, (rows, attributes)
    uncertainty: NDArray[np.float32]  # (rows,), of what is predicted
    logits: Tensor  # (rows, classes) or (rows, attributes, 2): what ``calibrated`` takes

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Whether the network gave a row finite numbers, (rows,); others have no answer."""
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
            prepared = _load_input(record.input, folder, load_model(folder).recipe)
            model = UncertaintyBalancedClassifier.load(folder, backbone=prepared.backbone)
            found = cls.of(prepared, model, tuple(record.attributes), record)
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
        """Of a fitted estimator and its input."""
        multilabel = model.network_.head.multilabel
        names = tuple(str(label) for label in (attributes if multilabel and attributes else model.classes_))
        if len(names) != len(model.classes_):
            raise InvalidInputError(f"the run names {len(names)} attributes and its model has {len(model.classes_)}.")
        return cls(prepared, model.network_, names, multilabel, record or RunRecord(options={}), model.calibrated_)

    def with_network(self, network: Network) -> "RunModel":
        """The same run with the weights of its softmax stage, whose logits have the training samples' class mix."""
        calibrated = Calibrated.of_plain_softmax(self.calibrated.prior)
        return replace(self, network=network, calibrated=calibrated)

    def learnt(self, field: Literal["train_counts", "class_uncertainty", "margins"]) -> list[Any] | None:
        """Return a field of the record with a number for each class, or None where it has none."""
        values: list[Any] | None = getattr(self.record, field)
        return values if values is not None and len(values) == len(self.classes) else None

    def predict_proba(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """Calibrated probabilities (rows, classes), or of each attribute being 1, of a data frame or of images.

        Args:
            x: a data frame (rows, columns), or images (rows, channels, height, width).
            prior: the class mix where the model is used, (classes,) or (attributes, 2); None is that of the training
                samples.
        """
        return self._certain(x, prior).probabilities

    def uncertainty(self, x: Any, prior: ArrayLike | None = None) -> NDArray[np.float32]:
        """The variance of the label predicted for each row of x, (rows,), in closed form, see
        :mod:`equipoise.decisions.prediction`; x and ``prior`` as in :meth:`predict`.
        """
        return self._certain(x, prior).uncertainty

    def predict(self, x: Any, prior: ArrayLike | None = None) -> list[str] | NDArray[np.int64]:
        """The class of each row; for several labels 0 and 1, (rows, attributes).

        Args:
            x: as in :meth:`predict_proba`.
            prior: the class mix where the model is used: the most probable class there. None takes the mix which the
                run's method aims at: for the default method, all classes equally common.
        """
        found = self._certain(x, prior).predicted
        return found if self.multilabel else [self.classes[place] for place in found.tolist()]

    def answer(self, x: Any, prior: ArrayLike | None = None) -> Answered:
        """``probabilities``, ``uncertainty``, ``predicted`` places and ``logits`` of x in one pass; at the class mix
        ``prior``, as in :meth:`predict`.
        """
        return self.answer_inputs(self.input.rows(x), prior)

    def _certain(self, x: Any, prior: ArrayLike | None) -> Answered:
        found = self.answer(x, prior)
        check_finite(found.finite)
        return found

    @torch.no_grad()
    def answer_inputs(self, rows: Any, prior: ArrayLike | None = None) -> Answered:
        """The same for rows as the network takes them."""
        module = PredictionModule(self.network, self.calibrated, target_prior=prior)
        step = rows_at_once(FORWARD_NUMBERS * int(np.prod(rows.shape[1:], dtype=np.int64)))
        parts = [
            module.logits_and_uncertainty(new_tensor(rows[start : start + step])) for start in range(0, len(rows), step)
        ]
        if parts:
            logits, uncertainty = (torch.cat(tensors).float() for tensors in zip(*parts, strict=True))
        else:
            logits, uncertainty = torch.zeros(0, *self.calibrated.prior.shape), torch.zeros(0)
        return Answered(*self.decided(logits, prior), uncertainty.numpy(), logits)

    def decided(self, logits: Tensor, prior: ArrayLike | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """``probabilities`` and ``predicted`` of :class:`Answered` for these logits."""
        probabilities = self.calibrated.probabilities(logits, prior)
        own = probabilities[..., 1] if self.multilabel else probabilities
        return own.float().numpy(), self.calibrated.decided(logits, prior).numpy()


def _load_input(known: InputRecord | None, folder: Path, recipe: Recipe) -> RunInput:
    """What a run's record says of its input, checked against the network that takes it."""
    if known is not None and known.kind == "table":
        encoder = TableEncoder.from_json(known.encoder)
        if len(encoder.column_names_) != recipe.columns:
            raise InvalidInputError(f"{folder} holds a table encoding of another network; train again.")
        return TableInput(encoder)
    if known is None or known.backbone is None:
        raise InvalidInputError(f"{folder / RECORD} describes no backbone and image size; train again.")
    if known.kind == "images":
        return ImagesInput(load_backbone(known.backbone, folder, dropout=recipe.dropout), known.backbone, None)
    extractor = load_backbone(known.backbone, folder, frozen=True)
    if extractor.out_features != recipe.columns:
        raise InvalidInputError(f"{folder} holds a backbone of another network; train again.")
    return FeaturesInput(extractor, known.backbone, None, cache=False)


def class_mix(text: str, model: RunModel) -> Mix:
    """Shares in the order of the classes, (classes,) or (attributes, 2).

    Args:
        text: ``natural``, the training samples' mix; ``balanced``; ``a=0.2,b=0.8``, of any scale; or a ``.json`` file
            with such an object. For several labels the share of each attribute's ones.
    """
    prior = model.calibrated.prior.numpy()
    if text == "natural":
        return prior
    if text == "balanced":
        return np.full(prior.shape, 1 / prior.shape[-1])
    given = _from_file(Path(text)) if text.lower().endswith(".json") else _pairs(text)
    shares = _ordered(given, model)
    if model.multilabel and not bool((shares <= 1).all()):
        raise InvalidInputError("the share of an attribute's ones must lie between 0 and 1; check --prior.")
    return model.calibrated.checked(shares)


def mix_of(model: RunModel, probabilities: NDArray[np.float32]) -> Mix:
    """From probabilities at the training samples' mix, as ``RunModel.predict_proba`` gives them."""
    if len(probabilities) == 0:
        raise InvalidInputError("there is no sample to estimate the class mix from; give data with some.")
    given = probabilities.astype(np.float64)
    if model.multilabel:
        given = np.stack((1 - given, given), axis=-1)
    given /= given.sum(-1, keepdims=True)
    return estimate_prior(given, old=model.calibrated.prior.numpy(), smoothing=1)


def named_shares(model: RunModel, mix: Mix) -> dict[str, float]:
    """By class; of the ones of each attribute."""
    own = mix[:, 1] if mix.ndim == 2 else mix
    return dict(zip(model.classes, own.tolist(), strict=True))


def _pairs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in text.split(","):
        name, equals, share = entry.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            equals = ""
        if not equals or name.strip() in found:
            raise InvalidInputError(
                f"--prior must be natural, balanced, estimate, a .json file, or one name=share for each class with "
                f"commas between, got {text!r}."
            )
        found[name.strip()] = number
    return found


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_plain(path, most_bytes=LARGEST_FILE))
    except OSError as error:
        raise InvalidInputError(f"the class mix {path} cannot be read ({error.strerror}); check the path.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the class mix {path} is no JSON ({error}); write an object of shares.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"the class mix {path} must hold an object of shares by class.")
    return found


def _ordered(given: Mapping[str, Any], model: RunModel) -> Mix:
    missing = [name for name in model.classes if name not in given]
    unknown = [name for name in given if name not in model.classes]
    if missing or unknown:
        wrong = f"lacks {missing[0]!r}" if missing else f"names {unknown[0]!r}"
        raise InvalidInputError(
            f"--prior must give each of the run's classes a share, and it {wrong}; the classes are "
            f"{', '.join(model.classes[:10])}{', …' if len(model.classes) > 10 else ''}."
        )
    shares = [given[name] for name in model.classes]
    if not all(type(share) in (int, float) and 0 <= share <= sys.float_info.max for share in shares):
        raise InvalidInputError("the shares of --prior must be numbers, none negative and none beyond all measure.")
    return np.array(shares, dtype=np.float64)
