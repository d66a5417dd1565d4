"""The flags of a decision rule, shared by several commands."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from equipoise.app.cli.printing import print_sentence
from equipoise.app.runs.decision_option import read_decision

if TYPE_CHECKING:
    from equipoise.decisions import Chosen, DecisionRule

DECISION = ("cost", "recall", "precision_floor", "review", "f_score")
"""Training options that ask for a decision rule."""


def rule_of_flags(values: Mapping[str, Any], *, prior: str | None = None) -> "DecisionRule | None":
    """Return the rule that the values of ``DECISION`` ask for, at a class ``prior`` if that is given, or None."""
    given = {name.removesuffix("_floor"): values[name] for name in DECISION}
    return read_decision(**given, prior=prior)


def tell_expected(chosen: "Chosen", *, tell: Callable[[str], None] | None = None) -> None:
    """Print what a rule is expected to give, one sentence per line, on standard output, with the scores.

    Args:
        tell: prints a sentence elsewhere, where standard output holds something else.
    """
    for sentence in chosen.told():
        (tell or print_sentence)(sentence)
