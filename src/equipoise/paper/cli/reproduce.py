"""``equipoise reproduce``."""

import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.app.cli.completion import one_of, tables
from equipoise.app.cli.flags import Quiet
from equipoise.app.cli.printing import ConsoleWatcher
from equipoise.options import check_choice
from equipoise.registry_names import family_names

if TYPE_CHECKING:
    from equipoise.app.compare import Fit

NAMES = (*family_names("equipoise.paper.tables.table_cases", "TABLES"), "illustration")


def reproduce(
    table: Annotated[
        str, typer.Argument(help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}.", autocompletion=one_of(tables))
    ],
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; default $EQUIPOISE_DATA.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and for every finished fit.")] = Path("reproduced"),
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of seeds, each with its own imbalance, split and weights.")
    ] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    tune: Annotated[
        bool, typer.Option("--tune", help="Let other methods choose their hyperparameters on validation rows.")
    ] = False,
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the illustration.")] = 0,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few samples and epochs, to see that it runs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a table of the paper, beside the paper's own figures.

    Finished fits are never run again: the same command continues where it stopped.

    \b
    Examples:
        equipoise reproduce cifar10 --data data --jobs 2
        equipoise reproduce mnist --smoke
        equipoise reproduce illustration
    """
    check_choice("TABLE", table, NAMES)
    if table == "illustration":
        _illustrate(out, seed=seed, smoke=smoke, quiet=quiet)
        return
    from equipoise.paper.tables import run_table, table_page

    with ConsoleWatcher(quiet=quiet) as watcher:
        result = run_table(
            table,
            data,
            out,
            seeds=seeds,
            jobs=jobs,
            tune=tune,
            smoke=smoke,
            methods=None if methods is None else tuple(name.strip() for name in methods.split(",") if name.strip()),
            reading=watcher.progress,
            progress=partial(_show, watcher),
        )
    path = out / f"{table}{'-tuned' if tune else ''}{'-smoke' if smoke else ''}.md"
    _write_and_print(table_page(result), path)
    watcher.note(f"The page is {path}.")


def _write_and_print(page: str, path: Path) -> None:
    from rich.markdown import Markdown  # slow to import, and --help need not wait for it

    from equipoise.storage.files import remove_abandoned, write_atomically

    remove_abandoned(path.parent, path.name)
    write_atomically(path, page.encode())
    console = Console()
    console.print(Markdown(rows_as_lists(page, console.width)))


def rows_as_lists(page: str, width: int) -> str:
    """Return Markdown in which a table wider than a terminal becomes a list, a row per line, without losing a word.

    >>> table = ["| method | recall | F1 |", "|---|---|---|", "| VS | 78.5 | 70.1 |", "| focal | not run | |"]
    >>> print(rows_as_lists("\\n".join(table), width=20))
    - **VS**: recall 78.5, F1 70.1
    - **focal**: not run
    """
    found: list[str] = []
    for is_table, lines in itertools.groupby(page.split("\n"), key=lambda line: line.startswith("|")):
        block = list(lines)
        if not is_table or len(block) < 2:
            found += block
            continue
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block)
        columns = zip(head, *rows, strict=True)
        if sum(max(len(cell) for cell in column) + 2 for column in columns) < width:
            found += block
            continue
        for name, *cells in rows:
            said = [f"{heading} {cell}" for heading, cell in zip(head[1:], cells, strict=True) if cell]
            only = next(filter(None, cells), "")  # a reason in place of the figures
            found.append(f"- **{name}**: {', '.join(said) if len(said) > 1 or len(cells) == 1 else only}")
    return "\n".join(found)


def _show(watcher: ConsoleWatcher, fit: "Fit", done: int, total: int) -> None:
    """Show a finished fit."""
    from equipoise.app.compare import METHODS

    place = f"seed {fit.seed + 1}, fold {fit.fold + 1}"
    watcher.progress(done, total, f"{fit.case}, {METHODS[fit.method].label}, {place}")


def _illustrate(out: Path, *, seed: int, smoke: bool, quiet: bool) -> None:
    """Write four pictures, their numbers as JSON, and the page; no data are needed."""
    import json

    from equipoise.paper.tables import illustrate, illustration_page
    from equipoise.storage.files import write_atomically
    from equipoise.storage.versions import versions

    figures, pictures = illustrate(seed=seed, smoke=smoke)
    figures |= {"smoke": smoke, "versions": versions()}
    name = f"illustration{'-smoke' if smoke else ''}"
    out.mkdir(parents=True, exist_ok=True)
    for picture, content in pictures.items():
        write_atomically(out / f"{name}-{picture}.png", content)
    write_atomically(out / f"{name}.json", json.dumps(figures, indent=1).encode())
    write_atomically(out / f"{name}.md", illustration_page(figures, pictures=f"{name}-").encode())
    ConsoleWatcher(quiet=quiet).note(f"The page is {out / f'{name}.md'}.")
