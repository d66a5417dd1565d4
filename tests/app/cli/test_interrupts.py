"""Ctrl-C at any moment ends a command in one sentence, also while modules are imported."""

import subprocess
import sys

import pytest

from equipoise import main
from tests.marks import mostly_slow

CODE = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
wanted, how = sys.argv[1:3]
sys.argv[1:] = ["train", "t.csv"]

class Stopper:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as stop:
                if how == "wrapped":  # as an extension module does
                    raise SystemError("initialization raised unreported exception") from stop
                raise

sys.meta_path.insert(0, Stopper())
runpy.run_module("equipoise", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("module", "how"),
    mostly_slow(
        [
            ("torch", "wrapped"),
            ("equipoise.main", "plain"),
            ("typer", "plain"),
            ("rich.console", "plain"),
            ("equipoise.app.cli.train", "plain"),
            ("numpy", "plain"),
            ("torch", "plain"),
        ],
        fast=2,
    ),
)
def test_control_c_while_a_module_is_imported_is_one_sentence(tmp_path, module, how):
    (tmp_path / "t.csv").write_text("a,y\n1,no\n2,yes\n")
    arguments = [sys.executable, "-c", CODE, module, how]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped before it was finished.\n")


def test_control_c_while_arguments_are_read_is_one_sentence(monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(main.Commands, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", ["equipoise", "train", "t.csv"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert (end.value.code, capsys.readouterr().err) == (130, "stopped before it was finished.\n")
