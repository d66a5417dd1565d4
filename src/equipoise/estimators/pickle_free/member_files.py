"""Fitted classifiers of other libraries on disk without pickle: one file each, and nothing in it can run code.

A file is a zip archive: the estimator's attributes as skops describes them, restricted to an explicit list of types,
and beside them its *parts*, in the formats of ``PARTS``. Trees never pass through skops: each is checked when built.
"""

import copy
import io
import json
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Struct

from equipoise.errors import EquipoiseError, EquipoiseWarning, InvalidInputError, reason
from equipoise.estimators.pickle_free.model_checks import check_model
from equipoise.estimators.pickle_free.object_graph import substitute, walk
from equipoise.estimators.pickle_free.parts import PARTS, REMEDY, read_array
from equipoise.estimators.pickle_free.tree_arrays import require
from equipoise.estimators.pickle_free.trusted_types import PLAIN, check_types, entries, trusted_types, type_name
from equipoise.storage.files import check_plain, read_plain, write_atomically, writing_into
from equipoise.storage.records import Name
from equipoise.storage.size_limits import check_unpacked, most_unpacked, parse_json
from equipoise.storage.versions import package_version

LARGEST = 2**31
PLACEHOLDER = "equipoise part: "


class MemberRecord(Struct, kw_only=True):
    """JSON record of a stored member: its file, its class, and the version of the library that fitted it."""

    file: Name
    class_path: Name
    version: Name


def save_member(model: Any, folder: Path, name: str) -> MemberRecord:
    """Write a fitted classifier to ``folder/<name>.skops`` atomically.

    Random generators and what resamplers learnt are left out: no prediction needs them.

    Args:
        model: a classifier or pipeline of scikit-learn or imbalanced-learn, or one of LightGBM, XGBoost or CatBoost,
            alone or inside others.
        folder: where to write; created if missing.
        name: of the file, without its suffix.

    Returns:
        The record that :func:`load_member` needs to read it.
    """
    shown = type(model).__name__
    content = _packed(model, shown)
    record = MemberRecord(file=f"{name}.skops", class_path=type_name(type(model)), version=_version(model))
    _check_read_back(content, record)
    with writing_into(folder, "a model"):
        write_atomically(folder / record.file, content)
    return record


def check_storable(model: Any) -> None:
    """Raise an error for an unfitted estimator of a class that :func:`save_member` would refuse."""
    known = trusted_types() | {kind.class_path for kind in PARTS.values()}
    for found in walk(model):
        kind = type_name(type(found))
        if hasattr(found, "get_params") and kind not in known:
            raise InvalidInputError(
                f"a {kind} cannot be stored without pickle; use forests, boosting, linear models or networks of "
                "scikit-learn, LightGBM, XGBoost or CatBoost."
            )


def load_member(record: MemberRecord, folder: Path) -> Any:
    """Read a classifier written by :func:`save_member`; its predictions are bit-identical.

    The file may be untrusted: types outside an explicit list, trees that lead out of their arrays, coefficients
    that are not finite and archives that unpack to far more than their size are refused.
    """
    if Path(record.file).name != record.file or record.file in ("", ".", ".."):
        raise InvalidInputError(f"a member's file must lie in the folder of its model, got {record.file!r}; {REMEDY}.")
    path = folder / record.file
    try:
        check_plain(path, most_bytes=LARGEST)
        model = _unpacked(path)
        check_model(model, where=path)
    except EquipoiseError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({reason(error)}); {REMEDY}.") from error
    except Exception as error:  # estimators in an odd state raise anything
        raise InvalidInputError(f"{path} is damaged, or its parts contradict each other; {REMEDY}.") from error
    if type_name(type(model)) != record.class_path:
        raise InvalidInputError(f"{path} holds a {type(model).__name__}, but its record names another class; {REMEDY}.")
    if _version(model) != record.version:
        sentence = f"{path} was saved with {record.version}, and {_version(model)} is installed."
        warnings.warn(sentence, EquipoiseWarning, stacklevel=2)
    return model


def _packed(model: Any, shown: str) -> bytes:
    import skops.io
    from imblearn.base import SamplerMixin

    check_model(model, where="the model")
    parts: dict[str, list[Any]] = {name: [] for name in PARTS}
    kinds = {kind.class_path: name for name, kind in PARTS.items()}
    others: dict[int, Any] = {}  # replacements for deepcopy
    for found in list(walk(model)):
        kind = kinds.get(type_name(type(found)))
        if kind is not None:
            others[id(found)] = f"{PLACEHOLDER}{kind} {len(parts[kind])}"
            parts[kind].append(found)
        elif isinstance(found, SamplerMixin):
            others[id(found)] = _unfitted(found)
        elif isinstance(found, np.random.RandomState | np.random.Generator):
            others[id(found)] = None
        elif isinstance(found, pd.Index):  # the columns of a ColumnTransformer
            others[id(found)] = found.tolist()
    try:
        described = skops.io.dumps(copy.deepcopy(model, others))
    except Exception as error:  # an object's own way of being copied may raise anything
        raise InvalidInputError(f"a {shown} cannot be stored without pickle ({error}).") from error
    with zipfile.ZipFile(io.BytesIO(described)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(files["schema.json"])
    check_types(schema, where=f"the {shown}")
    files["schema.json"] = json.dumps(schema, separators=(",", ":")).encode()  # a third of skops' indented JSON
    for kind, found in parts.items():
        files |= {f"{kind}/{name}": content for name, content in (PARTS[kind].write(found) if found else {}).items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _check_read_back(content: bytes, record: MemberRecord) -> None:
    """Raise an error for what could not be read back."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / record.file).write_bytes(content)
        try:
            load_member(record, Path(folder))
        except InvalidInputError as error:
            why = error.__cause__ or error
            raise InvalidInputError(f"a {record.class_path} cannot be stored without pickle ({why}).") from error


def _unfitted(sampler: Any) -> Any:
    """Return a resampler without its training rows, but with the columns that its pipeline asks for."""
    from sklearn.base import clone

    copied = clone(sampler)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(sampler, name):
            setattr(copied, name, getattr(sampler, name))
    return copied


def _unpacked(path: Path) -> Any:
    import skops.io
    from sklearn.exceptions import InconsistentVersionWarning

    content = read_plain(path, most_bytes=LARGEST)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        check_unpacked(path, sum(info.file_size for info in archive.infolist()), remedy=REMEDY)
        schema = parse_json(archive.read("schema.json"))
        check_types(schema, where=path)
        named = [entry["file"] for entry in entries(schema) if "file" in entry]
        require(sum(sizes[name] for name in named) <= most_unpacked(path), "the same array too often")
        for name in sizes:
            if name.endswith(".npy"):
                read_array(archive.read(name))
        parts = {kind: _read_parts(kind, archive) for kind in PARTS}
    with warnings.catch_warnings():  # the record reports other versions, once for all objects
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        model = skops.io.loads(content, trusted=sorted(trusted_types() | PLAIN))

    def part(value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith(PLACEHOLDER):
            return value
        kind, place = value.removeprefix(PLACEHOLDER).split(" ")
        require(place.isdecimal(), "a part without a number")
        return parts[kind][int(place)]

    return substitute(model, part)


def _read_parts(kind: str, archive: zipfile.ZipFile) -> list[Any]:
    names = [name for name in archive.namelist() if name.startswith(f"{kind}/")]
    return PARTS[kind].read({name.removeprefix(f"{kind}/"): archive.read(name) for name in names}) if names else []


def _version(model: Any) -> str:
    """Return the package that the class comes from, and its version."""
    return package_version(type(model).__module__.split(".")[0])
