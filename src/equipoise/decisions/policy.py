"""The map from probabilities to answers: weights, costs, thresholds, and guarantees."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from equipoise.decisions.situation import Floats

Share = Annotated[float, Meta(ge=0, le=1)]


class Claim(Struct, frozen=True, forbid_unknown_fields=True):
    """A group of classes, predicted if and only if their probabilities sum to at least the threshold.

    Args:
        places: class indices; within the group, the class with the largest weighted probability is predicted.
        threshold: applies to probabilities at the class prior where the rule is used.
    """

    places: tuple[int, ...]
    threshold: Annotated[float, Meta(ge=0, le=2)]


class Promise(Struct, frozen=True, forbid_unknown_fields=True):
    """A guarantee that holds with 95 % confidence, jointly with all others of a rule.

    Args:
        name: the class, as text.
        what: ``"recall"`` or ``"precision"``.
        asked: requested share.
        promised: guaranteed share: the requested one, or the largest that the samples support.
        samples: number of samples behind it: those of the class or, for precision, those predicted as the class.
    """

    name: str
    what: Literal["recall", "precision"]
    asked: Share
    promised: Share
    samples: int


@dataclass(frozen=True, eq=False)
class Policy:
    """Map probabilities q, at the class prior where a rule is used, to answers.

    The first claim whose group reaches its threshold predicts a class of that group. If none does, the answer is the
    unclaimed class with the largest q·weights or, with costs, with the lowest expected cost Σ_k q_k·costs_kj. With
    several labels, each is 1 if its q reaches the threshold.

    Args:
        weights: (classes,); None with costs, or for several labels.
        costs: true class by predicted class, (classes, classes), or for each row, (rows, classes, classes).
        claims: groups of classes with thresholds, in order of precedence.
        thresholds: with several labels, (attributes,), or for each row, (rows, attributes).
        decided_at: set if the rule predicts the most probable class at this class prior, (classes,) or (attributes, 2).
        as_aimed: whether the rule predicts the most probable class at the prior that the method aims at.
        promises: guarantees of the rule.
        notes: sentences on what cannot be guaranteed.
    """

    weights: Floats | None = None
    costs: Floats | None = None
    claims: tuple[Claim, ...] = ()
    thresholds: Floats | None = None
    decided_at: Floats | None = None
    as_aimed: bool = False
    promises: tuple[Promise, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """Number of rows, if each has its own costs; None if all share the same."""
        for values, axes in ((self.costs, 2), (self.thresholds, 1)):
            if values is not None and values.ndim > axes:
                return len(values)
        return None

    def places(self, q: Floats) -> NDArray[np.int64]:
        """Return the answers: indices, (rows,), or 0 and 1, (rows, attributes).

        Args:
            q: probabilities, (rows, classes), or of ones, (rows, attributes).
        """
        if self.thresholds is not None:
            return np.asarray(q >= self.thresholds, dtype=np.int64)
        if self.costs is None:
            assert self.weights is not None
            gain = q * self.weights
        else:
            gain = -(q @ self.costs) if self.costs.ndim == 2 else -np.einsum("nk,nkj->nj", q, self.costs)
        if self.claims:
            gain = np.where(self._allowed(q), gain, -np.inf)
        return np.asarray(gain.argmax(-1), dtype=np.int64)

    def _allowed(self, q: Floats) -> NDArray[np.bool_]:
        allowed = np.broadcast_to(self.rest(q.shape[1]), q.shape)
        for claim in reversed(self.claims):
            group = np.isin(np.arange(q.shape[1]), claim.places)
            hit = q[:, list(claim.places)].sum(1) >= claim.threshold
            allowed = np.where(hit[:, None], group, allowed)
        return np.asarray(allowed)

    def rest(self, size: int) -> NDArray[np.bool_]:
        """Mark the classes without a claim, (classes,); all if every class has one."""
        claimed = np.isin(np.arange(size), [place for claim in self.claims for place in claim.places])
        return np.asarray(~claimed if not claimed.all() else claimed)
