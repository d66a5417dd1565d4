"""Options that ask for a decision rule or a class prior, such as ``--recall fraud=0.95``; a new one begins here."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import InvalidInputError, readable
from equipoise.options import flag_of, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from equipoise.calibration.calibrated_probabilities import Calibrated
    from equipoise.decisions import DecisionRule

LARGEST_MATRIX = 2**24
"""Largest size of a cost matrix's file."""


@dataclass(kw_only=True)
class DecisionOptions:
    """Options that ask for a decision rule, one of ``RULES`` at most, and the class prior that it is for.

    To add one, add a field here and a line to ``RULES``.
    """

    cost: str | None = option(
        None,
        "Decide by what mistakes cost: miss:CLASS=50, alarm:CLASS=1, or a .csv matrix.",
        detail="Separate several by commas. The matrix has true classes in rows and predicted ones in columns.",
        metavar="<costs>",
    )
    recall: str | None = option(
        None,
        "Find at least this share of a class: CLASS=0.95.",
        detail="With 95 % confidence. Separate several by commas; the first takes precedence.",
        metavar="<class=share>",
    )
    precision_floor: str | None = option(
        None,
        "Be right in at least this share of the predictions of a class: CLASS=0.5.",
        flags=("--precision",),
        metavar="<class=share>",
    )
    review: str | None = option(None, "Flag as many cases as you can review: 40/1000.", metavar="<cases/of>")
    f_score: float | None = option(
        None, "Maximise this F score; 2 weighs recall twice as much as precision.", above=0, metavar="<beta>"
    )
    prior: str | None = option(
        None,
        "Class prior where the model will be used, for the decision: CLASS=0.001.",
        detail="Classes left out share the rest as in training. Without another rule, the answer is the most "
        "probable class at that prior.",
        metavar="<class=share>",
    )

    def decision(self) -> "DecisionRule | None":
        """Return the rule that these options ask for; None for the default.

        >>> DecisionOptions(recall="fraud=0.95", prior="fraud=0.001").decision()
        RecallAtLeast(floors={'fraud': 0.95}, class_prior={'fraud': 0.001})
        """
        return read_decision({each.name: getattr(self, each.name) for each in fields(DecisionOptions)})


def read_decision(given: Mapping[str, Any]) -> "DecisionRule | None":
    """Return the rule that values of :class:`DecisionOptions` ask for, or None."""
    asked = [name for name in RULES if given.get(name) is not None]
    if len(asked) > 1:
        raise InvalidInputError(
            f"{' and '.join(DECISION_FLAGS[name] for name in asked)} ask for different decisions; give one of them."
        )
    prior = given.get("prior")
    if not asked and prior is None:
        return None
    from equipoise import decisions  # numpy and scipy

    rule, arguments = "Natural", dict[str, Any]()
    if asked:
        rule, read = RULES[asked[0]]
        arguments = read(given[asked[0]])
    class_prior = None if prior is None else pairs(prior, "--prior")
    found: DecisionRule = getattr(decisions, rule)(**arguments, class_prior=class_prior)
    return found


def read_prior(text: str, classes: Sequence[str], calibrated: "Calibrated") -> "NDArray[np.float64]":
    """Return a class prior in the order of the classes, (classes,) or (attributes, 2).

    Args:
        text: ``natural``, as in training; ``balanced``; ``a=0.2,b=0.8``; or a ``.json`` file with such an object.
            Classes left out share the rest as in training. With several labels, the share of each attribute's
            ones.
        classes: names of the classes, or of the attributes.
        calibrated: its class prior is ``natural``.
    """
    from equipoise.decisions.by_class import ByClass
    from equipoise.decisions.situation import prior_of
    from equipoise.storage.records import read_json

    prior = calibrated.prior.numpy()
    if text == "natural":
        return prior
    if text == "balanced":
        return calibrated.balanced()
    if text.lower().endswith(".json"):
        remedy = "write an object of shares by class"
        given: dict[str, float] = read_json(Path(text), dict[str, float], remedy=remedy, most_bytes=2**26)
    else:
        given = pairs(text, "--prior", otherwise="natural, balanced, estimate, a .json file, or ")
    return prior_of(ByClass(given, "--prior"), classes, prior, name="--prior")


