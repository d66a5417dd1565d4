"""``equipoise report``."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import Quiet


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; default RUN/report.html, and comparison.html of several.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run, or compare several.

    It is one HTML file that needs no network.

    \b
    Examples:
        equipoise report runs/patients
        equipoise report runs/patients runs/patients-2 --out comparison.html
    """
    from equipoise.report import write_comparison, write_report

    if len(runs) == 1:
        path = write_report(runs[0]) if out is None else write_report(runs[0], out)
    else:
        path = write_comparison(runs, out or Path("comparison.html"))
    if not quiet:
        typer.echo(str(path))
