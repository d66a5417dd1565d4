r"""A head of very many classes, sharded over processes: each has the class vectors of its own classes.

Every process computes the logits of all samples for its own classes, and the softmax is taken over all of them:

.. math:: L = \log \sum_r \sum_{j \in r} e^{\hat z_j} - \hat z_y

Two numbers per sample are exchanged for it, besides the features and their gradients, so that neither the class vectors
nor the logits of all classes are ever in one place (An et al. 2022, Partial FC, without its sampling of classes).
"""

import copy
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from equipoise.errors import InvalidInputError
from equipoise.losses.class_vector_loss import ClassVectorLoss, full_precision
from equipoise.losses.cosine_margin import CosineMarginLoss, am_softmax_cosine, arcface_cosine
from equipoise.losses.logit_losses import LogitLoss, cross_entropy
from equipoise.losses.psi import angular_logits
from equipoise.losses.sample_level_logits import expected_logits, weighted_true_logit
from equipoise.losses.uncertainty_margin import UncertaintyMarginLoss, additive_margin
from equipoise.losses.unit_vectors import unit_vectors
from equipoise.uncertainty.class_level import ClassMoments, UncertaintyKind
from equipoise.uncertainty.sample_level import (
    ErrorMoments,
    dropout_error_moments,
    dropout_error_variance,
    misclassification_probability,
)

VECTORS_AT_ONCE = 8192
"""Class vectors whose errors are computed at a time."""
SHARDED_BUFFERS = ("margins", "shift", "class_counts", "class_weight")


