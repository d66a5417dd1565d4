"""The Python blocks of README and docs run, and their links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks():
    for page in PAGES:
        for number, block in enumerate(
            re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
        ):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize("block", list(python_blocks()))
def test_every_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    assert "__file__" in runpy.run_path(str(script))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)  # code has no links
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_paper_to_code_names_only_files_and_objects_that_exist():
    text = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert files
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for module, name in re.findall(r"`((?:uncertainty|losses|training|data)\.[\w.]+)\.(\w+)", text):
        assert (ROOT / "src" / "equipoise" / Path(*module.split("."))).with_suffix(".py").exists(), module
        assert re.search(rf"\b(def|class) {name}\b", sources), name
