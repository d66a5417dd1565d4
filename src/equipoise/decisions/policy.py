"""How answers follow from probabilities: weights, costs, thresholds, and promises."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from equipoise.decisions.situation import Floats

Share = Annotated[float, Meta(ge=0, le=1)]


class Claim(Struct, frozen=True, forbid_unknown_fields=True):
    """A group of classes, named exactly where their probabilities sum to at least the threshold.

    Args:
        places: of the classes; of several the one with the largest weighted probability is named.
        threshold: of the probability at the class prior where the rule is used.
    """

    places: tuple[int, ...]
    threshold: Annotated[float, Meta(ge=0, le=2)]


class Promise(Struct, frozen=True, forbid_unknown_fields=True):
    """A guarantee that holds with 95 % confidence, jointly with all others of a rule.

    Args:
        name: of the class, as text.
        what: ``"recall"`` or ``"precision"``.
        asked: the share that was asked for.
        promised: the share that holds: what was asked, or the most that the samples support.
        samples: of the class, or for a precision rows named so, that it rests on.
    """

    name: str
    what: Literal["recall", "precision"]
    asked: Share
    promised: Share
    samples: int


@dataclass(frozen=True, eq=False)
class Policy:
    """How answers follow from probabilities q at the class prior where a rule is used.

    The first claim whose group reaches its threshold predicts a class of that group. Where none does, the answer is the
    unclaimed class with the largest q·weights, or with costs the one that costs least on average, Σ_k q_k·costs_kj.
    With several labels, each is 1 where its q reaches the threshold.

    Args:
        weights: (classes,); None with costs, or for several labels.
        costs: true class by named class, (classes, classes), or for each row, (rows, classes, classes).
        thresholds: with several labels, (attributes,), or for each row, (rows, attributes).
        decided_at: a rule that names the most probable class at a class prior, (classes,) or (attributes, 2).
        as_aimed: a rule that names the most probable class at the prior which the method aims at.
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
        """Number of rows with costs of their own; None if all have the same."""
        for values, axes in ((self.costs, 2), (self.thresholds, 1)):
            if values is not None and values.ndim > axes:
                return len(values)
        return None

    def places(self, q: Floats) -> NDArray[np.int64]:
        """Return the answers: indices, (rows,), or 0 and 1, (rows, attributes).

        Args:
            q: (rows, classes), or of ones, (rows, attributes).
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
