"""Sets of possible classes beside a run's predictions, and which classes are left unanswered too often."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from equipoise.app.runs.trained import RunModel
from equipoise.calibration.conformal import unanswered_rows
from equipoise.decisions.abstention import AbstainedShares, listed, shares_of_counts
from equipoise.errors import InvalidInputError

BETWEEN = "|"


@dataclass
class Abstained:
    """Counts, by the class that would have been predicted, of what is left unanswered.

    Args:
        level: share of each class's samples whose set is to hold their class.
        samples, sent: of each class, or of the samples predicted to have each attribute.
        total, rows: samples in all, and those left unanswered.
    """

    model: RunModel
    level: float
    samples: NDArray[np.int64]
    sent: NDArray[np.int64]
    total: int = 0
    rows: int = 0

    @classmethod
    def start(cls, model: RunModel, abstain: float) -> "Abstained":
        """Before the first sample; a run without calibrated sets, or a share that is none, is refused here."""
        if not 0 < abstain < 1:
            raise InvalidInputError(f"--abstain is a share above 0 and below 1, such as 0.1, got {abstain}.")
        if model.calibrated.thresholds is None:
            raise InvalidInputError("this run keeps no sets of classes, which --abstain needs; train it again.")
        size = len(model.classes)
        return cls(model, 1 - abstain, np.zeros(size, np.int64), np.zeros(size, np.int64))

    def add(
        self, logits: Tensor, told: NDArray[np.int64], prior: NDArray[np.float64] | None = None
    ) -> NDArray[np.bool_]:
        """Which classes remain possible, shaped as the logits.

        Args:
            told: what is predicted, which always remains possible.
            prior: the class mix at which it is.
        """
        possible = self.model.calibrated.sets(logits, self.level, prior)
        out = unanswered_rows(possible)
        if self.model.multilabel:
            self.samples += told.sum(0)
            self.sent += told[out].sum(0)
        else:
            self.samples += np.bincount(told, minlength=len(self.samples))
            self.sent += np.bincount(told[out], minlength=len(self.samples))
        self.total, self.rows = self.total + len(out), self.rows + int(out.sum())
        return possible

    def add_unread(self, count: int) -> None:
        """Samples that could not be read: unanswered, and of no class."""
        self.total, self.rows = self.total + count, self.rows + count

    @property
    def shares(self) -> AbstainedShares | None:
        """What is left unanswered of each class; None without a sample."""
        return shares_of_counts(self.samples, self.sent, self.rows / self.total) if self.total else None

    def sentences(self) -> Iterator[str]:
        """Which classes are left unanswered far more often than the rest, and which can never be ruled out."""
        shares, classes = self.shares, self.model.classes
        if shares is None:
            return
        yield f"{self.rows:,} of {self.total:,} samples ({shares.overall:.1%}) have more than one class left."
        away = [f"{classes[place]} ({shares.each[place]:.0%})" for place in shares.abstained_away]
        if away:
            yield f"left unanswered far more often than the rest, of what would be called so: {listed(away)}."
        always = never_ruled_out(self.model, self.level)
        if always:
            yield (
                f"calibrated on too few samples to be ruled out at {self.level:.4g}, and so possible everywhere: "
                f"{listed(always)}{self._remedy()}."
            )

    def _remedy(self) -> str:
        """From which share on every class could be ruled out: 1/(n + 1) for n calibration samples."""
        assert self.model.calibrated.thresholds is not None
        fewest = int(self.model.calibrated.thresholds.counts.min())
        share = math.ceil(100 / (fewest + 1)) / 100
        return f"; with --abstain {share:g} or more none would be" if fewest else "; hold out more of them"


def never_ruled_out(model: RunModel, level: float) -> list[str]:
    """Classes, or attributes one of whose answers, had fewer calibration samples than the level needs."""
    assert model.calibrated.thresholds is not None
    return [model.classes[place] for place in np.flatnonzero(model.calibrated.thresholds.never_ruled_out(level))]


def set_columns(model: RunModel, possible: NDArray[np.bool_]) -> dict[str, Any]:
    """``set``, the possible classes with | between, and whether those are more than one.

    For several labels ``set_NAME`` for each attribute, of 0 and 1, and whether any of them is not settled.
    """
    if not model.multilabel:
        return {"set": _joined(possible, model.classes), "abstain": unanswered_rows(possible)}
    columns = {f"set_{name}": _joined(possible[:, place], ("0", "1")) for place, name in enumerate(model.classes)}
    return columns | {"abstain": unanswered_rows(possible)}


def _joined(possible: NDArray[np.bool_], names: tuple[str, ...]) -> Any:
    kinds, which = np.unique(possible, axis=0, return_inverse=True)
    texts = [BETWEEN.join(name for name, has in zip(names, kind, strict=True) if has) for kind in kinds.tolist()]
    return pd.array([texts[place] for place in which.ravel().tolist()], dtype="string")
