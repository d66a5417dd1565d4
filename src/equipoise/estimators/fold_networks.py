"""Out-of-fold measurement of what predictions lack, by networks that did not see the rows."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from equipoise.calibration.scaling import Scaling, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.data.splits import stratified_folds
from equipoise.training import ArrayData, Network
from equipoise.training.margin_strength import class_shift
from equipoise.training.settings import rows_at_once

FOLDS = 3
"""Networks trained for the logits, each on all rows but a fold; fewer where there are fewer rows."""


Fit = Callable[[ArrayData, Path | None], Network]
"""Trains a network on some rows, and stores it in a folder if there is one."""


def class_correction(data: ArrayData, fit: Fit, *, seed: int, folder: Path | None) -> tuple[Tensor, Scaling | None]:
    """Return the shift of each class's logit, (classes,) or (attributes, 2), and the scaling of the shifted logits.

    Args:
        data, fit, seed, folder: as in :func:`out_of_fold_logits`.
    """
    rows, logits = out_of_fold_logits(data, fit, seed=seed, folder=folder)
    target, weight = data.y[rows], None if data.weight is None else data.weight[rows]
    shift = class_shift(logits, target, sample_weight=weight)
    counts = class_counts(target, logits.shape[-1], weight)
    return shift, fit_scaling(logits + shift, target, counts, sharpen=False, sample_weight=weight)


def out_of_fold_logits(data: ArrayData, fit: Fit, *, seed: int, folder: Path | None) -> tuple[Tensor, Tensor]:
    """Return rows (n,), and for each the logits (n, ...) of the network that was trained without it.

    A row whose class has no other row outside of its fold is left out.

    Args:
        data: the training rows.
        fit: trains a network on some of them.
        seed: of the folds.
        folder: gets a folder per fold, from which an interrupted fit resumes; None stores nothing.
    """
    folds = stratified_folds(data.y.numpy(), min(FOLDS, len(data)), seed=seed, allow_missing=True)
    rows, logits = [], []
    for number, (trained_on, rest) in enumerate(folds):
        part = data.subset(torch.from_numpy(trained_on))
        held = torch.from_numpy(rest)
        if data.y.ndim == 1:
            held = held[torch.isin(data.y[held], part.y)]
        if len(held) == 0:
            continue
        network = fit(part, None if folder is None else folder / f"fold-{number + 1}")
        rows.append(held)
        logits.append(torch.cat(list(_in_batches(network, data.subset(held)))))
    return torch.cat(rows), torch.cat(logits)


@torch.no_grad()
def _in_batches(network: Network, data: ArrayData) -> Iterator[Tensor]:
    step = rows_at_once(data[0][0].numel())
    network.eval()
    for start in range(0, len(data), step):
        x = data.__getitems__(range(start, min(start + step, len(data))))[0]
        yield network(x).double()
