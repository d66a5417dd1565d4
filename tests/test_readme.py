"""What the README tells a newcomer to type is what is tested."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_first_two_shell_blocks_try_it_and_test_it(blocks):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^```(\w*)$", text, re.MULTILINE)[1] == "sh"
    assert "equipoise demo" in blocks[0]
    assert "pytest" not in blocks[0]
    assert "-m pytest" in blocks[1]
    setting_up = [block for block in blocks if "venv" in block]
    assert setting_up == blocks[:2]


@pytest.mark.parametrize("number", [0, 1])
def test_each_is_one_line_from_nothing(blocks, number):
    assert blocks[number].count("\n") == 1
    assert blocks[number].startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert "-c constraints.txt" in blocks[number]


def test_ci_runs_the_readmes_own_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "blocks[1]" in script
    assert re.findall(r"pytest.*", script) == ["pytest -q -n 2 -m slow"]  # what the README's command leaves out
    assert "pip install" not in script
