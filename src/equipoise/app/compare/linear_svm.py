"""A cost-sensitive linear support vector machine for many dense rows: liblinear's objective by matrix products."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from equipoise.errors import InvalidInputError

Floats = NDArray[np.float32]
KNOBS = {"C": "cost"}
"""Scikit-learn's names of what can be tuned."""
ROUNDS, ENOUGH = 1000, 1e-6  # it is over when a round takes less than this share off the objective


def fit_linear_svm(x: Floats, codes: NDArray[np.intp], *, cost: float = 1.0) -> tuple[Floats, str]:
    """Weights (columns + 1, classes), the last row the intercepts, and why they had not settled, if so.

    What ``LinearSVC(class_weight="balanced")`` minimises, for each class against the rest, by L-BFGS on all at once:
    ½‖w‖² + cost · Σᵢ sᵢ max(0, 1 − yᵢ w·xᵢ)², the intercept a weight like the others, sᵢ = n / (classes · n_c) for the
    class's own samples and 1 for the rest; with two classes both have theirs. liblinear keeps an index beside every
    number, which dense features pay for.

    Args:
        x: (rows, columns), on scales that can be compared.
        codes: (rows,) class numbers from 0, each at least once.
    """
    classes = int(codes.max()) + 1
    if not np.isfinite(x).all() or np.bincount(codes).min() == 0:
        raise InvalidInputError("x must be finite and every class number from 0 to the largest at least once in codes.")
    rows = np.concatenate([x, np.ones((len(x), 1))], axis=1, dtype=np.float32)
    sign = np.where(codes[:, None] == np.arange(classes), 1, -1).astype(np.float32)
    weight = (len(codes) / (classes * np.bincount(codes)))[codes][:, None]
    weight = np.where((sign > 0) | (classes == 2), cost * weight, cost).astype(np.float32)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(-1, classes).astype(np.float32)
        short = np.maximum(0, 1 - sign * (rows @ w))
        value = 0.5 * float(flat @ flat) + float(np.sum(weight * short * short, dtype=np.float64))
        slope = w - 2 * (rows.T @ (weight * sign * short))
        return value, slope.astype(np.float64).ravel()

    options = {"maxiter": ROUNDS, "maxfun": 2 * ROUNDS, "ftol": ENOUGH, "gtol": 0.0}
    start = np.zeros(rows.shape[1] * classes)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    reason = "" if found.success else f"after {found.nit:,} rounds ({found.message})"
    return found.x.reshape(-1, classes).astype(np.float32), reason


def linear_svm_codes(weights: Floats, x: Floats) -> NDArray[np.intp]:
    """The class number of each row: the machine that claims it most."""
    return np.asarray((x @ weights[:-1] + weights[-1]).argmax(1), dtype=np.intp)
