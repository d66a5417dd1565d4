"""``equipoise predict``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.app.cli import flags
from equipoise.app.cli.flags import DECISION, Abstain, AsJson, Force, Human, Prior, Quiet, Raw, RunFolder
from equipoise.app.cli.printing import ConsoleWatcher, print_json, shares_sentence
from equipoise.wording import counted

if TYPE_CHECKING:
    from equipoise.app.runs import RunModel
    from equipoise.app.runs.answer_table import PredictedCounts
    from equipoise.app.runs.trained_run import Prior as Shares

Source = Annotated[
    str, typer.Argument(metavar="DATA", help="A table or images; '-' reads a table from standard input.")
]
Out = Annotated[
    Path | None, typer.Option(help="A .csv, .parquet or .jsonl file, or '-' for standard output, the default.")
]
Format = Annotated[str | None, typer.Option("--format", help="csv, parquet or jsonl; default: by the file name.")]


@flags.takes(*DECISION)
def predict(
    run: RunFolder,
    data: Source,
    *,
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
    """Predict for new data.

    Writes for each sample the class, the rule that decided it, the probability of every class, the uncertainty of the
    decision, and whether a human should look. Uncertain samples are flagged, as are those that could not be read in
    full: an unreadable image gets a row without a class, an unreadable value of a table counts as missing. Tables are
    read in parts, so they may be of any length. --json prints a summary, and needs --out.

    --recall, --precision, --cost, --review and --f-score decide by a rule other than the run's own. Its thresholds come
    from samples that the model was not trained on; --prior says how common the classes are where the rule is used.

    --abstain adds the set of classes that cannot be ruled out, and flags rows that have more than one.

    \b
    Examples:
        equipoise predict runs/patients new.csv --out answers.csv
        equipoise predict runs/payments new.csv --recall fraud=0.95 --out answers.csv
        equipoise predict runs/photos inbox/ --out answers.parquet --human 0.05
        cat new.csv | equipoise predict runs/patients - --format jsonl
        equipoise predict runs/patients new.csv --prior estimate --abstain 0.1 --out answers.csv
    """
    from equipoise.app.run_folder import finished_record

    file, chosen = flags.checked_output(out, kind, force=force, as_json=as_json, what="predictions")
    rule = flags.rule_of_flags(values)
    finished_record(run)
    flags.check_data(data)
    from equipoise.app.runs.predict import human_threshold, predict_to
    from equipoise.app.runs.trained_run import RunModel  # torch

    with ConsoleWatcher(quiet=quiet) as watcher:
        model, threshold = RunModel.load(run), human_threshold(run, human)
        shares = _shares(model, prior, data, watcher)
        model = model.deciding(rule, shares)
        if rule is not None and model.chosen is not None:
            flags.tell_expected(model.chosen, tell=watcher.note)
        how: dict[str, Any] = {"kind": chosen, "force": force, "raw": raw, "threshold": threshold, "abstain": abstain}
        found = predict_to(model, data, file, tell=watcher.note, prior=shares, **how)
    _tell(watcher, found, file)
    if as_json:
        named = None if shares is None else model.named_shares(shares)
        decision = None if model.chosen is None else model.chosen.to_json()
        print_json({"out": str(file), **asdict(found), "prior": named, "decision": decision})


def _shares(model: "RunModel", prior: str | None, data: str, watcher: ConsoleWatcher) -> "Shares | None":
    """Return the class prior that ``--prior`` gives, or None."""
    from equipoise.app.runs.trained_run import ESTIMATE
    from equipoise.app.runs.unlabelled_data import estimated_prior

    if prior != ESTIMATE:
        return None if prior is None else model.read_prior(prior)
    shares = estimated_prior(model, data)
    watcher.note(shares_sentence("estimated class prior", model.named_shares(shares)))
    return shares


def _tell(watcher: ConsoleWatcher, found: "PredictedCounts", file: Path | None) -> None:
    for column, count in found.unread_values.items():
        unread = f"{counted(count, 'value')} could not be read and counted as missing"
        watcher.note(f"{column}: {unread}; a human should look.")
    if file is not None:
        what = "prediction is" if found.samples - found.broken == 1 else "predictions are"
        rest = f", and {found.broken:,} without a class because they could not be read" if found.broken else ""
        watcher.note(f"{found.samples - found.broken:,} {what} in {file}{rest}.")
