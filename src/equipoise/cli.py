"""The command line: parsing and printing only."""

import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise import __version__
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


@app.command()
def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which classes become rare, and every other random choice.")
    ] = 0,
) -> None:
    """Softmax against equipoise on imbalanced digits, in under a minute.

    Example: equipoise demo --seed 1
    """
    from equipoise.demo import DemoResult, run_demo

    notes, console = Console(stderr=True), Console()
    notes.print("scikit-learn's digits, 90 % of half of the classes dropped")
    result: DemoResult = run_demo(seed=seed, announce=lambda name: notes.print(f"training {name} ..."))
    table = Table(title="Recall on an untouched, balanced test set")
    for heading in ("class", "train", "uncertainty", "margin", *result.recall, "change"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    before, after = result.recall.values()
    for c, name in enumerate(result.names):
        table.add_row(
            f"{name} [yellow]rare[/yellow]" if result.rare[c] else name,
            str(result.counts[c]),
            f"{result.uncertainty[c]:.1f}",
            f"{result.margins[c]:.2f}",
            *(f"{recall[c]:.1%}" for recall in result.recall.values()),
            f"{after[c] - before[c]:+.1%}",
        )
    table.add_section()
    for title, group in (("rare", result.rare), ("common", ~result.rare), ("all", result.rare | ~result.rare)):
        means = [float(recall[group].mean()) for recall in result.recall.values()]
        table.add_row(f"{title}, mean", "", "", "", *(f"{m:.1%}" for m in means), f"{means[1] - means[0]:+.1%}")
    console.print(table)


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
