r"""Detection of label errors: each label is judged by the other samples.

A network memorises wrong labels, so its own probabilities say little about its training samples. But a linear
regression from features to 0/1 labels forgets a sample exactly, at no cost: with the hat value
:math:`h_i = w_i f_i^\top A^{-1} f_i` and the fitted values :math:`\hat v_i`, its value without sample i would be

.. math:: v_i = (\hat v_i - h_i y_i) / (1 - h_i), \qquad A = \sum_i w_i f_i f_i^\top + \text{ridge} .

The error of a label y against a rival j is :math:`E_j = v_j - v_y`, about -1 if the label is right, and
:math:`\sqrt{1 - h}\,E / \sigma` is the studentised residual used to detect outliers. The score is that of section 5,
the probability :math:`\hat F = P(E > 0)` of a Gaussian error, here with σ² its spread about -1 over all samples: above
½ another class fits better. A class of n samples weighs √n, half way between natural and balanced classes: otherwise
rare samples would be suspected for being rare, or mislabelled ones among them trusted.

Models that have not seen a sample judge its label directly. With their probabilities p at the training samples' class
prior π, a label y and its strongest rival j, the rival is right rather than the label with the probability

.. math:: \hat F = \frac{q_j}{q_j + q_y}, \qquad q_c \propto p_c / \sqrt{\pi_c} .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.labels import class_indices, label_array
from equipoise.errors import InvalidInputError

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
RIDGE = 0.06
"""Ridge relative to a feature's mean square (1 for the constant); results hardly change from a tenth to three times."""
LEAST_SAMPLES = 5
"""Fewest samples of a class for judging its labels: with fewer there is nothing to compare with."""
ROWS_AT_ONCE, NUMBERS_AT_ONCE = 4096, 2**22
"""Most rows of a part, and most values of all classes together."""
SMALLEST = 1e-12
"""Smallest probability whose logarithm is finite."""


@dataclass(frozen=True)
class LabelDoubt:
    """How likely it is that each label is wrong.

    Args:
        error: studentised, above 0 if another class fits better than the label; NaN if it cannot be judged.
            (samples,), or (samples, attributes).
        suggested: the best-fitting label other than the given one, in the same shape.

    >>> found = LabelDoubt(error=np.array([-2.0, 1.0, np.nan]), suggested=np.array([1, 0, 1]))
    >>> found.score.round(3), found.suspected, found.ranking()
    (array([0.023, 0.841,   nan]), array([False,  True, False]), array([1, 0]))
    """

    error: NDArray[np.floating[Any]]
    suggested: NDArray[Any]

    @property
    def score(self) -> Floats:
        """F̂, from 0 to 1, above ½ if another class fits better. Where it saturates at 1, the error still differs."""
        from scipy.special import ndtr  # slow to import, and not needed to read stored results

        return np.asarray(ndtr(self.error.astype(np.float64)))

    @property
    def suspected(self) -> NDArray[np.bool_]:
        """Labels that fit worse than another."""
        return np.asarray(self.error > 0)

    def ranking(self) -> NDArray[np.intp]:
        """Return the indices of all judged labels, the most doubtful first; with attributes, into flattened arrays."""
        flat = self.error.ravel()
        order = np.argsort(-flat, kind="stable")
        return np.asarray(order[~np.isnan(flat[order])])


