"""The network that trains, a backbone and a loss head in one module, and the recipe to rebuild it from a file."""

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.losses import ClassVectorLoss
from equipoise.losses.registry import LossBuilder, fixed_options, loss_builder
from equipoise.models import MLP, Standardize
from equipoise.models.evaluation_copy import eval_replica
from equipoise.options import check_options, limits, plain_numbers
from equipoise.registry_names import MarginForm, Placement, SampleLevel
from equipoise.tensor_checks import new_tensor


class Network(nn.Module):
    """A backbone with a loss head: ``network(x)`` returns logits, ``network(x, target, sample_weight)`` the loss.

    With weights, the loss of a batch is the mean of weight · loss over its samples, so that over an epoch each sample
    counts by its weight, whatever its batch.

    Args:
        backbone: any module x -> features of shape (batch, head.in_features).
        head: a loss of ``equipoise.losses.LOSSES``, with its class vectors.

    >>> from equipoise.losses import LogitLoss
    >>> network = Network(nn.Linear(4, 8), LogitLoss(8, 3))
    >>> network(torch.zeros(5, 4)).shape, network(torch.zeros(5, 4), torch.arange(5) % 3).shape
    (torch.Size([5, 3]), torch.Size([]))
    """

    def __init__(self, backbone: nn.Module, head: ClassVectorLoss) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(
        self,
        x: Tensor,
        target: Tensor | None = None,
        sample_weight: Tensor | None = None,
        partner: Tensor | None = None,
        partner_weight: Tensor | None = None,
    ) -> Tensor:
        features = self.backbone(x)
        if target is None:
            return self.head.logits(features)
        if partner is not None and sample_weight is not None and partner_weight is not None:
            return self.head.mixed_loss(features, (target, partner), (sample_weight, partner_weight))
        loss: Tensor = self.head(features, target, sample_weight=sample_weight)
        if sample_weight is None or self.head.reduction != "mean":
            return loss
        # the head divides by the batch's total weight, which would count a heavy row for less the heavier its batch is
        return loss * sample_weight.to(loss.dtype).mean()


@torch.no_grad()
def head_logits(head: ClassVectorLoss, features: Tensor) -> Tensor:
    """Return logits for prediction, without the head's dropout, whatever its mode."""
    copied = eval_replica(head)
    assert isinstance(copied, ClassVectorLoss)
    return copied.logits(features)


