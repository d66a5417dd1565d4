"""How the epochs of a training are divided among the three stages."""

import math
from collections.abc import Sequence
from typing import Literal

from equipoise.errors import InvalidInputError
from equipoise.options import is_number, is_whole, whole_number

Stage = Literal["softmax", "class", "sample"]
SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL = 1 / 6, 1 / 2, 1 / 3
"""Shares of the epochs: margins need more steps to act than the uncertainty needs to be estimated."""
CLASS_STEPS = 300
"""Fewest optimiser steps with margins; with fewer, methods whose margins act from the first step do better."""


class Stages:
    """The stages of a training.

    Args:
        epochs: total number of epochs.
        softmax, class_level, sample_level: shares of them, or whole numbers that count epochs.
        from_start: whether margins act from the first epoch. Then there is no softmax stage, and its share goes to the
            class stage, unless ``class_level`` counts epochs.

    >>> stages = Stages(30, SOFTMAX, 12, SAMPLE_LEVEL, from_start=True)
    >>> [stages.stage(epoch) for epoch in (0, 11, 12)]
    ['class', 'class', 'sample']
    """

    def __init__(
        self, epochs: int, softmax: float, class_level: float, sample_level: float, *, from_start: bool = False
    ) -> None:
        self.epochs, self.from_start = whole_number("epochs", epochs, 1), from_start
        exact = from_start and _counts_epochs(class_level)
        first, last = stage_boundaries(self.epochs, 0 if exact else softmax, class_level, sample_level)
        self.class_start = min(last, max(1, int(SOFTMAX * self.epochs))) if exact else first
        self.sample_start = last
        self.margin_start = 0 if from_start else self.class_start
        self._class_epochs_given = _counts_epochs(class_level)

    def stage(self, epoch: int) -> Stage:
        """Return the stage of an ``epoch``, counted from 0."""
        if epoch < self.margin_start:
            return "softmax"
        return "class" if epoch < self.sample_start else "sample"

    def short_stage(self, steps: Sequence[int], full_pass: int) -> str | None:
        """Return a sentence if the class stage has too few optimiser steps for the margins to act.

        Args:
            steps: optimiser steps per epoch.
            full_pass: optimiser steps per pass over all samples; an epoch may be only a part of one.

        >>> Stages(12, SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL).short_stage([10] * 12, full_pass=10).partition(";")[0]
        'training is short: margins get 60 optimiser steps but need about 300 to act'
        >>> Stages(60, SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL).short_stage([10] * 60, full_pass=10) is None
        True
        """
        taken, left_out = sum(steps[self.margin_start : self.sample_start]), self.margin_start == self.sample_start
        if taken >= CLASS_STEPS or (left_out and self.margin_start < self.epochs):
            return None
        share = (self.sample_start - self.margin_start) / self.epochs or CLASS_LEVEL
        if self._class_epochs_given:
            advice = f"give the class stage {math.ceil(CLASS_STEPS / steps[self.margin_start])} epochs or more"
        else:
            advice = f"set epochs to {math.ceil(CLASS_STEPS / share / full_pass)} or more, or leave it unset"
        return f"training is short: margins get {taken} optimiser steps but need about {CLASS_STEPS} to act; {advice}."


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
        raise InvalidInputError(
            f"the stages take {epochs - left} epochs but there are only {epochs}; shorten a stage, or train for more "
            "epochs."
        )
    if left > 0 and not any(shares):
        raise InvalidInputError(
            f"the stages take {epochs - left} epochs but there are {epochs}; use {epochs - left} epochs, or leave out "
            "the length of one stage."
        )
    whole = sum(shares) or 1.0
    counted = [int(stage) if _counts_epochs(stage) else int(left * stage / whole + 1e-9) for stage in stages]
    if class_level + sample_level > 0 and epochs > 1 and counted[1] + counted[2] == 0:
        counted[1] = 1  # too few epochs for their shares: one of the class level at least
    sample_start = epochs - counted[2]
    return max(1, sample_start - counted[1]), max(1, sample_start)


def _counts_epochs(stage: float) -> bool:
    return is_whole(stage) and stage >= 1
