"""Margins from class uncertainty for heads which no curriculum drives: set once, after the softmax stage."""

from dataclasses import dataclass

import torch

from equipoise.errors import InvalidInputError
from equipoise.losses import CosineMarginLoss, UncertaintyMarginLoss
from equipoise.training import ArrayData, Curriculum, Network, Settings
from equipoise.training.measure import estimate_class_uncertainty
from equipoise.training.prepare import make_accelerator
from equipoise.training.progress import Record
from equipoise.uncertainty import margins_from_uncertainty
from equipoise.uncertainty.classes import MarginRule, UncertaintyKind


@dataclass(frozen=True)
class LateMargins:
    """Where margins start and end, and how strong they are.

    Args:
        least, most: margin of the most certain and of the most uncertain class.
        kind, rule: see ``class_uncertainty`` and ``margins_from_uncertainty``.
        strength: of an ``UncertaintyMarginLoss``, from the end of the softmax stage on.
    """

    least: float
    most: float
    kind: UncertaintyKind
    rule: MarginRule = "log"
    strength: float = 1.0


class MarginWatcher:
    """Watches a training: no margin in the softmax stage, the uncertainty's in the class and sample stages.

    The stages are a curriculum's own, a third of the epochs each. A sample level, where the head has one, joins in the
    last of them.
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
        if isinstance(head, UncertaintyMarginLoss):
            head.strength, head.sample_strength = torch.zeros(()), torch.zeros(())
        else:
            head.margins = torch.zeros_like(head.margins)

    def step(self, epoch: int, stage: str, steps: int) -> None:
        """Nothing."""

    def epoch(self, record: Record) -> None:
        """What the next epoch needs."""
        ended = int(record["epoch"])
        if self.stages.wants_uncertainty(ended):
            self._set_margins()
        if isinstance(self.head, UncertaintyMarginLoss) and self.stages.stage(ended + 1) == "sample":
            self.head.sample_strength = torch.ones(())

    def _set_margins(self) -> None:
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
        self.head.margins = margins_from_uncertainty(uncertainty, late.most, late.rule, m_min=late.least).float()
        if isinstance(self.head, UncertaintyMarginLoss):
            self.head.strength = torch.tensor(late.strength)
