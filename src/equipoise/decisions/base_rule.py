"""The base class of all decision rules."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.by_class import ByClass, Label, place_of
from equipoise.decisions.chosen_rule import Chosen
from equipoise.decisions.expected_results import Expected, expect, spanning
from equipoise.decisions.policy import Policy
from equipoise.decisions.situation import Floats, Situation, check_shares
from equipoise.decisions.yardstick import Yardstick
from equipoise.errors import InvalidInputError

Self = TypeVar("Self", bound="DecisionRule")
MOST_NAMED = 5
"""Maximum number of classes in the sentences of a rule that names none itself."""
PARTS = 5
"""Folds of the evidence: thresholds are searched on all but one and judged on that one."""


@dataclass(frozen=True, repr=False)
class DecisionRule(ABC):
    """A rule that turns calibrated probabilities into answers; immutable, comparable, and stored as JSON.

    Args:
        class_prior: class prior where the decisions are made, by class, if it differs from training. Classes that are
            left out share the rest as in training. With several labels, the share of ones of each label.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    """Reason shown beside an answer that is not the most probable class."""
    needs_evidence: ClassVar[bool] = True
    """True if choosing the rule requires samples that were not trained on."""
    budgeted: ClassVar[bool] = False
    """True if the rule limits how many cases are flagged."""
    searches: ClassVar[bool] = False
    """True if the rule picks its best threshold on the evidence: scores on the same rows would be optimistic."""
    yardstick: ClassVar[Yardstick | None] = None
    """What :meth:`judge` scores answers by, so that methods can be ranked by the rule; None if it cannot."""

    class_prior: Mapping[Any, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.class_prior is not None:
            self._keep("class_prior", ByClass(self.class_prior, "class_prior"))

    def __repr__(self) -> str:
        """Return text that can be pasted as code, without fields that are None."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        parts["class_prior"] = parts.pop("class_prior")
        given = ", ".join(f"{name}={value!r}" for name, value in parts.items() if value is not None)
        return f"{type(self).__name__}({given})"

    def choose(self, situation: Situation, *, target_prior: Floats | None = None) -> Chosen:
        """Choose the thresholds of the rule; return them with its expected results.

        Args:
            situation: the classes, their prior, and the evidence.
            target_prior: overrides ``class_prior``, (classes,) or (attributes, 2).
        """
        self.check(situation.classes, several=situation.several)
        here = situation.at(self.class_prior, target_prior)
        policy = self._policy(here)
        found = None
        if here.evidence is not None and policy.rows is None:
            found = self._expected(here, policy)
        return Chosen(self, situation.classes, here.target_prior, policy, found)

    def check(self, classes: Sequence[Label], *, several: bool) -> None:
        """Raise an error if the rule names anything but ``classes``, or does not support these labels."""
        for label in (*(self.class_prior or ()), *self._named()):
            place_of(label, classes)
        if self.class_prior is not None:
            check_shares(self.class_prior, len(classes), several=several)
        self._check_labels(len(classes), several=several)

    def reported_classes(self, classes: Sequence[Label], samples: Sequence[int], *, several: bool) -> list[str]:
        """Return the ``classes`` to report on: those that the rule names, otherwise all but the most common one.

        Args:
            classes: all classes, or the attributes.
            samples: number of samples of each class; at most five classes are returned, those with the fewest.
            several: whether a row has several labels; then the most common one is included.
        """
        named = [str(classes[place_of(label, classes)]) for label in self._named()]
        return named or rare_names(classes, samples, several=several)

    @property
    def names_classes(self) -> bool:
        """True if the rule names some of the classes."""
        return bool(self._named())

    def by_place(self: Self, classes: Sequence[Label]) -> Self:
        """Return the same rule with classes given by their indices, from 0.

        >>> from equipoise.decisions import RecallAtLeast
        >>> RecallAtLeast({"fraud": 0.95}).by_place(["fraud", "ok"])
        RecallAtLeast(floors={0: 0.95})
        """
        changed: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Mapping):
                changed[each.name] = {place_of(label, classes): number for label, number in value.items()}
            elif each.name in ("of", "classes") and value is not None:
                several = isinstance(value, tuple)
                places = tuple(place_of(label, classes) for label in (value if several else (value,)))
                changed[each.name] = places if several else places[0]
        return replace(self, **changed)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``rule_from_json`` reads them."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {key: value.to_json() if isinstance(value, ByClass) else value for key, value in found.items()}
        return {"rule": self.name} | {key: value for key, value in plain.items() if value is not None}

    def _expected(self, situation: Situation, policy: Policy) -> Expected:
        """Estimate from the evidence the results on new rows, which get the mean of a model's members.

        If each row was predicted by a single member, that mean is itself an estimate, so the intervals also cover the
        results of single members.
        """
        costs = self.cost_matrix(situation.classes, several=situation.several)
        each = [situation.answered, *([] if situation.known().answered is None else [situation.probabilities])]
        answers = self._crossed(situation, each) if self.searches else [policy.places(q) for q in each]
        first, *others = (expect(situation, predicted, costs) for predicted in answers)
        return spanning(first, others[0]) if others else first

    def crossed(self, situation: Situation, probabilities: Floats) -> NDArray[np.int64]:
        """Return cross-fitted answers to the evidence: each fold by thresholds chosen on the others.

        Args:
            situation: with the evidence, at the class prior where the rule is used.
            probabilities: of the evidence, (rows, classes); with several labels, of ones, (rows, attributes).
        """
        return self._crossed(situation, [probabilities])[0]

    def _crossed(self, situation: Situation, probabilities: Sequence[Floats]) -> list[NDArray[np.int64]]:
        evidence = situation.known()
        answers = [np.zeros_like(evidence.labels) for _ in probabilities]
        for others, own in evidence.parts(PARTS):
            policy = self._policy(replace(situation, evidence=evidence.take(others)))
            for found, q in zip(answers, probabilities, strict=True):
                found[own] = policy.places(q[own])
        return answers

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:  # noqa: ARG002
        """Score answers to the evidence; the keys include the names in the rule's ``yardstick``.

        Args:
            situation: with the evidence that was answered, at the class prior where the rule is used.
            predicted: predicted class indices, (rows,), or 0 and 1, (rows, attributes).
        """
        raise InvalidInputError(f"{self!r} has no yardstick to judge answers by.")

    @abstractmethod
    def _policy(self, situation: Situation) -> Policy:
        """Return the policy from probabilities to answers at the class prior where the rule is used."""

    def _named(self) -> Sequence[Label]:
        """Return the labels that the rule names."""
        return ()

    def _check_labels(self, size: int, *, several: bool) -> None:  # noqa: B027
        """Raise an error for several labels, or a number of classes, that the rule does not support."""

    def cost_matrix(self, classes: Sequence[Label], *, several: bool) -> Floats | None:  # noqa: ARG002
        """Return the costs of mistakes, (classes, classes) or (attributes, 2, 2); None for a rule without costs."""
        return None

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def rare_names(classes: Sequence[Label], samples: Sequence[int], *, several: bool) -> list[str]:
    """Return the names of all classes but the most common one, in order; of many classes, the rarest.

    >>> rare_names(("a", "b", "c"), (5, 90, 10), several=False)
    ['a', 'c']
    """
    rarest = np.argsort(samples, kind="stable")[: len(classes) if several else -1]
    return [str(classes[place]) for place in sorted(rarest[:MOST_NAMED].tolist())]
