"""From a user's X to rows of numbers: checked, and encoded where a frame has more than numbers."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from equipoise.data.data_frames import needs_encoding
from equipoise.data.encoder import TableEncoder
from equipoise.data.labels import column_or_matrix, plain_array, plain_labels
from equipoise.data.samples import rows_of
from equipoise.errors import InvalidInputError
from equipoise.estimators.member_outputs import is_frozen
from equipoise.models.picture_features import installed_pictures

Array = NDArray[Any]


def checked_table(X: Any) -> Any:
    """Return X unchanged if it has rows and loses nothing as a numpy array."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) < 2:
        raise InvalidInputError(
            f"X must have rows and columns, got the shape {shape}. Reshape your data: X.reshape(-1, 1) for a single "
            "column, X.reshape(1, -1) for a single row."
        )
    return plain_array(X, "X")


def checked_labels(y: Any) -> Array:
    """Return labels as an array."""
    found: Array = check_array(plain_labels(y), ensure_2d=False, dtype=None, input_name="y")
    return found


def fit_encoder(estimator: Any, table: Any, labels: Array, groups: ArrayLike | None = None) -> Array:
    """Learn to encode a frame's columns as numbers, as the estimator's ``encoder_``, and return the training rows."""
    validate_data(estimator, table, skip_check_array=True)
    check_consistent_length(table, labels)
    encoder = estimator.encoder_ = clone(estimator.encoder or TableEncoder(pictures=installed_pictures()))
    encoder.set_output(transform="default")  # models take arrays, whatever scikit-learn's configuration asks for
    rows: Array = encoder.fit_transform(table, column_or_matrix(labels), groups)
    return rows


def network_samples(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Check X and y for the fit of a network; images are not copied."""
    estimator.encoder_ = None
    if rows_of(X).from_files:
        labels = checked_labels(y)
        check_consistent_length(X, labels)
        estimator.n_features_in_ = X.shape[1]  # channels
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit to a frame
        return X, labels
    table, own = checked_table(X), estimator.backbone is not None
    if not own and hasattr(table, "columns") and (estimator.encoder is not None or needs_encoding(table)):
        labels = checked_labels(y)
        return fit_encoder(estimator, table, labels), labels
    checks = {"multi_output": True, "ensure_min_samples": 2, "dtype": _network_dtypes(estimator, X)}
    x, labels = validate_data(estimator, table, plain_labels(y), allow_nd=own, **checks)
    return x, labels


def network_rows(estimator: Any, X: Any) -> Any:
    """Check X for the prediction of a network against what was fitted."""
    if estimator.encoder_ is not None:
        table = checked_table(X)
        validate_data(estimator, table, reset=False, skip_check_array=True)
        return estimator.encoder_.transform(table)
    channels = estimator.n_features_in_
    if not rows_of(X).from_files:
        kinds, own = _network_dtypes(estimator, X), estimator.backbone is not None
        return validate_data(estimator, checked_table(X), dtype=kinds, allow_nd=own, reset=False)
    if X.shape[1] != channels:
        raise InvalidInputError(
            f"the model was fitted to images of {channels} channels, got {X.shape[1]}; read them with "
            f"channels={channels}."
        )
    return X


def _network_dtypes(estimator: Any, X: Any) -> Any:
    """Return the dtypes that X may have or must be converted to.

    Tables are standardised in float64, and stay float32 only if it holds their values exactly. A backbone with
    ``takes_bytes``, as ours for images, scales bytes itself, so that images take a quarter of the memory.
    """
    if estimator.backbone is not None:
        return (np.float32, np.uint8) if getattr(estimator.backbone, "takes_bytes", False) else np.float32
    given = getattr(X, "dtype", None)
    exact = isinstance(given, np.dtype) and np.can_cast(given, np.float32)
    return np.float32 if exact else np.float64


def blend_samples(estimator: Any, X: Any, y: Any, groups: ArrayLike | None) -> tuple[Any, Array]:
    """Check X and y for the fit of a blend, and learn to encode columns that are not numbers."""
    if y is None:
        raise InvalidInputError("BalancedClassifier requires y to be passed, but the target y is None.")
    labels, table = checked_labels(y), checked_table(X)
    if hasattr(table, "tocsr"):
        check_array(table)  # refuses it, in scikit-learn's own words
    own = estimator._as_they_are = _prepares_rows(estimator.estimator)
    encode = not own and (needs_encoding(table) or (estimator.encoder is not None and hasattr(table, "columns")))
    if encode and _prepares_rows(estimator.estimator, all_of_them=False):
        raise InvalidInputError(
            "pipelines take a frame as it is and other classifiers take numbers; blend pipelines only, or encode the "
            "frame with TableEncoder first."
        )
    if encode:
        rows: Any = fit_encoder(estimator, table, labels, groups)
    else:
        estimator.encoder_ = None
        validate_data(estimator, table, skip_check_array=True)
        rows = table if own and hasattr(table, "iloc") else _numbers(estimator, table, first=True)
        check_consistent_length(rows, labels)
    if len(labels) < 2:
        raise InvalidInputError(f"Found array with {len(labels)} sample(s) while a minimum of 2 is required.")
    return rows, labels


def blend_rows(estimator: Any, table: Any) -> Any:
    """Check rows for the prediction of a blend against what was fitted."""
    validate_data(estimator, table, reset=False, skip_check_array=True)
    return table if estimator._as_they_are and hasattr(table, "iloc") else _numbers(estimator, table)


def _numbers(estimator: Any, table: Any, *, first: bool = False) -> Array:
    """Return rows as a matrix of finite numbers."""
    if estimator.encoder_ is not None:
        encoded: Array = estimator.encoder_.transform(table)
        return encoded
    own = estimator._as_they_are
    if not first and not own and needs_encoding(table):
        raise InvalidInputError(
            "X must hold numbers, as in training, got text or missing values; fill them in, or fit to such rows."
        )
    checks: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan" if own else True}
    found: Array = check_array(table, ensure_min_samples=2 if first else 1, estimator=estimator, **checks)
    return found


def _prepares_rows(estimator: Any, *, all_of_them: bool = True) -> bool:
    """Return whether the user's estimator takes unencoded rows: a pipeline, or an already trained model."""
    given = estimator if isinstance(estimator, list | tuple) else [estimator]
    own = [isinstance(each, Pipeline) or is_frozen(each) for each in given]
    return all(own) if all_of_them else any(own)
