"""The command line inside this process."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from equipoise import main as cli
from tests.app.runs import made


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Equipoise = Callable[..., Done]


@pytest.fixture
def equipoise(tmp_path, monkeypatch, capsys) -> Equipoise:
    """``equipoise ARGUMENTS`` in an empty folder, with the exit code of the real thing."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    made.plain_pages(monkeypatch)

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["equipoise", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run
