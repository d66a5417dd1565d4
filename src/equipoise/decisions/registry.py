"""``DECISIONS``, where a new decision rule is one line, and rules restored from JSON by their names."""

from dataclasses import fields
from typing import Any

from msgspec import Struct

from equipoise.decisions.base_rule import DecisionRule
from equipoise.decisions.costs import Costs
from equipoise.decisions.f_score import FScore
from equipoise.decisions.most_probable import Balanced, Natural
from equipoise.decisions.precision_at_least import PrecisionAtLeast
from equipoise.decisions.recall_at_least import RecallAtLeast
from equipoise.decisions.review_budget import ReviewBudget
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.records import as_record

DECISIONS: dict[str, type[DecisionRule]] = {
    "balanced": Balanced,
    "natural": Natural,
    "costs": Costs,
    "recall_at_least": RecallAtLeast,
    "precision_at_least": PrecisionAtLeast,
    "review_budget": ReviewBudget,
    "f_score": FScore,
}


class _Kind(Struct):
    rule: str


def rule_from_json(value: Any, where: object = "a decision") -> DecisionRule:
    """Restore a rule from ``DecisionRule.to_json``, which may be untrusted; strict.

    Args:
        value: plain values, as ``json.loads`` returns them.
        where: name of the source in error messages.

    >>> rule_from_json({"rule": "recall_at_least", "floors": [["fraud", 0.95]]})
    RecallAtLeast(floors={'fraud': 0.95})
    """
    kind = as_record(value, _Kind, where, remedy="write it again").rule
    if kind not in DECISIONS:
        raise InvalidInputError(f"{where} names the rule {kind!r}; there are {', '.join(DECISIONS)}.")
    given = {name: part for name, part in value.items() if name != "rule"}
    unknown = sorted(set(given) - {each.name for each in fields(DECISIONS[kind])})
    if unknown:
        raise InvalidInputError(f"{where} has unknown parts of the rule {kind}: {listed(unknown)}; write it again.")
    try:
        return DECISIONS[kind](**given)
    except TypeError as error:
        raise InvalidInputError(f"{where} has an invalid rule {kind} ({error}); write it again.") from error
