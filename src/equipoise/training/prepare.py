"""What a training loop is set up from: settings, Accelerate, the optimiser and its schedule."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DataLoaderConfiguration
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from equipoise.errors import InvalidInputError
from equipoise.training.batches import ArrayData, EpochBatches, Order

Precision = Literal["no", "fp16", "bf16"]


@dataclass(frozen=True)
class Settings:
    """Everything about a training run but its data and its network.

    Args:
        order: ``"shuffled"``, or ``"balanced"``: every class drawn equally often.
        accumulate: batches whose gradients are added up before a step.
        passes: stochastic passes for the class uncertainty.
        cap: samples of each class that take part in it.
        checkpoint_steps: steps between checkpoints; None saves at the end of each epoch.
        patience: epochs without a better balanced accuracy on the validation split before training stops with the
            best epoch's weights; None trains to the end and keeps the last.
    """

    epochs: int
    batch_size: int
    learning_rate: float = 1e-3
    weight_decay: float = 0.5
    seed: int = 0
    order: Order = "shuffled"
    precision: Precision = "no"
    accumulate: int = 1
    passes: int = 10
    cap: int = 200
    checkpoint_steps: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "cap"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {getattr(self, name)}.")


def class_counts(y: Tensor, classes: int) -> Tensor:
    """Training samples a class: (classes,), or (attributes, 2)."""
    if y.ndim == 1:
        return torch.bincount(y, minlength=classes)
    ones = y.sum(0)
    return torch.stack((len(y) - ones, ones), dim=-1)


def make_accelerator(settings: Settings, folder: Path | None, tracker: str | None) -> Accelerator:
    if tracker is not None and folder is None:
        raise InvalidInputError(f"tracker={tracker!r} writes into the run's folder; pass folder as well.")
    if AcceleratorState._shared_state.get("_mixed_precision", settings.precision) != settings.precision:
        AcceleratorState._reset_state()  # Accelerate itself keeps the first precision of a process for good
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # else torchrun's processes on CPUs would not find one another
        mixed_precision=settings.precision,
        gradient_accumulation_steps=settings.accumulate,
        dataloader_config=DataLoaderConfiguration(split_batches=True),  # batch_size is that of all processes together
        log_with=tracker,
        project_dir=folder,
    )
    if tracker is not None:
        try:
            accelerator.init_trackers("tracking")
        except (ImportError, ValueError) as error:
            raise InvalidInputError(
                f"tracker {tracker!r} cannot be used ({error}); pip install 'equipoise[tracking]' brings TensorBoard."
            ) from error
    return accelerator


def make_loader(data: ArrayData, settings: Settings, accelerator: Accelerator) -> tuple[DataLoader[Any], EpochBatches]:
    """Batches of all processes together, rounded up so that every process gets as much of each."""
    processes = int(accelerator.num_processes)
    size = math.ceil(settings.batch_size / processes) * processes
    batches = EpochBatches(data.y, size, seed=settings.seed, order=settings.order)
    # a generator of its own: a loader draws a seed at every epoch, and must not draw it from the dropout's numbers
    return DataLoader(data, batch_sampler=batches, collate_fn=_as_it_is, generator=torch.Generator()), batches


def make_optimizer(network: nn.Module, settings: Settings, steps: int) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """AdamW, and a rate that decays to 0 along a cosine over so many steps."""
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    return optimizer, LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0))))


def _as_it_is(batch: Any) -> Any:
    return batch  # ArrayData gives whole batches
