"""One run as one self-contained page."""

from collections.abc import Callable, Iterable
from pathlib import Path

from equipoise.app.output_files import refusing
from equipoise.app.report.markup import Section, render
from equipoise.app.report.sections import SECTIONS
from equipoise.app.report.sections.provenance import provenance
from equipoise.app.run_folder import REMEDY
from equipoise.app.stored_run import StoredRun, read_run
from equipoise.errors import InvalidInputError
from equipoise.storage.files import foreign_files, write_atomically
from equipoise.storage.run_files import REPORT
from equipoise.wording import counted


def write_report(run: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a finished run; it needs no other file and no network.

    Args:
        run: the run's folder.
        out: the page's path; None is ``report.html`` in the folder. An existing page is replaced.
    """
    found = read_run(run)
    path = page_path(found.folder / REPORT if out is None else out)
    with foreign_files(found.folder, REMEDY):
        about = provenance(found)
        page = run_page(found, SECTIONS, about["data"], about["method"])
    return write_page(page, path)


def page_path(out: str | Path) -> Path:
    """Return where to write a page; refuse a folder."""
    if Path(out).is_dir():
        raise InvalidInputError(f"the report cannot be written to {out}, which is a folder; name a file in it.")
    return Path(out)


def write_page(page: str, path: Path) -> Path:
    """Write a page atomically."""
    with refusing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.encode("utf-8", errors="replace"))
    return path


def run_page(run: StoredRun, makers: Iterable[Callable[[StoredRun], Section | None]], *facts: str) -> str:
    """Return a page of these sections; the ``facts`` that are known follow the number of classes below its title."""
    sections = [found for make in makers if (found := make(run)) is not None]
    data = {name: value for section in sections for name, value in section.data.items()}
    subtitle = " · ".join([counted(len(run.classes), run.noun), *filter(None, facts)])
    return render("report.html.j2", title=run.name, subtitle=subtitle, sections=sections, data=data)
