"""A backbone and its loss head as one module, so that DDP, checkpoints and mc_dropout see all of it."""

import torch
from torch import Tensor, nn

from equipoise.losses import ClassVectorLoss
from equipoise.models.replica import eval_replica


class Network(nn.Module):
    """``network(x)`` gives logits, ``network(x, target, sample_weight)`` the loss.

    With weights the loss of a batch is the mean of weight · loss over its samples, so that over an epoch each sample
    counts by its weight, whichever batch it falls into.

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

    def forward(self, x: Tensor, target: Tensor | None = None, sample_weight: Tensor | None = None) -> Tensor:
        features = self.backbone(x)
        if target is None:
            return self.head.logits(features)
        loss: Tensor = self.head(features, target, sample_weight=sample_weight)
        if sample_weight is None or self.head.reduction != "mean":
            return loss
        # the head divides by what this batch weighs, which would count a heavy row for less the heavier its batch is
        return loss * sample_weight.to(loss.dtype).mean()


@torch.no_grad()
def head_logits(head: ClassVectorLoss, features: Tensor) -> Tensor:
    """Logits for prediction, without the head's dropout, whatever mode it is in."""
    copied = eval_replica(head)
    assert isinstance(copied, ClassVectorLoss)
    return copied.logits(features)