def pairs(text: str, flag: str, *, otherwise: str = "") -> dict[str, float]:
    """Return numbers by class, in order; an error also names what the flag may be ``otherwise``.

    >>> pairs("leak=0.9,scratch, deep=0.8", "--recall")  # a comma may be part of a name
    {'leak': 0.9, 'scratch, deep': 0.8}
    """
    found: dict[str, float] = {}
    for entry in _entries(text):
        name, _, number = entry.rpartition("=")
        value, percent = _number(number), _number(number.strip().removesuffix("%"))
        if value is None and percent is not None and flag != "--cost":
            raise InvalidInputError(
                f"{flag} takes shares above 0 and below 1, got {number.strip()}; did you mean {percent / 100:g}?"
            )
        if value is None or not name.strip() or name.strip() in found:
            many = "with commas between several and each class once"
            raise InvalidInputError(f"{flag} must be {otherwise}CLASS=NUMBER, {many}, got {text!r}.")
        found[name.strip()] = value
    return found


def _entries(text: str) -> list[str]:
    """Return the parts between commas; one without "=" belongs to the name that follows."""
    found = [""]
    for part in text.split(","):
        found[-1] += part
        if "=" in part:
            found.append("")
        else:
            found[-1] += ","
    return found[:-1] if found[-1] == "" else found


def _costs(text: str) -> dict[str, Any]:
    if text.lower().endswith(".csv"):
        classes, matrix = _matrix(Path(text).expanduser())
        return {"matrix": matrix, "classes": classes}
    found: dict[str, dict[str, float]] = {"miss": {}, "alarm": {}}
    for name, cost in pairs(text, "--cost").items():
        kind, _, label = name.partition(":")
        if kind not in found or not label:
            raise InvalidInputError(
                f"--cost must be miss:CLASS=COST or alarm:CLASS=COST, with commas between several, or a .csv file; got "
                f"{text!r}."
            )
        found[kind][label] = cost
    return {"miss": found["miss"] or None, "false_alarm": found["alarm"] or None}


def _matrix(path: Path) -> tuple[tuple[str, ...], list[list[float]]]:
    """Read a cost matrix: predicted classes in the first line, true classes in the first column."""
    from equipoise.storage.files import read_plain

    with readable(f"the costs in {path}", "check the path"):
        text = read_plain(path, most_bytes=LARGEST_MATRIX).decode("utf-8-sig")
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text)) if any(line)]
    names = lines[0][1:] if lines else []
    rows = {line[0]: [_number(cell) for cell in line[1:]] for line in lines[1:]}
    square = len(rows) == len(lines) - 1 and sorted(rows) == sorted(set(names)) and len(names) == len(rows) > 0
    if not square or any(len(row) != len(names) or None in row for row in rows.values()):
        raise InvalidInputError(
            f"{path} must be a square table of numbers, with the true classes in the first column and the predicted "
            "ones in the first line."
        )
    return tuple(names), [[float(cost or 0) for cost in rows[name]] for name in names]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _review(text: str) -> dict[str, Any]:
    cases, _, per = text.partition("/")
    found = {"cases": _number(cases), "per": _number(per)}
    if None in found.values():
        raise InvalidInputError(f"--review must be a number of cases out of a total, such as 40/1000, got {text!r}.")
    return found


RULES: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "cost": ("Costs", _costs),
    "recall": ("RecallAtLeast", lambda text: {"floors": pairs(text, "--recall")}),
    "precision_floor": ("PrecisionAtLeast", lambda text: {"floors": pairs(text, "--precision")}),
    "review": ("ReviewBudget", _review),
    "f_score": ("FScore", lambda beta: {"beta": beta}),
}
"""Option -> its rule in ``equipoise.decisions``, and the rule's arguments from the option's value."""
DECISION_FLAGS = {each.name: flag_of(each) for each in fields(DecisionOptions)}
"""Option -> its flag."""
