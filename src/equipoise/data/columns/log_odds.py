"""Log-odds of the classes by logistic regression, cross-fitted for the training rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from equipoise.data.labels import label_array, label_places
from equipoise.data.splits import stratified_folds
from equipoise.errors import Muted

MOST_SCORES = 100
"""Most classes or attributes with log-odds; where there are more, none has any."""
FITTED_TO = 50_000
"""Most rows that a regression is fitted on, drawn evenly."""
FOLDS = 5
_unsettled = Muted(r"(?s).*(failed to converge|line search)")


def score_names(labels: NDArray[Any]) -> tuple[str, ...]:
    """Return the names of the log-odds: all classes, the second of two, or all attributes; none if too many."""
    if labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():  # no classes
        return ()
    if labels.ndim == 2:
        found = [str(place) for place in range(labels.shape[1])]
    else:
        classes = [str(label) for label in np.unique(labels).tolist()]
        found = classes[1:] if len(classes) <= 2 else classes
    return tuple(found) if len(found) <= MOST_SCORES else ()


class LogOdds:
    """Logistic regression of labels on columns, dense or sparse: ``maps`` (scores, columns) and ``offsets`` (scores,).

    Args:
        x: (rows, columns).
        labels: (rows,), or 0/1 of shape (rows, attributes).
        every: labels of all rows, whose classes have scores.
        strength: C of the regression.
    """

    def __init__(self, x: Any, labels: NDArray[Any], every: NDArray[Any], strength: float) -> None:
        size = len(score_names(every))
        self.maps: NDArray[np.float64] = np.zeros((size, x.shape[1]))
        self.offsets: NDArray[np.float64] = np.zeros(size)
        some = slice(None, None, max(1, -(-len(labels) // FITTED_TO)))
        x, labels = x[some], labels[some]
        targets = labels.T if labels.ndim == 2 else [labels]
        for place, target in enumerate(targets):
            classes = np.unique(target)
            if len(classes) < 2:
                continue
            with _unsettled:
                # lbfgs spends most of its time on its own history: there is a coefficient per n-gram and class
                model = LogisticRegression(C=strength, solver="newton-cg").fit(x, target)
            if labels.ndim == 2 or size == 1:
                self.maps[place], self.offsets[place] = model.coef_[0], model.intercept_[0]
                continue
            maps, own = model.coef_, model.intercept_
            if len(classes) == 2:  # of more, which the other rows have
                maps, own = np.concatenate((-maps, maps)), np.concatenate((-own, own))
            places = label_places(classes, np.unique(every))
            self.offsets[:] = own.min() - 1  # of a class that is not here
            self.maps[places], self.offsets[places] = maps, own

    def __call__(self, x: Any) -> NDArray[np.float32]:
        """Return the log-odds of rows, (rows, scores)."""
        return np.asarray(x @ self.maps.T.astype(np.float32) + self.offsets, dtype=np.float32)


def out_of_fold(x: Any, y: ArrayLike, groups: ArrayLike | None, strength: float) -> NDArray[np.float32] | None:
    """Return cross-fitted log-odds of each row, (rows, scores); None if all rows are one group.

    Args:
        x: (rows, columns), dense or sparse.
        y: labels, (rows,), or 0/1 of shape (rows, attributes).
        groups: rows of one group are never on both sides, (rows,).
        strength: C of the regression.
    """
    labels = label_array(y)
    members = len(labels) if groups is None else len(np.unique(np.asarray(groups)))
    if members < 2:
        return None
    found = np.zeros((len(labels), len(score_names(labels))), dtype=np.float32)
    for fit, rest in stratified_folds(labels, min(FOLDS, members), seed=0, groups=groups, allow_missing=True):
        found[rest] = LogOdds(x[fit], labels[fit], labels, strength)(x[rest])
    return found
