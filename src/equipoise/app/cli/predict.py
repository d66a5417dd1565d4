"""``equipoise predict``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from equipoise.app.cli.decision_flags import Cost, FBeta, PrecisionFloor, Recall, Review, rule_of_flags, tell_expected
from equipoise.app.cli.flags import Abstain, AsJson, Force, Human, Prior, Quiet, Raw, RunFolder, check_data
from equipoise.app.cli.printing import ConsoleWatcher, print_json, shares_sentence


def predict(
    run: RunFolder,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A table or images; '-' reads a table from standard input."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .parquet or .jsonl file; default, and '-', is standard output.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--format", help="csv, parquet or jsonl; default by the file.")] = None,
    human: Human = 0.1,
    prior: Prior = None,
    cost: Cost = None,
    recall: Recall = None,
    precision: PrecisionFloor = None,
    review: Review = None,
    f_score: FBeta = None,
    abstain: Abstain = None,
    raw: Raw = False,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict for new data.

    Gives the class, by which rule it was decided, the probability of each, the uncertainty of that decision, and
    whether a human should look: at uncertain samples, and at all of which something could not be read. Such an image
    has a row without a class; such a value of a table counts as missing. Tables are read in parts, so that their
    length does not matter. --json sums up, and needs --out.

    --recall, --precision, --cost, --review and --f-score decide by another rule than the run's own, chosen by
    predictions for samples that the model has not been trained on; --prior says how common the classes are there.

    --abstain adds the set of classes that cannot be ruled out, and flags rows where more than one is left.

    \b
    Examples:
        equipoise predict runs/patients new.csv --out answers.csv
        equipoise predict runs/payments new.csv --recall fraud=0.95 --out answers.csv
        equipoise predict runs/photos inbox/ --out answers.parquet --human 0.05
        cat new.csv | equipoise predict runs/patients - --format jsonl
        equipoise predict runs/patients new.csv --prior estimate --abstain 0.1 --out answers.csv
    """
    from equipoise.app.output_files import check_free, format_of
    from equipoise.app.run_folder import finished_record

    file = None if out is None or str(out) == "-" else out
    if as_json and file is None:
        raise typer.BadParameter(
            "the predictions themselves go to standard output; name a file with --out, or say --format jsonl.",
            param_hint="'--json'",
        )
    chosen = format_of(file, kind)
    rule = rule_of_flags(cost, recall, precision, review, f_score)
    finished_record(run)
    check_data(data)
    if file is not None:
        check_free(file, force)
    from equipoise.app.runs.predict import human_threshold, predict_to
    from equipoise.app.runs.trained_run import ESTIMATE, RunModel  # torch
    from equipoise.app.runs.unlabelled_data import estimated_prior

    with ConsoleWatcher(quiet=quiet) as watcher:
        model = RunModel.load(run)
        threshold = human_threshold(run, human)
        shares = None
        if prior == ESTIMATE:
            shares = estimated_prior(model, data)
            watcher.note(shares_sentence("estimated class prior", model.named_shares(shares)))
        elif prior is not None:
            shares = model.read_prior(prior)
        model = model.deciding(rule, shares)
        if rule is not None and model.chosen is not None:
            tell_expected(model.chosen, tell=watcher.note)
        found = predict_to(
            model,
            data,
            file,
            kind=chosen,
            threshold=threshold,
            tell=watcher.note,
            force=force,
            prior=shares,
            abstain=abstain,
            raw=raw,
        )
    for column, values in found.unread_values.items():
        what = "value" if values == 1 else "values"
        watcher.note(f"{column}: {values:,} {what} could not be read and counted as missing; a human should look.")
    if as_json:
        named = None if shares is None else model.named_shares(shares)
        told = None if model.chosen is None else model.chosen.to_json()
        print_json({"out": str(file), **asdict(found), "prior": named, "decision": told})
    if file is not None:
        what = "prediction is" if found.samples - found.broken == 1 else "predictions are"
        rest = f", and {found.broken:,} without a class for what could not be read" if found.broken else ""
        watcher.note(f"{found.samples - found.broken:,} {what} in {file}{rest}.")
