"""Estimates of what the members' mean would give their own training rows had no member seen them.

New rows get the mean of the members. A training row has one honest member that was not trained on it: thresholds are
chosen by that one, whose probabilities spread more than the mean's do. The mean lifts very low probabilities, so more
rows reach a low threshold than the honest members tell.

The law of the mean on new rows has two parts. How each member spreads is known from the honest probabilities of each
class. How members agree on a row is seen among those that were trained on it, by their ranks: their probabilities are
replaced by the honest ones of the same rank in the class, and averaged. The honest member has no part in that average.
On a hard row it ranks the row low and the others, which know its label, do not; two members that both know it agree
about as often as two that do not.

Ranks mean less the more labels were memorised. The share memorised is the Kolmogorov-Smirnov distance between the
probabilities of the true class on rows seen and unseen; for such a share of the class's rows the honest member speaks
for all. At 0, as for a linear model, all follows from the ranks; at 1, the mean is taken to be the honest member.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from torch import Tensor


def mean_as_if_unseen(outputs: Tensor, target: Tensor, by: NDArray[np.intp]) -> Tensor:
    """Return what the members' mean would give unseen rows like these, (rows, classes) or (rows, attributes, 2).

    Args:
        outputs: (members, rows, classes), or (members, rows, attributes, 2).
        target: class indices, (rows,), or 0 and 1, (rows, attributes).
        by: the member that was not trained on the row, (rows,).

    >>> outputs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]], [[0.8, 0.2], [0.8, 0.2]]], dtype=torch.float64)
    >>> mean_as_if_unseen(outputs, torch.tensor([0, 0]), np.array([0, 1]))[:, 1]  # of the members that saw the rows
    tensor([0.2000, 0.4000], dtype=torch.float64)
    """
    given = outputs.double().numpy()
    seen = np.arange(len(given))[:, None] != by  # (members, rows)
    labels = target.numpy()
    generator = np.random.default_rng(0)
    if given.ndim == 4:
        each = [_mean(given[:, :, k], labels[:, k], seen, generator) for k in range(given.shape[2])]
        return torch.from_numpy(np.stack(each, axis=1))
    return torch.from_numpy(_mean(given, labels, seen, generator))


def _mean(
    p: NDArray[np.float64], labels: NDArray[np.int64], seen: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean of members that saw a row, by their ranks, or the honest member's probabilities.

    Args:
        p: (members, rows, classes).
        labels: (rows,).
        seen: (members, rows).
    """
    columns = range(1, 2) if p.shape[2] == 2 else range(p.shape[2])
    single = p[seen.argmin(0), np.arange(p.shape[1])]  # (rows, classes)
    found = np.zeros(single.shape)
    for label in np.unique(labels):
        own = labels == label
        known, honest = seen & own, ~seen & own
        memorised = float(ks_2samp(p[known, label], p[honest, label], method="asymp").statistic) if known.any() else 1.0
        alike = own & ((generator.random(len(own)) < memorised) | ~seen.any(0))
        for column in columns:
            ranked = np.zeros(p.shape[:2])
            ranked[known] = _of_same_rank(p[known, column], p[honest, column], generator)
            found[own, column] = (ranked.sum(0) / np.maximum(seen.sum(0), 1))[own]
        found[alike] = single[alike]
    if p.shape[2] == 2:
        found[:, 0] = 1 - found[:, 1]
    return np.asarray(found / np.maximum(found.sum(-1, keepdims=True), 1e-300))


def _of_same_rank(
    values: NDArray[np.float64], reference: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return, for each value, the one of the same rank in the reference; ties, as trees have, in random order."""
    rank = np.empty(len(values))
    rank[np.lexsort((generator.random(len(values)), values))] = (np.arange(len(values)) + 0.5) / max(len(values), 1)
    return np.interp(rank, (np.arange(len(reference)) + 0.5) / len(reference), np.sort(reference))
