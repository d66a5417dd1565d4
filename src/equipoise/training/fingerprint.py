"""What makes two runs the same: settings, data, and the weights training starts from, each to the last bit."""

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from equipoise.data.images import Images
from equipoise.training.batches import ArrayData
from equipoise.training.curriculum import Curriculum
from equipoise.training.module import Network
from equipoise.training.settings import Settings

ROWS_AT_ONCE = 16_384
CHANGES_WHILE_TRAINING = ("training", "uncertainty", "angle")


def run_identity(
    network: Network, data: ArrayData, settings: Settings, curriculum: Curriculum | None, validation: ArrayData | None
) -> dict[str, Any]:
    """Plain values for ``run.json``; taken before the first step."""
    return {
        "settings": asdict(settings),
        "data": data_identity(data),
        "validation": None if validation is None else data_identity(validation),
        "network": repr(network).splitlines(),
        "weights": checksum(tensor for _, tensor in sorted(network.state_dict().items())),
        "head": options_of(network.head),
        "curriculum": options_of(curriculum),
    }


def data_identity(data: ArrayData) -> dict[str, Any]:
    """Rows, and checksums of samples, labels and weights."""
    return {
        "rows": len(data),
        "samples": _samples_checksum(data),
        "labels": checksum([data.y]),
        "sample_weight": None if data.weight is None else checksum([data.weight]),
    }


def _samples_checksum(data: ArrayData) -> str:
    if isinstance(data.x, Images):  # by their files: decoding them all only to know them would take an epoch
        return data.x.fingerprint() + ("" if data.rows is None else checksum([data.rows]))
    starts = range(0, len(data), ROWS_AT_ONCE)
    return checksum(data.__getitems__(range(start, min(start + ROWS_AT_ONCE, len(data))))[0] for start in starts)


def checksum(tensors: Iterable[Tensor]) -> str:
    """Of the bytes, shapes and types of some tensors, in their order."""
    found = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        found.update(f"{tensor.dtype}{list(tensor.shape[1:])}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def options_of(part: object) -> dict[str, Any]:
    """What an object was built with, as far as it is plain values or named functions."""
    options = {}
    for name, value in getattr(part, "__dict__", {}).items():
        if name.startswith("_") or name in CHANGES_WHILE_TRAINING:
            continue
        if value is None or isinstance(value, bool | int | float | str):
            options[name] = value
        elif callable(value):
            options[name] = _named(value)
    return options


def _named(function: Any) -> str:
    """A function by its name, a partial one with what it was given."""
    if isinstance(function, functools.partial):
        return f"{_named(function.func)}{function.args}{sorted(function.keywords.items())}"
    return str(getattr(function, "__name__", type(function).__name__))
