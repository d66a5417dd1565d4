"""LightGBM, XGBoost and CatBoost classifiers in their own text formats, plus what their scikit-learn wrappers need."""

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InvalidInputError
from equipoise.estimators.pickle_free.booster_text import BoosterRecord, clean_catboost, clean_lightgbm, clean_xgboost
from equipoise.estimators.pickle_free.tree_arrays import require
from equipoise.estimators.saved_model import labels_from_json, labels_to_json
from equipoise.storage.size_limits import parse_json


def record_of(model: Any) -> BoosterRecord:
    """Describe a classifier; refuse parameters that are not plain values."""
    parameters = {name: _plain(name, value) for name, value in model.get_params().items()}
    if not is_fitted(model):
        return BoosterRecord(parameters=parameters)
    classes, class_type = labels_to_json(np.asarray(model.classes_))
    best = int(getattr(model, "_best_iteration", None) or 0)  # only LightGBM: the others store it in their text
    return BoosterRecord(
        parameters=parameters,
        classes=classes,
        class_type=class_type,
        features=int(model.n_features_in_),
        objective=str(getattr(model, "objective_", "") or ""),
        best_iteration=max(best, 0),
    )


def is_fitted(model: Any) -> bool:
    """Return whether a classifier is fitted; the template inside a calibrated one is not."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _plain(name: str, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the parameter {name!r} is of the type {type(value).__name__}, which needs pickle to be stored; pass "
            "a number, a string, a list or a dict."
        ) from error


def new_booster(package: str, name: str, parameters: dict[str, Any]) -> Any:
    """Return an unfitted classifier of an optional package."""
    try:
        kind = getattr(import_module(package), name)
    except ImportError as error:
        raise InvalidInputError(
            f"a member of this model is a {name}, and {package} is not installed; pip install {package}."
        ) from error
    for parameter in parameters:  # LightGBM accepts any as an attribute
        require(not parameter.startswith("_") and not callable(getattr(kind, parameter, None)), "an odd parameter")
    return kind(**parameters)


def write_lightgbm(model: Any, record: BoosterRecord) -> bytes:
    """Return all trees, including those after the best iteration."""
    return clean_lightgbm(model.booster_.model_to_string(num_iteration=-1), record).encode()


def read_lightgbm(model: Any, record: BoosterRecord, text: bytes) -> None:
    """Restore a classifier from its text."""
    from sklearn.preprocessing import LabelEncoder

    classes = labels_from_json(record.classes, record.class_type)
    booster = import_module("lightgbm").Booster(model_str=clean_lightgbm(text.decode(), record))
    booster.best_iteration = record.best_iteration or -1
    model._Booster, model._best_iteration, model._objective = booster, record.best_iteration, record.objective
    model._le = LabelEncoder().fit(classes)
    model._classes, model._n_classes = model._le.classes_, len(classes)
    model._class_map = {label: place for place, label in enumerate(model._classes)}
    model._n_features = model._n_features_in = record.features
    model._fitted_with_feature_names = booster.feature_name() != [f"Column_{n}" for n in range(record.features)]
    model.fitted_ = True


def write_xgboost(model: Any, record: BoosterRecord) -> bytes:
    """Return XGBoost's JSON."""
    return json.dumps(clean_xgboost(json.loads(bytes(model.get_booster().save_raw("json"))), record)).encode()


def read_xgboost(model: Any, record: BoosterRecord, text: bytes) -> None:
    """Restore a classifier from its text."""
    model.load_model(bytearray(json.dumps(clean_xgboost(parse_json(text), record)).encode()))
    require(np.asarray(model.classes_).tolist() == record.classes, "a model of other classes")


def write_catboost(model: Any, record: BoosterRecord) -> bytes:
    """Return CatBoost's JSON, with the leaves apart: CatBoost writes and reads their last digits inexactly."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        text = json.loads(path.read_bytes())
    if "oblivious_trees" not in text or set(text["features_info"]) != {"float_features"}:
        raise InvalidInputError(
            "a CatBoostClassifier is stored with columns of numbers and grow_policy='SymmetricTree' only; encode "
            "categories and text before it."
        )
    leaves = model.get_leaf_values()
    return json.dumps({"model": clean_catboost(text, leaves, record), "leaf_values": leaves.tolist()}).encode()


def read_catboost(model: Any, record: BoosterRecord, text: bytes) -> None:
    """Restore a classifier from its text."""
    stored = parse_json(text)
    leaves = np.array(stored["leaf_values"], np.float64)
    require(leaves.ndim == 1 and bool(np.isfinite(leaves).all()), "a leaf that is not finite")
    checked = clean_catboost(stored["model"], leaves, record)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_text(json.dumps(checked))
        model.load_model(str(path), format="json")
    model.set_leaf_values(leaves)
    model._n_features_in, model._init_params = record.features, dict(record.parameters)
    require(np.asarray(model.classes_).tolist() == record.classes, "a model of other classes")
