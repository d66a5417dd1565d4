"""``equipoise predict``."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import Quiet, RunFolder
from equipoise.cli.printing import ConsoleWatcher


def predict(
    run: RunFolder,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A table or images; '-' reads a CSV from standard input."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .parquet or .jsonl file; default, and '-', is standard output.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--format", help="csv, parquet or jsonl; default by the file.")] = None,
    human: Annotated[
        float, typer.Option(min=0, max=1, help="Share of such samples as training held out to send to a human.")
    ] = 0.1,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    quiet: Quiet = False,
) -> None:
    """Predict for new data.

    Gives the class, the probability of each, the uncertainty, and whether a human should look. Tables are read in
    parts, so that their length does not matter. Images that cannot be read are named and left out.

    \b
    Examples:
        equipoise predict runs/patients new.csv --out answers.csv
        equipoise predict runs/photos inbox/ --out answers.parquet --human 0.05
        cat new.csv | equipoise predict runs/patients - --format jsonl
    """
    from equipoise.runs import RunModel
    from equipoise.runs.predictions import format_of, human_threshold, predict_to

    file = None if out is None or str(out) == "-" else out
    chosen = format_of(file, kind)
    with ConsoleWatcher(quiet=quiet) as watcher:
        model = RunModel.load(run)
        threshold = human_threshold(run, human)
        count = predict_to(model, data, file, kind=chosen, threshold=threshold, tell=watcher.note, force=force)
    encoder = getattr(model.input, "encoder", None)
    for column, values in ({} if encoder is None else encoder.unread).items():
        watcher.note(f"{column}: {values:,} value{'s' if values > 1 else ''} could not be read and counted as missing.")
    if file is not None:
        watcher.note(f"{count:,} predictions are in {file}.")
