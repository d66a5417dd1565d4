"""What the Tab key completes, by the requests that a shell makes, and ``equipoise help``."""

import json

import pytest
from typer.testing import CliRunner

from equipoise.main import app


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.csv").write_text("age;diagnosis\n40;sick\n50;well\n60;sick\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.json").write_text(json.dumps({"classes": ["fraud", "fair", 3]}))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "model.json").write_text("[")
    return tmp_path


def completed(line: str) -> list[str]:
    """What a shell offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        "_EQUIPOISE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(app, [], env=environment, prog_name="equipoise")
    return done.stdout.split()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("equipoise trai", ["train"]),
        ("equipoise train x.csv --method logit_", ["logit_adjustment"]),
        ("equipoise train x.csv --method paper", ["paper_as_printed"]),
        ("equipoise train x.csv --backbone len", ["lenet"]),
        ("equipoise train x.csv --model netw", ["network"]),
        ("equipoise train patients.csv --target d", ["diagnosis"]),
        ("equipoise train patients.csv --target diagnosis --recall ", ["sick=", "well="]),
        ("equipoise train patients.csv --target diagnosis --recall s", ["sick="]),
        ("equipoise train missing.csv --target diagnosis --recall s", []),
        ("equipoise predict run new.csv --recall fa", ["fair="]),
        ("equipoise predict damaged new.csv --recall fa", []),
        (
            "equipoise compare x.csv --methods focal,logit_",
            ["focal,logit_adjustment", "focal,logit_adjustment_our_head", "focal,logit_adjustment_post_hoc"],
        ),
        ("equipoise reproduce cifar10_", ["cifar10_lt", "cifar10_lite0"]),
        ("equipoise reproduce illu", ["illustration"]),
    ],
)
def test_names_are_completed(line, offered):
    assert completed(line) == offered


@pytest.mark.parametrize("command", [["train"], ["data", "summary"], []])
def test_help_says_what_the_flag_says(command):
    asked = CliRunner().invoke(app, ["help", *command], prog_name="equipoise")
    flagged = CliRunner().invoke(app, [*command, "--help"], prog_name="equipoise")
    assert (asked.exit_code, asked.stdout) == (0, flagged.stdout)
    assert f"Usage: {' '.join(['equipoise', *command])}" in asked.stdout


def test_help_of_an_unknown_command_names_a_near_one():
    done = CliRunner().invoke(app, ["help", "trian"])
    assert "unknown command 'trian'; did you mean 'train'?" in str(done.exception)


def test_names_that_are_nearly_right_are_named(place):
    for arguments, hint in (
        (["train", "patient.csv", "--target", "diagnosis"], "did you mean 'patients.csv'?"),
        (["train", "patients.csv", "--target", "diagnosis", "--method", "focl"], "did you mean 'focal'?"),
        (["train", "--resume"], "--resume needs the folder of the unfinished run; add --out RUN."),
    ):
        done = CliRunner().invoke(app, arguments)
        assert hint in str(done.exception), arguments
    assert not (place / "runs").exists()
