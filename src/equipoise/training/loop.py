"""The training loop, from top to bottom. Accelerate brings devices, precision and processes."""

import math
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor

from equipoise.data.labels import class_counts
from equipoise.data.splits import hold_out
from equipoise.errors import EquipoiseError, InvalidInputError, ShortTrainingWarning
from equipoise.losses import ClassVectorLoss
from equipoise.storage.run_files import SOFTMAX
from equipoise.training.accelerate_setup import make_accelerator, make_loader, workers_watched
from equipoise.training.batches import ArrayData
from equipoise.training.checkpoints import Position, Trainee
from equipoise.training.curriculum import Curriculum
from equipoise.training.epoch_order import EpochBatches, random_order
from equipoise.training.measurements import ArraySamples, labelled_features, validation_scores
from equipoise.training.network_recipe import Network, head_logits
from equipoise.training.optimizer import Stepper, make_optimizer
from equipoise.training.processes import mean_of_processes, processes_watched, sum_in_rank_order
from equipoise.training.resumable_run import Run, Stopped, StopRequest, run_identity
from equipoise.training.settings import MOST_HELD_BACK, Settings
from equipoise.training.watchers import Record, Watcher, all_watchers


class NonFiniteLossError(EquipoiseError, ArithmeticError):
    """The loss became NaN or infinite; the message names batch and epoch."""


def train(
    network: Network,
    data: ArrayData,
    settings: Settings,
    *,
    curriculum: Curriculum | None = None,
    validation: ArrayData | None = None,
    folder: str | Path | None = None,
    watcher: Watcher | None = None,
    tracker: str | None = None,
) -> list[Record]:
    """Train a network in place and return one record per epoch.

    Args:
        network: a backbone and a loss head.
        data: training samples.
        settings: epochs, batches, learning rate and other options.
        curriculum: the stages of a head with margins.
        validation: held-out samples, for the recalls, ``patience`` and strength by feedback.
        folder: where the run is stored; an unfinished run found there is resumed.
        watcher: notified of every step and epoch, a progress bar for example.
        tracker: an Accelerate tracker, ``"tensorboard"`` for example; it writes into ``folder``.
    """
    folder = None if folder is None else Path(folder)
    _check_together(network.head, settings, curriculum, validation, streamed=data.blocks() is not None)
    accelerator = make_accelerator(settings, folder, tracker)
    watchers = all_watchers(watcher)
    torch.manual_seed(settings.seed + accelerator.process_index)
    drawn = data.evenly_weighed() if settings.order == "balanced" else data
    back, rejoin = _held_back(data, settings, curriculum), 0 if curriculum is None else curriculum.rejoin_epoch
    loader, batches = make_loader(drawn, settings, accelerator, held_back=back, rejoin_epoch=rejoin)
    optimizer, scheduler = make_optimizer(network, settings, _total_steps(batches, settings, curriculum))
    model, optimizer, scheduler = accelerator.prepare(network, optimizer, scheduler)
    sum_in_rank_order(accelerator, model)
    stepper = Stepper(accelerator, model, optimizer, scheduler)
    trainee = Trainee(accelerator, network, optimizer, scheduler, curriculum)
    run = Run(folder, trainee)
    position = run.open(lambda: run_identity(network, data, settings, curriculum, validation))

    with processes_watched(accelerator), workers_watched(), StopRequest(enabled=folder is not None) as stop:
        for epoch in range(position.epoch, settings.epochs):
            if _out_of_patience(settings, position, epoch):
                break
            started = time.perf_counter()
            stage = _start_epoch(epoch, network.head, settings, curriculum, batches)
            batches.start = position.step
            model.train()
            for batch in loader:
                with stepper.batch():
                    loss = model(*batch) if batches.processes == 1 else model(*batch) * batches.share(position.step)
                    value = _finite(loss, position)
                    stepper.step(loss)
                position.advance(value)
                for each in watchers:
                    each.step(epoch, stage, len(batches))
                if stepper.complete:  # gradients still being accumulated are not part of a checkpoint
                    _save_if_due(run, position, settings, stop)
            record: Record = {"epoch": epoch, "stage": stage}
            record |= _end_epoch(run, position, data, back, validation, settings)
            record["seconds"] = round(time.perf_counter() - started, 3)
            _store(run, position, record, watchers)

    accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    _finish(trainee)
    return position.history


def _check_together(
    head: ClassVectorLoss,
    settings: Settings,
    curriculum: Curriculum | None,
    validation: ArrayData | None,
    *,
    streamed: bool,
) -> None:
    """Raise an error for options that do not fit together before the first step, not after a third of the epochs."""
    if validation is None and settings.patience is not None:
        raise InvalidInputError("patience needs held-out samples; pass validation samples, or leave patience out.")
    if curriculum is None:
        return
    if head.mixes_samples and streamed:
        raise InvalidInputError("mixing draws partners from all rows at once; read the table into memory.")
    if head.mixes_samples and settings.order == "balanced":
        raise InvalidInputError("mixing already draws partners more evenly; set order='shuffled', or do not mix.")
    if head.margins is None:
        raise InvalidInputError(
            f"a curriculum needs a head with margins, got {type(head).__name__}; leave the curriculum out."
        )
    if curriculum.strength == "head" and head.driven_by_curriculum:
        raise InvalidInputError(
            "strength='head' needs a head built with its own margin and strength; use another strength."
        )
    if curriculum.strength != "head" and not head.driven_by_curriculum:
        raise InvalidInputError(
            "a curriculum sets the strength of margins, but the head was built with one of its own; leave out either, "
            "or let it rise by strength='head'."
        )
    if curriculum.epochs != settings.epochs:
        raise InvalidInputError(
            f"the curriculum has {curriculum.epochs} epochs and the settings {settings.epochs}; use the same number."
        )
    if curriculum.strength == "feedback" and validation is None:
        raise InvalidInputError("strength='feedback' is measured on held-out samples; hold some out.")


