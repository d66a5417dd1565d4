"""How the epochs of a training are divided among the three stages."""

from typing import Literal

from equipoise.errors import InvalidInputError
from equipoise.options import is_number, is_whole

Stage = Literal["softmax", "class", "sample"]
SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL = 1 / 6, 1 / 2, 1 / 3
"""Shares of the epochs: class margins need more steps than the estimate that they come from."""


def stage_boundaries(epochs: int, softmax: float, class_level: float, sample_level: float) -> tuple[int, int]:
    """Return the first epochs of the class and of the sample stage.

    Args:
        epochs: how many there are in all.
        softmax, class_level, sample_level: shares of them, or whole numbers that count epochs.

    >>> stage_boundaries(30, SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL), stage_boundaries(30, 0.5, 0.5, 10)
    ((5, 20), (10, 20))
    """
    stages = (softmax, class_level, sample_level)
    for stage in stages:
        if not is_number(stage) or not (0 <= stage <= 1 or _counts_epochs(stage)):
            raise InvalidInputError(
                f"a stage must be a share of the epochs from 0 to 1, or a whole number of epochs, got {stage!r}."
            )
    if sum(stages) <= 0:
        raise InvalidInputError(f"the stages must not all be 0, got {stages}.")
    shares = [stage for stage in stages if not _counts_epochs(stage)]
    left = epochs - sum(int(stage) for stage in stages if _counts_epochs(stage))
    if left < 0:
        raise InvalidInputError(f"the stages take {epochs - left} epochs but there are only {epochs}; shorten one.")
    whole = sum(shares) or 1.0
    counted = [int(stage) if _counts_epochs(stage) else int(left * stage / whole + 1e-9) for stage in stages]
    if class_level + sample_level > 0 and epochs > 1 and counted[1] + counted[2] == 0:
        counted[1] = 1  # too few epochs for their shares: one of the class level at least
    sample_start = epochs - counted[2]
    return max(1, sample_start - counted[1]), max(1, sample_start)


def _counts_epochs(stage: float) -> bool:
    return is_whole(stage) and stage >= 1
