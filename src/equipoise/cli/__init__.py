"""The command line: parsing and printing only."""

import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from equipoise import __version__
from equipoise.cli.data import data
from equipoise.cli.demo import demo
from equipoise.cli.train import train
from equipoise.errors import EquipoiseError

app = typer.Typer(
    name="equipoise",
    help="Learning from imbalanced data: uncertainty decides how much room each class and sample gets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options of every command."""


app.command()(demo)
app.command()(train)
app.add_typer(data, name="data")


def main() -> None:
    """Run the command line; what equipoise refuses is one sentence on standard error and exit code 1."""
    if sys.stdout is None:
        _end("standard output is closed; open it or send it to a file.")
    try:
        app()
    except EquipoiseError as error:
        _end(str(error))
    except OSError as error:
        if error.filename is not None:  # a file of its own, not the output
            raise
        with suppress(OSError):  # what is left in the buffer goes nowhere, or Python fails again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(f"the output could not be written: {error.strerror or error}; make room or send it elsewhere.")


def _end(message: str) -> NoReturn:
    with suppress(OSError):  # standard error may be gone as well
        Console(stderr=True).print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)
