"""Write and read what all saved models share: labels, columns, rule and history in ``model.json``, and tensors.

Nothing in these files can run code.
"""

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import safetensors
import torch
from msgspec import Meta, Struct
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.encoder import TableEncoder
from equipoise.decisions import DecisionRule, Evidence, rule_from_json
from equipoise.errors import InvalidInputError, readable
from equipoise.models.picture_features import installed_pictures
from equipoise.storage.files import write_atomically, write_tensors, writing_into
from equipoise.storage.records import MOST_CLASSES, AtLeastOne, Name, read_json
from equipoise.storage.run_files import MODEL, MODEL_RECORD
from equipoise.storage.size_limits import load_tensors
from equipoise.training.checkpoints import of_prefix, with_prefix

FORMAT = 1
REMEDY = "save the model again"
KINDS = (torch.float32, torch.float64, torch.int64)
"""Allowed types of the tensors stored beside a network."""
LARGEST_RECORD = 2**28
"""Largest size of a ``model.json``, so that an untrusted file cannot fill the memory."""


class SavedRecord(Struct, kw_only=True):
    """The fields of every ``model.json``."""

    format: int
    parameters: dict[str, Any]
    classes: Annotated[list[Any], Meta(max_length=MOST_CLASSES)]
    class_type: Annotated[str, Meta(max_length=20)]
    columns: AtLeastOne
    column_names: list[Name] | None
    history: dict[str, Any]
    decision: dict[str, Any] | None = None
    encoder: dict[str, Any] | None = None


Record = TypeVar("Record", bound=SavedRecord)


def write_saved(folder: Path, record: SavedRecord, tensors: dict[str, Tensor]) -> None:
    """Write both files atomically, ``model.json`` last: a folder with that file is complete."""
    with writing_into(folder, "a model"):
        write_tensors(folder / MODEL, tensors)
        write_atomically(folder / MODEL_RECORD, json.dumps(msgspec.to_builtins(record), indent=1).encode())


def read_saved(folder: Path, kind: type[Record]) -> tuple[Record, dict[str, Tensor]]:
    """Read both files of an untrusted folder: the record, checked field by field, and the tensors by name."""
    for name in (MODEL_RECORD, MODEL):
        if not (folder / name).exists():
            raise InvalidInputError(f"{folder} is not a saved model: {name} is missing.")
    path = folder / MODEL_RECORD
    record = read_json(path, kind, remedy=REMEDY, most_bytes=LARGEST_RECORD)
    if record.format != FORMAT:
        raise InvalidInputError(f"{path} has format {record.format}, this version reads {FORMAT}; update equipoise.")
    with readable(folder / MODEL, REMEDY, safetensors.SafetensorError):
        return record, load_tensors(folder / MODEL)


def common_record(estimator: Any) -> dict[str, Any]:
    """Return the fields common to all records: labels, columns, their encoding, the rule and the history."""
    names = getattr(estimator, "feature_names_in_", None)
    classes, class_type = labels_to_json(estimator.classes_)
    return {
        "format": FORMAT,
        "classes": classes,
        "class_type": class_type,
        "columns": estimator.n_features_in_,
        "column_names": None if names is None else [str(name) for name in names],
        "encoder": None if estimator.encoder_ is None else estimator.encoder_.to_json(),
        "decision": None if estimator.decision is None else estimator.decision.to_json(),
        "history": estimator.history_,
    }


def restore_common(estimator: Any, record: Any, classes: NDArray[Any]) -> None:
    """Restore what :func:`common_record` returned, except the rule."""
    estimator.classes_, estimator.n_features_in_, estimator.history_ = classes, record.columns, record.history
    if record.column_names is not None:
        estimator.feature_names_in_ = np.array(record.column_names, dtype=object)
    estimator.encoder_ = None
    if record.encoder is not None:
        encoder = TableEncoder.from_json(record.encoder, installed_pictures())
        estimator.encoder_ = encoder.set_output(transform="default")


def evidence_tensors(evidence: Evidence | None) -> dict[str, Tensor]:
    """Return the tensors to store of the rows that rules are chosen on."""
    arrays = {} if evidence is None else evidence.arrays()
    return with_prefix("evidence", {name: torch.from_numpy(values) for name, values in arrays.items()})


def evidence_from(tensors: dict[str, Tensor], size: int, *, several: bool) -> Evidence | None:
    """Restore :func:`evidence_tensors` from an untrusted file; None if the model has none."""
    found = of_prefix("evidence", tensors)
    plain = {name: tensor.numpy() for name, tensor in found.items() if tensor.dtype in KINDS}
    return Evidence.of_arrays(plain, size, several=several) if found else None


def stored_rule(value: Any, classes: NDArray[Any], where: Path, *, several: bool) -> DecisionRule | None:
    """Read the rule of a saved model, and check that it names only the model's classes."""
    if value is None:
        return None
    found = rule_from_json(value, where)
    found.check(tuple(classes.tolist()), several=several)
    return found


def labels_to_json(classes: NDArray[Any]) -> tuple[list[Any], str]:
    """Return labels as JSON, and the type of the array they came from."""
    values = classes.tolist()
    if classes.dtype.kind not in "iufbUO" or any(not isinstance(value, str | int | float) for value in values):
        raise InvalidInputError(f"labels of type {classes.dtype} cannot be saved; use strings, numbers or booleans.")
    return values, "O" if classes.dtype.kind == "O" else classes.dtype.str


def labels_from_json(values: list[Any], class_type: str) -> NDArray[Any]:
    """Restore labels from :func:`labels_to_json`."""
    try:
        if class_type.lstrip("<>|=").startswith("a"):  # an old name of bytes, which NumPy warns about
            raise TypeError(f"the type {class_type!r}")
        kind = np.dtype(class_type)
        if kind.kind not in "iufbUO":
            raise TypeError(f"a type of kind {kind.kind!r}")
        if kind.kind == "U":  # as long as the labels: a file may claim millions of characters each
            kind = np.dtype(f"{kind.str[0]}U{max((len(str(value)) for value in values), default=1)}")
        return np.array(values, dtype=kind)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{MODEL_RECORD} names labels of an unsupported type: {error}.") from error
