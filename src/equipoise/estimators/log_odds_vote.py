r"""A classifier that trusts the log-odds of a text's own models, and weighs these models against each other.

With many classes, a network or a forest on columns of log-odds must learn anew which column speaks for which class,
from a handful of rows of each. This one has a single weight per model of the text:

.. math:: p_c \propto \exp\Big(\sum_k t_k \ell_{kc}\Big), \qquad t_k > 0

where :math:`\ell_{kc}` is the log-odds of class c by model k: n-grams, or sentence embeddings.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from equipoise.data.encoded_rows import LogOddsColumns

Array = NDArray[Any]
LARGEST = 5.0
"""Bound of |ln t|: rows that the log-odds separate would make t infinite."""


class LogOddsVote(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Sum of the log-odds columns, each model of the text with its own weight; fitted to class indices.

    Args:
        columns: of each model the columns of its log-odds, one per class; of two classes that of the second.

    >>> X, y = np.array([[2.0, -1.0], [1.0, -3.0], [-1.0, 2.0], [-2.0, -1.0]]), np.array([0, 0, 1, 1])
    >>> LogOddsVote(columns=((0, 1),)).fit(X, y).predict([[1.0, 0.0], [-1.0, 1.0]])
    array([0, 1])
    """

    def __init__(self, columns: LogOddsColumns = ()) -> None:
        self.columns = columns

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LogOddsVote":
        """Fit to X (rows, columns) and class indices y (rows,), of which some classes may be missing."""
        x, target = validate_data(self, X, y, dtype=np.float64)
        self.classes_, own = np.unique(target, return_inverse=True)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
        maps = [self._map(each, x.shape[1]) for each in self.columns]
        scores = np.stack([x @ each for each in maps])  # (models, rows, classes)
        rows = np.arange(len(x))

        def loss(values: Array) -> tuple[float, Array]:
            t = np.exp(values)
            log_p = log_softmax(np.tensordot(t, scores, 1), axis=-1)
            gap = np.exp(log_p)
            gap[rows, own] -= 1
            slope = np.einsum("r,rc,krc->k", weight, gap, scores) * t
            return float(-weight @ log_p[rows, own]), slope

        start = np.full(len(maps), -np.log(len(maps)))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-LARGEST, LARGEST)] * len(maps))
        self.coef_ = np.tensordot(np.exp(found.x), np.stack(maps), 1)  # (columns, classes)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities (rows, classes)."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        found: NDArray[np.float64] = softmax(x @ self.coef_, axis=-1)
        return found

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        most = self.predict_proba(X).argmax(1)
        found: Array = self.classes_[most]
        return found

    def _map(self, columns: tuple[int, ...], width: int) -> Array:
        """Return the 0/1 matrix (width, classes) that picks the log-odds of each class."""
        found = np.zeros((width, len(self.classes_)))
        if len(columns) == 1:
            found[columns[0], -1] = 1
        else:
            found[np.asarray(columns)[self.classes_.astype(np.intp)], np.arange(len(self.classes_))] = 1
        return found
