"""``equipoise rebalance``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli import flags
from equipoise.app.cli.flags import DECISION, Abstain, AsJson, Force, Human, Quiet, Raw
from equipoise.app.cli.printing import (
    ConsoleWatcher,
    add_rows,
    new_table,
    print_json,
    print_sentence,
    print_verdict,
    shown,
)
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

if TYPE_CHECKING:
    from equipoise.app.runs.rebalance import Rebalanced


Predictions = Annotated[
    str, typer.Argument(metavar="PREDICTIONS", help="A table with a probability for each class, CSV or Parquet.")
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="The columns of the probabilities in the order of the sorted classes, or class=column. Default: those "
        "named p_CLASS, prob_CLASS, probability_CLASS or CLASS; with two classes, one is enough.",
    ),
]
Apply = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Apply an earlier decision.json to new predictions, without labels."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="A new folder, default runs/NAME; with --apply a .csv, .parquet or .jsonl file, or '-' for "
        "standard output, the default."
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        help="The class prior where the decision is used: CLASS=0.001. With --apply also natural (as in the labelled "
        "rows), balanced, estimate (from these data) or a .json file, unless the decision has a rule of its own."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="With --apply: csv, parquet or jsonl; default: by the file name.")
]


@flags.takes("target", *DECISION)
def rebalance(
    data: Predictions,
    *,
    columns: Columns = None,
    apply: Apply = None,
    out: Out = None,
    kind: Format = None,
    human: Human = 0.1,
    prior: Prior = None,
    abstain: Abstain = None,
    raw: Raw = False,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Turn any model's predictions into balanced decisions.

    Takes a table of probabilities from any model, with the true labels of rows that the model was not trained on.
    Undoes the effect of class weights or resampling, calibrates, and decides at a class prior close to a balanced one.
    Writes decision.json, the corrected answers in answers.csv, and report.html. Use --apply to answer new predictions;
    it writes the columns of `equipoise predict`.

    \b
    Examples:
        equipoise rebalance predictions.csv --target label
        equipoise rebalance predictions.csv --target fraud --columns score --out runs/fraud
        equipoise rebalance predictions.csv --target kind --recall fraud=0.95
        equipoise rebalance predictions.csv --target kind --cost miss:fraud=50 --prior fraud=0.001
        equipoise rebalance --apply runs/predictions/decision.json new.csv --out answers.csv
        equipoise rebalance --apply runs/predictions/decision.json new.csv --prior estimate --abstain 0.1
    """
    rule = flags.rule_of_flags(values, prior=prior if apply is None else None)
    output = {"raw": raw, "as_json": as_json, "quiet": quiet}
    if apply is None:
        _refuse_options("it requires --apply", {"--format": kind, "--abstain": abstain, "--force": force or None})
        _fit(data, out, target=values["target"], columns=columns, human=human, rule=rule, **output)
        return
    if rule is not None:
        raise InvalidInputError(
            "--apply uses the rule chosen on labelled rows; give a rule's flags when you fit the decision."
        )
    _refuse_options("labels are not used with --apply", {"--target": values["target"]})
    file, kind = flags.checked_output(out, kind, force=force, as_json=as_json, what="answers")
    given: dict[str, Any] = {"columns": columns, "human": human, "prior": prior, "abstain": abstain}
    _apply(apply, data, file, kind=kind, force=force, **given, **output)


def _apply(decision: Path, data: str, file: Path | None, *, as_json: bool, quiet: bool, **options: Any) -> None:
    if not decision.is_file():
        raise InvalidInputError(f"no such file: {str(decision)!r}; give a decision.json of `equipoise rebalance`.")
    flags.check_data(data)
    from equipoise.app.runs.decision_file import Decision
    from equipoise.app.runs.rebalance import apply_decision  # torch

    with ConsoleWatcher(quiet=quiet) as watcher:
        found = apply_decision(Decision.load(decision), data, file, tell=watcher.note, **options)
        if file is not None:
            watcher.note(f"{counted(found.samples - found.broken, 'answer')} in {file}.")
    if as_json:
        print_json({"out": str(file), **asdict(found)})


def _refuse_options(reason: str, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter(f"{reason}; leave it out.", param_hint=f"'{name}'")


def _fit(data: str, out: Path | None, *, as_json: bool, quiet: bool, **how: Any) -> None:
    from equipoise.app.run_folder import check_unused, new_folder
    from equipoise.data.sources import check_source

    if not Path(data).expanduser().is_file():
        raise InvalidInputError(f"no such file: {data!r}; give a CSV or Parquet file of predictions.")
    check_source(data, target=how["target"])
    folder = out or new_folder(data)
    check_unused(folder)
    from equipoise.app.report.sections.verdict import verdict
    from equipoise.app.runs.rebalance import rebalance as fit  # torch

    with ConsoleWatcher(quiet=quiet) as watcher:
        found = fit(data, folder, watcher=watcher, **how)
        judged, chosen = verdict(found.run), found.decision.chosen
        if as_json:
            content = {"folder": str(folder), "verdict": judged.as_dict(), "classes": list(found.decision.classes)}
            scores = {"before": found.before.as_dict(), "after": found.after.as_dict()}
            print_json(content | scores | {"decision": None if chosen is None else chosen.to_json()})
        else:
            _print(found)
            print_verdict(Console(), judged.headline, [*judged.worth, *judged.change])
        if chosen is not None:
            flags.tell_expected(chosen, tell=watcher.note if as_json else print_sentence)
        watcher.note(f"The decision, the corrected answers and the report are in {folder}.")
        watcher.note(f"Apply it to new predictions: equipoise rebalance --apply {folder / 'decision.json'} new.csv")


def _print(found: "Rebalanced") -> None:
    """Print the figures and the recall of each class, before and after."""
    from equipoise.app.report.rebalance_page import figure_rows

    console, before, after = Console(highlight=False), found.before, found.after
    console.print(f"On {after.samples:,} labelled rows, each corrected by a fit to the others")
    table = new_table("", "before", "after", left=[""])
    for row in figure_rows(before.as_dict(), after.as_dict()):
        table.add_row(*row)
    console.print(table)
    table = new_table("class", "rows", "recall before", "recall after", "margin", left=["class"])
    margins = found.decision.blend.margins.tolist()

    def cells(place: int) -> list[str]:
        recalls = [f"{scores.recall.each[place]:.1%}" for scores in (before, after)]
        return [shown(after.classes[place]), f"{after.support[place]:,}", *recalls, f"{margins[place]:.2f}"]

    add_rows(table, sorted(range(len(after.classes)), key=lambda place: -after.support[place]), cells)
    console.print(table)
