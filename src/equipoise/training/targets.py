"""From a user's labels to class numbers."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from equipoise.errors import InvalidInputError


def encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], Tensor]:
    """The classes, and each sample's class number (samples,); for a 0/1 matrix the columns, and the matrix itself."""
    check_classification_targets(labels)
    kind = type_of_target(labels)
    if kind == "multiclass-multioutput":
        raise InvalidInputError("y must be labels or a matrix of 0 and 1, got several columns of other labels.")
    if kind == "multilabel-indicator":
        if not np.isin(labels, (0, 1)).all():
            raise InvalidInputError(f"a matrix y must hold 0 and 1 only, got {np.unique(labels).tolist()}.")
        return np.arange(labels.shape[1]), torch.as_tensor(labels, dtype=torch.long)
    classes, numbers = np.unique(column_or_1d(labels, warn=True), return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError(f"y must have at least two classes, got one class: {classes.tolist()[0]!r}.")
    return classes, torch.as_tensor(numbers, dtype=torch.long)


def known_labels(labels: NDArray[Any], classes: NDArray[Any], *, multilabel: bool) -> Tensor:
    """Class numbers of labels whose classes are known already; for several labels the 0/1 matrix itself."""
    if multilabel:
        if labels.ndim != 2 or labels.shape[1] != len(classes) or not np.isin(labels, (0, 1)).all():
            raise InvalidInputError(f"y must be a matrix of 0 and 1 with {len(classes)} columns, got {labels.shape}.")
        return torch.as_tensor(labels, dtype=torch.long)
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    found = [numbers.get(label, -1) for label in column_or_1d(labels).tolist()]
    if -1 in found:
        raise InvalidInputError(
            f"y has a class that was not fitted: {labels.tolist()[found.index(-1)]!r}; leave it out."
        )
    return torch.tensor(found, dtype=torch.long)