def _held_back(data: ArrayData, settings: Settings, curriculum: Curriculum | None) -> Tensor | None:
    """Return the rows left out of the first two stages, the same on every process and after every resume."""
    if curriculum is None or curriculum.rejoin_epoch == 0:
        return None
    order = random_order(len(data), settings.seed)
    share = min(curriculum.held_back, MOST_HELD_BACK / len(data))  # features of all of them are in memory at once
    held = torch.from_numpy(hold_out(data.y.numpy(), share, order=order)[1])
    if data.y.ndim == 1:  # at most its share of each class: none of a class with three samples
        held = held[torch.bincount(data.y)[data.y[held]] * share >= 1]
    return held if len(held) else None


def _total_steps(batches: EpochBatches, settings: Settings, curriculum: Curriculum | None) -> int:
    """Return the optimiser steps of all epochs, with a warning if a stage has too few."""
    steps = [math.ceil(batches.batches_in(epoch) / settings.accumulate) for epoch in range(settings.epochs)]
    full_pass = math.ceil(batches.batches_of_all(0) / settings.accumulate)
    if curriculum is not None and (short := curriculum.short_stage(steps, full_pass)):
        warnings.warn(short, ShortTrainingWarning, stacklevel=3)
    return sum(steps)


def _start_epoch(
    epoch: int, head: ClassVectorLoss, settings: Settings, curriculum: Curriculum | None, batches: EpochBatches
) -> str:
    """Set the head and the batches for an epoch of the curriculum, and return its stage."""
    batches.epoch = epoch
    if curriculum is None:
        head.set_progress(epoch / settings.epochs)
        return "train"
    stage = curriculum.start_epoch(epoch, head)
    batches.partners = curriculum.partners(epoch, head)
    return stage


def _finite(loss: Tensor, position: Position) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise NonFiniteLossError(
            f"the loss is {value} at batch {position.step + 1} of epoch {position.epoch + 1}; try a learning rate ten "
            "times smaller, look for extreme values in the data, or train without mixed precision (the last checkpoint "
            "is kept)."
        )
    return value


def _save_if_due(run: Run, position: Position, settings: Settings, stop: StopRequest) -> None:
    if stop.agreed(run.trainee.accelerator):
        run.save(position)
        raise Stopped(f"stopped in epoch {position.epoch + 1} as asked; train into {run.folder} again to resume.")
    if settings.checkpoint_steps and position.total % settings.checkpoint_steps == 0:
        run.save(position)


def _end_epoch(
    run: Run,
    position: Position,
    data: ArrayData,
    back: Tensor | None,
    validation: ArrayData | None,
    settings: Settings,
) -> Record:
    """Provide what the curriculum asks for, score the held-out samples, and remember the best epoch."""
    trainee, epoch = run.trainee, position.epoch
    accelerator, network, curriculum = trainee.accelerator, trainee.network, trainee.curriculum
    record: Record = {"steps": math.ceil(position.step / settings.accumulate)}
    record["loss"] = mean_of_processes(accelerator, position.mean_loss())
    if curriculum is not None and curriculum.wants_uncertainty(epoch):
        with curriculum.at_training_prior(network.head):
            run.keep_weights(SOFTMAX)
    held_out = None if validation is None else labelled_features(accelerator, network, validation)
    if curriculum is not None:
        samples = ArraySamples(accelerator, network, data, back, held_out, settings)
        record |= curriculum.measure(epoch, network.head, samples)
    if held_out is None:
        return record
    features, target, weight = held_out
    counts = class_counts(data.y, network.head.classes, data.weight)
    record |= validation_scores(head_logits(network.head, features), target, weight, counts)
    last_stage = curriculum is None or curriculum.stage(epoch) == "sample"
    if settings.patience is not None and last_stage and record["balanced_accuracy"] > position.best_score:
        position.best_score, position.best_epoch = record["balanced_accuracy"], epoch
        trainee.best = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    return record


def _store(run: Run, position: Position, record: Record, watchers: tuple[Watcher, ...]) -> None:
    """Write the record of an epoch, tell the watchers, and save a checkpoint at its end."""
    position.end_epoch(record)
    run.record(record)
    for each in watchers:
        each.epoch(record)
    numbers = {name: value for name, value in record.items() if isinstance(value, float)}
    run.trainee.accelerator.log(numbers, step=record["epoch"])
    run.save(position)


def _finish(trainee: Trainee) -> None:
    """Leave the network in eval mode with the weights of the best epoch, if one was remembered."""
    if trainee.best:
        trainee.network.load_state_dict(trainee.best)
    for tracker in trainee.accelerator.trackers:
        tracker.finish()
    trainee.network.eval()


def _out_of_patience(settings: Settings, position: Position, epoch: int) -> bool:
    if settings.patience is None or position.best_epoch < 0:
        return False
    return epoch - position.best_epoch > settings.patience
