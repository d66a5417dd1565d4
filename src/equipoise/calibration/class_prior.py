"""Class priors: moving probabilities to another prior, and estimating the prior of unlabelled samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError

LONGEST_QUOTED = 200
"""Number of characters of an invalid class prior that an error quotes."""


def move_prior(probabilities: ArrayLike, *, old: ArrayLike, new: ArrayLike) -> NDArray[Any]:
    r"""Move probabilities from one class prior to another by Bayes' rule.

    .. math:: p_\mathrm{new}(c \mid x) \propto p_\mathrm{old}(c \mid x) \, \frac{\mathrm{new}_c}{\mathrm{old}_c}

    Args:
        probabilities: (rows, classes), or (rows, attributes, 2).
        old, new: one share per class, (classes,) or (attributes, 2); of any scale. A class with the old share 0 keeps
            the probability 0, since nothing is known about it; a row that allows no other class gets ``new``.

    >>> move_prior([[0.5, 0.5]], old=[0.5, 0.5], new=[0.9, 0.1])
    array([[0.9, 0.1]])
    """
    given = np.asarray(probabilities, dtype=np.float64)
    before, after = class_shares(old, given.shape[1:], name="old"), class_shares(new, given.shape[1:])
    moved = given * np.divide(after, before, out=np.zeros_like(after), where=before > 0)
    total = moved.sum(-1, keepdims=True)
    return np.where(total > 0, moved / np.where(total > 0, total, 1), after)


def estimate_prior(
    probabilities: ArrayLike, *, old: ArrayLike, smoothing: float = 0.0, tolerance: float = 1e-8, iterations: int = 1000
) -> NDArray[np.float64]:
    """Estimate the class prior of unlabelled samples from their probabilities at the prior ``old``.

    Uses the EM algorithm of Saerens, Latinne and Decaestecker (2002). Each step moves the probabilities to the prior
    found so far, as :func:`move_prior` does, and takes their mean as the next prior; this never lowers the samples'
    likelihood Σ ln Σ_c π_c p(c | x) / old_c. It assumes that the prior has changed, not what the classes look like,
    and it is only as good as the calibration of the probabilities between classes: if a model predicts one class too
    often, the estimated prior has too much of it.

    Args:
        probabilities: (rows, classes), or (rows, attributes, 2).
        old: prior of the probabilities, one share per class, (classes,) or (attributes, 2); of any scale. A class of
            share 0 was never seen, so its estimate is 0.
        smoothing: pseudo-samples added to each class. Pure EM (0) easily gives rare classes the share 0, and moving
            probabilities there rules them out; 1 prevents that at little cost.
        tolerance: stop once no share changes by more than this.
        iterations: largest number of steps.

    Returns:
        Shares that sum to 1, shaped like ``old``; the ``new`` of :func:`move_prior`.

    >>> estimate_prior([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], old=[0.5, 0.5]).round(3)
    array([0.708, 0.292])
    """
    if not tolerance > 0 or iterations < 1 or not 0 <= smoothing < np.inf:
        raise InvalidInputError(
            f"tolerance and iterations must be above 0 and smoothing not negative, got {tolerance}, {iterations} and "
            f"{smoothing}."
        )
    shape = np.shape(probabilities)
    if len(shape) not in (2, 3) or shape[0] == 0 or (len(shape) == 3 and shape[2] != 2):
        raise InvalidInputError(
            f"probabilities must have the shape (rows, classes) or (rows, attributes, 2), with at least one row, got "
            f"{shape}."
        )
    given = checked_probabilities(probabilities, shape)
    shares = class_shares(old, shape[1:], name="old")
    if given.ndim == 2:
        return _em(given, shares, smoothing, tolerance, iterations)
    pairs = zip(given.swapaxes(0, 1), shares, strict=True)
    return np.stack([_em(column, share, smoothing, tolerance, iterations) for column, share in pairs])


def _em(
    probabilities: NDArray[np.float64], old: NDArray[np.float64], smoothing: float, tolerance: float, iterations: int
) -> NDArray[np.float64]:
    """Run EM starting from ``old``; probabilities (rows, classes)."""
    ratio = np.divide(probabilities, old, out=np.zeros_like(probabilities), where=old > 0)  # p(x | c) / p(x)
    best = ratio.max(1)
    if not bool((best > 0).any()):
        raise InvalidInputError(
            "old must be above 0 for some class with a probability above 0, got none; pass "
            "the prior of these probabilities."
        )
    ratio = ratio[best > 0] / best[best > 0, None]  # scaling a row changes nothing; a row of zeros says nothing
    prior, added = old, smoothing * (old > 0)
    for _ in range(iterations):
        before, prior = prior, (prior * ((1 / (ratio @ prior)) @ ratio) + added) / (len(ratio) + added.sum())
        if np.abs(prior - before).max() <= tolerance:
            break
    return np.asarray(prior / prior.sum())


def class_shares(prior: ArrayLike, shape: tuple[int, ...], *, name: str = "target_prior") -> NDArray[Any]:
    """Return a class prior of any scale as shares; an error calls it by its ``name``."""
    shares = np.asarray(prior, dtype=np.float64)
    fits = shares.shape == shape and bool((np.isfinite(shares) & (shares >= 0)).all())
    with np.errstate(over="ignore", invalid="ignore"):
        total = shares.sum(-1, keepdims=True)
    if not fits or not bool(((total > 0) & np.isfinite(total)).all()):
        text = str(np.asarray(prior).tolist())
        quoted = text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…"
        raise InvalidInputError(
            f"{name} must hold one share per class, {shape}, none negative, with a finite sum above 0; got {quoted}."
        )
    return np.asarray(shares / total)


def checked_probabilities(
    probabilities: ArrayLike, shape: tuple[int, ...], *, sums_to_one: bool = True
) -> NDArray[np.float64]:
    """Return probabilities of this shape, checked to lie in [0, 1] and to sum to 1 over the last axis."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != shape:
        raise InvalidInputError(f"probabilities must have the shape {shape}, samples and classes, got {p.shape}.")
    if not bool(((p >= -1e-6) & (p <= 1 + 1e-6)).all()):
        raise InvalidInputError("probabilities must lie between 0 and 1; apply softmax to logits first.")
    if sums_to_one and not np.allclose(p.sum(-1), 1, atol=1e-3):
        raise InvalidInputError("the probabilities of a sample must sum to 1; apply softmax to logits first.")
    return p.clip(0, 1)
