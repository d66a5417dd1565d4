"""One run as one self-contained page."""

from pathlib import Path

from equipoise.app.output_files import refusing
from equipoise.app.report.markup import render
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
        page = _page(found)
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


def _page(run: StoredRun) -> str:
    sections = [found for section in SECTIONS if (found := section(run)) is not None]
    data = {name: value for section in sections for name, value in section.data.items()}
    about = provenance(run)
    subtitle = subtitle_of(run, about["data"], about["method"])
    return render("report.html.j2", title=run.name, subtitle=subtitle, sections=sections, data=data)


def subtitle_of(run: StoredRun, *facts: str) -> str:
    """Return the line below a page's title: the number of classes, and what else is known."""
    return " · ".join([counted(len(run.classes), run.noun), *filter(None, facts)])
