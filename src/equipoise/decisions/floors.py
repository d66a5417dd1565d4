"""Rules that keep the recall or precision of listed classes above a floor, with one threshold per class."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.binomial_bounds import CONFIDENCE
from equipoise.decisions.by_class import ByClass, Label, place_of
from equipoise.decisions.policy import Claim, Policy, Promise
from equipoise.decisions.situation import Floats, Situation, each_label
from equipoise.errors import InvalidInputError


class Floor(NamedTuple):
    """The requested share of a class, and the evidence for choosing its threshold.

    Args:
        name: the class.
        asked: requested share.
        risk: allowed probability that the promise fails.
        odds: odds of the class where the rule is used, divided by its odds among the rows.
        scores: probabilities of the class, (rows,); −1 for rows that an earlier class has claimed.
        own: whether each row is of the class, (rows,).
    """

    name: str
    asked: float
    risk: float
    odds: float
    scores: Floats
    own: NDArray[np.bool_]

    def unkept(self, what: str, promised: float, why: str) -> str:
        """Return a sentence on a promise that falls short of the request."""
        can = f"{100 * promised:.3g} % can: {why}."
        return f"a {what} of {100 * self.asked:.3g} % cannot be promised for class {self.name!r}, {can}"


class Kept(NamedTuple):
    """A threshold, its promise, the number of samples behind it, and a note if it falls short of the request."""

    threshold: float
    promised: float
    samples: int
    note: str | None


@dataclass(frozen=True, repr=False)
class FloorRule(DecisionRule):
    """A rule that predicts a class if and only if its probability reaches the threshold that its floor requires."""

    what: ClassVar[Literal["recall", "precision"]]

    floors: Mapping[Any, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        floors = ByClass(self.floors, f"the {self.what}")
        self._keep("floors", floors.within(0, 1, f"the {self.what}"))

    def _named(self) -> Sequence[Label]:
        return tuple(self.floors)

    def _groups(self, situation: Situation) -> list[tuple[int]]:
        """Return the index of each class, as a group of one."""
        return [(place_of(label, situation.classes),) for label in self.floors]

    def _policy(self, situation: Situation) -> Policy:
        evidence, q = situation.known(), situation.probabilities
        risk = (1 - CONFIDENCE) / len(self.floors)
        free = np.ones(len(q), dtype=np.bool_)
        kept: dict[int, Kept] = {}
        promises, notes = [], []
        for label, floor in self.floors.items():
            place = place_of(label, situation.classes)
            own = evidence.labels[:, place] == 1 if situation.several else evidence.labels == place
            name = str(situation.classes[place])
            if not own.any():
                raise InvalidInputError(
                    f"choosing a threshold for {name!r} needs held-out samples of it, got none; hold out some."
                )
            scores = np.where(free, q[:, place], -1.0)
            asked = Floor(name, floor, risk, _odds(situation, place, own), scores, own)
            found = kept[place] = self._threshold(asked)
            if not situation.several:
                free &= q[:, place] < found.threshold
            promises.append(Promise(name, self.what, floor, found.promised, found.samples))
            notes += [] if found.note is None else [found.note]
        guarantees = {"promises": tuple(promises), "notes": tuple(notes)}
        if situation.several:
            thresholds = each_label(situation, lambda place: kept[place].threshold, kept)
            return Policy(thresholds=thresholds, **guarantees)  # type: ignore[arg-type]
        claims = tuple(Claim((place,), each.threshold) for place, each in kept.items())
        return Policy(weights=situation.balanced_weights, claims=claims, **guarantees)  # type: ignore[arg-type]

    @abstractmethod
    def _threshold(self, floor: Floor) -> Kept:
        """Return the threshold of a class."""


def _odds(situation: Situation, place: int, own: NDArray[np.bool_]) -> float:
    """Return the ratio of a class's odds where the rule is used to its odds among the evidence's rows."""
    share = float(situation.used_at[place, 1] if situation.several else situation.used_at[place])
    among = own.mean()
    return share / max(1 - share, 1e-12) * (1 - among) / among if among < 1 else 1.0