@dataclass(frozen=True)
class Recipe:
    """A head by its name in ``LOSSES`` or by a function, on the paper's network for tables or on a given backbone.

    Args:
        method: the name, or a function like those in ``LOSSES``.
        classes: C, or the attributes with ``multilabel``.
        multilabel: whether a sample has several labels.
        dropout: the share dropped, between the hidden layers and in front of the class vectors.
        form, sample_level, placement, normalize: options of a loss that a curriculum drives, unless its entry in
            ``LOSSES`` sets them itself.
        columns: number of columns of the table.
        width: units per hidden layer.
        members: networks trained side by side, whose logits are averaged; only for tables.

    >>> recipe = Recipe("weighted", 3, False, 0.5, "additive", "expected", columns=4, width=16)
    >>> recipe.uncertain, recipe.class_shape
    (False, (3,))
    >>> counts = torch.tensor([80.0, 15.0, 5.0])
    >>> network = Network(recipe.table_backbone(), recipe.head(counts, features=16))
    >>> network(torch.zeros(2, 4)).shape, recipe.head(counts, features=16).class_weight
    (torch.Size([2, 3]), tensor([0.4167, 2.2222, 6.6667]))
    >>> recipe.new_network(torch.rand(5, 4).numpy(), counts, backbone=None).head.in_features
    16
    """

    method: str | LossBuilder
    classes: int = field(metadata=limits(least=1, whole=True))
    multilabel: bool
    dropout: float = field(metadata=limits(least=0, below=1))
    form: MarginForm
    sample_level: SampleLevel
    columns: int = field(metadata=limits(least=1, whole=True))
    width: int = field(metadata=limits(least=1, whole=True))
    placement: Placement = "all"
    normalize: bool = True
    members: int = field(default=1, metadata=limits(least=1, whole=True))

    def __post_init__(self) -> None:
        loss_builder(self.method)
        check_options(self)  # a file may contain anything
        plain_numbers(self)
        if self.uncertain and self.dropout == 0:
            raise InvalidInputError(
                f"method {self.method!r} takes its uncertainty from dropout, got dropout=0; choose a rate above 0."
            )

    @cached_property
    def uncertain(self) -> bool:
        """True if the loss declares that a curriculum drives it."""
        with torch.random.fork_rng(devices=[]):  # built only to read the declaration
            counts = torch.ones(self.class_shape)
            head = loss_builder(self.method)(1, self.classes, multilabel=self.multilabel, class_counts=counts)
            return head.driven_by_curriculum

    @property
    def class_shape(self) -> tuple[int, ...]:
        """Shape of the class values: (classes,), or (attributes, 2)."""
        return (self.classes, 2) if self.multilabel else (self.classes,)

    def table_backbone(self, standardize: Standardize | None = None) -> nn.Sequential:
        """Build ``standardize`` and two hidden layers: (batch, columns) -> (batch, members·width)."""
        first, hidden = standardize or Standardize(self.columns), (self.width, self.width)
        return nn.Sequential(first, MLP(self.columns, hidden, dropout=self.dropout, members=self.members))

    def new_network(
        self, x: Any, class_counts: Tensor, backbone: nn.Module | None, weight: Tensor | None = None
    ) -> Network:
        """Build an untrained network for the rows of x, (samples, columns) or images.

        It is on a copy of the ``backbone`` if given; ``class_counts`` as in :meth:`head`, ``weight`` (samples,) of the
        rows.
        """
        if backbone is not None:
            own = copy.deepcopy(backbone)
        elif x.ndim > 2:
            raise InvalidInputError("images need a backbone; pass one of equipoise.models, an ImageBackbone.")
        else:
            own = self.table_backbone(Standardize(self.columns).fit(x, None if weight is None else weight.numpy()))
        return Network(own, self.head(class_counts, features=feature_length(own, new_tensor(x[:2]))))

    def head(self, class_counts: Tensor, *, features: int) -> ClassVectorLoss:
        """Build the loss for features of length ``features``.

        ``class_counts``, (classes,) or (attributes, 2), are the training samples per class.
        """
        build = loss_builder(self.method)
        names = ("form", "sample_level", "placement", "normalize") if self.uncertain else ()
        fixed = fixed_options(build)
        own: dict[str, Any] = {name: getattr(self, name) for name in names if name not in fixed}
        own |= {"members": self.members} if self.members > 1 else {}  # a function of your own need not know of it
        return build(
            features, self.classes, multilabel=self.multilabel, dropout=self.dropout, class_counts=class_counts, **own
        )


def feature_length(backbone: nn.Module, sample: Tensor) -> int:
    """Return D of a backbone: its ``out_features``, or the width of its output for a sample batch.

    Args:
        backbone: x -> features (batch, D).
        sample: a batch, (batch, ...), for example of two rows.

    >>> feature_length(nn.Sequential(nn.Flatten(), nn.Linear(8, 5)), torch.zeros(2, 2, 4))
    5
    """
    length = getattr(backbone, "out_features", None)
    if isinstance(length, int):
        return length
    with torch.no_grad():
        features = copy.deepcopy(backbone).eval()(sample)  # a copy, so that not even a counter in it changes
    if not isinstance(features, Tensor) or features.ndim != 2:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InvalidInputError(
            f"a backbone must give features of shape (batch, D), got {shape}; pool or flatten them."
        )
    return int(features.shape[1])
