"""Probabilities for another class mix than the one they were made for."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError


def move_prior(probabilities: ArrayLike, *, old: ArrayLike, new: ArrayLike) -> NDArray[Any]:
    """Bayes' rule: p(c | x) at the class mix ``new``, from p(c | x) at the class mix ``old``.

    Args:
        probabilities: (rows, classes), or (rows, attributes, 2).
        old, new: one share a class, (classes,) or (attributes, 2); of any scale.

    >>> move_prior([[0.5, 0.5]], old=[0.5, 0.5], new=[0.9, 0.1])
    array([[0.9, 0.1]])
    """
    given = np.asarray(probabilities, dtype=np.float64)
    moved = given * _shares(new, given.shape[1:]) / _shares(old, given.shape[1:])
    return np.asarray(moved / moved.sum(-1, keepdims=True))


def _shares(prior: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    shares = np.asarray(prior, dtype=np.float64)
    fits = shares.shape == shape and bool((np.isfinite(shares) & (shares >= 0)).all())
    if not fits or not bool((shares.sum(-1) > 0).all()):
        raise InvalidInputError(
            f"target_prior must hold one share a class, {shape}, none negative; got {np.asarray(prior).tolist()}."
        )
    return np.asarray(shares / shares.sum(-1, keepdims=True))
