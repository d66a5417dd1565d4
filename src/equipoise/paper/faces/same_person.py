"""The calibrated probability that a pair shows one person, from its similarity."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from equipoise.calibration.reliability import reliability_diagram

Floats = NDArray[np.float64]
STRENGTH = 100.0
"""Inverse strength of the ridge: very weak, but slopes stay finite where similarities separate the pairs."""


@dataclass(frozen=True)
class SamePerson:
    """P(one person | similarity) = 1 / (1 + exp(−(slope · similarity + intercept))), Platt's scaling.

    It holds where a ``share`` of the pairs show one person, as among these. Log loss, Brier score and calibration error
    are those of ``out_of_fold``, the probability of each pair by a curve fitted to the other folds, (pairs,).
    """

    slope: float
    intercept: float
    share: float
    out_of_fold: Floats
    log_loss: float
    brier: float
    ece: float

    def probability(self, similarity: ArrayLike, *, share: float | None = None) -> Floats:
        """Return the probability at a similarity where ``share`` of the pairs show one person, by default as here."""
        logits = self.slope * np.asarray(similarity, dtype=np.float64) + self.intercept
        if share is not None:
            logits = logits + np.log(share / (1 - share)) - np.log(self.share / (1 - self.share))
        found: Floats = expit(logits)
        return found

    def as_dict(self) -> dict[str, float]:
        """Return plain values, without those of each pair."""
        names = ("slope", "intercept", "share", "log_loss", "brier", "ece")
        return {name: float(getattr(self, name)) for name in names}


def fit_same_person(similarity: ArrayLike, same: ArrayLike, fold: ArrayLike) -> SamePerson:
    """Fit the curve to all pairs, (pairs,) each, and score it on each fold as fitted to the others."""
    values, truth, folds = np.asarray(similarity, dtype=np.float64), np.asarray(same, dtype=bool), np.asarray(fold)
    out_of_fold = np.empty(len(values))
    for name in np.unique(folds):
        mine = folds == name
        slope, intercept = _fit(values[~mine], truth[~mine])
        out_of_fold[mine] = expit(slope * values[mine] + intercept)
    slope, intercept = _fit(values, truth)
    answers = np.where(out_of_fold >= 0.5, out_of_fold, 1 - out_of_fold)
    return SamePerson(
        slope,
        intercept,
        float(truth.mean()),
        out_of_fold,
        float(log_loss(truth, out_of_fold, labels=[False, True])),
        float(brier_score_loss(truth, out_of_fold)),
        float(reliability_diagram(answers, (out_of_fold >= 0.5) == truth).ece),
    )


def _fit(values: Floats, truth: NDArray[np.bool_]) -> tuple[float, float]:
    centre, spread = float(values.mean()), float(values.std()) or 1.0
    fitted = LogisticRegression(C=STRENGTH).fit((values[:, None] - centre) / spread, truth)
    slope = float(fitted.coef_[0, 0]) / spread
    return slope, float(fitted.intercept_[0]) - slope * centre
