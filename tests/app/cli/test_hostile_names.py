"""Commands on a table whose names are formulae, markup and escape codes."""

import json

import numpy as np
import pandas as pd
import pytest

CLASSES = ["=cmd()", "[red]x", "\x1b[31mred\x9b1m"]
FILE = "[link=http:x]t\x1b[31m.csv"
COMMANDS = {
    "evaluate": ("evaluate", "run", FILE, "--abstain", "0.2", "--prior", "estimate"),
    "evaluate --json": ("evaluate", "run", FILE, "--json"),
    "predict": ("predict", "run", FILE),
    "predict jsonl": ("predict", "run", FILE, "--format", "jsonl"),
    "inspect": ("inspect", "run", "--top", "200"),
    "inspect --json": ("inspect", "run", "--json"),
    "data summary": ("data", "summary", FILE, "--target", "[b]y"),
    "data summary --json": ("data", "summary", FILE, "--target", "[b]y", "--json"),
    "no column": ("data", "summary", FILE, "--target", "z"),
}


@pytest.fixture
def hostile(equipoise, tmp_path):
    """A run, made by the command line too; what training says is kept beside."""
    draws = np.random.default_rng(0)
    place = np.repeat([0, 1, 2], [60, 40, 20])
    columns = {"[bold]a": draws.normal(size=120) + 3 * place, "=b\x1b[1m": draws.normal(size=120)}
    columns |= {"k": draws.choice(["u", "\x9bv"], 120), "[b]y": np.array(CLASSES)[place]}
    pd.DataFrame(columns).to_csv(tmp_path / FILE, index=False)
    done = equipoise("train", FILE, "--target", "[b]y", "--out", "run", "--epochs", "3")
    assert done.code == 0, done.err
    return equipoise, done


def test_names_reach_the_terminal_literally_and_without_control_characters(hostile):
    equipoise, trained = hostile
    found = {"train": trained} | {name: equipoise(*command) for name, command in COMMANDS.items()}
    for name, done in found.items():
        assert done.code == (name == "no column"), (name, done.err)
        for line in (done.out + done.err).split("\n"):
            assert line.isprintable(), (name, line)
        if name == "no column":
            assert "[link=http:x]t�[31m.csv has no column 'z'" in done.err
            assert "[bold]a, =b�[1m, k, [b]y" in done.err
        else:
            assert "[red]x" in done.out, name
            assert ("'=cmd()" if name == "predict" else "=cmd()") in done.out, name
    raw = equipoise("predict", "run", FILE, "--raw").out
    assert "p_\x1b[31mred\x9b1m" in raw
    counted = json.loads(equipoise(*COMMANDS["data summary --json"]).out)
    assert [row["name"] for row in counted["rows"]] == CLASSES
