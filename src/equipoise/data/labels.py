"""Labels as class indices: the only place where one becomes the other."""

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import new_tensor


def plain_array(values: Any, name: str) -> Any:
    """Return the values as they came, unless they would lose something on their way into a numpy array.

    Args:
        values: whatever a user passes.
        name: of the argument, for the sentence.
    """
    if isinstance(values, Tensor):
        if values.requires_grad:
            raise InvalidInputError(f"{name} requires gradients, which are not used here; pass {name}.detach().")
        if values.device.type != "cpu":
            raise InvalidInputError(f"{name} lies on the device {values.device}; pass {name}.cpu().")
        if values.dtype == torch.bfloat16:
            raise InvalidInputError(f"{name} has the type bfloat16, which numpy lacks; pass {name}.float().")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = int(np.ma.getmaskarray(values).sum())
        raise InvalidInputError(f"{name} has {masked} masked values; fill them in or leave their rows out.")
    if getattr(getattr(values, "dtype", None), "kind", None) == "c":
        raise InvalidInputError(f"Complex data not supported: {name} must hold real numbers; pass its .real part.")
    return values


def plain_labels(y: Any) -> Any:
    """Return labels as an array of one kind, all known; None and sparse matrices are left to scikit-learn.

    >>> plain_labels(pd.Series([1, 2, None], dtype="Int64"))
    Traceback (most recent call last):
    equipoise.errors.InvalidInputError: y has no label in 1 of 3 rows, the first of them row 2; leave these rows out.
    """
    if y is None or hasattr(y, "tocsr"):
        return y
    given = plain_array(y, "y")
    try:
        labels = np.asarray(given)
    except ValueError:
        raise InvalidInputError("y must have as many labels in each row; got rows of different lengths.") from None
    if labels.ndim == 0:
        raise InvalidInputError(f"y must have a label for each row of X, got a single one: {labels.item()!r}.")
    rows = np.unique(np.nonzero(pd.isna(labels))[0])
    if len(rows):
        raise InvalidInputError(
            f"y has no label in {len(rows)} of {len(labels)} rows, the first of them row {rows[0]}; leave these rows "
            "out."
        )
    if labels.ndim == 1 and (labels.dtype.kind == "O" or (labels.dtype.kind == "U" and isinstance(y, list | tuple))):
        return _of_one_kind(labels, list(y))
    return labels


def _of_one_kind(labels: NDArray[Any], given: list[Any]) -> NDArray[Any]:
    """Objects that are all text, or all numbers, which become an array of numbers."""
    kinds = {_kind(label): label for label in reversed(given)}
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} ({kinds[kind]!r})" for kind in sorted(kinds))
        raise InvalidInputError(f"y mixes {examples}; make all labels text or all of them numbers.")
    if set(kinds) == {"numbers"}:
        labels = np.array(given)
    if not set(kinds) <= {"numbers", "text", "bytes"} or (labels.dtype.kind == "O" and "numbers" in kinds):
        raise InvalidInputError(f"labels must be text or numbers of up to 64 bits, got {given[0]!r}; convert them.")
    return labels


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    return "numbers" if isinstance(label, Number | np.bool_) else type(label).__name__


def class_counts(target: Tensor, classes: int, weight: Tensor | None = None) -> Tensor:
    """Count the samples of each class, or add up their weights: (classes,), or (attributes, 2).

    Args:
        target: (samples,), or 0/1 of shape (samples, attributes).
        classes: C; of no effect with attributes.
        weight: (samples,), or one for each label, (samples, attributes): weight k counts as k samples.

    >>> class_counts(torch.tensor([0, 0, 2]), 3), class_counts(torch.tensor([0, 0, 2]), 3, torch.tensor([1, 4, 2]))
    (tensor([2, 0, 1]), tensor([5., 0., 2.], dtype=torch.float64))
    """
    if target.ndim == 1:
        return torch.bincount(target, None if weight is None else weight.double(), minlength=classes)
    if weight is None:
        ones = target.sum(0)
        return torch.stack((len(target) - ones, ones), dim=-1)
    each = weight.double().view(len(weight), -1).expand(target.shape)
    return torch.stack(((each * (1 - target)).sum(0), (each * target).sum(0)), dim=-1)


def encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], Tensor]:
    """Find the classes, and each sample's class index (samples,); of a 0/1 matrix its columns, and the matrix."""
    check_classification_targets(labels)
    kind = type_of_target(labels)
    if kind == "multiclass-multioutput":
        raise InvalidInputError("y must be labels or a matrix of 0 and 1, got several columns of other labels.")
    if kind == "multilabel-indicator":
        if not np.isin(labels, (0, 1)).all():
            raise InvalidInputError(f"a matrix y must hold 0 and 1 only, got {np.unique(labels).tolist()}.")
        return np.arange(labels.shape[1]), new_tensor(labels).long()
    classes, numbers = np.unique(column_or_1d(labels, warn=True), return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError(f"y must have at least two classes, got one class: {classes.tolist()[0]!r}.")
    return classes, torch.as_tensor(numbers, dtype=torch.long)


def label_indices(
    labels: NDArray[Any], classes: Sequence[Any] | NDArray[Any], *, multilabel: bool = False, whose: str = "y has"
) -> NDArray[np.int64]:
    """Return the place of each label among classes that are known already; of several labels the 0/1 matrix itself.

    Args:
        labels: (samples,), or with ``multilabel`` (samples, attributes).
        classes: in their order; names where the labels are text.
        whose: the beginning of the sentence that refuses others.

    >>> label_indices(np.array(["b", "a"]), ["a", "b"]).tolist()
    [1, 0]
    """
    if multilabel:
        if labels.ndim != 2 or labels.shape[1] != len(classes) or not np.isin(labels, (0, 1)).all():
            raise InvalidInputError(f"y must be a matrix of 0 and 1 with {len(classes)} columns, got {labels.shape}.")
        return labels.astype(np.int64)
    places = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    given = column_or_1d(labels).tolist()
    unknown = sorted(set(given) - places.keys())
    if unknown:
        raise InvalidInputError(
            f"{whose} classes that training has not seen: {', '.join(map(repr, unknown[:5]))}; leave them out."
        )
    return np.array([places[label] for label in given], dtype=np.int64)
