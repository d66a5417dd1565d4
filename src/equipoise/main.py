"""The command line: all commands of the application and of the paper."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from equipoise import __version__
from equipoise.__main__ import INTERRUPTED
from equipoise.app.cli.printing import shown
from equipoise.errors import EquipoiseError
from equipoise.registry_names import family_names

if TYPE_CHECKING:
    from equipoise.data.samples import Samples

GROUPS = {"data": "Inspect data, or download a public data set.", "faces": "Find and align faces."}
COMMANDS = {
    "demo": "app.cli.demo",
    "train": "app.cli.train",
    "evaluate": "app.cli.evaluate",
    "predict": "app.cli.predict",
    "inspect": "app.cli.inspect",
    "report": "app.cli.report",
    "export": "app.cli.export",
    "rebalance": "app.cli.rebalance",
    "compare": "app.cli.compare",
    "reproduce": "paper.cli.reproduce",
    "verify": "paper.cli.verify",
    "data summary": "app.cli.data",
    "data fetch": "paper.cli.fetch",
    "faces align": "paper.cli.align",
    "help": "app.cli.help",
}
"""Command -> module, in the order of the help; the last word of the command names the function."""
MEMORY_RAN_OUT = ("can't allocate memory", "Cannot allocate memory", "out of memory", "bad_alloc", "Caught MemoryError")
"""torch's out-of-memory messages, here and in a loader's worker; they have no exception class of their own."""


class Commands(TyperGroup):
    """A command group whose interruption has its own exit code instead of the word "Aborted"."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the arguments."""
        with _saying_if_interrupted():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _saying_if_interrupted():
            return super().invoke(ctx)


@contextmanager
def _saying_if_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        _say(str(stop) or "stopped before it was finished.")
        raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="equipoise",
    cls=Commands,
    help="Learn from imbalanced data: train, compare, calibrate and decide, with uncertainty.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - typer calls it back
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[  # noqa: ARG001 - main() takes it out of the arguments
        bool, typer.Option("--debug", help="Show the traceback of an error; works after any command.")
    ] = False,
) -> None:
    """Define the options of every command."""
    from equipoise.data.sources import NAMED_SETS  # imports numpy, which --help need not wait for

    NAMED_SETS.update(dict.fromkeys(family_names("equipoise.paper.sets.registry", "DATASETS"), _paper_set))


groups = {name: typer.Typer(help=text, no_args_is_help=True) for name, text in GROUPS.items()}
for words, module in COMMANDS.items():
    *group, function = words.split()
    (groups[group[0]] if group else app).command()(getattr(import_module(f"equipoise.{module}"), function))
for name, members in groups.items():
    app.add_typer(members, name=name)


def _paper_set(name: str, **options: Any) -> "Samples":
    from equipoise.paper.sets import find_set  # importing the image readers takes half a second

    return find_set(name, **options)


def main() -> None:
    """Run the command line; report a refused request as one sentence on standard error and exit with code 1."""
    if sys.stdout is None:
        _end("standard output is closed; open it or redirect it to a file.")
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        get_command(app).main(args=[argument for argument in arguments if argument != "--debug"])
    except Exception as error:
        if debug:
            raise
        if _interrupted(error):
            raise KeyboardInterrupt from error
        _end(_sentence(error))


def _interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error: an extension module interrupted during import raises a different one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _sentence(error: Exception) -> str:
    """Return a sentence on an error and its remedy; an unexpected one is named."""
    if isinstance(error, EquipoiseError):
        return str(error)
    if _memory_ran_out(error):
        return (
            "out of memory; what was finished before is kept: close other programs, or use fewer --jobs, a smaller "
            "--batch-size or --size, or less data."
        )
    if isinstance(error, OSError) and error.filename is None:  # the output stream, not a file
        with suppress(OSError):  # discard what is left in the buffer, or Python fails again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # `| head` has seen enough
            sys.exit(1)
        return f"the output could not be written: {error.strerror or error}; make room or send it elsewhere."
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror or error}; check the path and its permissions."
    said = " ".join(str(error).split()) or "no reason was given"
    return f"unexpected error ({type(error).__name__}: {said}); add --debug to see where, and please report it."


def _memory_ran_out(error: Exception) -> bool:
    """Return whether an error means out of memory: Python's own, the system's, or one of torch's."""
    if isinstance(error, RuntimeError):
        return any(said in str(error) for said in MEMORY_RAN_OUT)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _end(message: str) -> NoReturn:
    _say(message, "[red]error:[/red] ")
    sys.exit(1)


def _say(message: str, before: str = "") -> None:
    with suppress(OSError):  # standard error may be gone as well
        Console(stderr=True).print(f"{before}{shown(message)}", highlight=False, soft_wrap=True)
