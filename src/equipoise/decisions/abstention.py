"""The benefit of abstaining on the most uncertain samples, and which classes pay for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError
from equipoise.evaluation.intervals import ratio

POINTS = 101
LEAST_AWAY = 0.2
"""A class counts as abstained away only if at least this share of it is unanswered."""
CHANCE = 0.05

Verdict = Literal["in proportion", "abstained away", "unclear", "untested"]


@dataclass(frozen=True)
class RiskCoverage:
    """Error rates as coverage grows from no sample to all, the most certain answered first.

    With attributes, the zeros and the ones of each are two classes: (points, attributes, 2).

    Args:
        answered: number of samples answered, (points,); at least one at every share above 0.
        share: requested coverage, (points,).
        error: error rate of the answered samples, (points,); NaN if none is answered.
        class_error: error rate within each class, 1 − recall, (points, classes).
        class_answered: coverage of each class, (points, classes); NaN for a class without samples.
    """

    answered: NDArray[np.int64]
    share: NDArray[np.float64]
    error: NDArray[np.float64]
    class_error: NDArray[np.float64]
    class_answered: NDArray[np.float64]


def risk_coverage(
    right: ArrayLike, uncertainty: ArrayLike, labels: ArrayLike, classes: int, *, points: int = POINTS
) -> RiskCoverage:
    r"""Compute the risk-coverage curve of all samples and of each class.

    At coverage φ, the ⌊φn⌉ most certain samples A(φ) are answered, and the risk is

    .. math:: R(\varphi) = \frac{1}{|A(\varphi)|} \sum_{i \in A(\varphi)} [\hat y_i \ne y_i]

    Args:
        right: whether each prediction is right, (samples,) or (samples, attributes).
        uncertainty: (samples,); among ties, the later sample is answered first.
        labels: indices of the true classes, (samples,); with attributes 0 and 1, (samples, attributes).
        classes: number of classes or attributes.
        points: number of coverages, equally spaced from 0 to 1.

    >>> found = risk_coverage([True, False, True, True], [0.1, 0.9, 0.2, 0.3], [0, 1, 1, 0], 2, points=3)
    >>> found.error.tolist(), found.class_answered[1].tolist()
    ([nan, 0.0, 0.25], [0.5, 0.5])
    """
    if points < 2:
        raise InvalidInputError(f"points must be at least 2, for the ends 0 and 1, got {points}.")
    groups, shape = _groups(labels, classes)
    hits, unsure = np.asarray(right, dtype=bool), np.asarray(uncertainty, dtype=np.float64)
    samples = len(groups)
    if hits.shape != np.shape(labels) or unsure.shape != (samples,) or bool(np.isnan(unsure).any()):
        raise InvalidInputError(
            f"right must have the shape of labels, {np.shape(labels)}, and uncertainty one number per sample; got "
            f"the shapes {hits.shape} and {unsure.shape}{', with NaN' * bool(np.isnan(unsure).any())}."
        )
    left_out = np.round(np.arange(points - 1, -1, -1) * samples / (points - 1)).astype(np.int64)
    left_out[1:] = left_out[1:].clip(max=samples - 1)
    answered = samples - left_out
    first = np.empty(samples, dtype=np.int64)  # the first point at which a sample is answered
    first[abstention_order(unsure)[::-1]] = np.searchsorted(answered, np.arange(samples), side="right")
    size = int(np.prod(shape))
    place, hits = first[:, None] * size + groups, hits.reshape(samples, -1)
    total, wrong = (
        np.bincount(place[rows], minlength=points * size).reshape(points, size).cumsum(0)
        for rows in (np.ones_like(hits), ~hits)
    )
    return RiskCoverage(
        answered=answered,
        share=np.arange(points) / (points - 1),
        error=ratio(wrong.sum(1), total.sum(1)),
        class_error=ratio(wrong, total).reshape(points, *shape),
        class_answered=ratio(total, np.broadcast_to(total[-1], total.shape)).reshape(points, *shape),
    )


def abstention_order(uncertainty: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Return the indices of the samples in the order of abstention, the most uncertain first."""
    return np.argsort(-uncertainty, kind="stable")