def label_doubt(features: ArrayLike, labels: ArrayLike) -> LabelDoubt:
    r"""Judge which labels are likely wrong, from features in which the classes are nearly linearly separable.

    A label y is doubted if its studentised error against the strongest rival, estimated without the sample, is above 0:

    .. math:: e = \sqrt{1 - h} \, (v_\mathrm{rival} - v_y) / \sigma, \qquad \hat F = \Phi(e)

    with h the sample's hat value and v the values of a ridge regression on all other samples.

    Args:
        features: (samples, D), for example of a trained network's last layer; columns in comparable units.
        labels: (samples,), or 0 and 1 for several, (samples, attributes).

    >>> x = np.vstack([np.tile([1.0, 0.0], (6, 1)), np.tile([0.0, 1.0], (6, 1))])
    >>> y = np.repeat(["cat", "dog"], 6)
    >>> y[2] = "dog"  # a slip
    >>> found = label_doubt(x, y)
    >>> int(found.ranking()[0]), str(found.suggested[2])
    (2, 'cat')
    """
    x, y = np.asarray(features), label_array(labels, "labels")
    if x.ndim != 2 or len(x) != len(y):
        raise InvalidInputError(
            "features must be (samples, D) and labels (samples,) or (samples, attributes), with the same number of "
            f"rows, got {x.shape} and {y.shape}."
        )
    names, places = class_indices(y)
    places = y.astype(np.int64) if y.ndim == 2 else places.astype(np.int64)
    judge = LabelJudge(class_sizes(places, len(names)), several=y.ndim == 2)
    step = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // len(judge.sizes)))
    parts = [slice(start, start + step) for start in range(0, len(x), step)]
    for part in parts:
        judge.add(x[part], places[part])
    for part in parts:
        judge.look(x[part], places[part], added=True)
    found = judge.doubt()
    return found if y.ndim == 2 else LabelDoubt(found.error, names[found.suggested])


def doubt_of_probabilities(
    probabilities: NDArray[np.floating], labels: NDArray[np.int64], sizes: NDArray[np.int64]
) -> LabelDoubt:
    """Judge labels by probabilities predicted without them.

    Args:
        probabilities: (samples, classes), or (samples, attributes, 2); NaN for a sample that cannot be judged.
        labels: class indices, (samples,), or 0 and 1, (samples, attributes).
        sizes: training samples of each class, (classes,), or of both values, (attributes, 2).

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan]])
    >>> found = doubt_of_probabilities(p, np.array([0, 0, 1]), np.array([10, 10]))
    >>> found.score.round(2), found.suggested
    (array([0.1, 0.8, nan]), array([1, 1, 0]))
    """
    prior = sizes / sizes.sum(-1, keepdims=True)
    moved = np.log(np.maximum(probabilities, SMALLEST)) - np.log(np.maximum(prior, SMALLEST)) / 2
    own = np.take_along_axis(moved, labels[..., None], -1)[..., 0]
    np.put_along_axis(moved, labels[..., None], -np.inf, -1)
    suggested = moved.argmax(-1)
    gap = moved.max(-1) - own  # log-odds of the rival
    enough = sizes.min(-1) >= LEAST_SAMPLES if labels.ndim == 2 else sizes[labels] >= LEAST_SAMPLES
    from scipy.special import log_expit, ndtri_exp  # slow to import, and not needed to read stored results

    error = -np.sign(gap) * ndtri_exp(log_expit(-np.abs(gap)))  # Φ⁻¹(F̂), also where F̂ is nearly 0 or 1
    return LabelDoubt(np.where(enough & np.isfinite(gap), error, np.nan), suggested)


def class_sizes(places: Places, classes: int) -> Places:
    """Return the number of samples per class, (classes,), or of both values, (attributes, 2)."""
    if places.ndim == 1:
        return np.bincount(places, minlength=classes)
    ones = places.sum(0)
    return np.stack((len(places) - ones, ones), axis=1)


