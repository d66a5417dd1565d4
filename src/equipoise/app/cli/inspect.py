"""``equipoise inspect``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.app.cli.flags import AsJson, Force, Quiet, Raw, RunFolder
from equipoise.app.cli.printing import MOST_CLASSES, ConsoleWatcher, new_table, print_json, shown
from equipoise.wording import counted

if TYPE_CHECKING:
    from equipoise.app.runs.inspect import Inspection

SHOWN = 20


def inspect(
    run: RunFolder,
    top: Annotated[
        int | None,
        typer.Option(min=1, help=f"Number of samples to list; default: up to {SHOWN} suspected, all in --out."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv, .parquet or .jsonl file for the ranked samples.")] = None,
    raw: Raw = False,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show which data to collect and which labels to check.

    Lists classes first, and separates the hard from the merely rare. Then lists the training and held-out samples
    whose labels are most likely wrong, each judged by the other samples. A score above 0.5 means that another class
    fits better. Have a human check the list: rare or odd samples with correct labels are on it too.

    \b
    Examples:
        equipoise inspect runs/patients
        equipoise inspect runs/photos --top 100 --out relabel.csv
    """
    from equipoise.app.output_files import check_free, format_of, write_rows
    from equipoise.app.run_folder import finished_record

    kind = None if out is None else format_of(out, None)
    finished_record(run)
    if out is not None:
        check_free(out, force)
    from equipoise.app.runs.inspect import inspect_run  # pandas

    found = inspect_run(run)
    if out is not None and kind is not None:
        write_rows(found.ranking if top is None else found.ranking.head(top), out, kind=kind, force=force, raw=raw)
    most = min(SHOWN, found.suspected) if top is None else top
    if as_json:
        print_json({"run": str(run), **found.as_dict(most)})
    elif out is None or not quiet:
        _print_classes(Console(), found)
        _print_samples(Console(), found, most)
    if out is not None:
        written = len(found.ranking) if top is None else min(top, len(found.ranking))
        ConsoleWatcher(quiet=quiet).note(f"{counted(written, 'sample')} written to {out}, the most doubtful first.")


def _print_classes(console: Console, found: "Inspection") -> None:
    left = what, rival, advice = "attribute" if found.several else "class", "most often confused with", "what to do"
    table = new_table(what, "samples", "missed", rival, "suspected labels", advice, left=left)
    for entry in found.classes[:MOST_CLASSES]:
        table.add_row(
            shown(entry.name),
            f"{entry.samples:,}",
            "–" if entry.missed is None else f"{entry.missed:.1%}",
            "" if entry.taken_for is None else shown(entry.taken_for),
            f"{entry.suspected:,}",
            entry.advice,
        )
    console.print(table)
    if len(found.classes) > MOST_CLASSES:
        console.print(f"and {len(found.classes) - MOST_CLASSES:,} more; --json has them all", highlight=False)


def _print_samples(console: Console, found: "Inspection", top: int) -> None:
    rows = found.ranking.head(top)
    judged = f"{found.suspected:,} of {len(found.ranking):,} labels fit another class better"
    left = found.labels - len(found.ranking)
    rest = f"; {left:,} are of classes too small to judge" if left else ""
    console.print(f"{judged}{rest}", highlight=False, soft_wrap=True)
    if not len(rows):
        return
    table = new_table(*rows.columns, left=[name for name in rows.columns if name not in ("row", "score")])
    for values in rows.itertuples(index=False):
        cells = [shown(str(value)) for value in values[:-1]]
        table.add_row(*cells, f"{float(values[-1]):.3f}")
    console.print(table)
