"""What docs/faces.md prints and which commands it names."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from equipoise.main import app

PAGE = (Path(__file__).parents[3] / "docs" / "faces.md").read_text(encoding="utf-8")


def test_the_estimate_is_what_its_block_prints(capsys):
    block, said = re.search(r"```python\n(import torch\n.*?)```\n\n```text\n(.*?)```", PAGE, re.S).groups()
    exec(compile(block, "docs/faces.md", "exec"), {})
    assert capsys.readouterr().out == said


def commands():
    """Every line of the page that begins with our name, up to a comment."""
    blocks = re.findall(r"^```(?:text|sh)\n(.*?)^```", PAGE, re.S | re.M)
    joined = [block.replace("\\\n", " ") for block in blocks]
    lines = [line for block in joined for line in block.splitlines() if line.startswith("equipoise ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_options_that_exist(words):
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_the_page_names_every_protocol():
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.M)[-5:] == ["lfw", "ytf", "list", "bin", "folder"]
