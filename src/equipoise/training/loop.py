"""The training loop, from top to bottom. Accelerate brings devices, precision and processes."""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DataLoaderConfiguration
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from equipoise.errors import EquipoiseError, InvalidInputError
from equipoise.losses import ClassVectorLoss, UncertaintyMarginLoss
from equipoise.training.batches import ArrayData, EpochBatches, Order, capped_sample
from equipoise.training.curriculum import Curriculum
from equipoise.training.measure import Validation, estimate_class_uncertainty, gathered_features
from equipoise.training.network import Network, head_logits
from equipoise.training.progress import Record, Silence, Watcher
from equipoise.training.resume import Position, Run, Stopped, StopRequest, Trainee, options_of

Precision = Literal["no", "fp16", "bf16"]


class NonFiniteLossError(EquipoiseError, ArithmeticError):
    """The loss became NaN or infinite."""


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
    cap: int = 500
    checkpoint_steps: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "cap"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {getattr(self, name)}.")


def train(
    network: Network,
    data: ArrayData,
    settings: Settings,
    *,
    curriculum: Curriculum | None = None,
    validation: ArrayData | None = None,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    tracker: str | None = None,
) -> list[Record]:
    """Train a network in place; one record an epoch is returned.

    Args:
        network: a backbone and a loss head.
        data: training samples.
        curriculum: for a head that is an ``UncertaintyMarginLoss``; needs ``validation``.
        validation: held-out samples for the strength of the margins, the recalls and ``patience``.
        folder: where the run is kept; an unfinished run found there is resumed.
        watcher: told of every step and epoch, a progress bar for example.
        tracker: an Accelerate tracker, ``"tensorboard"`` for example; writes into ``folder``.
    """
    accelerator = _accelerator(settings, folder, tracker)
    watcher = watcher or Silence()
    torch.manual_seed(settings.seed + accelerator.process_index)
    batches = EpochBatches(data.y, _whole_batch(settings, accelerator), seed=settings.seed, order=settings.order)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=_as_it_is, generator=torch.Generator())
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    scheduler = _cosine_decay(optimizer, steps=settings.epochs * math.ceil(len(batches) / settings.accumulate))
    model, optimizer, loader, scheduler = accelerator.prepare(network, optimizer, loader, scheduler)
    held_out = (
        None if validation is None else Validation(accelerator, validation, class_counts(data.y, network.head.classes))
    )
    trainee = Trainee(accelerator, network, optimizer, scheduler, curriculum)
    identity = {
        "settings": asdict(settings),
        "data": data.fingerprint(),
        "validation": None if validation is None else validation.fingerprint(),
        "network": repr(network).splitlines(),
        "head": options_of(network.head),
        "curriculum": options_of(curriculum),
    }
    run = Run(folder, identity, trainee)
    position = run.open()

    with StopRequest(enabled=folder is not None) as stop:
        for epoch in range(position.epoch, settings.epochs):
            if _out_of_patience(settings, position, epoch):
                break
            started = time.perf_counter()
            stage = _start_epoch(network.head, curriculum, epoch, settings.epochs)
            batches.epoch, batches.start = epoch, position.step
            model.train()
            for batch in loader:
                with accelerator.accumulate(model):
                    loss = model(*batch)
                    value = _finite(loss, position)
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                position.advance(value)
                watcher.step(epoch, stage, len(batches))
                _save_if_due(run, position, settings, stop)
            record = {"epoch": epoch, "stage": stage, "loss": _over_processes(accelerator, position.mean_loss())}
            record |= _end_epoch(trainee, data, settings, held_out, epoch)
            _remember_best(trainee, position, record, settings)
            record["seconds"] = round(time.perf_counter() - started, 3)
            position.end_epoch(record)
            run.record(record)
            watcher.epoch(record)
            accelerator.log({name: value for name, value in record.items() if isinstance(value, float)}, step=epoch)
            run.save(position)

    if trainee.best:
        network.load_state_dict(trainee.best)
    accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    for each in accelerator.trackers:
        each.finish()
    return position.history


def class_counts(y: Tensor, classes: int) -> Tensor:
    """Training samples a class: (classes,), or (attributes, 2)."""
    if y.ndim == 1:
        return torch.bincount(y, minlength=classes)
    ones = y.sum(0)
    return torch.stack((len(y) - ones, ones), dim=-1)


def _accelerator(settings: Settings, folder: Path | None, tracker: str | None) -> Accelerator:
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