class LabelJudge:
    """Judge labels of samples that come in parts: add all parts first, then judge added and other samples.

    ``sizes`` are the class sizes of the samples to be added, see :func:`class_sizes`.
    """

    def __init__(self, sizes: Places, *, several: bool = False) -> None:
        self.sizes, self.several = sizes, several
        self._gram: Floats = np.zeros((0, 0))
        self._cross: Floats = np.zeros((0, 0))
        self._inverse: Floats | None = None
        # for each part: E, or with attributes v; 1 - h; labels; their strongest rivals; and whether they were added
        self._seen: list[tuple[NDArray[Any], ...]] = []

    def add(self, features: NDArray[Any], labels: Places) -> None:
        """Add a part to the regression."""
        rows, weight = _with_constant(features), self._weight(labels)
        if not len(self._gram):
            width = rows.shape[1]
            self._gram, self._cross = np.zeros((width, width)), np.zeros((width, len(self.sizes)))
        weighted = rows * weight[:, None]
        self._gram += weighted.T @ rows
        self._cross += weighted.T @ self._targets(labels)
        self._inverse = None

    def look(self, features: NDArray[Any], labels: Places, *, added: bool) -> None:
        """Judge a part; added samples are judged by the other ones."""
        inverse = self._inverse
        if inverse is None:
            inverse = self._inverse = np.asarray(np.linalg.inv(self._gram + self._ridge()), dtype=np.float64)
        rows, targets = _with_constant(features), self._targets(labels)
        through = rows @ inverse
        reach = self._weight(labels) * (through * rows).sum(1)  # h where the sample is in A
        values = through @ self._cross
        if added:
            kept = np.maximum(1 - reach, 1e-12)
            values = (values - reach[:, None] * targets) / kept[:, None]
        else:
            kept = 1 / (1 + reach)  # 1 - h as if it had been added
        self._keep(values, kept, labels, added)

    def doubt(self) -> LabelDoubt:
        """Return the doubt about all judged samples, in the order of the calls."""
        errors, kept, labels, rivals, added = map(np.concatenate, zip(*self._seen, strict=True))
        if self.several:
            errors = _attribute_errors(errors, labels, added)
            judged = np.broadcast_to(self.sizes.min(1) >= LEAST_SAMPLES, labels.shape)
            kept = np.broadcast_to(kept[:, None], labels.shape)
        else:
            judged = self.sizes[labels] >= LEAST_SAMPLES if len(self.sizes) > 1 else np.zeros(len(labels), np.bool_)
        known = judged & np.isfinite(errors)
        spread = _spread(errors, kept, known & (added[:, None] if self.several else added))
        return LabelDoubt(np.where(known, np.sqrt(kept) * errors / spread, np.nan), rivals)

    def _keep(self, values: Floats, kept: Floats, labels: Places, added: bool) -> None:
        rivals = 1 - labels
        if not self.several:
            own = np.arange(len(labels)), labels
            given = values[own]
            values[own] = -np.inf
            rivals = values.argmax(1)
            values = values.max(1) - given  # E against the strongest rival
        self._seen.append((values, kept, labels, rivals, np.full(len(labels), added)))

    def _weight(self, labels: Places) -> Floats:
        """Return weights that sum to √n per class; attributes share one regression and cannot weigh samples."""
        if self.several:
            return np.ones(len(labels))
        return 1 / np.sqrt(np.maximum(self.sizes, 1))[labels]

    def _targets(self, labels: Places) -> Floats:
        if self.several:
            return labels.astype(np.float64)
        found = np.zeros((len(labels), len(self.sizes)))  # an identity matrix over all classes could fill the memory
        found[np.arange(len(labels)), labels] = 1
        return found

    def _ridge(self) -> Floats:
        """Return an equal ridge for every feature, whatever their common unit, and for the constant."""
        weight, width = self._gram[-1, -1], len(self._gram)
        square = np.trace(self._gram[:-1, :-1]) / weight  # mean |f|²
        share = np.full(width, RIDGE / width * (square or 1.0))  # features that are all 0 have no scale
        share[-1] = RIDGE / width
        return np.diag(share * weight)


def _attribute_errors(values: Floats, labels: Places, added: NDArray[np.bool_]) -> Floats:
    """Return E of each attribute, with the mean of its zeros moved to 0 and of its ones to 1: neither is rare."""
    ones, zeros = (labels == 1) & added[:, None], (labels == 0) & added[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        low = np.where(zeros, values, 0).sum(0) / zeros.sum(0)
        high = np.where(ones, values, 0).sum(0) / ones.sum(0)
        placed = np.where(high > low, (values - low) / (high - low), np.nan)
    return np.where(labels == 1, 1 - 2 * placed, 2 * placed - 1)


def _spread(errors: Floats, kept: Floats, known: NDArray[np.bool_]) -> float:
    """Return σ: the root mean square of the studentised distance from -1, the error of a perfectly fitting label."""
    found = (kept * np.square(errors + 1))[known]
    return max(float(np.sqrt(found.mean())) if len(found) else 1.0, 1e-6)


def _with_constant(features: NDArray[Any]) -> Floats:
    rows = np.asarray(features, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InvalidInputError("features must be finite, got NaN or infinity; check the layers that produced them.")
    return np.hstack((rows, np.ones((len(rows), 1))))
