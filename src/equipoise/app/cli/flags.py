"""Options shared by several commands."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from equipoise.app.cli import completion
from equipoise.app.cli.printing import print_sentence
from equipoise.app.decision_options import RULES, read_decision
from equipoise.app.runs.run_options import RunOptions
from equipoise.errors import InvalidInputError
from equipoise.options import declared

if TYPE_CHECKING:
    from equipoise.decisions import Chosen, DecisionRule

Command = TypeVar("Command", bound=Callable[..., None])
DECISION = tuple(RULES)
"""Training options that ask for a decision rule."""


def rule_of_flags(values: Mapping[str, Any], *, prior: str | None = None) -> "DecisionRule | None":
    """Return the rule that the values of ``DECISION`` ask for, at a class ``prior`` if that is given, or None."""
    return read_decision({name: values[name] for name in DECISION} | {"prior": prior})


def tell_expected(chosen: "Chosen", *, tell: Callable[[str], None] = print_sentence) -> None:
    """Tell what a rule is expected to give, one sentence per line: by default on standard output, with the scores."""
    for sentence in chosen.lines():
        tell(sentence)


def _check_abstain(share: float | None) -> float | None:
    if share is not None and not 0 < share < 1:
        raise InvalidInputError(f"--abstain must be above 0 and below 1, such as 0.1, got {share}.")
    return share


def check_weights(weights: str | Path | None) -> None:
    """Raise an error if a file of weights does not exist."""
    if weights is not None and not Path(weights).exists():
        raise InvalidInputError(
            f"no such file: {str(weights)!r}; give the path of a file with weights for the backbone."
        )


def check_data(source: str) -> None:
    """Raise an error if unlabelled data do not exist."""
    from equipoise.data.sources import NAMED_SETS

    if source != "-" and not Path(source).expanduser().exists() and source not in NAMED_SETS:
        raise InvalidInputError(f"no such file or folder: {source!r}; check the path.")


def checked_output(
    out: Path | None, kind: str | None, *, force: bool, as_json: bool, what: str
) -> tuple[Path | None, str]:
    """Return the file for rows and its format; None is standard output. Refuse a file that cannot be written.

    Args:
        out, kind: as given by ``--out`` and ``--format``.
        what: the rows, in an error.
    """
    from equipoise.app.output_files import check_free, format_of

    file = None if out is None or str(out) == "-" else out
    if as_json and file is None:
        raise typer.BadParameter(
            f"the {what} already go to standard output; name a file with --out, or use --format jsonl.",
            param_hint="'--json'",
        )
    chosen = format_of(file, kind)
    if file is not None:
        check_free(file, force)
    return file, chosen


def takes(*names: str, of: type = RunOptions, optional: bool = False) -> Callable[[Command], Command]:
    """Give a command options in place of its ``**values``, each as its field declares it.

    They follow the command's own arguments and precede its own options, which stand behind a ``*``.

    Args:
        names: of the options; none takes all.
        of: the dataclass that declares them.
        optional: whether what has no default, the data, may be left out.
    """

    def derived(command: Command) -> Command:
        own = [each for each in signature(command).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        first = [each for each in own if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        taken = names or [each.name for each in fields(of)]
        found = [*first, *(_parameter(of, name, optional) for name in taken), *own[len(first) :]]
        command.__signature__ = Signature(found)  # type: ignore[attr-defined]
        return command

    return derived


@cache
def _types(of: type) -> dict[str, Any]:
    """Return the types of all options; evaluating them takes as long as all else that ``--help`` does with them."""
    return get_type_hints(of)


def _parameter(of: type, name: str, optional: bool) -> Parameter:
    """Return typer's description of an option."""
    field = next(each for each in fields(of) if each.name == name)
    kind, found = _types(of)[name], declared(field)
    if of is RunOptions and any(get_origin(each) is Literal for each in (kind, *get_args(kind))):
        kind = str | None if type(None) in get_args(kind) else str  # checked by the option itself, as in a file
    if field.default is MISSING and not found.flags:
        flag: Any = typer.Argument(metavar=name.upper(), help=found.help)
    else:
        stated = found.whole or None not in (found.least, found.most)  # typer knows no open ranges
        low, high = (found.least, found.most) if stated else (None, None)
        flag = typer.Option(
            *found.flags,
            help=found.help,
            metavar=found.metavar,
            min=low,
            max=high,
            autocompletion=completion.TRAINING.get(name) if of is RunOptions else None,
        )
    missing = None if optional else Parameter.empty
    default = missing if field.default is MISSING else field.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag])


Human = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Flag the most uncertain samples for human review: about this share, if they resemble the held-out or "
        "labelled ones.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Write names to CSV unchanged, even those that a spreadsheet would run as formulae."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Prior = Annotated[
    str | None,
    typer.Option(
        help="The class prior where the model is used: natural (as in training), balanced, estimate (from these data), "
        "'a=0.2,b=0.8' or a .json file. Probabilities and decisions then hold for that prior. By default "
        "probabilities are natural, and decisions are for the prior that the method aims at, usually a balanced one."
    ),
]
Abstain = Annotated[
    float | None,
    typer.Option(
        callback=_check_abstain,
        help="Allowed error rate of each class: 0.1 gives sets that contain the true class in 90 % of cases.",
    ),
]
