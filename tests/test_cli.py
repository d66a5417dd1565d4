"""The command line as a person meets it."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from equipoise import __version__
from equipoise.cli import app

PLAIN = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def equipoise(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "equipoise", *arguments], capture_output=True, text=True, env=PLAIN, check=False
    )


def test_the_version():
    done = equipoise("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"equipoise {__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_commands(flag):
    done = equipoise(flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout
    assert "Learning from imbalanced data" in done.stdout


def test_an_unknown_command_is_an_error_of_use():
    done = equipoise("undo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'undo'" in done.stderr


def test_an_unknown_option_is_an_error_of_use():
    result = CliRunner().invoke(app, ["demo", "--sead", "1"])
    assert result.exit_code == 2
    assert "--sead" in result.output


def test_help_needs_neither_torch_nor_scikit_learn():
    code = "import sys, equipoise.cli; sys.exit(bool({'torch', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_demo_compares_softmax_with_equipoise():
    result = CliRunner(env=PLAIN).invoke(app, ["demo", "--seed", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    for part in ("Recall on an untouched, balanced test set", "softmax", "equipoise", "mean rare", "mean all"):
        assert part in result.stdout
    assert "training softmax ..." in result.stderr
    assert result.stdout.count("rare") == 5 + 1  # five classes, one mean
