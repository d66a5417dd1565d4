"""Checks of tensors that the losses and the uncertainty share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InvalidInputError, listed


def required_tensor(value: object, name: str) -> Tensor:
    """Return the value itself if it is a tensor; otherwise raise an error."""
    if isinstance(value, Tensor):
        return value
    raise InvalidInputError(
        f"{name} must be a torch tensor, got {type(value).__name__}; wrap it in torch.as_tensor(...)."
    )


def floating_tensor(value: object, name: str) -> Tensor:
    """Return the value itself if it is a floating-point tensor; otherwise raise an error."""
    tensor = required_tensor(value, name)
    if tensor.is_floating_point():
        return tensor
    raise InvalidInputError(f"{name} must be floating point, got {tensor.dtype}; call .float() first.")


def new_tensor(rows: NDArray[Any]) -> Tensor:
    """Copy an array into a tensor, including negative strides and foreign byte orders, which torch itself refuses.

    >>> new_tensor(np.arange(4, dtype=">i4")[::-2])
    tensor([3, 1], dtype=torch.int32)
    """
    return torch.from_numpy(np.array(rows, dtype=rows.dtype.newbyteorder("="), order="C"))


def numeric_tensor(
    value: object, name: str, *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    """Return anything that holds numbers (a number, list, array or tensor) as a tensor."""
    try:
        given = new_tensor(value) if isinstance(value, np.ndarray) else value
        return torch.as_tensor(given, dtype=dtype, device=device)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InvalidInputError(
            f"{name} must be numbers, got {type(value).__name__}; give a number, a list, an array or a tensor of them."
        ) from None


def class_labels(target: Tensor, classes: int) -> Tensor:
    """Return the target as int64 labels from 0 to classes − 1; while torch compiles, their values are not checked."""
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise InvalidInputError(f"target must hold integer labels, got {target.dtype}; call .long() on it.")
    labels = target.long()
    if labels.numel() == 0 or torch.compiler.is_compiling():
        return labels
    low, high = (bound.item() for bound in labels.aminmax())
    if low < 0:
        raise InvalidInputError(f"target has label {low} but labels start at 0; check the labels.")
    if high >= classes:
        raise InvalidInputError(
            f"target has label {high} but there are {classes} classes (0 to {classes - 1}); pass classes={high + 1} to "
            "the head or check the labels."
        )
    return labels


def binary_labels(target: Tensor) -> Tensor:
    """Return the target as int64 zeros and ones; while torch compiles, its values are not checked."""
    if target.is_complex():
        raise InvalidInputError(f"a multi-label target must hold 0 and 1 only, got {target.dtype}; call .long() on it.")
    values = target if target.is_floating_point() else target.long()
    if values.numel() and not torch.compiler.is_compiling() and not bool(((values == 0) | (values == 1)).all()):
        low, high = (bound.item() for bound in values.aminmax())
        raise InvalidInputError(
            f"a multi-label target must hold 0 and 1 only, got values from {low} to {high}; check the labels."
        )
    return values.long()


def check_finite(rows: NDArray[np.bool_]) -> None:
    """Raise an error that names the rows with predictions that are not finite; ``rows`` gives their indices."""
    wrong = np.flatnonzero(~rows).tolist()
    if wrong:
        named = listed(list(map(str, wrong)), most=5, quoted=False)
        raise InvalidInputError(
            f"the model returned non-finite values for {len(wrong)} of {len(rows)} rows (counted from 0: {named}); "
            "look for values far outside the training data, or fit it again, a network with a smaller learning rate."
        )


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor that contains NaN or infinity, or None.

    >>> not_finite({"weight": torch.zeros(2), "bias": torch.tensor([0.0, torch.nan])})
    'bias'
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return name
    return None
