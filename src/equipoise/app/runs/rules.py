"""The rule by which each row's class is decided, for the ``rule`` column of predictions."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.app.runs.trained import RunModel

Rule = Literal["balanced", "natural", "method", "prior"]
MEANING: dict[Rule, str] = {
    "balanced": "most probable if all classes were equally common",
    "natural": "most probable if classes are as common as in training",
    "method": "most probable at the class mix that the method aims at",
    "prior": "most probable at the class mix given",
}
UNDECIDED = "none: the network gave no finite probabilities"
CLOSE = 1e-6
"""Shares of a class mix that are equal but for rounding."""


def rule_of(model: RunModel, prior: NDArray[np.float64] | None) -> Rule:
    """The rule of a run's decisions, at a class mix as :meth:`RunModel.answer` takes it."""
    if prior is not None:
        return "prior"
    aimed = model.calibrated.aimed.numpy()
    if np.allclose(aimed, model.calibrated.balanced(), rtol=CLOSE, atol=0):
        return "balanced"
    return "natural" if np.allclose(aimed, model.calibrated.prior.numpy(), rtol=CLOSE, atol=CLOSE) else "method"


def rule_column(
    rule: Rule, probabilities: NDArray[np.float32], found: NDArray[np.int64], answered: NDArray[np.bool_]
) -> Any:
    """One text a row: the rule, and why where the class is not the most probable one of the row's probabilities.

    Args:
        probabilities: (rows, classes), or of each attribute being 1, (rows, attributes).
        found: the class's place, (rows,), or 0 and 1, (rows, attributes).
        answered: whether the row was decided at all; others have no rule.
    """
    if found.ndim == 2:
        likeliest = ((probabilities > 0.5) == (found == 1)) | (probabilities == 0.5)
        plain = likeliest.all(1)
    else:
        plain = np.take_along_axis(probabilities, found[:, None], 1)[:, 0] >= probabilities.max(1)
    texts = np.where(plain, rule, f"{rule}: {MEANING[rule]}").astype(object)
    column = pd.array(texts, dtype="string")
    column[~answered] = pd.NA
    return column
