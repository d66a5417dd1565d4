"""The command line as a person meets it."""

import os
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from equipoise import __version__
from equipoise import main as cli
from equipoise.app.cli.printing import shown
from equipoise.errors import InvalidInputError
from equipoise.main import app

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
    assert "Learn from imbalanced data" in done.stdout


def test_an_unknown_command_is_an_error_of_use():
    done = equipoise("undo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'undo'" in done.stderr


def test_an_unknown_option_is_an_error_of_use():
    result = CliRunner().invoke(app, ["demo", "--sead", "1"])
    assert result.exit_code == 2
    assert "--sead" in result.output


@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_out_of_range_is_an_error_of_use(seed):
    result = CliRunner(env=PLAIN).invoke(app, ["demo", "--seed", seed])
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.output


def test_an_error_is_one_line_with_its_brackets(monkeypatch, capsys):
    message = "TensorBoard is missing; " + "so that the line is long, " * 5 + "pip install equipoise[tracking]."

    def refuse(args):  # noqa: ARG001
        raise InvalidInputError(message)

    monkeypatch.setattr(cli, "get_command", lambda _: SimpleNamespace(main=refuse))
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert capsys.readouterr() == ("", f"error: {message}\n")


@pytest.mark.parametrize("argument", ["--version", "--help"])
@pytest.mark.parametrize(
    ("target", "sentence"),
    [(">/dev/full", "the output could not be written: No space left on device"), (">&-", "standard output is closed")],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
def test_an_output_that_takes_nothing_is_one_sentence(argument, target, sentence):
    line = f"{shlex.quote(sys.executable)} -m equipoise {argument} {target}"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, env=PLAIN, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {sentence}; ")
    assert done.stderr.count("\n") == 1


def test_help_needs_neither_torch_nor_scikit_learn_nor_numpy():
    code = "import sys, equipoise.main; sys.exit(bool({'torch', 'sklearn', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_cannot_steer_the_terminal():
    assert shown("a\x1b[2Jb\r\n[bold]c") == "a�[2Jb��\\[bold]c"
    assert shown("grün & <i>") == "grün & <i>"
