"""Pages that several tests look at, written once."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from equipoise.app.report import write_report
from tests.app.report.browser import Browser, programs
from tests.app.report.runs import HOSTILE, digits_run, made_up, made_up_attributes

NAMES = ["nv", "mel", "bkl", HOSTILE, "basal cell carcinoma", "$5 or $6", 'quote" & <!-- comment']


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """The folder of a run with its page, written once for all processes of the tests; they must leave it as it is."""

    def written(folder: Path) -> str:
        return str(write_report(make(folder / name)).parent)

    if sys.platform == "win32":
        return Path(written(factory.mktemp("report")))
    from tests.training.processes import shared_once  # by locks of POSIX

    return Path(shared_once(factory, f"report-{name}", written))


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was really trained."""
    return once(tmp_path_factory, "digits", digits_run)


@pytest.fixture(scope="session")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven classes, some with names made to break a page."""
    return once(tmp_path_factory, "seven", lambda folder: made_up(folder, 7, names=NAMES))


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred classes."""
    return once(tmp_path_factory, "many", lambda folder: made_up(folder, 100, samples=2000))


@pytest.fixture(scope="session")
def attributes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several labels a sample."""
    return once(tmp_path_factory, "attributes", made_up_attributes)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real one."""
    found = programs()
    if found is None:
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium chromium-driver")
    with Browser(*found) as window:
        yield window
