"""A model on disk: weights as safetensors, all else as JSON. Nothing in it can run code."""

import copy
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions import DecisionRule, Evidence
from equipoise.errors import EquipoiseError, InvalidInputError, InvalidStateError
from equipoise.estimators.saved_model import (
    KINDS,
    REMEDY,
    SavedRecord,
    common_record,
    evidence_from,
    evidence_tensors,
    labels_from_json,
    read_saved,
    stored_rule,
    write_saved,
)
from equipoise.options import is_whole
from equipoise.storage.records import AtLeastOne, Count, as_record
from equipoise.storage.run_files import MODEL, MODEL_RECORD
from equipoise.tensor_checks import not_finite
from equipoise.training.checkpoints import of_prefix, with_prefix
from equipoise.training.network_recipe import Network, Recipe

UNSAVED = ("backbone", "run_dir", "decision", "encoder")
"""Parameters left out of a saved model: any object, any folder, or stored elsewhere."""


class _Chosen(Struct):
    seed: Count


class _History(Struct):
    chosen: _Chosen


class ModelRecord(SavedRecord, kw_only=True):
    """``model.json`` of a network; the recipe's own class checks the recipe."""

    custom_backbone: bool
    recipe: dict[str, Any]
    features: AtLeastOne


@dataclass(frozen=True)
class SavedModel:
    """A saved model, read and checked: everything an estimator needs to predict again."""

    record: ModelRecord
    classes: NDArray[Any]
    recipe: Recipe
    network: dict[str, Tensor]
    calibrated: Calibrated
    uncertainty: Tensor | None
    decision: DecisionRule | None
    evidence: Evidence | None


def save_model(folder: Path, fitted: Any) -> None:
    """Write both files of an :class:`~equipoise.UncertaintyBalancedClassifier`, each atomically."""
    network = fitted.network_.state_dict()
    wrong = not_finite(network)
    if wrong is not None:
        raise InvalidStateError(
            f"the network has NaN or infinity in {wrong!r}, so it was not saved; train with a smaller learning rate."
        )
    given = {name: _plain(value) for name, value in fitted.get_params(deep=False).items() if name not in UNSAVED}
    record = ModelRecord(
        **common_record(fitted),
        parameters=given,
        custom_backbone=fitted.backbone is not None,
        recipe=asdict(fitted._recipe),
        features=fitted.network_.head.in_features,
    )
    tensors = with_prefix("network", network) | with_prefix("calibrated", fitted.calibrated_.tensors())
    tensors |= evidence_tensors(fitted.evidence_)
    if fitted.class_uncertainty_ is not None:
        tensors["uncertainty"] = torch.from_numpy(fitted.class_uncertainty_)
    write_saved(folder, record, tensors)


def _plain(value: Any) -> Any:
    """Return a parameter as JSON: numpy's numbers as Python's, and None if it is not a plain value."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else None


def load_model(folder: Path) -> SavedModel:
    """Read both files, checking them field by field."""
    path = folder / MODEL_RECORD
    record, tensors = read_saved(folder, ModelRecord)
    as_record(record.history, _History, f"the history in {path}", remedy=REMEDY)
    told = record.recipe.get("classes")
    if is_whole(told) and told != len(record.classes):  # before a recipe allocates for that many classes
        raise _wrong_labels(folder)
    try:
        recipe = Recipe(**record.recipe)
    except (TypeError, EquipoiseError) as error:
        raise InvalidInputError(f"{path} has no valid recipe ({error}); it was not written by this version.") from error
    classes = labels_from_json(record.classes, record.class_type)
    if classes.shape != (recipe.classes,):
        raise _wrong_labels(folder)
    try:
        calibrated = Calibrated.from_tensors(recipe.class_shape, _calibration(tensors))
    except EquipoiseError as error:
        raise InvalidInputError(f"{folder / MODEL} is damaged or of another version: {error}") from error
    network = of_prefix("network", tensors)
    _check_sizes(folder, record, recipe, network)
    wrong = not_finite(network)
    if wrong is not None:
        raise InvalidInputError(f"{folder / MODEL} holds NaN or infinity in {wrong!r}; train the model again.")
    several = recipe.multilabel
    decision = stored_rule(record.decision, classes, path, several=several)
    evidence = evidence_from(tensors, len(classes), several=several)
    return SavedModel(record, classes, recipe, network, calibrated, tensors.get("uncertainty"), decision, evidence)


def restored_network(model: SavedModel, folder: str | Path, backbone: nn.Module | None) -> Network:
    """Build the network of a saved model, read from ``folder``, on a copy of the ``backbone`` it was trained with."""
    if model.record.custom_backbone and backbone is None:
        raise InvalidInputError(f"{folder} was trained with a custom backbone; pass an equal one as backbone=.")
    features = model.recipe.table_backbone() if backbone is None else copy.deepcopy(backbone)
    network = Network(features, model.recipe.head(model.calibrated.prior, features=model.record.features))
    try:
        network.load_state_dict(model.network)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")  # torch's first line names its own classes
        raise InvalidInputError(
            f"the weights in {folder} do not fit the network: {reason}; was it saved by another version?"
        ) from error
    return network


def _calibration(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that a model is calibrated by; refuse those of odd types, and such an uncertainty."""
    found = of_prefix("calibrated", tensors)
    for name, tensor in (tensors | found).items():
        if (name in found or name == "uncertainty") and tensor.dtype not in KINDS:
            raise InvalidInputError(f"the tensor {name!r} is of the type {tensor.dtype}; save the model again.")
    return found


def _wrong_labels(folder: Path) -> InvalidInputError:
    return InvalidInputError(f"{folder} holds a damaged model: its labels are not those of its recipe; save it again.")


def _check_sizes(folder: Path, record: ModelRecord, recipe: Recipe, network: dict[str, Tensor]) -> None:
    """Raise an error if a network's sizes differ from its tensors': a wrong number must not fill the memory."""
    wanted: dict[str, tuple[int, ...]] = {"head.weight": (math.prod(recipe.class_shape), record.features)}
    if not record.custom_backbone:
        units = recipe.members * recipe.width
        wanted |= {"backbone.0.mean": (recipe.columns,), "backbone.1.layers.0.weight": (units, recipe.columns)}
    for name, shape in wanted.items():
        if name not in network or tuple(network[name].shape) != shape:
            raise InvalidInputError(f"the weights in {folder} do not fit the network: {name} is not of shape {shape}.")
    for name in ("backbone", "run_dir", "decision"):  # a backbone could be anything, run_dir any folder to write to
        if name in record.parameters:
            raise InvalidInputError(
                f"{folder / MODEL_RECORD} names a {name} among its parameters; save the model again."
            )
