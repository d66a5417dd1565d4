"""A blend on disk: numbers as safetensors, members as skops archives, all else as JSON. Nothing can run code."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import Meta, Struct
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from torch import Tensor

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import Scaling
from equipoise.decisions import DecisionRule, Evidence
from equipoise.errors import EquipoiseError, InvalidInputError
from equipoise.estimators.blending import Blend
from equipoise.estimators.cross_fitted import CrossFittedMembers
from equipoise.estimators.member_outputs import is_frozen
from equipoise.estimators.pickle_free.member_files import MemberRecord, load_member, save_member
from equipoise.estimators.saved_model import (
    LARGEST_RECORD,
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
from equipoise.storage.files import read_plain
from equipoise.storage.records import MOST_CLASSES
from equipoise.storage.run_files import MEMBERS, MODEL, MODEL_RECORD
from equipoise.storage.size_limits import parse_json
from equipoise.training.checkpoints import of_prefix, with_prefix

Share = Annotated[float, Meta(gt=0, le=1)]


class BlendRecord(SavedRecord, kw_only=True):
    """``model.json`` of a :class:`~equipoise.BalancedClassifier`.

    Args:
        members: of each classifier, of each fold; one file, or with several labels one for each attribute unless it is
            a trained model of all.
        shares: of each classifier, of each fold, the share of each class that the member was fitted to; None for all.
    """

    kind: Literal["blend"]
    parameters: dict[str, str | int | list[str] | None]
    multilabel: bool
    rows_as_they_are: bool
    members: list[list[list[MemberRecord]]]
    shares: list[list[Annotated[list[Share], Meta(max_length=MOST_CLASSES)] | None]]


def is_blend(folder: Path) -> bool:
    """Return whether a saved model is a blend, by the ``kind`` in its ``model.json``."""
    try:
        found = parse_json(read_plain(folder / MODEL_RECORD, most_bytes=LARGEST_RECORD))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == "blend"


def save_blend(folder: Path, fitted: Any) -> None:
    """Write a fitted blend, the members first and ``model.json`` last."""
    own, blend = fitted._fitted, fitted.blend_
    record = BlendRecord(
        **common_record(fitted),
        kind="blend",
        parameters={
            "members": int(fitted.members),
            "probabilities": fitted.probabilities,
            "estimator": _named(fitted.estimator),
            "random_state": int(fitted.random_state) if is_whole(fitted.random_state) else None,
        },
        multilabel=own.several,
        rows_as_they_are=fitted._as_they_are,
        members=[
            [_save_member(member, folder / MEMBERS, f"{model}-{number}") for number, member in enumerate(each)]
            for model, each in enumerate(own.members)
        ],
        shares=[[None if share is None else share.tolist() for share in each] for each in own.shares],
    )
    numbers = {
        "scale": torch.stack([each.scale for each in blend.scalings]),
        "bias": torch.stack([each.bias for each in blend.scalings]),
        "weights": blend.weights,
        "uncertainty": blend.uncertainty,
        "margins": blend.margins,
    }
    tensors = with_prefix("blend", numbers) | with_prefix("calibrated", fitted.calibrated_.tensors())
    tensors |= evidence_tensors(fitted.evidence_)
    write_saved(folder, record, tensors)


def _named(estimator: Any) -> Any:
    """Return the names that an estimator was given by, or None for an object."""
    given = estimator if isinstance(estimator, list) else [estimator]
    return estimator if all(isinstance(each, str) for each in given) else None


def _save_member(member: Any, folder: Path, name: str) -> list[MemberRecord]:
    several = member if isinstance(member, list) else [member]
    return [
        save_member(each, folder, name if len(several) == 1 else f"{name}-{place}")
        for place, each in enumerate(several)
    ]


class SavedBlend(Struct):
    """A saved blend, read and checked."""

    record: BlendRecord
    fitted: CrossFittedMembers
    blend: Blend
    calibrated: Calibrated
    decision: DecisionRule | None
    evidence: Evidence | None


def load_blend(folder: Path) -> SavedBlend:
    """Read a blend from an untrusted folder, checking it field by field."""
    path = folder / MODEL_RECORD
    record, tensors = read_saved(folder, BlendRecord)
    classes = labels_from_json(record.classes, record.class_type)
    shape = (len(classes), 2) if record.multilabel else (len(classes),)
    folds = {len(own) for own in record.members}
    files = {len(each) for own in record.members for each in own}
    fits = [len(own) for own in record.members] == [len(own) for own in record.shares] and len(folds) == 1
    fits = fits and files in ({1}, {len(classes) if record.multilabel else 1})
    each = [share for own in record.shares for share in own if share is not None]
    if not fits or any(len(share) != len(classes) for share in each):
        raise InvalidInputError(f"{path} names members that do not fit its classes and folds; {REMEDY}.")
    try:
        calibrated = Calibrated.from_tensors(shape, of_prefix("calibrated", tensors))
        blend = _blend(of_prefix("blend", tensors), len(record.members), shape)
        evidence = evidence_from(tensors, len(classes), several=record.multilabel)
    except EquipoiseError as error:
        raise InvalidInputError(f"{folder / MODEL} is damaged or of another version ({error}); {REMEDY}.") from error
    members = [[_load_member(files, folder / MEMBERS, record) for files in own] for own in record.members]
    shares = [[None if share is None else np.array(share) for share in own] for own in record.shares]
    decision = stored_rule(record.decision, classes, path, several=record.multilabel)
    fitted = CrossFittedMembers(members, shares, classes, record.multilabel)
    return SavedBlend(record, fitted, blend, calibrated, decision, evidence)


def _blend(tensors: dict[str, Tensor], models: int, shape: tuple[int, ...]) -> Blend:
    wanted = {
        "scale": (models, *shape),
        "bias": (models, *shape),
        "weights": (models,),
        "uncertainty": shape,
        "margins": shape,
    }
    for name, size in wanted.items():
        found = tensors.get(name)
        if (
            found is None
            or tuple(found.shape) != size
            or found.dtype != torch.float64
            or not bool(found.isfinite().all())
        ):
            raise InvalidInputError(f"a tensor {name!r} of finite numbers, {size}, was expected")
    low = min(float(tensors[name].min()) for name in ("weights", "uncertainty", "margins", "scale"))
    if low < 0 or abs(float(tensors["weights"].sum()) - 1) > 1e-6:
        raise InvalidInputError(
            "weights, scales, margins or uncertainties are negative, or the weights do not add up to 1"
        )
    scalings = tuple(Scaling(scale, bias) for scale, bias in zip(tensors["scale"], tensors["bias"], strict=True))
    return Blend(scalings, tensors["weights"], tensors["uncertainty"], tensors["margins"])


def _load_member(files: list[MemberRecord], folder: Path, record: BlendRecord) -> Any:
    """Read a member, and check that it predicts the blend's classes."""
    found = [load_member(each, folder) for each in files]
    most = 2 if record.multilabel else len(record.classes)
    for each in found:
        if is_frozen(each):
            continue
        classes = np.asarray(getattr(each, "classes_", None))
        whole = classes.ndim == 1 and classes.dtype.kind in "iu" and len(classes) > 0
        if not (whole and classes.min() >= 0 and classes.max() < most):
            raise InvalidInputError(f"{folder} holds a member of other classes than the blend's; {REMEDY}.")
    one = len(found) == 1
    if record.multilabel and one and not is_frozen(found[0]):
        raise InvalidInputError(f"{folder} holds one member for several labels; {REMEDY}.")
    return found[0] if one else found


def unfitted(members: list[list[Any]]) -> Any:
    """Return the classifiers that members are copies of, one alone as it is; a trained model is returned unchanged."""
    found = [_one_unfitted(own) for own in members]
    return found[0] if len(found) == 1 else found


def _one_unfitted(members: list[Any]) -> Any:
    flat = [each for member in members for each in (member if isinstance(member, list) else [member])]
    own = next((each for each in flat if not isinstance(each, DummyClassifier)), flat[0])
    if is_frozen(own):
        return own
    model = clone(own)
    seeds = [name for name in model.get_params() if name.rpartition("__")[2] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds))