@dataclass(frozen=True)
class AbstainedShares:
    """Unanswered share of each class; with attributes, of the samples that have the attribute.

    Args:
        overall: unanswered share of all samples.
        samples: number of samples of each class.
        each: unanswered share of each class; NaN for a class without samples.
        verdicts: one per class. ``"abstained away"``: the class is left unanswered more than twice as often as all
            samples, or answered less than half as often; at least a fifth of it is unanswered; and that much would
            happen by chance with a probability below 5 % (Chernoff's bound exp(−n·KL), which holds for any n).
            ``"unclear"``: the same share, but so few samples that it may be chance. ``"untested"``: no samples.

    >>> found = AbstainedShares(0.1, (90, 10), (0.0, 1.0), ("in proportion", "abstained away"))
    >>> found.abstained_away
    (1,)
    """

    overall: float
    samples: tuple[int, ...]
    each: tuple[float, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def abstained_away(self) -> tuple[int, ...]:
        """Indices of the classes with that verdict, the one with the largest share first."""
        found = [place for place, verdict in enumerate(self.verdicts) if verdict == "abstained away"]
        return tuple(sorted(found, key=lambda place: -self.each[place]))


def abstained_shares(labels: ArrayLike, abstained: ArrayLike, classes: int) -> AbstainedShares:
    """Measure how much of each class is left unanswered.

    Args:
        labels: indices of the true classes, (samples,); with attributes 0 and 1, (samples, attributes).
        abstained: whether each sample is left unanswered, (samples,).
        classes: number of classes or attributes.

    >>> abstained_shares([0] * 50 + [1] * 5, [False] * 50 + [True] * 5, 2).verdicts
    ('in proportion', 'abstained away')
    """
    groups, shape = _groups(labels, classes)
    out = np.asarray(abstained, dtype=bool)
    if out.shape != (len(groups),):
        raise InvalidInputError(f"abstained must be one boolean for each of {len(groups)} samples, got {out.shape}.")
    size = int(np.prod(shape))
    samples, sent = (np.bincount(groups[rows].ravel(), minlength=size) for rows in (slice(None), out))
    if len(shape) == 2:  # the ones of each attribute
        samples, sent = samples[1::2], sent[1::2]
    return shares_of_counts(samples, sent, float(out.mean()))


def shares_of_counts(
    samples: NDArray[np.integer[Any]], sent: NDArray[np.integer[Any]], overall: float
) -> AbstainedShares:
    """Return :func:`abstained_shares` from counts: samples of each class, unanswered ones, and the overall share."""
    share = ratio(sent, samples)
    often = min(2 * overall, (1 + overall) / 2)
    verdicts: list[Verdict] = []
    for count, part in zip(samples.tolist(), share.tolist(), strict=True):
        if count == 0:
            verdicts.append("untested")
        elif part <= often or part < LEAST_AWAY:
            verdicts.append("in proportion")
        else:
            verdicts.append("abstained away" if _chance(part, overall, count) < CHANCE else "unclear")
    return AbstainedShares(overall, tuple(samples.tolist()), tuple(share.tolist()), tuple(verdicts))


def _chance(part: float, overall: float, count: int) -> float:
    """Return Chernoff's bound exp(−count·KL) on P(X ≥ part·count), X ~ B(count, overall), part > overall > 0."""
    rest = (1 - part) * np.log((1 - part) / (1 - overall)) if part < 1 else 0.0
    return float(np.exp(-count * (part * np.log(part / overall) + rest)))


def _groups(labels: ArrayLike, classes: int) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Return the class of each prediction, (samples, each), counted through the attributes; and the classes' shape."""
    y = np.asarray(labels)
    several = y.ndim == 2
    top = 2 if several else classes
    fits = y.ndim in (1, 2) and y.size > 0 and y.dtype.kind in "biu" and (not several or y.shape[1] == classes)
    if not fits or int(y.min()) < 0 or int(y.max()) >= top:
        raise InvalidInputError(
            f"labels must be indices of {classes} classes, or 0 and 1 for each of {classes} attributes, of at least "
            f"one sample; got {y.dtype} of shape {y.shape}{f', up to {y.max()}' if fits else ''}."
        )
    if several:
        return y.astype(np.int64) + 2 * np.arange(classes), (classes, 2)
    return y.astype(np.int64)[:, None], (classes,)
