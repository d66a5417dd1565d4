"""The input of a decision rule: the classes, their prior, and held-out predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.calibration.class_prior import class_shares, move_prior
from equipoise.decisions.by_class import Label, place_of
from equipoise.decisions.evidence import Evidence
from equipoise.errors import InvalidInputError

Floats = NDArray[np.float64]
SMALLEST = 1e-12
"""Smallest share of a class prior to divide by."""
ROUNDED = 0.01
"""Tolerance for the shares of all classes to sum to 1."""


@dataclass(frozen=True)
class Situation:
    """Hold the input of a decision rule: the classes, their prior, and the evidence.

    Args:
        classes: the labels, or the attributes.
        prior: class prior of the training samples, and of the evidence's probabilities, (classes,) or (attributes, 2).
        aimed: class prior at which :class:`~equipoise.decisions.Balanced` decides, of the same shape.
        evidence: held-out predictions; None if there are none, and rules that need them raise an error.
        target_prior: class prior where the decisions are made, of the same shape; None is ``prior``.
    """

    classes: tuple[Label, ...]
    prior: Floats
    aimed: Floats
    evidence: Evidence | None
    target_prior: Floats | None = None

    @property
    def several(self) -> bool:
        """True if a row has several labels."""
        return self.prior.ndim == 2

    @property
    def used_at(self) -> Floats:
        """The class prior where the decisions are made."""
        return self.prior if self.target_prior is None else self.target_prior

    @property
    def rarest_first(self) -> NDArray[np.intp]:
        """Indices of the classes, or attributes, the rarest first."""
        return np.argsort(self.prior[:, 1] if self.several else self.prior, kind="stable")

    @property
    def balanced_weights(self) -> Floats:
        """Weights that turn probabilities at the target prior into a balanced decision, shaped like the prior."""
        found = self.aimed / np.maximum(self.used_at, SMALLEST)
        return np.asarray(found / found.max(-1, keepdims=True))

    def at(self, class_prior: Mapping[Any, float] | None, target_prior: Floats | None = None) -> "Situation":
        """Return the same situation with decisions made at another class prior.

        Args:
            class_prior: shares of all classes, which sum to 1, or of some; the others share the rest as in training.
                With several labels, the share of each attribute's ones.
            target_prior: shaped like ``prior``; takes precedence.
        """
        if target_prior is not None or class_prior is None:
            return self if target_prior is None else replace(self, target_prior=target_prior)
        return replace(self, target_prior=prior_of(class_prior, self.classes, self.prior))

    def known(self) -> Evidence:
        """Return the evidence; raise an error that says how to get some if there is none."""
        if self.evidence is None:
            raise InvalidInputError(
                "this rule is chosen on samples that no epoch has seen; fit with calibration='validation', or "
                "call calibrate(X, y) with labelled samples that were not trained on."
            )
        return self.evidence

    @cached_property
    def probabilities(self) -> Floats:
        """Probabilities of the evidence at the target prior, (rows, classes), or of ones, (rows, attributes)."""
        return self._at_target(self.known().probabilities)

    @cached_property
    def answered(self) -> Floats:
        """Probabilities of the evidence from all members of a model, as for new rows, of the same shape."""
        found = self.known().answered
        return self.probabilities if found is None else self._at_target(found)

    def _at_target(self, probabilities: NDArray[np.float32]) -> Floats:
        p = probabilities.astype(np.float64)
        pairs = np.stack((1 - p, p), axis=-1) if self.several else p / p.sum(1, keepdims=True)
        moved = pairs if self.target_prior is None else move_prior(pairs, old=self.prior, new=self.target_prior)
        return np.asarray(moved[..., 1] if self.several else moved)

    def row_weights(self, place: int | None = None) -> Floats:
        """Return row weights of the evidence that sum to 1 and match the target prior, (rows,).

        Args:
            place: index of an attribute if a row has several labels.
        """
        evidence = self.known()
        labels = evidence.labels if place is None else evidence.labels[:, place]
        shares = self.used_at if place is None else self.used_at[place]
        totals = np.bincount(labels, weights=evidence.weight, minlength=len(shares))
        found = evidence.weight * (shares / np.where(totals > 0, totals, 1))[labels]
        return np.asarray(found / max(found.sum(), SMALLEST))


def prior_of(
    given: Mapping[Any, float], classes: Sequence[Label], prior: Floats, *, name: str = "class_prior"
) -> Floats:
    """Return a class prior from shares by class, shaped like ``prior``; other classes share the rest as in ``prior``.

    Args:
        given: shares of all classes or of some; with several labels, the share of each attribute's ones.
        classes: the labels, or the attributes.
        prior: class prior of the training samples, (classes,) or (attributes, 2).
        name: name of the prior in error messages.

    >>> prior_of({"c": 0.1}, ("a", "b", "c"), np.array([0.3, 0.3, 0.4]))
    array([0.45, 0.45, 0.1 ])
    """
    several = prior.ndim == 2
    places = [place_of(label, classes) for label in given]
    check_shares(given, len(classes), several=several, name=name)
    shares = np.array(list(given.values()))
    if several:
        ones = prior[:, 1].copy()
        ones[places] = shares
        return np.stack((1 - ones, ones), axis=-1)
    found = prior.copy()
    if len(places) < len(found):
        found *= (1 - shares.sum()) / max(1 - prior[places].sum(), SMALLEST)
    found[places] = shares
    return class_shares(found, prior.shape, name=name)


def check_shares(class_prior: Mapping[Any, float], size: int, *, several: bool, name: str = "the class prior") -> None:
    """Raise an error for impossible shares of classes, or of attributes' ones."""
    shares = np.array(list(class_prior.values()))
    with np.errstate(over="ignore"):
        total = shares.sum()
    if (shares < 0).any() or not (several or total > 0):
        raise InvalidInputError(f"{name} must hold shares that are not negative, got {class_prior!r}.")
    if several and (shares > 1).any():
        raise InvalidInputError(f"{name} must hold shares of ones from 0 to 1, got {class_prior!r}.")
    if several:
        return
    if len(shares) < size and total >= 1:
        raise InvalidInputError(
            f"{name} leaves no share for the other classes, got {class_prior!r}; keep the sum below 1."
        )
    if len(shares) == size and abs(total - 1) > ROUNDED:
        raise InvalidInputError(f"the shares of {name} must add up to 1 if every class is listed, got {total:g}.")


def descending(scores: Floats, *columns: Floats) -> tuple[Floats, NDArray[np.intp], list[Floats]]:
    """Return the thresholds between distinct scores, the rows above each, and the columns' sums over those rows.

    >>> descending(np.array([0.2, 0.8, 0.2]), np.array([1.0, 1.0, 1.0]))
    (array([0.5, 0.1]), array([1, 3]), [array([1., 3.])])
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.flatnonzero(np.append(ranked[1:] < ranked[:-1], True))
    below = np.append(ranked[ends[:-1] + 1], 0.0)
    return (ranked[ends] + below) / 2, ends + 1, [column[order].cumsum()[ends] for column in columns]


def each_label(situation: Situation, found: Callable[[int], float], places: Any) -> Floats:
    """Return thresholds for several labels, (attributes,): from ``found`` at the indices ``places``, else balanced."""
    weights = situation.balanced_weights
    thresholds = weights[:, 0] / np.maximum(weights.sum(1), SMALLEST)
    for place in places:
        thresholds[place] = found(place)
    return np.asarray(thresholds)
