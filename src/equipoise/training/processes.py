"""Several processes that train together: bit-identical resumes, and a clear error if one of them dies."""

import hashlib
import math
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

from equipoise.errors import EquipoiseError, InvalidInputError, InvalidStateError

TIMEOUT = "EQUIPOISE_PROCESS_TIMEOUT"
"""Environment variable: seconds that a process waits for another one, which may be cut off, before it gives up."""
LOST_PROCESS_WORDS = ("gloo", "nccl", "connection", "timed out", "timeout", "store", "socket")
"""Words of torch's messages when a process or its machine cannot be reached."""
STORE_SCHEME = "equipoise"
"""Scheme of an ``init_method`` by which processes meet those of their own attempt, whatever earlier ones left."""
POLL_SECONDS = 0.02
"""Seconds between two looks at the store."""


def longest_wait() -> float:
    """Return the seconds that a process waits for another: the environment's value, or torch's half hour."""
    value = os.environ.get(TIMEOUT, "1800")
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidInputError(f"{TIMEOUT} must be a number of seconds above 0, got {value!r}.")
    return seconds


def init_method() -> str | None:
    """Return how processes find each other: as torch does by default, unless torchrun may have started others before.

    torchrun keeps one store for all attempts, so a restarted process finds the addresses of those that were killed:
    it connects to nobody, or waits for a process that waits for it.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    with suppress(RuntimeError):  # known since an earlier training of this process
        register_rendezvous_handler(STORE_SCHEME, _meet)
    return f"{STORE_SCHEME}://"


def _meet(url: str, timeout: timedelta, **_: object) -> Iterator[tuple[Store, int, int]]:  # noqa: ARG001
    store, rank, processes = next(rendezvous("env://", timeout=timeout))
    yield store_of_this_attempt(store, rank, processes, timeout), rank, processes


def store_of_this_attempt(store: Store, rank: int, processes: int, timeout: timedelta) -> Store:
    """Return a part of the store that only the processes alive now know.

    Each shows a random word; a part is named after the words of all, and used once all have asked for it. A word that
    an earlier process left cannot do so again, because the words of the others have changed.

    Args:
        store: shared with earlier attempts.
        rank, processes: this process and the number of all; each calls this once.
        timeout: how long to wait for the others.
    """
    store.set(f"word/{rank}", secrets.token_hex(16))
    end = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < end:
        words = [store.get(f"word/{each}") for each in range(processes)]
        part = hashlib.blake2b(b" ".join(words), digest_size=16).hexdigest()
        store.set(f"{part}/{rank}", "")
        if store.check([f"{part}/{each}" for each in range(processes)]):
            return PrefixStore(part, store)
        time.sleep(POLL_SECONDS)
    raise InvalidStateError(
        f"process {rank} of {processes} waited {timeout.total_seconds():g} seconds for the others; start all of them "
        f"again, or set {TIMEOUT} to more seconds."
    )


def mean_in_rank_order(
    processes: int,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Average the gradients of a bucket over all processes, each number summed in the order of the ranks.

    From three processes on, the sum of a ring depends on where a number lies in its bucket, and buckets are laid out
    anew after the first step of every attempt: a resumed run would round differently. Here each process sums its share
    of the numbers, then all exchange the sums, which moves as many bytes as a ring.

    Args:
        processes: how many there are.
        bucket: gradients of some parameters, one after the other.
    """
    flat = bucket.buffer()
    size = -(-len(flat) // processes)
    sent = torch.nn.functional.pad(flat, (0, size * processes - len(flat)))
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    first, *others = received.view(processes, size)
    for other in others:
        first += other
    dist.all_gather(list(sent.view(processes, size)), first / processes)
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(sent[: len(flat)])
    return done


def sum_in_rank_order(accelerator: Accelerator, model: Any) -> None:
    """Let three or more processes on CPUs sum gradients in the order of their ranks; the sum of two has no order."""
    if accelerator.num_processes > 2 and accelerator.device.type == "cpu" and hasattr(model, "register_comm_hook"):
        model.register_comm_hook(accelerator.num_processes, mean_in_rank_order)


def any_process(accelerator: Accelerator, flag: bool) -> bool:
    """Return whether the flag is set in any of the processes; all must call this at the same step."""
    if accelerator.num_processes == 1:
        return flag
    found = torch.tensor([float(flag)], device=accelerator.device)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return bool(found.item())


def mean_of_processes(accelerator: Accelerator, value: float) -> float:
    """Return the mean of each process's own value."""
    if accelerator.num_processes == 1:
        return value
    return float(accelerator.reduce(torch.tensor(value, device=accelerator.device), reduction="mean"))


@contextmanager
def processes_watched(accelerator: Accelerator) -> Iterator[None]:
    """Raise one clear sentence if another process ended or its machine cannot be reached any more."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        if isinstance(error, EquipoiseError) or accelerator.num_processes == 1:
            raise
        if not any(sign in text for sign in LOST_PROCESS_WORDS):
            raise
        raise InvalidStateError(
            f"process {accelerator.process_index} of {accelerator.num_processes} lost another one, which ended or "
            "cannot be reached; the last checkpoint is kept: start all of them again to continue from there."
        ) from error
