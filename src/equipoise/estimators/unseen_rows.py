"""Estimates of what members would predict for their own training rows had they not seen them.

New rows get the mean of the members. A training row has one honest member that was not trained on it: thresholds are
chosen by that one, whose probabilities spread more than the mean's do. The mean lifts very low probabilities, so more
rows reach a low threshold than the honest members tell.

The law of the mean on new rows has two parts. How each member spreads is known from the honest probabilities of each
class. How the members agree on a row is seen only on rows that the others were trained on, by their ranks: their
probabilities are replaced by the honest ones of the same rank in the class. These ranks mean less the more labels were
memorised. The share memorised is the Kolmogorov-Smirnov distance between the probabilities of the true class on rows
seen and unseen; for such a share of the class's rows the honest member speaks for all. At 0, as for a linear model, all
follows from the ranks; at 1, the mean is taken to be the honest member.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from torch import Tensor


def as_if_unseen(outputs: Tensor, target: Tensor, by: NDArray[np.intp]) -> Tensor:
    """Replace a member's probabilities for its training rows by those of the same rank among unseen rows.

    Args:
        outputs: (members, rows, classes), or (members, rows, attributes, 2).
        target: class indices, (rows,), or 0 and 1, (rows, attributes).
        by: the member that was not trained on the row, (rows,).

    >>> outputs = torch.tensor([[[0.6, 0.4], [1.0, 0.0]], [[0.9, 0.1], [0.8, 0.2]]], dtype=torch.float64)
    >>> as_if_unseen(outputs, torch.tensor([0, 0]), np.array([0, 1]))[..., 1]
    tensor([[0.4000, 0.2000],
            [0.4000, 0.2000]], dtype=torch.float64)
    """
    found = outputs.double().numpy().copy()
    seen = np.arange(len(found))[:, None] != by  # (members, rows)
    labels = target.numpy()
    generator = np.random.default_rng(0)
    if found.ndim == 4:
        for place in range(found.shape[2]):
            _match(found[:, :, place], labels[:, place], seen, generator)
    else:
        _match(found, labels, seen, generator)
    return torch.from_numpy(found)


def _match(
    p: NDArray[np.float64], labels: NDArray[np.int64], seen: NDArray[np.bool_], generator: np.random.Generator
) -> None:
    """Replace, class by class, the entries of ``p``, (members, rows, classes), that are of ``seen`` rows."""
    columns = range(1, 2) if p.shape[2] == 2 else range(p.shape[2])
    single = p[seen.argmin(0), np.arange(p.shape[1])]  # (rows, classes)
    for label in np.unique(labels):
        own = labels == label
        known, honest = seen & own, ~seen & own
        memorised = float(ks_2samp(p[known, label], p[honest, label], method="asymp").statistic) if known.any() else 0.0
        alike = own & (generator.random(len(own)) < memorised)
        for column in columns:
            p[known, column] = _of_same_rank(p[known, column], p[honest, column], generator)
            p[:, alike, column] = single[alike, column]
    if p.shape[2] == 2:
        p[..., 0] = 1 - p[..., 1]
    else:
        p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)


def _of_same_rank(
    values: NDArray[np.float64], reference: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return, for each value, the one of the same rank in the reference; ties, as trees have, in random order."""
    rank = np.empty(len(values))
    rank[np.lexsort((generator.random(len(values)), values))] = (np.arange(len(values)) + 0.5) / max(len(values), 1)
    return np.interp(rank, (np.arange(len(reference)) + 0.5) / len(reference), np.sort(reference))
