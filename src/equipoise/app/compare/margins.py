"""Margins from class uncertainty for heads which no curriculum drives: set once, after the softmax stage."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses import CosineMarginLoss, UncertaintyMarginLoss
from equipoise.training import ArrayData, Curriculum, Network, Settings
from equipoise.training.callbacks import Record
from equipoise.training.engine import make_accelerator
from equipoise.training.measure import estimate_class_uncertainty
from equipoise.uncertainty import margins_from_uncertainty
from equipoise.uncertainty.classes import MarginRule, UncertaintyKind


@dataclass(frozen=True)
class LateMargins:
    """Where margins start and end, and how strong they are.

    Args:
        least, most: margin of the most certain and of the most uncertain class.
        kind, rule: see ``class_uncertainty`` and ``margins_from_uncertainty``.
        strength: of an ``UncertaintyMarginLoss``, from the end of the softmax stage on.
        rising: grow to all that over the class stage, epoch by epoch, instead of at once: a large margin that comes
            at once makes training collapse, and the authors of margin losses let it grow as well.
    """

    least: float
    most: float
    kind: UncertaintyKind
    rule: MarginRule = "log"
    strength: float = 1.0
    rising: bool = False


class MarginWatcher:
    """Watches a training: no margin in the softmax stage, the uncertainty's in the class and sample stages.

    The stages are a curriculum's own. A sample level, where the head has one, joins in the last of them.
    """

    def __init__(self, network: Network, data: ArrayData, settings: Settings, late: LateMargins) -> None:
        head = network.head
        if not isinstance(head, CosineMarginLoss | UncertaintyMarginLoss):
            raise InvalidInputError(
                f"margins are of CosineMarginLoss or UncertaintyMarginLoss, got {type(head).__name__}."
            )
        self.network, self.data, self.settings, self.late = network, data, settings, late
        self.stages = Curriculum(settings.epochs)
        self.head = head
        self.margins = torch.zeros_like(head.margins)  # once they have risen
        if isinstance(head, UncertaintyMarginLoss):
            head.strength, head.sample_strength = torch.zeros(()), torch.zeros(())
        else:
            head.margins = self.margins

    def step(self, epoch: int, stage: str, steps: int) -> None:
        """Nothing."""

    def epoch(self, record: Record) -> None:
        """What the next epoch needs."""
        ended = int(record["epoch"])
        if self.stages.wants_uncertainty(ended):
            self.margins = self._measured()
        if self.stages.stage(ended + 1) == "softmax":
            return
        share = self._risen(ended + 1)
        if isinstance(self.head, CosineMarginLoss):
            self.head.margins = share * self.margins
            return
        self.head.margins, self.head.strength = self.margins, torch.tensor(share * self.late.strength)
        if self.stages.stage(ended + 1) == "sample":
            self.head.sample_strength = torch.ones(())

    def _risen(self, epoch: int) -> float:
        """How much of a margin an epoch has."""
        stages = self.stages
        rise = max(1, stages.sample_start - stages.class_start)
        return min(1.0, (epoch - stages.class_start + 1) / rise) if self.late.rising else 1.0

    def _measured(self) -> Tensor:
        late = self.late
        uncertainty = estimate_class_uncertainty(
            make_accelerator(self.settings, None, None),
            self.network,
            self.data,
            passes=self.settings.passes,
            cap=self.settings.cap,
            seed=self.settings.seed,
            kind=late.kind,
        )
        return margins_from_uncertainty(uncertainty, late.most, late.rule, m_min=late.least).float()
