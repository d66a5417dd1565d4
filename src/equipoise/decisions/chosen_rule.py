"""A decision rule with its chosen thresholds and its expected results."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from equipoise.decisions.by_class import Label
from equipoise.decisions.expected_results import Expected
from equipoise.decisions.policy import Claim, Policy, Promise
from equipoise.decisions.situation import Floats
from equipoise.decisions.yardstick import PER
from equipoise.errors import InvalidInputError
from equipoise.evaluation.intervals import Estimate
from equipoise.storage.records import as_record

if TYPE_CHECKING:
    from torch import Tensor

    from equipoise.calibration.calibrated_probabilities import Calibrated
    from equipoise.decisions.base_rule import DecisionRule

LARGEST = 1e100
Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


@dataclass(frozen=True, eq=False)
class Chosen:
    """A rule with its thresholds and its expected results.

    Args:
        rule: the requested rule.
        classes: the labels, or the attributes.
        target_prior: class prior where it is used, (classes,) or (attributes, 2); None is that of the training samples.
        policy: maps probabilities to answers.
        expected: expected results, from the evidence the rule was chosen on; None without evidence.

    >>> from equipoise.decisions import Evidence, Natural, Situation
    >>> evidence = Evidence.of([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1])
    >>> prior = np.array([0.5, 0.5])
    >>> chosen = Natural().choose(Situation(("ok", "fraud"), prior, prior, evidence))
    >>> chosen.expected.classes[1].recall.value
    0.5
    """

    rule: "DecisionRule"
    classes: tuple[Label, ...]
    target_prior: Floats | None
    policy: Policy
    expected: Expected | None

    def places(self, calibrated: "Calibrated", logits: "Tensor") -> NDArray[np.int64]:
        """Return the predicted class indices, (rows,), or 0 and 1, (rows, attributes).

        Args:
            calibrated: the calibration of the model.
            logits: of the model, (rows, classes) or (rows, attributes, 2).
        """
        policy = self.policy
        if policy.as_aimed or policy.decided_at is not None:
            return np.asarray(calibrated.decided(logits, policy.decided_at).numpy())
        q = calibrated.probabilities(logits, self.target_prior).numpy()
        if policy.rows not in (None, len(q)):
            raise InvalidInputError(f"costs must be given for each of the {len(q):,} rows, got {policy.rows:,}.")
        return policy.places(q[..., 1] if q.ndim == 3 else q)

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Guarantees that hold with 95 % confidence."""
        return self.policy.promises

    @property
    def thresholds(self) -> dict[str, float]:
        """Smallest probability at which a class is predicted, by name, if the rule has thresholds."""
        if self.policy.thresholds is not None and self.policy.thresholds.ndim == 1:
            return {str(label): float(at) for label, at in zip(self.classes, self.policy.thresholds, strict=True)}
        return {
            "|".join(str(self.classes[place]) for place in claim.places): claim.threshold
            for claim in self.policy.claims
        }

    def cost_of(self, labels: NDArray[np.int64], predicted: NDArray[np.int64]) -> float | None:
        """Return the cost of predictions per 1,000 rows by the rule's costs; None for a rule without costs.

        Args:
            labels, predicted: true and predicted class indices, (rows,), or 0 and 1, (rows, attributes).
        """
        costs = self.rule.cost_matrix(self.classes, several=labels.ndim == 2)
        if costs is None or len(labels) == 0:
            return None
        if labels.ndim == 1:
            return PER * float(costs[labels, predicted].mean())
        return PER * float(costs[np.arange(labels.shape[1]), labels, predicted].sum(1).mean())

    def sentences(self) -> Iterator[str]:
        """Yield sentences on the expected results, on the guarantees, and on what cannot be guaranteed."""
        if self.expected is not None:
            yield from self._expectations(self.expected)
        for promise in self.promises:
            if promise.promised > 0:
                recall = promise.what == "recall"
                share = f"at least {100 * promise.promised:.3g} % of"
                predictions = f"{share} its {promise.name!r} predictions are right"
                kept = f"it finds {share} class {promise.name!r}" if recall else predictions
                yield f"with 95 % confidence {kept}."
        yield from self.policy.notes

    def lines(self) -> list[str]:
        """Return :meth:`sentences` as full sentences with a subject, one per line."""
        verbs = ("finds", "costs", "flags")
        whole = [f"The decision {each}" if each.startswith(verbs) else each for each in self.sentences()]
        return [each[0].upper() + each[1:] for each in whole]

    def _expectations(self, expected: Expected) -> Iterator[str]:
        by_name = {each.name: each for each in expected.classes}
        samples = [each.samples for each in expected.classes]
        about_some = self.rule.names_classes and len(self.classes) > 2
        if self.rule.budgeted and expected.reviews is not None and not about_some:
            yield f"flags {_count(expected.reviews, 'cases per 1,000')}."
        for name in self.rule.reported_classes(self.classes, samples, several=expected.reviews is None):
            own = by_name[name]
            of = f"of class {name!r}"
            found = f"an unknown share {of}" if own.recall is None else _percent(own.recall, of)
            what = f"of its {name!r} predictions are right"
            right = "" if own.precision is None else f"; {_percent(own.precision, what)}"
            yield f"finds {found}; {_count(own.false_alarms, 'false alarms per 1,000 cases')}{right}."
        if expected.cost is not None:
            ahead = expected.cost_of_next()
            luck = "" if ahead is None else f"; the next 1,000 will cost {_span(ahead)}, 19 times out of 20"
            yield f"costs {_count(expected.cost, 'per 1,000 cases')} in the long run{luck}."

    def to_json(self) -> dict[str, Any]:
        """Return plain values, which :meth:`from_json` reads."""
        policy = self.policy
        if policy.rows is not None:
            raise InvalidInputError("a rule with a cost for each row cannot be saved; give one cost per class.")
        record = ChosenRecord(
            rule=self.rule.to_json(),
            mix=_plain(self.target_prior),
            weights=_plain(policy.weights),
            costs=_plain(policy.costs),
            claims=list(policy.claims),
            thresholds=_plain(policy.thresholds),
            decided_at=_plain(policy.decided_at),
            as_aimed=policy.as_aimed,
            promises=list(policy.promises),
            notes=list(policy.notes),
            expected=self.expected,
        )
        found: dict[str, Any] = msgspec.to_builtins(record)
        return found

    @classmethod
    def from_json(
        cls, value: Any, classes: tuple[Label, ...], *, several: bool, where: object = "a decision"
    ) -> "Chosen":
        """Restore a rule from :meth:`to_json`, the ``value``, which may be untrusted.

        Args:
            classes: classes of the model, or its attributes if a row has ``several`` labels.
            where: name of the source in error messages.
        """
        from equipoise.decisions import rule_from_json

        record = as_record(value, ChosenRecord, where, remedy=REMEDY)
        size = len(classes)
        shape = (size, 2) if several else (size,)
        arrays = {"mix": shape, "decided_at": shape, "weights": (size,), "costs": (size, size), "thresholds": (size,)}
        found = {name: _array(getattr(record, name), shape, name, where) for name, shape in arrays.items()}
        kinds = [name for name in ("weights", "costs", "thresholds") if found[name] is not None]
        places = [place for claim in record.claims for place in claim.places]
        fits = all(0 <= place < size for place in places) and all(claim.places for claim in record.claims)
        plain = record.as_aimed or found["decided_at"] is not None
        if not fits or len(kinds) != 1 or several != (kinds == ["thresholds"]) or (plain and record.claims):
            raise InvalidInputError(f"{where} holds a decision that does not fit its {size} classes; {REMEDY}.")
        target_prior = found.pop("mix")
        policy = Policy(
            **found,
            claims=tuple(record.claims),
            as_aimed=record.as_aimed,
            promises=tuple(record.promises),
            notes=tuple(record.notes),
        )
        return cls(rule_from_json(record.rule, where), classes, target_prior, policy, record.expected)


