"""``equipoise report``."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.app.cli.flags import AsJson, Force, Quiet
from equipoise.app.cli.printing import ConsoleWatcher, print_json
from equipoise.errors import InvalidInputError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; default RUN/report.html, or comparison.html for several runs.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run, or compare several.

    It is one HTML file that needs no network. A run's own report.html is always replaced.

    \b
    Examples:
        equipoise report runs/patients
        equipoise report runs/patients runs/patients-2 --out comparison.html
    """
    for run in runs:
        if not run.exists():
            raise InvalidInputError(f"no such folder: {str(run)!r}; give the folder of a finished run.")
    file = Path("comparison.html") if out is None and len(runs) > 1 else out
    if file is not None and file.exists() and not file.is_dir() and not force:
        raise InvalidInputError(f"{file} exists; pass --force to replace it, or name another file.")
    from equipoise.app.report import write_comparison, write_report  # they draw

    path = write_report(runs[0], file) if file is None or len(runs) == 1 else write_comparison(runs, file)
    if as_json:
        print_json({"runs": [str(run) for run in runs], "report": str(path)})
    ConsoleWatcher(quiet=quiet).note(f"Open {path} in a browser.")
