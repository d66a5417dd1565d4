"""Parts of a stored classifier that skops does not describe, each kind in its own format.

scikit-learn's trees are arrays, boosted models are the text that their own library writes, networks are as they save
themselves.
"""

import functools
import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from equipoise.errors import EquipoiseError, InvalidInputError
from equipoise.estimators.pickle_free.booster_files import (
    is_fitted,
    new_booster,
    read_catboost,
    read_lightgbm,
    read_xgboost,
    record_of,
    write_catboost,
    write_lightgbm,
    write_xgboost,
)
from equipoise.estimators.pickle_free.booster_text import BoosterRecord
from equipoise.estimators.pickle_free.tree_arrays import (
    Arrays,
    predictors_from_arrays,
    predictors_to_arrays,
    require,
    trees_from_arrays,
    trees_to_arrays,
)
from equipoise.storage.records import as_record
from equipoise.storage.run_files import MODEL, MODEL_RECORD
from equipoise.storage.size_limits import parse_json

REMEDY = "save the model again"
MOST_CHECKS = 10_000
Files = dict[str, bytes]


class PartKind(NamedTuple):
    """A kind of object that is stored beside skops in its own format.

    Args:
        class_path: class of the objects; a subclass is another kind.
        write: returns the files of all such objects inside a model.
        read: builds the objects from these files; raises ValueError if one is invalid.
    """

    class_path: str
    write: Callable[[Sequence[Any]], Files]
    read: Callable[[Mapping[str, bytes]], list[Any]]


def _as_arrays(
    class_path: str, write: Callable[[Sequence[Any]], Arrays], read: Callable[[Arrays], list[Any]]
) -> PartKind:
    def to_files(parts: Sequence[Any]) -> Files:
        return {f"{name}.npy": array_bytes(array) for name, array in write(parts).items()}

    def from_files(files: Mapping[str, bytes]) -> list[Any]:
        return read({name.removesuffix(".npy"): read_array(content) for name, content in files.items()})

    return PartKind(class_path, to_files, from_files)


def _as_text(
    class_path: str, write: Callable[[Any, BoosterRecord], bytes], read: Callable[[Any, BoosterRecord, bytes], None]
) -> PartKind:
    package, name = class_path.partition(".")[0], class_path.rpartition(".")[2]

    def to_files(parts: Sequence[Any]) -> Files:
        files = {}
        for place, model in enumerate(parts):
            record = record_of(model)
            try:
                files[f"{place}.txt"] = write(model, record) if is_fitted(model) else b""
            except EquipoiseError:
                raise
            except (LookupError, TypeError, ValueError) as error:
                raise InvalidInputError(
                    f"this {name} is not stored: {error}; use its default kind of trees."
                ) from error
            files[f"{place}.json"] = json.dumps(msgspec.structs.asdict(record)).encode()
        return files

    def from_files(files: Mapping[str, bytes]) -> list[Any]:
        return [one(files[f"{place}.json"], files[f"{place}.txt"]) for place in range(len(files) // 2)]

    def one(told: bytes, text: bytes) -> Any:
        record = as_record(parse_json(told), BoosterRecord, f"a {name}", remedy=REMEDY)
        model = new_booster(package, name, record.parameters)
        try:
            if text:
                read(model, record, text)
        except EquipoiseError:
            raise
        except Exception as error:  # each library has its own family of errors
            raise ValueError(f"it holds a {name} that cannot be read") from error
        return model

    return PartKind(class_path, to_files, from_files)


def _checks_to_files(parts: Sequence[Any]) -> Files:
    """Return the files of HistGradientBoosting's own checks of categorical columns; refuse any other partial."""
    ours = _input_check()
    if not all((part.func, part.args, part.keywords) == (ours.func, ours.args, ours.keywords) for part in parts):
        raise InvalidInputError("the model contains a functools.partial, which is not stored without pickle.")
    return {"count.json": str(len(parts)).encode()}


def _checks_from_files(files: Mapping[str, bytes]) -> list[Any]:
    return [_input_check()] * min(int(files["count.json"]), MOST_CHECKS)


def _input_check() -> Any:
    from sklearn.utils import check_array

    return functools.partial(check_array, dtype=[np.float64], ensure_all_finite=False)


def _networks_to_files(parts: Sequence[Any]) -> Files:
    files: dict[str, bytes] = {}
    for place, model in enumerate(parts):
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            files |= {f"{place}.{name}": (Path(folder) / name).read_bytes() for name in (MODEL, MODEL_RECORD)}
    return files


def _networks_from_files(files: Mapping[str, bytes]) -> list[Any]:
    from equipoise.estimators.network import UncertaintyBalancedClassifier

    found = []
    for place in range(len(files) // 2):
        with tempfile.TemporaryDirectory() as folder:
            for name in (MODEL, MODEL_RECORD):
                (Path(folder) / name).write_bytes(files[f"{place}.{name}"])
            found.append(UncertaintyBalancedClassifier.load(folder))
    return found


PARTS: dict[str, PartKind] = {
    "networks": PartKind(
        "equipoise.estimators.network.UncertaintyBalancedClassifier", _networks_to_files, _networks_from_files
    ),
    "checks": PartKind("functools.partial", _checks_to_files, _checks_from_files),
    "trees": _as_arrays("sklearn.tree._tree.Tree", trees_to_arrays, trees_from_arrays),
    "boosting": _as_arrays(
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", predictors_to_arrays, predictors_from_arrays
    ),
    "lightgbm": _as_text("lightgbm.sklearn.LGBMClassifier", write_lightgbm, read_lightgbm),
    "xgboost": _as_text("xgboost.sklearn.XGBClassifier", write_xgboost, read_xgboost),
    "catboost": _as_text("catboost.core.CatBoostClassifier", write_catboost, read_catboost),
}
"""Kinds by their folder inside a member's file."""


def array_bytes(array: Any) -> bytes:
    """Return an array as bytes of NumPy's own format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def read_array(content: bytes) -> Any:
    """Read an array whose header claims exactly the bytes that follow: NumPy allocates whatever a header claims."""
    file = io.BytesIO(content)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, kind = read[np.lib.format.read_magic(file)](file)
    size = int(np.prod(shape, dtype=object)) * kind.itemsize
    require(not kind.hasobject and size == len(content) - file.tell(), "an array of another size than its header says")
    file.seek(0)
    return np.load(file, allow_pickle=False)
