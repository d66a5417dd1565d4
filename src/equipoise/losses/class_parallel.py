r"""A head for very many classes, sharded over processes: each holds the class vectors of its own classes.

Every process computes the logits of all samples for its own classes, and the softmax is taken over all of them:

.. math:: L = \log \sum_r \sum_{j \in r} e^{\hat z_j} - \hat z_y

Two numbers per sample are exchanged for it, besides the features and their gradients, so that neither the class vectors
nor the logits of all classes are ever in one place (An et al. 2022, Partial FC, without its sampling of classes).
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from equipoise.errors import InvalidInputError
from equipoise.losses.class_vector_loss import ClassVectorLoss, full_precision
from equipoise.uncertainty.class_level import ClassMoments, UncertaintyKind

SHARDED_BUFFERS = ("margins", "shift", "class_counts", "class_weight")


def own_classes(classes: int, group: Any = None) -> range:
    """Return the classes of this process; all processes get about equally many."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    return range(classes * rank // size, classes * (rank + 1) // size)


class ClassParallelHead(nn.Module):
    """Divide the classes of a loss among the processes of a group; each calls it with its own part of the batch.

    The loss is that of the whole batch, the same on every process. Gradients of the class vectors are those of the
    unsharded head; so are those of the features.

    Args:
        shard: the loss of this process's own classes, :func:`own_classes`, with one label per sample. It must be
            ``divisible``: the plain softmax loss, a :class:`CosineMarginLoss`, an :class:`UncertaintyMarginLoss` or
            your own. A ``CosineMarginLoss`` needs the ``scale`` of all classes.
        classes: total number of classes on all processes.
        group: the processes; None is all of them.
        averaged: whether the backbone's gradients are averaged over the processes afterwards, as by
            DistributedDataParallel; those of the features are then multiplied accordingly. Keep the head itself out of
            DistributedDataParallel.
    """

    def __init__(self, shard: ClassVectorLoss, classes: int, *, group: Any = None, averaged: bool = False) -> None:
        super().__init__()
        own = own_classes(classes, group)
        if shard.multilabel or not shard.divisible:
            raise InvalidInputError(
                "a class-parallel head takes the plain softmax loss, a CosineMarginLoss or an UncertaintyMarginLoss, "
                f"or another divisible loss, with one label per sample, got {type(shard).__name__}."
            )
        if shard.classes != len(own):
            raise InvalidInputError(
                f"this process has {len(own)} of {classes} classes, and the shard was built for {shard.classes}."
            )
        self.shard, self.classes, self.group, self.averaged = shard, classes, group, averaged
        self.first, self.size, self.rank = own.start, dist.get_world_size(group), dist.get_rank(group)

    @classmethod
    def of(cls, head: ClassVectorLoss, *, group: Any = None, averaged: bool = False) -> "ClassParallelHead":
        """Cut this process's shard out of a whole ``head`` that is the same on every process."""
        own = own_classes(head.classes, group)
        shard = copy.deepcopy(head)
        shard.classes, shard.class_shape = len(own), (len(own),)
        for name in ("weight", "bias"):
            value = getattr(head, name)
            if value is not None:
                setattr(shard, name, nn.Parameter(value.detach()[own.start : own.stop].clone()))
        for name in SHARDED_BUFFERS:
            value = head._buffers.get(name)
            if value is not None:
                shard._buffers[name] = value[own.start : own.stop].clone()
        return cls(shard, head.classes, group=group, averaged=averaged)

    def forward(self, features: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of all processes' batches together, the same everywhere.

        Args:
            features: features of this process, (batch, D); all processes have batches of the same size.
            target: their labels among all classes, (batch,).
            sample_weight: (batch,), not negative; None gives each sample weight 1.
        """
        shard = self.shard
        seen = shard.checked_features(features)
        if target.shape != (len(seen),) or (
            len(target) and not 0 <= int(target.min()) <= int(target.max()) < self.classes
        ):
            raise InvalidInputError(f"target must hold {len(seen)} labels from 0 to {self.classes - 1}.")
        with full_precision(features):
            met = shard.training_features(seen)
            every: Tensor = _Gather.apply(met, self.group, self.size if self.averaged else 1)  # type: ignore[no-untyped-call]
            labels = self._gathered(target) - self.first
            here = ((labels >= 0) & (labels < shard.classes)).nonzero().squeeze(-1)
            place = labels[here]
            logits = shard.shard_logits(every, seen, _Samples(self, here, place))
            losses: Tensor = _ParallelSoftmax.apply(logits, here, place, self.group)  # type: ignore[no-untyped-call]
            return self._mean(losses, here, place, sample_weight)

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Return the most probable class of each sample; all processes pass the same features (n, D)."""
        best = self.shard.logits(features).max(-1)
        scores = self._stacked(best.values)  # (processes, n)
        places = self._stacked(best.indices + self.first)
        return places.gather(0, scores.argmax(0, keepdim=True)).squeeze(0)

    @torch.no_grad()
    def class_uncertainty(self, draws: Tensor, kind: UncertaintyKind = "unresolved") -> Tensor:
        """Return the uncertainty of every class, the same on every process.

        Args:
            draws: features of stochastic passes, dropout included, the same on every process, (passes, n, D).
            kind: as in :func:`equipoise.uncertainty.class_uncertainty`, except ``"own"``.
        """
        if kind == "own":
            raise InvalidInputError("kind 'own' needs the covariance of all classes at once; use another kind.")
        logits = self.shard.project(draws)
        top = self._reduced(logits.amax(-1), dist.ReduceOp.MAX).unsqueeze(-1)
        total = self._reduced((logits - top).exp().sum(-1), dist.ReduceOp.SUM).unsqueeze(-1)
        own = ((logits - top).exp() / total).double()
        rest = (1 - own.sum(-1, keepdim=True)).clamp_min(0)  # of the other processes' classes
        moments = ClassMoments.of(torch.cat((own, rest), dim=-1))
        parts = [each[:-1] if each.ndim else each for each in moments.tensors()]
        whole = [self._concatenated(each) if each.ndim else each for each in parts]
        return ClassMoments(*whole).uncertainty(kind)

    def own_part(self, values: Tensor) -> Tensor:
        """Return the values, such as margins, of this process's classes out of those of all, (classes,)."""
        return values[self.first : self.first + self.shard.classes]

    def _mean(self, losses: Tensor, here: Tensor, place: Tensor, sample_weight: Tensor | None) -> Tensor:
        weights = None if sample_weight is None else self._gathered(sample_weight.to(losses.dtype))
        if self.shard.class_weight is not None:
            own = torch.zeros_like(losses)
            own[here] = self.shard.class_weight.to(losses.dtype)[place]
            by_class = self._reduced(own, dist.ReduceOp.SUM)
            weights = by_class if weights is None else weights * by_class
        if weights is None:
            return losses.mean()
        return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)

    def _gathered(self, own: Tensor) -> Tensor:
        return self._stacked(own).flatten(0, 1)

    def _stacked(self, own: Tensor) -> Tensor:
        every = torch.empty(self.size, *own.shape, dtype=own.dtype, device=own.device)
        dist.all_gather(list(every), own.contiguous(), group=self.group)
        return every

    def _concatenated(self, own: Tensor) -> Tensor:
        """Return every process's values; some may have one more than others."""
        most = -(-self.classes // self.size)
        every = self._stacked(F.pad(own, (0, most - len(own))))
        bounds = [self.classes * rank // self.size for rank in range(self.size + 1)]
        return torch.cat([part[: bounds[rank + 1] - bounds[rank]] for rank, part in enumerate(every)])

    def _reduced(self, own: Tensor, how: Any) -> Tensor:
        found = own.detach().clone()
        dist.all_reduce(found, op=how, group=self.group)
        return found


@dataclass
class _Samples:
    """The samples of all processes, for the loss of one: a :class:`~equipoise.losses.class_vector_loss.Shard`."""

    head: ClassParallelHead
    here: Tensor
    place: Tensor

    def gathered(self, own: Tensor) -> Tensor:
        return self.head._gathered(own)

    def summed(self, own: Tensor) -> Tensor:
        return self.head._reduced(own, dist.ReduceOp.SUM)

    def largest(self, own: Tensor) -> Tensor:
        return self.head._reduced(own, dist.ReduceOp.MAX)


class _Gather(torch.autograd.Function):
    """Every process's features, one after the other; backward sums the gradients from all classes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Any, times: int) -> Tensor:
        ctx.group, ctx.times, ctx.rows = group, times, len(own)
        size = dist.get_world_size(group)
        every = torch.empty(size, *own.shape, dtype=own.dtype, device=own.device)
        dist.all_gather(list(every), own.contiguous(), group=group)
        return every.flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        total = upstream.contiguous()
        dist.all_reduce(total, group=ctx.group)
        start = dist.get_rank(ctx.group) * ctx.rows
        return total[start : start + ctx.rows] * ctx.times, None, None


class _ParallelSoftmax(torch.autograd.Function):
    """The softmax loss of logits whose classes are on several processes, (samples,); its slope is softmax − one-hot."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, here: Tensor, place: Tensor, group: Any) -> Tensor:
        top = logits.amax(-1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        share = (logits - top.unsqueeze(-1)).exp_()
        both = torch.zeros(2, len(logits), dtype=logits.dtype, device=logits.device)  # Σ exp, and the true logit
        both[0] = share.sum(-1)
        both[1, here] = logits[here, place] - top[here]
        dist.all_reduce(both, group=group)
        share.div_(both[0].unsqueeze(-1))
        ctx.save_for_backward(share, here, place)
        return both[0].log() - both[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        share, here, place = ctx.saved_tensors
        slope = share.clone()
        slope[here, place] -= 1
        return slope.mul_(upstream.unsqueeze(-1)), None, None, None
