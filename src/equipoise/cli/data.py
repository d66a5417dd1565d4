"""``equipoise data``: what is in the data, and where to get the public sets."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.printing import ConsoleWatcher, print_summary

data = typer.Typer(help="Look at data, or fetch a public set.", no_args_is_help=True)


@data.command()
def summary(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="A table, an image folder or archive, or a set's name.")
    ],
    target: Annotated[str | None, typer.Option(help="The table's column with the label.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A table of file,label for images not sorted into folders.")
    ] = None,
) -> None:
    """Classes, counts, imbalance, and what is odd about the data.

    Example: equipoise data summary photos/
    """
    from equipoise.data import open_data
    from equipoise.data.summary import summarize

    with ConsoleWatcher() as watcher:
        samples = open_data(source, target=target, labels=labels, progress=watcher.progress)
    found = summarize(samples.y, names=samples.attributes or None)
    for sentence in (*samples.notes, *found.notes):
        watcher.note(sentence)
    print_summary(Console(), found, title=f"{len(samples):,} samples")


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion_mnist or cifar10.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to put it in; default $EQUIPOISE_DATA/NAME, else data/NAME.")
    ] = None,
    mirror: Annotated[str | None, typer.Option(help="Another address that holds the same files.")] = None,
) -> None:
    """Download a public set; goes on where an earlier attempt stopped, and checks every file.

    Example: equipoise data fetch mnist --out data/mnist
    """
    from equipoise.data.fetch import fetch as fetch_set

    folder = out if out is not None else Path(os.environ.get("EQUIPOISE_DATA") or "data") / name
    with ConsoleWatcher() as watcher:
        paths = fetch_set(name, folder, mirror=mirror, progress=watcher.bytes_of)
    for path in paths:
        typer.echo(str(path))
