"""The flags of a decision rule, shared by several commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from equipoise.app.cli.flags import training_flag
from equipoise.app.cli.printing import print_sentence
from equipoise.app.runs.decision_option import read_decision

if TYPE_CHECKING:
    from equipoise.decisions import Chosen, DecisionRule

Cost = Annotated[str | None, training_flag("cost")]
Recall = Annotated[str | None, training_flag("recall")]
PrecisionFloor = Annotated[str | None, training_flag("precision_floor")]
Review = Annotated[str | None, training_flag("review")]
FBeta = Annotated[float | None, training_flag("f_score")]


def rule_of_flags(
    cost: str | None, recall: str | None, precision: str | None, review: str | None, f_score: float | None
) -> "DecisionRule | None":
    """Return the rule that a command's flags ask for, or None."""
    return read_decision(cost=cost, recall=recall, precision=precision, review=review, f_score=f_score)


def tell_expected(chosen: "Chosen", *, tell: Callable[[str], None] | None = None) -> None:
    """Print what a rule is expected to give, a sentence a line: on standard output, with the scores.

    Args:
        tell: prints a sentence elsewhere, where standard output holds something else.
    """
    for sentence in chosen.told():
        (tell or print_sentence)(sentence)