def own_classes(classes: int, group: Any = None) -> range:
    """Return the classes of this process, as evenly shared as possible."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    return range(classes * rank // size, classes * (rank + 1) // size)


class ClassParallelHead(nn.Module):
    """A loss whose classes are shared by the processes of a group; each calls it with its own part of the batch.

    The loss is that of the whole batch, the same on every process. Gradients of the class vectors are those of the
    unsharded head; so are those of the features.

    Args:
        shard: the loss of this process's own classes, :func:`own_classes`: the plain softmax loss, one of
            :class:`CosineMarginLoss` or of :class:`UncertaintyMarginLoss`, with one label per sample. A
            ``CosineMarginLoss`` needs the ``scale`` of all classes.
        classes: how many there are on all processes together.
        group: the processes; None is all of them.
        averaged: the backbone's gradients are averaged over the processes afterwards, as DistributedDataParallel does;
            those of the features are multiplied accordingly. Keep the head itself out of DistributedDataParallel.
    """

    def __init__(self, shard: ClassVectorLoss, classes: int, *, group: Any = None, averaged: bool = False) -> None:
        super().__init__()
        own = own_classes(classes, group)
        plain = isinstance(shard, LogitLoss) and shard.criterion is cross_entropy
        if shard.multilabel or not (plain or isinstance(shard, CosineMarginLoss | UncertaintyMarginLoss)):
            raise InvalidInputError(
                "a class-parallel head takes the plain softmax loss, a CosineMarginLoss or an UncertaintyMarginLoss, "
                f"with one label per sample, got {type(shard).__name__}."
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
            features: this process's own, (batch, D); all have batches of the same size.
            target: their labels among all classes, (batch,).
            sample_weight: (batch,), not negative; None weighs each 1.
        """
        shard = self.shard
        seen = shard.checked_features(features)
        if target.shape != (len(seen),) or (
            len(target) and not 0 <= int(target.min()) <= int(target.max()) < self.classes
        ):
            raise InvalidInputError(f"target must hold {len(seen)} labels from 0 to {self.classes - 1}.")
        with full_precision(features):
            met = seen if isinstance(shard, CosineMarginLoss) else shard.dropped(seen)
            every: Tensor = _Gather.apply(met, self.group, self.size if self.averaged else 1)  # type: ignore[no-untyped-call]
            labels = self._gathered(target) - self.first
            here = ((labels >= 0) & (labels < shard.classes)).nonzero().squeeze(-1)
            place = labels[here]
            logits = self._logits(every, seen, here, place)
            losses: Tensor = _ParallelSoftmax.apply(logits, here, place, self.group)  # type: ignore[no-untyped-call]
            return self._mean(losses, here, place, sample_weight)

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Return the most probable class of each sample, for the same features (n, D) on every process."""
        best = self.shard.logits(features).max(-1)
        scores = self._stacked(best.values)  # (processes, n)
        places = self._stacked(best.indices + self.first)
        return places.gather(0, scores.argmax(0, keepdim=True)).squeeze(0)

    @torch.no_grad()
    def class_uncertainty(self, draws: Tensor, kind: UncertaintyKind = "unresolved") -> Tensor:
        """Return one uncertainty for each of all classes, the same on every process.

        Args:
            draws: features of stochastic passes, dropout included, the same on every process, (passes, n, D).
            kind: as in :func:`equipoise.uncertainty.class_uncertainty`, but ``"own"``.
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
        """Return the values of this process's classes out of those of all, (classes,): margins, for example."""
        return values[self.first : self.first + self.shard.classes]

    def _logits(self, features: Tensor, undropped: Tensor, here: Tensor, place: Tensor) -> Tensor:
        """Return the logits of all samples for the own classes, with margins: (samples, own classes)."""
        shard = self.shard
        if isinstance(shard, CosineMarginLoss):
            logits = shard.project(F.normalize(features, dim=-1))
            margins = (shard.strength * shard.margins).to(logits.dtype)[place]
            move = arcface_cosine if shard.kind == "arcface" else am_softmax_cosine
            moved = move(logits[here, place] / shard.scale, margins)
            return logits.index_put((here, place), shard.scale * moved)
        if not isinstance(shard, UncertaintyMarginLoss):
            return shard.project(features)
        vectors = unit_vectors(shard.weight) if shard.normalize else shard.weight
        logits = self._margin_logits(shard, features, vectors, here, place)
        if shard.sample_level in ("none", "mixing") or shard.sample_strength.item() == 0:
            return logits
        if shard.dropout.p == 0:
            raise InvalidInputError(f"sample_level={shard.sample_level!r} needs dropout above 0 for its closed form.")
        return self._sample_level(shard, logits, self._gathered(undropped.detach()), vectors.detach(), here, place)

    def _margin_logits(
        self, shard: UncertaintyMarginLoss, features: Tensor, vectors: Tensor, here: Tensor, place: Tensor
    ) -> Tensor:
        if shard.strength.item() == 0:
            return F.linear(features, vectors)
        margins, strength = shard.margins.to(features.dtype), shard.strength.to(features.dtype)
        if shard.placement == "target":
            placed = torch.ones(len(features), len(vectors), dtype=features.dtype, device=features.device)
            margins = placed.index_put((here, place), margins[place])
        if shard.form == "additive":
            return additive_margin(F.linear(features, vectors), margins, strength)
        return angular_logits(features, vectors, margins, strength, unit=shard.normalize)

    def _sample_level(
        self,
        shard: UncertaintyMarginLoss,
        logits: Tensor,
        features: Tensor,
        vectors: Tensor,
        here: Tensor,
        place: Tensor,
    ) -> Tensor:
        """Apply the sample level; the true classes' vectors, which others may have, are exchanged for it."""
        true = torch.zeros_like(features)
        true[here] = vectors[place]
        true = self._reduced(true, dist.ReduceOp.SUM)  # w_y of every sample, (samples, D)
        rate, parts = shard.dropout.p, vectors.split(VECTORS_AT_ONCE)
        if shard.sample_level == "expected":
            found = [_against(dropout_error_variance, features, part, true, rate) for part in parts]
            variance = torch.cat(found, dim=-1).index_put((here, place), torch.zeros((), dtype=logits.dtype))
            return expected_logits(logits, variance, kappa=shard.sample_strength.item() * shard.kappa)
        moments = [_against(dropout_error_moments, features, part, true, rate) for part in parts]
        mistakes = torch.cat([misclassification_probability(*each) for each in moments], dim=-1)
        mistakes = mistakes.index_put((here, place), torch.zeros((), dtype=mistakes.dtype))
        worst = self._reduced(mistakes.amax(-1), dist.ReduceOp.MAX)[here]
        share, own = shard.sample_strength.to(logits.dtype), logits[here, place]
        return logits.index_put((here, place), weighted_true_logit(shard.sample_level, own, worst, share))

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


def _against(formula: Any, features: Tensor, part: Tensor, true: Tensor, rate: float) -> Any:
    """Apply a formula of the error to some class vectors, with a true vector of its own for every sample."""
    target = len(part) + torch.arange(len(true), device=part.device)
    found = formula(features, torch.cat((part, true)), target, rate=rate)
    if isinstance(found, ErrorMoments):
        return ErrorMoments(*(each[:, : len(part)] for each in found))
    return found[:, : len(part)]


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
