"""How often the model is right when it says how sure it is: overall, and where it names a rare or a common class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.record import Floats, Record
from equipoise.calibration.reliability import reliability_diagram
from equipoise.data.summary import Group
from equipoise.evaluation.intervals import wilson


@dataclass(frozen=True)
class Reliability:
    """Answers sorted by their probability into bins; bins without an answer are left out.

    Args:
        confidence, right: mean probability and share of right answers, one entry a bin.
        low, high: the 95 % Wilson interval of ``right``.
        answers: how many fall into the bin.
        ece: expected calibration error, as in the scores.
    """

    title: str
    confidence: Floats
    right: Floats
    low: Floats
    high: Floats
    answers: NDArray[np.int64]
    ece: float

    @property
    def total(self) -> int:
        """All answers."""
        return int(self.answers.sum())


def reliability(record: Record) -> list[Reliability]:
    """Of all answers, and apart of those that name a rare or a common class.

    The class that is *named* decides, not the true one: only that is known when an answer is used. Among the samples of
    a rare class even a perfectly calibrated model would look overconfident. With attributes every yes-or-no is an
    answer, and the attribute decides.
    """
    held = record.held_out
    if held is None:
        return []
    if record.multilabel:
        confidence = np.where(held.predicted == 1, held.probabilities, 1 - held.probabilities)
        named = np.broadcast_to(np.arange(len(record.classes)), held.predicted.shape)
    else:
        confidence = held.probabilities[np.arange(len(held.predicted)), held.predicted]
        named = held.predicted
    confidence, named = confidence.ravel().astype(np.float64).clip(0, 1), named.ravel()
    right = (held.predicted == held.labels).ravel()
    found = [_of("All answers", confidence, right)]
    groups: dict[str, Group] = {"rare": "rare", "common": "many"}
    for name, group in groups.items():
        rows = record.in_group(group)[named]
        if rows.any() and not rows.all():
            title = f"About {name} attributes" if record.multilabel else f"Answers that name a {name} class"
            found.append(_of(title, confidence[rows], right[rows]))
    return found


def _of(title: str, confidence: Floats, right: NDArray[np.bool_]) -> Reliability:
    found = reliability_diagram(confidence, right)
    low, high = wilson(np.round(found.right * found.count), found.count.astype(np.float64))
    return Reliability(title, found.confidence, found.right, low, high, found.count, found.ece)
