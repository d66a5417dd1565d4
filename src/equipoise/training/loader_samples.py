"""Measurements from data loaders, for the curriculum of a training loop of your own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.losses import ClassVectorLoss
from equipoise.models.evaluation_copy import eval_replica
from equipoise.tensor_checks import numeric_tensor
from equipoise.training.batches import rank_in_class
from equipoise.training.measurements import LabelledFeatures, class_moments, rows_by_passes
from equipoise.uncertainty import ClassMoments
from equipoise.uncertainty.class_level import UncertaintyKind
from equipoise.uncertainty.dropout import Inputs, input_rows, to_device

LABELS = ("labels", "label")
"""Names of the target in a batch that is a dict."""


@dataclass(frozen=True)
class LoaderSamples:
    """Measurements that a curriculum needs at the end of an epoch, from the loaders of a training loop.

    In a distributed run each process passes its own part of the samples; sums and features are gathered from all.

    Args:
        model: inputs -> features (batch, D), what the loop passes to the loss.
        loss: the loss head.
        loader: batches of training samples, see :func:`read_batch`.
        held_out: batches that are not trained on, or None.
        passes: stochastic passes for the class uncertainty.
        cap: samples of each class that are measured.
        seed: of the dropout masks.
    """

    model: nn.Module
    loss: ClassVectorLoss
    loader: Iterable[Any]
    held_out: Iterable[Any] | None
    passes: int
    cap: int
    seed: int

    def class_uncertainty(self, kind: UncertaintyKind) -> Tensor:
        """Return the class uncertainty over at most ``cap`` training samples of each class."""
        network = _Logits(self.model, self.loss)
        sums = ClassMoments.zeros(self.loss.class_shape, self.loss.weight.device)
        for inputs, target, weight in self._capped():
            for rows in torch.arange(len(target)).split(rows_by_passes(self.passes, self.loss)):
                part = input_rows(inputs, rows), target[rows], weight[rows]
                sums = sums + class_moments(network, *part, passes=self.passes, seed=self.seed)
        if _processes() > 1:
            for tensor in sums.tensors():
                torch.distributed.all_reduce(tensor)
        return sums.uncertainty(kind).cpu()

    def for_correction(self) -> LabelledFeatures | None:
        """Return the held-out samples; None if there are none."""
        return None if self.held_out is None else self._features(self._batches(self.held_out))

    def for_strength(self) -> LabelledFeatures:
        """Return the held-out samples, or some of the training samples if there are none."""
        held_out = self.for_correction()
        return self._features(self._capped()) if held_out is None else held_out

    def _features(self, batches: Iterable[tuple[Inputs, Tensor, Tensor | None]]) -> LabelledFeatures:
        model = eval_replica(unwrapped(self.model))
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        with torch.no_grad():
            for inputs, target, weight in batches:
                features = self.loss.shaped_features(call(model, inputs))
                each = torch.ones(len(target), dtype=torch.float64) if weight is None else weight
                parts.append((features, target, each.to(features.device)))
        if not parts:
            raise InvalidInputError("the loader yielded no samples to measure; pass one with at least one batch.")
        features, target, each = (torch.cat(part) for part in zip(*parts, strict=True))
        if _processes() > 1:
            features, target, each = (_gathered(tensor) for tensor in (features, target, each))
        return features, target, each

    def _batches(self, loader: Iterable[Any]) -> Iterator[tuple[Inputs, Tensor, Tensor | None]]:
        if iter(loader) is loader:
            raise InvalidInputError(
                "the loader can be read only once, and the curriculum reads it again; pass a DataLoader or a list of "
                "batches."
            )
        device = self.loss.weight.device
        for batch in loader:
            inputs, target, weight = read_batch(batch)
            target = self.loss.checked_target(target.to(device), len(target))
            yield to_device(inputs, device), target, None if weight is None else weight.to(device)

    def _capped(self) -> Iterator[tuple[Inputs, Tensor, Tensor]]:
        """Yield the first samples of each class, weighted by how many they stand for; several labels as one class."""
        groups = 1 if self.loss.multilabel else self.loss.classes
        quota = self.cap * (self.loss.classes if self.loss.multilabel else 1)
        counts = torch.zeros(groups, dtype=torch.long, device=self.loss.weight.device)
        for _, target, _ in self._batches(self.loader):
            counts += torch.bincount(_group(target), minlength=groups)
        if not bool(counts.any()) and _processes() == 1:
            raise InvalidInputError("the loader yielded no samples to measure; pass one with at least one batch.")
        left = counts.clamp(max=quota)
        stands_for = counts.double() / left.clamp_min(1).double()
        for inputs, target, weight in self._batches(self.loader):
            group = _group(target)
            rows = (rank_in_class(group) < left[group]).nonzero().flatten()
            left -= torch.bincount(group[rows], minlength=groups)
            if len(rows):
                each = stands_for[group[rows]]
                yield input_rows(inputs, rows), target[rows], each if weight is None else each * weight[rows].double()


class _Logits(nn.Module):
    """A model and its loss as one module that returns logits."""

    def __init__(self, model: nn.Module, loss: ClassVectorLoss) -> None:
        super().__init__()
        self.model, self.loss = unwrapped(model), loss

    def forward(self, *inputs: Tensor, **named: Any) -> Tensor:
        return self.loss.logits(self.model(*inputs, **named))


def read_batch(batch: Any) -> tuple[Inputs, Tensor, Tensor | None]:
    """Split a batch into inputs, target and weight.

    Args:
        batch: (x, y), (x, y, weight), or a dict whose ``"labels"`` or ``"label"`` is the target and whose other
            entries are the model's arguments, as Hugging Face has them.

    >>> read_batch({"input_ids": torch.zeros(2, 3), "labels": torch.tensor([0, 1])})[1]
    tensor([0, 1])
    """
    if isinstance(batch, Mapping):
        name = next((name for name in LABELS if name in batch), None)
        if name is None:
            raise InvalidInputError(f"a batch that is a dict must have 'labels', got {', '.join(map(str, batch))}.")
        return {key: value for key, value in batch.items() if key != name}, numeric_tensor(batch[name], name), None
    if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
        found = f"{len(batch)} parts" if isinstance(batch, list | tuple) else type(batch).__name__
        raise InvalidInputError(f"a batch must be (x, y), (x, y, weight) or a dict with 'labels', got {found}.")
    weight = numeric_tensor(batch[2], "weight") if len(batch) == 3 else None
    return batch[0], numeric_tensor(batch[1], "target"), weight


def call(model: nn.Module, inputs: Inputs) -> Any:
    """Return the model's output for one tensor or for named ones."""
    return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside torch's wrappers for several devices."""
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    return model.module if isinstance(model, wrappers) else model


def _group(target: Tensor) -> Tensor:
    return target if target.ndim == 1 else torch.zeros(len(target), dtype=torch.long, device=target.device)


def _processes() -> int:
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if ready else 1


def _gathered(own: Tensor) -> Tensor:
    """Return the rows of all processes, which may have different numbers of them, in the order of the processes."""
    parts: list[Any] = [None] * _processes()
    torch.distributed.all_gather_object(parts, own.cpu())
    return torch.cat(parts).to(own.device)
