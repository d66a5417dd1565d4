"""``equipoise data fetch``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from equipoise.app.cli.flags import Quiet
from equipoise.app.cli.printing import ConsoleWatcher


def fetch(
    name: Annotated[str, typer.Argument(help="A data set, such as mnist; an unknown name lists them all.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to put it in; default $EQUIPOISE_DATA/NAME, else data/NAME.")
    ] = None,
    mirror: Annotated[str | None, typer.Option(help="Another address that holds the same files.")] = None,
    quiet: Quiet = False,
) -> None:
    """Download a public data set.

    An interrupted download is resumed, and every file is checked.

    \b
    Example:
        equipoise data fetch mnist --out data/mnist
    """
    from equipoise.paper.sets.download import fetch as fetch_set

    folder = out if out is not None else Path(os.environ.get("EQUIPOISE_DATA") or "data") / name
    with ConsoleWatcher(quiet=quiet) as watcher:
        paths = fetch_set(name, folder, mirror=mirror, progress=watcher.bytes_of)
    for path in paths:
        typer.echo(str(path))
