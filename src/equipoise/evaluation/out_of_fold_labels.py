r"""Detection of label errors from the probabilities of models that have not seen the sample.

With the probabilities p at the training samples' class prior π, a label y and its strongest rival j, the rival is right
rather than the label with the probability

.. math:: \hat F = \frac{q_j}{q_j + q_y}, \qquad q_c \propto p_c / \sqrt{\pi_c},

half way between natural and balanced classes, as in :mod:`equipoise.evaluation.label_quality`: otherwise rare samples
would be suspected for being rare, or mislabelled ones among them trusted.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, ndtri_exp

from equipoise.evaluation.label_quality import LEAST_SAMPLES, LabelDoubt

SMALLEST = 1e-12
"""Smallest probability whose logarithm is finite."""


def doubt_of_probabilities(
    probabilities: NDArray[np.floating], labels: NDArray[np.int64], sizes: NDArray[np.int64]
) -> LabelDoubt:
    """Judge labels by probabilities predicted without them.

    Args:
        probabilities: (samples, classes), or (samples, attributes, 2); NaN for a sample that cannot be judged.
        labels: class indices, (samples,), or 0 and 1, (samples, attributes).
        sizes: training samples of each class, (classes,), or of both values, (attributes, 2).

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan]])
    >>> found = doubt_of_probabilities(p, np.array([0, 0, 1]), np.array([10, 10]))
    >>> found.score.round(2), found.suggested
    (array([0.1, 0.8, nan]), array([1, 1, 0]))
    """
    prior = sizes / sizes.sum(-1, keepdims=True)
    moved = np.log(np.maximum(probabilities, SMALLEST)) - np.log(np.maximum(prior, SMALLEST)) / 2
    own = np.take_along_axis(moved, labels[..., None], -1)[..., 0]
    np.put_along_axis(moved, labels[..., None], -np.inf, -1)
    suggested = moved.argmax(-1)
    gap = moved.max(-1) - own  # log-odds of the rival
    enough = sizes.min(-1) >= LEAST_SAMPLES if labels.ndim == 2 else sizes[labels] >= LEAST_SAMPLES
    error = -np.sign(gap) * ndtri_exp(log_expit(-np.abs(gap)))  # Φ⁻¹(F̂), also where F̂ is nearly 0 or 1
    return LabelDoubt(np.where(enough & np.isfinite(gap), error, np.nan), suggested)
