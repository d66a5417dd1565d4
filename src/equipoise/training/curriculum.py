"""The paper's progressive training: softmax, then the class level, then the sample level."""

from typing import Literal

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import UncertaintyMarginLoss, psi
from equipoise.losses.angular import SHORTEST
from equipoise.training.network import head_logits
from equipoise.training.strength import lacking_shift
from equipoise.uncertainty import margins_from_uncertainty
from equipoise.uncertainty.classes import MarginRule

Stage = Literal["softmax", "class", "sample"]


class Curriculum:
    """Drives an :class:`UncertaintyMarginLoss` through its three stages, in any training loop.

    Class uncertainty is estimated once, at the end of the softmax stage, and kept: re-estimating it chases its own
    effect. The margins follow from it. Their strength follows from what the network still lacks on a validation
    split (:mod:`equipoise.training.strength`) and is fed back after every epoch from there on.

    In a loop of your own::

        curriculum = Curriculum(epochs=30)
        for epoch in range(30):
            curriculum.start_epoch(epoch, loss)
            ...                                                    # train
            if curriculum.wants_uncertainty(epoch):
                outputs = mc_dropout(model, x).softmax(-1)         # x: training samples
                curriculum.set_uncertainty(class_uncertainty(outputs), loss)
            if curriculum.wants_feedback(epoch):
                curriculum.feed_back(loss, features, target)       # of validation samples, in eval mode

    Args:
        epochs: how many there are in all.
        softmax, class_level, sample_level: share of the epochs a stage takes; a whole number (``sample_level=10``)
            counts epochs. The softmax stage takes what rounding leaves, and at least one epoch.
        m_max, rule: how margins follow from uncertainty, see ``margins_from_uncertainty``.
        feedback: share of the lacking shift that is added after each epoch.
    """

    def __init__(
        self,
        epochs: int,
        *,
        softmax: float = 1 / 3,
        class_level: float = 1 / 3,
        sample_level: float = 1 / 3,
        m_max: float = 3.0,
        rule: MarginRule = "log",
        feedback: float = 0.5,
    ) -> None:
        if epochs < 1:
            raise InvalidInputError(f"epochs must be at least 1, got {epochs}.")
        if not 0 < feedback <= 1:
            raise InvalidInputError(f"feedback must lie in (0, 1], got {feedback}.")
        self.epochs, self.m_max, self.rule, self.feedback = epochs, m_max, rule, feedback
        self.class_start, self.sample_start = _boundaries(epochs, softmax, class_level, sample_level)
        self.uncertainty: Tensor | None = None

    def stage(self, epoch: int) -> Stage:
        """Which stage an epoch, counted from 0, belongs to."""
        if epoch < self.class_start:
            return "softmax"
        return "class" if epoch < self.sample_start else "sample"

    def start_epoch(self, epoch: int, loss: UncertaintyMarginLoss) -> Stage:
        """Switch the sample level on or off for this epoch."""
        stage = self.stage(epoch)
        if stage != "softmax" and self.uncertainty is None:
            raise InvalidStateError(
                f"epoch {epoch} is in stage {stage!r} but no class uncertainty is set; call set_uncertainty at the end "
                f"of epoch {self.class_start - 1}."
            )
        loss.sample_strength = torch.tensor(1.0 if stage == "sample" else 0.0)
        return stage

    def wants_uncertainty(self, epoch: int) -> bool:
        """Whether the epoch that just ended is the last of the softmax stage."""
        return epoch == self.class_start - 1 and self.class_start < self.epochs

    def wants_feedback(self, epoch: int) -> bool:
        """Whether the strength is fed back after this epoch: from the end of the softmax stage to the last but one."""
        return self.class_start - 1 <= epoch < self.epochs - 1

    def set_uncertainty(self, uncertainty: Tensor, loss: UncertaintyMarginLoss) -> None:
        """Keep the class uncertainty and give the loss its margins."""
        self.uncertainty = uncertainty.detach().clone()
        loss.margins = margins_from_uncertainty(self.uncertainty, self.m_max, self.rule)

    def feed_back(self, loss: UncertaintyMarginLoss, features: Tensor, target: Tensor) -> float:
        """Move the strength towards what validation samples still lack; the shift they lacked is returned.

        Args:
            features: of validation samples, from the network in eval mode, (batch, D).
            target: their labels, (batch,) or (batch, attributes).
        """
        with torch.no_grad():
            logits = head_logits(loss, features)
            direction = loss.margins - 1
            lacking = lacking_shift(logits, target, direction)
            step = lacking
            if loss.form == "angular":
                step = lacking * _shift_ratio(loss, logits, features, target)
            loss.strength = (loss.strength + self.feedback * step).clamp_min(0.0)
        return lacking

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; the margins and the strength are the loss's own buffers."""
        return {} if self.uncertainty is None else {"uncertainty": self.uncertainty}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of :meth:`state_dict`."""
        self.uncertainty = state.get("uncertainty")


def _shift_ratio(loss: UncertaintyMarginLoss, logits: Tensor, features: Tensor, target: Tensor) -> float:
    """Strength of the angular form that moves the true logits as far as one unit of (m − 1) does additively."""
    length = torch.linalg.vector_norm(features.to(logits.dtype), dim=-1).view(-1, *[1] * (logits.ndim - 1))
    cosine = logits / length.clamp_min(SHORTEST)
    shift = length * (cosine - psi(cosine, loss.margins))  # (batch, classes): at strength 1
    own = target.unsqueeze(-1)
    angular = shift.gather(-1, own).mean()
    additive = (loss.margins - 1).expand_as(shift).gather(-1, own).mean()
    return float(additive / angular.clamp_min(SHORTEST))


def _boundaries(epochs: int, softmax: float, class_level: float, sample_level: float) -> tuple[int, int]:
    """The first epochs of the class and of the sample stage."""
    stages = (softmax, class_level, sample_level)
    if min(stages) < 0 or sum(stages) <= 0:
        raise InvalidInputError(f"the stages must not be negative and not all 0, got {stages}.")
    shares = [stage for stage in stages if not _counts_epochs(stage)]
    left = epochs - sum(int(stage) for stage in stages if _counts_epochs(stage))
    if left < 0:
        raise InvalidInputError(f"the stages take {epochs - left} epochs but there are only {epochs}; shorten one.")
    whole = sum(shares) or 1.0
    counted = [int(stage) if _counts_epochs(stage) else int(left * stage / whole + 1e-9) for stage in stages]
    sample_start = epochs - counted[2]
    return max(1, sample_start - counted[1]), max(1, sample_start)


def _counts_epochs(stage: float) -> bool:
    return isinstance(stage, int) and not isinstance(stage, bool) and stage >= 1
