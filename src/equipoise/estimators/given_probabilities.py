"""A stand-in for an external model that is known only by its predictions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from equipoise.errors import InvalidInputError
from equipoise.estimators.member_outputs import is_frozen


class GivenProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A stand-in for an external model: its rows are the probabilities themselves.

    Args:
        classes: labels in the order of the columns.
        several: whether a row has several labels; the columns are then the probabilities of each.
    """

    def __init__(self, classes: Any, several: bool = False) -> None:
        self.classes = classes
        self.several = several
        self.classes_ = np.asarray(classes)

    def fit(self, X: Any, y: Any = None) -> "GivenProbabilities":  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self

    def columns(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities as (rows, classes), also from those of the second of two classes alone.

        The columns of a frame whose names are the classes may come in any order. Several labels may come as
        scikit-learn's forests give them, a list of (rows, 2).
        """
        names = [str(name) for name in getattr(probabilities, "columns", ())]
        wanted = [str(name) for name in self.classes_.tolist()]
        if names != wanted and sorted(names) == sorted(wanted):
            probabilities = probabilities.iloc[:, [names.index(name) for name in wanted]]  # type: ignore[union-attr]
        p = np.asarray(probabilities, dtype=np.float64)
        if self.several and p.ndim == 3 and p.shape[::2] == (len(self.classes_), 2):
            p = p[..., 1].T
        if not self.several and len(self.classes_) == 2 and (p.ndim == 1 or p.shape[1:] == (1,)):
            p = np.stack((1 - p.ravel(), p.ravel()), axis=1)
        if p.ndim != 2 or p.shape[1] != len(self.classes_):
            raise InvalidInputError(
                f"probabilities must have one column for each of the {len(self.classes_)} "
                f"{'columns of y' if self.several else 'classes'}, got {p.shape}; "
                f"{'leave the others out' if self.several else 'pass classes= in the order of the columns'}."
            )
        if len(wrong := np.flatnonzero(~np.isfinite(p).all(1))):
            raise InvalidInputError(
                f"probabilities must be finite numbers, got others in row {wrong[0]}; leave it out."
            )
        if self.several:
            if (p < 0).any() or (p > 1).any():
                raise InvalidInputError("probabilities must lie between 0 and 1.")
        elif (p < 0).any() or np.abs(p.sum(1) - 1).max() > 0.01:
            raise InvalidInputError("probabilities must lie between 0 and 1 and add up to 1 in each row.")
        return p

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities unchanged."""
        return self.columns(X)


def given_probabilities(estimator: Any) -> GivenProbabilities | None:
    """Return the stand-in for an external model, whose rows are probabilities."""
    given = estimator[0] if isinstance(estimator, list) and estimator else estimator
    inner = getattr(given, "estimator", None) if is_frozen(given) else None
    return inner if isinstance(inner, GivenProbabilities) else None
