"""Conversion between labels and class indices; this is the only place."""

from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError

if TYPE_CHECKING:  # torch, pandas and scikit-learn are imported where needed: the report does without them
    from torch import Tensor


def label_array(y: ArrayLike, name: str = "y") -> NDArray[Any]:
    """Return labels (samples,), or a matrix of 0 and 1 (samples, attributes), as an array; text as text.

    >>> label_array(np.array(["a", "b"], dtype=object)).dtype
    dtype('<U1')
    """
    labels = np.asarray(y)
    labels = np.asarray(labels.tolist()) if labels.dtype == object else labels  # a data frame's strings
    if labels.ndim not in (1, 2) or labels.size == 0:
        raise InvalidInputError(
            f"{name} must be labels (samples,) or a 0/1 matrix (samples, attributes), not empty; got an array of shape "
            f"{labels.shape}."
        )
    if labels.ndim == 2:
        check_binary(labels, name)
    return labels


def column_or_matrix(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels in a single column as (samples,), and others unchanged.

    >>> column_or_matrix(np.array([["a"], ["b"]])).shape, column_or_matrix(np.eye(2)).shape
    ((2,), (2, 2))
    """
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def check_binary(labels: NDArray[Any], name: str = "y") -> None:
    """Raise an error for a label matrix with anything but 0 and 1."""
    if not np.isin(labels, (0, 1)).all():
        raise InvalidInputError(f"a matrix {name} must hold 0 and 1 only, got {np.unique(labels)[:5].tolist()}.")


def plain_array(values: Any, name: str) -> Any:
    """Return values unchanged; raise an error if a numpy array cannot hold them."""
    import torch

    if isinstance(values, torch.Tensor):
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
    """Return labels as an array of one type without missing ones; leave None and sparse matrices to scikit-learn.

    >>> import pandas as pd
    >>> plain_labels(pd.Series([1, 2, None], dtype="Int64"))
    Traceback (most recent call last):
    equipoise.errors.InvalidInputError: y has no label in 1 of 3 rows, the first of them row 2; leave these rows out.
    """
    import pandas as pd

    if y is None or hasattr(y, "tocsr"):
        return y
    given = plain_array(y, "y")
    try:
        labels = np.asarray(given)
    except ValueError:
        raise InvalidInputError(
            "y must have the same number of labels in each row, got rows of different lengths."
        ) from None
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
    """Convert objects that are all text, or all numbers, into an array of text or numbers."""
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


def class_counts(target: "Tensor", classes: int, weight: "Tensor | None" = None) -> "Tensor":
    """Count the samples of each class, or add up their weights: (classes,), or (attributes, 2).

    Args:
        target: class indices, (samples,), or 0/1 of shape (samples, attributes).
        classes: number of classes; not used with attributes.
        weight: (samples,), or one for each label, (samples, attributes): weight k counts as k samples.

    >>> import torch
    >>> class_counts(torch.tensor([0, 0, 2]), 3), class_counts(torch.tensor([0, 0, 2]), 3, torch.tensor([1, 4, 2]))
    (tensor([2, 0, 1]), tensor([5., 0., 2.], dtype=torch.float64))
    """
    import torch

    if target.ndim == 1:
        return torch.bincount(target, None if weight is None else weight.double(), minlength=classes)
    if weight is None:
        ones = target.sum(0)
        return torch.stack((len(target) - ones, ones), dim=-1)
    each = weight.double().view(len(weight), -1).expand(target.shape)
    return torch.stack(((each * (1 - target)).sum(0), (each * target).sum(0)), dim=-1)


def class_indices(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes of some labels (samples,), and the index of each label's class, (samples,).

    >>> classes, indices = class_indices(np.array(["b", "a", "b"]))
    >>> classes.tolist(), indices.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    return np.unique(labels, return_inverse=True)


def encode_labels(labels: NDArray[Any]) -> "tuple[NDArray[Any], Tensor]":
    """Return the classes and each sample's class index (samples,); for a 0/1 matrix, its columns and the matrix."""
    import torch
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import column_or_1d

    from equipoise.tensor_checks import new_tensor

    check_classification_targets(labels)
    kind = type_of_target(labels)
    if kind == "multiclass-multioutput":
        raise InvalidInputError("y must be labels or a matrix of 0 and 1, got several columns of other labels.")
    if kind == "multilabel-indicator":
        check_binary(labels)
        return np.arange(labels.shape[1]), new_tensor(labels).long()
    classes, indices = class_indices(column_or_1d(labels, warn=True))
    if len(classes) < 2:
        raise InvalidInputError(f"y must have at least two classes, got one class: {classes.tolist()[0]!r}.")
    return classes, torch.as_tensor(indices, dtype=torch.long)


def label_places(labels: NDArray[Any], classes: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each label (samples,) among the classes, or −1.

    >>> label_places(np.array(["b", "a", "c"]), ["a", "b"]).tolist()
    [1, 0, -1]
    """
    known = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    return np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def label_indices(
    labels: NDArray[Any], classes: Sequence[Any] | NDArray[Any], *, multilabel: bool = False, whose: str = "y has"
) -> NDArray[np.int64]:
    """Return :func:`label_places` for labels that must all be known; with ``multilabel``, the 0/1 matrix itself.

    Args:
        labels: (samples,), or 0 and 1, (samples, attributes).
        classes: the known labels, or the attributes.
        multilabel: whether a sample has several labels.
        whose: beginning of the error message.
    """
    from sklearn.utils.validation import column_or_1d

    if multilabel:
        if labels.ndim != 2 or labels.shape[1] != len(classes) or not np.isin(labels, (0, 1)).all():
            raise InvalidInputError(f"y must be a matrix of 0 and 1 with {len(classes)} columns, got {labels.shape}.")
        return labels.astype(np.int64)
    given = column_or_1d(labels)
    places = label_places(given, classes)
    unknown = sorted(set(given[places < 0].tolist()))
    if unknown:
        raise InvalidInputError(
            f"{whose} classes that training has not seen: {', '.join(map(repr, unknown[:5]))}; leave them out."
        )
    return places
