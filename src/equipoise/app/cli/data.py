"""``equipoise data summary``."""

from typing import Annotated

import typer
from rich.console import Console

from equipoise.app.cli.flags import AsJson, Labels, Quiet, Target
from equipoise.app.cli.printing import ConsoleWatcher, print_json, print_summary
from equipoise.wording import counted


def summary(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="A table, an image folder or archive, or a set's name.")
    ],
    target: Target = None,
    labels: Labels = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show classes, counts, imbalance, and what is odd about the data.

    \b
    Examples:
        equipoise data summary photos/
        equipoise data summary patients.csv --target diagnosis --json
    """
    from equipoise.data.sources import check_source, open_data

    check_source(source, target=target, labels=labels)
    from equipoise.data.summary import summarize  # torch

    with ConsoleWatcher(quiet=quiet) as watcher:
        samples = open_data(source, target=target, labels=labels, progress=watcher.progress)
    found = summarize(samples.y, names=samples.attributes or None)
    for sentence in (*samples.notes, *found.notes):
        watcher.note(sentence)
    if as_json:
        print_json(found.as_dict() | {"notes": [*samples.notes, *found.notes]})
        return
    print_summary(Console(), found, title=counted(len(samples), "sample"))
