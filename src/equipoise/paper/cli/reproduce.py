"""``equipoise reproduce``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.app.cli.flags import Quiet
from equipoise.app.cli.printing import ConsoleWatcher, rows_as_lists
from equipoise.family_names import family_names

if TYPE_CHECKING:
    from equipoise.app.compare import Fit

NAMES = ", ".join(family_names("equipoise.paper.tables.experiments", "TABLES"))


def reproduce(
    table: Annotated[str, typer.Argument(help=f"{NAMES} or illustration.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; default $EQUIPOISE_DATA.")] = None,
    out: Annotated[Path, typer.Option(help="Folder that keeps every finished fit, and the page.")] = Path("reproduced"),
    seeds: Annotated[int, typer.Option(min=1, help="Each draws its own imbalance, split and first weights.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    tune: Annotated[
        bool, typer.Option("--tune", help="Let other methods choose their hyperparameter on validation rows.")
    ] = False,
    methods: Annotated[str | None, typer.Option(help="Only these rows, names with commas between.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the illustration.")] = 0,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few samples and epochs, to see that it runs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a table of the paper, beside the paper's own figures.

    What is finished is never run twice: the same command goes on where it was stopped.

    \b
    Examples:
        equipoise reproduce cifar10 --data data --jobs 2
        equipoise reproduce mnist --smoke
        equipoise reproduce illustration
    """
    if table == "illustration":
        _illustrate(out, seed=seed, smoke=smoke, quiet=quiet)
        return
    from equipoise.paper.tables import run_table, table_page
    from equipoise.storage.files import remove_abandoned, write_atomically

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
    page = table_page(result)
    path = out / f"{table}{'-tuned' if tune else ''}{'-smoke' if smoke else ''}.md"
    remove_abandoned(out, path.name)
    write_atomically(path, page.encode())
    from rich.markdown import Markdown  # slow to import, and --help need not wait for it

    console = Console()
    console.print(Markdown(rows_as_lists(page, console.width)))
    watcher.note(f"The page is {path}.")


def _show(watcher: ConsoleWatcher, fit: "Fit", done: int, total: int) -> None:
    """A finished fit."""
    from equipoise.app.compare import METHODS

    place = f"seed {fit.seed + 1}, fold {fit.fold + 1}"
    watcher.progress(done, total, f"{fit.case}, {METHODS[fit.method].label}, {place}")


def _illustrate(out: Path, *, seed: int, smoke: bool, quiet: bool) -> None:
    """Four pictures, their numbers as JSON, and the page; no data are needed."""
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
