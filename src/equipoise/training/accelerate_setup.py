"""Set-up of a training: Accelerate, the loader of batches, and its workers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from accelerate.state import AcceleratorState
from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs
from torch import Tensor
from torch.utils.data import DataLoader

from equipoise.cores_and_memory import cores
from equipoise.data.samples import rows_of
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.options import check_choice
from equipoise.training.batches import ArrayData
from equipoise.training.epoch_order import EpochBatches
from equipoise.training.mixing import DrawnData
from equipoise.training.processes import init_method, longest_wait
from equipoise.training.settings import Settings

MOST_WORKERS = 8
TRACKERS = {"tensorboard": "'equipoise[tracking]'", "wandb": "wandb"}
"""Trackers of Accelerate that write into a run's folder, and what brings them."""


def make_accelerator(settings: Settings, folder: Path | None, tracker: str | None) -> Accelerator:
    """Set up Accelerate for these settings, on the CPU unless there is an accelerator that supports float64."""
    if tracker is not None and folder is None:
        raise InvalidInputError(f"tracker={tracker!r} needs a folder to write to; pass folder as well.")
    if AcceleratorState._shared_state.get("_mixed_precision", settings.precision) != settings.precision:
        AcceleratorState._reset_state()  # otherwise Accelerate keeps the first precision of the process
    if tracker is not None:
        check_choice("tracker", tracker, TRACKERS)
    accelerator = Accelerator(
        cpu=not _has_accelerator(),  # otherwise torchrun's processes on CPUs would not find one another
        mixed_precision=settings.precision,
        gradient_accumulation_steps=settings.accumulate,
        dataloader_config=DataLoaderConfiguration(split_batches=True),  # one step of the schedule for all processes
        kwargs_handlers=[InitProcessGroupKwargs(init_method=init_method(), timeout=timedelta(seconds=longest_wait()))],
        log_with=tracker,
        project_dir=folder,
    )
    if tracker is not None:
        accelerator.init_trackers("tracking", init_kwargs={"wandb": {"dir": str(folder)}})
        if not accelerator.trackers:
            raise InvalidInputError(f"tracker {tracker!r} is not installed; run: pip install {TRACKERS[tracker]}")
    return accelerator


def _has_accelerator() -> bool:
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return device is not None and device.type != "mps"


def make_loader(
    data: ArrayData,
    settings: Settings,
    accelerator: Accelerator,
    *,
    held_back: Tensor | None = None,
    rejoin_epoch: int = 0,
) -> tuple[DataLoader[Any], EpochBatches]:
    """Return a loader of this process's share of each batch, as evenly split as possible."""
    processes = int(accelerator.num_processes)
    batches = EpochBatches(
        data.y,
        settings.batch_size,
        seed=settings.seed,
        order=settings.order,
        held_back=held_back,
        rejoin_epoch=rejoin_epoch,
        batches=settings.epoch_batches,
        process=accelerator.process_index,
        processes=processes,
        blocks=data.blocks(),
        blocks_at_once=rows_of(data.x).groups_at_once,
    )
    # with its own generator: a loader draws a seed every epoch, which must not come from dropout's random stream
    workers = _workers(data, processes)
    loader = DataLoader(
        DrawnData(data),
        batch_sampler=batches,
        collate_fn=_as_it_is,
        generator=torch.Generator(),
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    # split already: Accelerate would fill up the last batch with rows that depend on where an attempt began
    return prepare_data_loader(
        loader, accelerator.device, num_processes=1, process_index=0, put_on_device=True
    ), batches


@contextmanager
def workers_watched() -> Iterator[None]:
    """Raise one clear sentence if the system kills a worker of a loader, which torch reports by a signal."""
    try:
        yield
    except (RuntimeError, ConnectionResetError, ConnectionRefusedError, EOFError) as error:  # the last from its pipe
        if isinstance(error, RuntimeError) and "DataLoader worker (pid" not in str(error):
            raise
        with suppress(RuntimeError):  # the signal of the same death may still arrive
            time.sleep(0.05)
        raise InvalidStateError(
            "a worker that decodes images died, perhaps because memory ran out; the last checkpoint is kept: close "
            "other programs and continue."
        ) from error


def _workers(data: ArrayData, processes: int) -> int:
    """Return the number of workers that decode images on disk: the cores that this machine's processes leave free."""
    if not rows_of(data.x).on_disk:
        return 0
    return min(MOST_WORKERS, max(1, cores() // processes))


def _as_it_is(batch: Any) -> Any:
    return batch  # ArrayData already returns whole batches
