"""Pages that several tests look at, written once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.app.report import write_report
from tests.app.report.browser import Browser, programs
from tests.app.report.runs import HOSTILE, digits_run, made_up, made_up_attributes

NAMES = ["nv", "mel", "bkl", HOSTILE, "basal cell carcinoma", "$5 or $6", 'quote" & <!-- comment']


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was really trained, with its page."""
    folder = digits_run(tmp_path_factory.mktemp("report") / "digits")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven classes, some with names made to break a page."""
    folder = made_up(tmp_path_factory.mktemp("report") / "seven", 7, names=NAMES)
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def attributes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several labels a sample."""
    folder = made_up_attributes(tmp_path_factory.mktemp("report") / "attributes")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real one."""
    found = programs()
    if found is None:
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium chromium-driver")
    with Browser(*found) as window:
        yield window
