"""Probabilities of a blend's members: of those fitted here, and of models that were trained elsewhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from equipoise.data.labels import label_places
from equipoise.errors import InvalidInputError

Array = NDArray[Any]
Member = Any
"""A fitted classifier; for several labels a list of them, one for each attribute, or one trained model of all."""
ROWS_AT_ONCE = 50_000
LOOKED_AT = 1000
"""Rows used to recognise what kind of probabilities a trained model gives."""


def is_frozen(estimator: Any) -> bool:
    """Return whether a model is already trained and must not be fitted again."""
    return isinstance(estimator, FrozenEstimator)


def take(x: Any, rows: Any) -> Any:
    """Return some rows of an array or a data frame."""
    return x.iloc[rows] if hasattr(x, "iloc") else x[rows]


def member_probabilities(
    member: Member, x: Any, classes: int, *, known: Array | None = None, several: bool = False
) -> NDArray[np.float64]:
    """Return a member's probabilities, (rows, classes), or (rows, attributes, 2); 0 for a class it has not seen.

    Args:
        classes: how many there are, or how many attributes.
        known: the labels whose places are the class numbers, of a model trained elsewhere; None where it was fitted to
            class numbers.
        several: whether a row has several labels.
    """
    if isinstance(member, list):
        return np.stack([member_probabilities(each, x, 2) for each in member], axis=1)
    if not hasattr(member, "predict_proba"):
        raise InvalidInputError(without_probabilities(member))
    if several:
        parts = [_attributes(member, part, classes) for part in _parts(x)]
        ones = np.concatenate(parts) if parts else np.zeros((0, classes))
        return np.stack((1 - ones, ones), axis=-1)
    places = np.asarray(member.classes_)
    places = places.astype(np.intp) if known is None else label_places(places, known)
    found = np.zeros((len(x), classes))
    at = 0
    for part in _parts(x):
        given = np.asarray(member.predict_proba(part), dtype=np.float64)
        if given.shape != (len(part), len(places)):
            raise InvalidInputError(
                f"{type(member).__name__}.predict_proba must give (rows, {len(places)}), got {given.shape}."
            )
        found[at : at + len(part), places[places >= 0]] = given[:, places >= 0]
        at += len(part)
    return found


def _parts(x: Any) -> list[Any]:
    return [take(x, slice(at, at + ROWS_AT_ONCE)) for at in range(0, len(x), ROWS_AT_ONCE)]


def _attributes(model: Any, x: Any, attributes: int) -> NDArray[np.float64]:
    """Return the probability of each attribute being 1, (rows, attributes), by a model of all of them.

    scikit-learn's models give either that, or a list of the probabilities of each attribute's own classes.
    """
    given = model.predict_proba(x)
    if isinstance(given, list):
        columns = [_of_one(np.asarray(p), np.asarray(own)) for p, own in zip(given, model.classes_, strict=True)]
        given = np.stack(columns, axis=1)
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (len(x), attributes):
        raise InvalidInputError(
            f"a model of {attributes} labels must give each row the probability of each label being 1, "
            f"({len(x)}, {attributes}), got {found.shape}; pass a model that was trained on these labels."
        )
    return found


def _of_one(p: NDArray[np.float64], classes: Array) -> NDArray[np.float64]:
    """Return the probability of 1, which a model may never have seen.

    >>> _of_one(np.array([[0.3, 0.7]]), np.array([0, 1])), _of_one(np.array([[1.0]]), np.array([0]))
    (array([0.7]), array([0.]))
    """
    return np.asarray(p @ (classes == 1).astype(np.float64))


def check_frozen(estimators: Sequence[Any], x: Any, classes: Array, target: Tensor) -> bool:
    """Return whether the models are already trained; if so, check that they cover the labels."""
    trained = [each for each in estimators if is_frozen(each)]
    if 0 < len(trained) < len(estimators):
        raise InvalidInputError("a FrozenEstimator cannot be blended with models yet to be fitted; freeze all or none.")
    for each in trained:
        check_is_fitted(each)
        if target.ndim == 1:
            _check_labels(each, x, classes)
        else:
            _check_attributes(each, x, target.numpy())
    return bool(trained)


def _check_labels(estimator: Any, x: Any, classes: Array) -> None:
    """Raise an error for a trained model that lacks some of the labels, or predicts several per row."""
    if isinstance(estimator.classes_, list):
        raise InvalidInputError(
            "the trained model gives several labels per row, and y has one; pass y as a 0/1 matrix with its columns."
        )
    known = np.asarray(estimator.classes_)
    if len(set(known.tolist())) < len(known):
        raise InvalidInputError(f"the model's classes must differ, got {known.tolist()[:5]}; name each once.")
    unknown = classes[label_places(classes, known) < 0]
    if len(unknown):
        raise InvalidInputError(
            f"y must hold labels that the model was trained on, {', '.join(map(repr, known.tolist()[:5]))}; got "
            f"{', '.join(map(repr, unknown.tolist()[:5]))}."
        )
    p = member_probabilities(estimator, take(x, slice(0, LOOKED_AT)), len(known), known=known)
    if not np.allclose(p.sum(1), 1, atol=0.01):
        raise InvalidInputError(
            "the trained model's probabilities must add up to 1 in each row, and some do not; if it gives several "
            "labels per row, pass y as a 0/1 matrix with its columns."
        )


def _check_attributes(estimator: Any, x: Any, labels: Array) -> None:
    """Refuse a trained model whose rows have one label where y has several.

    Args:
        x: the rows to fit to.
        labels: 0 and 1, (rows, attributes).
    """
    p = _attributes(estimator, take(x, slice(0, LOOKED_AT)), labels.shape[1])
    if np.allclose(p.sum(1), 1) and not (labels.sum(1) == 1).all():
        raise InvalidInputError(
            "the probabilities add up to 1 in each row, so they are of one label, and y has several; pass those of a "
            "model that was trained on the 0/1 matrix."
        )


def without_probabilities(estimator: Any) -> str:
    """Return the sentence that refuses a classifier without ``predict_proba``."""
    return (
        f"estimator must be a classifier with predict_proba, got {type(estimator).__name__} without; wrap it in "
        "CalibratedClassifierCV."
    )
