"""Measurements during training: class uncertainty, and scores on the validation split."""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from equipoise.data.labels import class_counts
from equipoise.data.summary import rare_classes
from equipoise.losses import ClassVectorLoss
from equipoise.models.evaluation_copy import eval_replica
from equipoise.training.batches import ArrayData, capped_sample
from equipoise.training.network_recipe import Network
from equipoise.training.settings import Settings, rows_at_once
from equipoise.uncertainty import ClassMoments, mc_dropout
from equipoise.uncertainty.class_level import UncertaintyKind
from equipoise.uncertainty.dropout import Inputs

LabelledFeatures = tuple[Tensor, Tensor, Tensor | None]
"""Features (samples, D), targets and weights."""


class MeasuredSamples(Protocol):
    """Source of a curriculum's measurements: arrays in the library's own loop, loaders in yours."""

    def class_uncertainty(self, kind: UncertaintyKind) -> Tensor:
        """Return the class uncertainty over training samples, (classes,) or (attributes, 2)."""

    def for_correction(self) -> LabelledFeatures | None:
        """Return samples that were not trained on; None if there are none."""

    def for_strength(self) -> LabelledFeatures:
        """Return held-out samples, or training samples if there are none."""


def estimate_class_uncertainty(
    accelerator: Accelerator,
    network: Network,
    data: ArrayData,
    *,
    passes: int,
    cap: int,
    seed: int,
    kind: UncertaintyKind,
) -> Tensor:
    """Estimate class uncertainty over the training samples, counting each once however many processes share them.

    At most ``cap`` samples of each class pass through the network, weighted by how many they stand for. All of them
    pass through the same ``passes`` sub-networks, whatever their batch and process.
    """
    rows, weight = capped_sample(data.y, cap, seed=seed, weight=data.weight)
    sums = ClassMoments.zeros(network.head.class_shape, accelerator.device)
    with accelerator.split_between_processes(list(range(len(rows)))) as mine:
        for part in _parts(mine, rows_by_passes(passes, network.head)):
            x, target = (tensor.to(accelerator.device) for tensor in data.__getitems__(rows[part])[:2])
            each = weight[part].to(accelerator.device)
            sums = sums + class_moments(network, x, target, each, passes=passes, seed=seed)
    total = ClassMoments(*(accelerator.reduce(tensor, reduction="sum") for tensor in sums.tensors()))
    return total.uncertainty(kind).cpu()


def class_moments(
    network: nn.Module, inputs: Inputs, target: Tensor, weight: Tensor, *, passes: int, seed: int
) -> ClassMoments:
    """Return the sums of class uncertainty over one batch.

    The masks are seeded for each batch, so that all batches and processes use the same ``passes`` sub-networks.
    """
    generator = torch.Generator().manual_seed(seed)
    return ClassMoments.of(mc_dropout(network, inputs, passes, generator).softmax(-1), target, weight)


def rows_by_passes(passes: int, head: ClassVectorLoss) -> int:
    """Return the batch size of stochastic passes; larger batches would exceed the CPU's cache."""
    return min(512, rows_at_once(passes * math.prod(head.class_shape)))


@dataclass(frozen=True)
class ArraySamples:
    """Measurements that a curriculum needs in the library's own loop.

    Args:
        accelerator, network: of the training.
        data: training samples.
        back: rows of them that the first two stages leave out, or None.
        held_out: features of validation samples, or None.
        settings: number of passes, samples of each class and seed.
    """

    accelerator: Accelerator
    network: Network
    data: ArrayData
    back: Tensor | None
    held_out: LabelledFeatures | None
    settings: Settings

    def class_uncertainty(self, kind: UncertaintyKind) -> Tensor:
        """Return the class uncertainty over the training samples."""
        chosen = self.settings
        return estimate_class_uncertainty(
            self.accelerator,
            self.network,
            self.data,
            passes=chosen.passes,
            cap=chosen.cap,
            seed=chosen.seed,
            kind=kind,
        )

    def for_correction(self) -> LabelledFeatures | None:
        """Return the samples that the first two stages leave out."""
        if self.back is None:
            return None
        return labelled_features(self.accelerator, self.network, self.data.subset(self.back))

    def for_strength(self) -> LabelledFeatures:
        """Return the validation samples, or some of the training samples if there are none."""
        if self.held_out is not None:
            return self.held_out
        some = capped_sample(self.data.y, self.settings.cap, seed=self.settings.seed)[0]
        return labelled_features(self.accelerator, self.network, self.data.subset(some))


@torch.no_grad()
def gathered_features(accelerator: Accelerator, network: Network, data: ArrayData) -> Tensor:
    """Return features (samples, D) of the deterministic pass, computed in parallel and identical on all processes."""
    backbone = eval_replica(network.backbone)
    parts: list[Tensor] = []
    with accelerator.split_between_processes(list(range(len(data)))) as mine:
        row = data.__getitems__([0])[0].numel()
        for part in _parts(mine, rows_at_once(row)):
            x = data.__getitems__(part)[0].to(accelerator.device)
            with accelerator.autocast():
                parts.append(backbone(x).float())
    nothing = torch.empty(0, network.head.in_features, device=accelerator.device)
    return _gather_rows(accelerator, torch.cat(parts) if parts else nothing, len(data))


def labelled_features(accelerator: Accelerator, network: Network, data: ArrayData) -> LabelledFeatures:
    """Return features of some samples with their targets and weights, in the form that a curriculum takes."""
    features = gathered_features(accelerator, network, data)
    weight = None if data.weight is None else data.weight.to(features.device)
    return features, data.y.to(features.device), weight


def validation_scores(logits: Tensor, target: Tensor, weight: Tensor | None, class_counts: Tensor) -> dict[str, float]:
    """Return balanced accuracy, and the mean recalls of the rare and of the common classes of the training set."""
    recall, present = class_recall(logits, target, weight)
    scores = {"balanced_accuracy": float(recall[present].mean())}
    rare = torch.from_numpy(rare_classes(class_counts.cpu()))
    for name, group in (("rare", rare & present), ("common", ~rare & present)):
        if bool(rare.any()) and bool(group.any()):
            scores[f"recall_{name}"] = float(recall[group].mean())
    return scores


def class_recall(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return each class's recall, (classes,) or (attributes, 2), and whether it has any sample of non-zero weight."""
    right = (logits.argmax(-1) == target).double().cpu()
    labels, classes = target.cpu(), logits.shape[-1]
    each = torch.ones_like(right)
    if weight is not None:
        each = each * weight.cpu().view(-1, *[1] * (labels.ndim - 1))
    counts, found = class_counts(labels, classes, each), class_counts(labels, classes, each * right)
    return torch.where(counts > 0, found / counts, 0), counts > 0


def _parts(rows: list[int], step: int) -> tuple[Tensor, ...]:
    """Return a process's rows in chunks; none without rows, since a network need not accept an empty batch."""
    return torch.tensor(rows, dtype=torch.long).split(step) if rows else ()


def _gather_rows(accelerator: Accelerator, own: Tensor, total: int) -> Tensor:
    """Return every process's rows in order; processes may hold one row more or less."""
    if accelerator.num_processes == 1:
        return own
    padded = accelerator.pad_across_processes(own, dim=0)
    lengths = accelerator.gather(torch.tensor([len(own)], device=own.device))
    gathered = accelerator.gather(padded).split(len(padded))
    rows = torch.cat([part[: int(length)] for part, length in zip(gathered, lengths, strict=True)])
    return rows[:total]