REMEDY = "choose it again"


class ChosenRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`Chosen` as JSON, with ``target_prior`` stored as ``mix``; see :class:`Policy`."""

    rule: dict[str, Any]
    mix: list[Any] | None
    weights: list[Finite] | None
    costs: list[list[Finite]] | None
    claims: list[Claim]
    thresholds: list[Finite] | None
    decided_at: list[Any] | None
    as_aimed: bool
    promises: list[Promise]
    notes: list[Annotated[str, Meta(max_length=10_000)]]
    expected: Expected | None


def _plain(values: Floats | None) -> list[Any] | None:
    return None if values is None else np.asarray(values).tolist()


def _array(values: Any, shape: tuple[int, ...], name: str, where: object) -> Floats | None:
    if values is None:
        return None
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != shape or not np.isfinite(found).all() or (name != "costs" and (found < 0).any()):
        raise InvalidInputError(f"{where} must have finite numbers of the shape {shape} in {name!r}; {REMEDY}.")
    return found


def _percent(estimate: Estimate, what: str) -> str:
    value, low, high = (100 * part for part in (estimate.value, estimate.low, estimate.high))
    digits = 1 if value > 99 or value < 1 else 0
    return f"{value:.{digits}f} % {what} [{low:.{digits}f}, {high:.{digits}f}]"


def _span(estimate: Estimate) -> str:
    digits = 0 if estimate.high >= 10 else 1
    return f"{estimate.low:,.{digits}f} to {estimate.high:,.{digits}f}"


def _count(estimate: Estimate, what: str) -> str:
    digits = 0 if estimate.high >= 10 else 1
    return f"{estimate.value:,.{digits}f} {what} [{estimate.low:,.{digits}f}, {estimate.high:,.{digits}f}]"