def _whole_batch(settings: Settings, accelerator: Accelerator) -> int:
    """The batch size, rounded up so that every process gets as much of it."""
    processes = int(accelerator.num_processes)
    return math.ceil(settings.batch_size / processes) * processes


def _as_it_is(batch: Any) -> Any:
    return batch  # ArrayData gives whole batches


def _cosine_decay(optimizer: torch.optim.Optimizer, *, steps: int) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0))))


def _start_epoch(head: ClassVectorLoss, curriculum: Curriculum | None, epoch: int, epochs: int) -> str:
    head.set_progress(epoch / epochs)
    if curriculum is None or not isinstance(head, UncertaintyMarginLoss):
        return "train"
    return curriculum.start_epoch(epoch, head)


def _finite(loss: Tensor, position: Position) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise NonFiniteLossError(
            f"the loss is {value} at batch {position.step + 1} of epoch {position.epoch + 1}; try a learning rate ten "
            "times smaller, look for extreme values in the data, or train without mixed precision (the last checkpoint "
            "is kept)."
        )
    return value


def _over_processes(accelerator: Accelerator, value: float) -> float:
    """The mean of each process's own value; all have batches of one size."""
    if accelerator.num_processes == 1:
        return value
    return float(accelerator.reduce(torch.tensor(value, device=accelerator.device), reduction="mean"))


def _save_if_due(run: Run, position: Position, settings: Settings, stop: StopRequest) -> None:
    if not run.trainee.accelerator.sync_gradients:
        return  # gradients still being added up are in no checkpoint
    if stop.agreed(run.trainee.accelerator):
        run.save(position)
        raise Stopped(f"stopped in epoch {position.epoch + 1} as asked; {run.folder} resumes from there.")
    if settings.checkpoint_steps and position.total % settings.checkpoint_steps == 0:
        run.save(position)


def _end_epoch(
    trainee: Trainee, data: ArrayData, settings: Settings, held_out: Validation | None, epoch: int
) -> dict[str, float]:
    """Class uncertainty at the end of the softmax stage, then the strength, then the scores."""
    network, head = trainee.network, trainee.network.head
    features, target = (None, None) if held_out is None else held_out.features(network)
    record: dict[str, float] = {}
    if trainee.curriculum is not None and isinstance(head, UncertaintyMarginLoss):
        record["strength"] = float(head.strength)
        _move_curriculum(trainee, trainee.curriculum, head, data, settings, epoch, features, target)
    if held_out is None or features is None or target is None:
        return record
    return record | held_out.scores(head_logits(head, features), target)


def _move_curriculum(
    trainee: Trainee,
    curriculum: Curriculum,
    head: UncertaintyMarginLoss,
    data: ArrayData,
    settings: Settings,
    epoch: int,
    features: Tensor | None,
    target: Tensor | None,
) -> None:
    """What the curriculum wants at the end of an epoch; without held-out samples, from training samples."""
    accelerator, network = trainee.accelerator, trainee.network
    if curriculum.wants_uncertainty(epoch):
        uncertainty = estimate_class_uncertainty(
            accelerator,
            network,
            data,
            passes=settings.passes,
            cap=settings.cap,
            seed=settings.seed,
            kind=curriculum.kind,
        )
        curriculum.set_uncertainty(uncertainty, head)
    if not curriculum.wants_features(epoch, head):
        return
    if features is None or target is None:
        if curriculum.strength == "feedback":
            raise InvalidInputError("strength='feedback' is measured on held-out samples; pass validation samples.")
        sample = data.subset(capped_sample(data.y, settings.cap, seed=settings.seed)[0])
        features, target = gathered_features(accelerator, network, sample), sample.y.to(accelerator.device)
    curriculum.adapt(head, features, target)


def _remember_best(trainee: Trainee, position: Position, record: Record, settings: Settings) -> None:
    """For ``patience``: the weights of the best epoch of the last stage."""
    last_stage = trainee.curriculum is None or trainee.curriculum.stage(record["epoch"]) == "sample"
    if settings.patience is None or not last_stage or "balanced_accuracy" not in record:
        return
    if record["balanced_accuracy"] > position.best_score:
        position.best_score, position.best_epoch = record["balanced_accuracy"], record["epoch"]
        trainee.best = {name: tensor.detach().clone() for name, tensor in trainee.network.state_dict().items()}


def _out_of_patience(settings: Settings, position: Position, epoch: int) -> bool:
    if settings.patience is None or position.best_epoch < 0:
        return False
    return epoch - position.best_epoch > settings.patience
