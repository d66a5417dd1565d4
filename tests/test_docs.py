"""The blocks of README and docs run, what they show is what they print, and their links lead somewhere."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.marks import mostly_nightly

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOURS = [
    *("tour-table", "tour-images", "tour-text", "tour-recall", "tour-probabilities", "tour-network", "tour-paper"),
    "should-i-rebalance",
]
REPEATING = {"tour-images", "tour-recall", "tour-probabilities", "tour-network", "tour-paper"}
"""Tours whose commands other tests run as well; what they print is checked every night."""
IN_ORDER = {*(f"{name}.md" for name in TOURS), "extending.md"}
"""Pages whose blocks need the ones before: run below, and in test_extending.py."""
FENCES = {
    "python": "runs",
    "sh": "a shell's",
    "text": "output, or a fragment",
    "toml": "a file",
    "{eval-rst}": "objects of the API",
    "{include}": "another file",
    "{toctree}": "the order of pages",
    "diff": "a change to a file",
}


WHOLE_FITS = re.compile(r"Classifier\(|\.fit\(|train_run\(|\bcompare\(|\brebalance\(")
"""What takes seconds: the slow set runs these blocks, all but the README's."""


def script(name):
    """A module of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def text_of(page):
    return page.read_text(encoding="utf-8")


def python_blocks():
    seen = set()  # the first page of the site shows the README's
    for page in PAGES:
        if page.name in IN_ORDER:
            continue
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text_of(page), re.S | re.M)):
            if block not in seen:
                slow = page.name != "README.md" and WHOLE_FITS.search(block)
                marks = [pytest.mark.slow] if slow else []
                yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}", marks=marks)
            seen.add(block)


@pytest.mark.parametrize("block", list(python_blocks()))
def test_every_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    assert "__file__" in runpy.run_path(str(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page):
    opened = re.findall(r"^ *```(\S*)", text_of(page), re.M)[::2]
    assert [fence for fence in opened if fence not in FENCES] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page):
    prose = re.sub(r"^ *```.*?^ *```", "", text_of(page), flags=re.S | re.M)  # code has no links
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


def without_numbers(printed):
    """What stays the same on another machine: every word, but no number, and no line or width that follows from one."""
    printed = re.sub(r"^[^, \n]*\d[^ \n]*,[^ :\n]*(?:: [^,\n]*,[^ \n]*)?$", "#", printed, flags=re.M)  # an answer
    words = re.sub(r"\d[\d.,:%]*(?:e[+-]\d+)?", "#", printed).replace(", which may be chance", "")
    words = words.replace("finds # of # of", "finds # of").replace("finds all of", "finds # of")  # "9 of 10", or 86.8%
    return [line for row in words.splitlines() if (line := re.sub(r"[\s─━│┃-]+", " ", row).strip())]


@pytest.mark.parametrize(
    "name", mostly_nightly(sorted(TOURS, key=REPEATING.__contains__), slow=len(TOURS) - len(REPEATING))
)
def test_the_tours_run_and_print_what_they_show(name, tmp_path):
    tours = script("tour_pages")
    assert name in tours.PAGES
    found = tours.blocks(text_of(ROOT / "docs" / f"{name}.md"))
    assert found
    for kind, code, shown in found:
        printed = tours.run(kind, code, tmp_path)
        if shown is None:
            assert printed == "", code
        else:
            assert without_numbers(printed) == without_numbers(shown), code


def test_the_remedies_are_those_of_the_stored_results():
    remedies = script("remedies_page")
    cases = [*remedies.table_cases(), *remedies.ahead_cases()]
    assert text_of(remedies.PAGE) == remedies.page(cases), "run python benchmarks/remedies_page.py"


def test_the_readmes_table_is_that_of_the_stored_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = script("tables_page")
    found, readme = tables.readme_table(), text_of(ROOT / "README.md")
    assert readme == tables.with_table(readme, found), "run python benchmarks/tables_page.py"
    assert found.count("\n") == 1 + len(tables.IN_README)


def test_the_guide_tells_the_measurements_of_scaling_out_as_stored(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = script("scaling_page")
    assert text_of(page.GUIDE) == page.with_measured(text_of(page.GUIDE)), "run python benchmarks/scaling_page.py"


@pytest.mark.parametrize(
    "name",
    [
        *("training_length", "head_dropout", "held_back", "tables", "table_scaling", "blend_variants", "decisions"),
        *("text", "many_classes", "network_members", "scaling", "training_speed", "fine_tuning"),
    ],
)
def test_pages_of_choices_are_those_of_the_stored_results(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = script(f"{name}_page")
    assert text_of(page.PAGE) == "\n".join(page.lines()) + "\n", f"run python benchmarks/{name}_page.py"


def test_the_page_on_training_has_the_numbers_of_the_code():
    from equipoise.training import curriculum, settings

    text = " ".join(text_of(ROOT / "docs" / "training.md").split())
    assert f"at least {settings.LEAST_STEPS:,} of them on small data" in text
    assert f"{settings.DATA_PASSES} passes over larger data" in text
    assert f"at most {settings.MOST_STEPS:,}, always divided into {settings.EPOCHS} epochs" in text
    assert (curriculum.SOFTMAX, curriculum.CLASS_LEVEL, curriculum.SAMPLE_LEVEL) == (1 / 6, 1 / 2, 1 / 3)
    assert settings.FEWEST_EPOCHS == 6  # "fewer than six passes"


def test_paper_to_code_names_only_files_and_objects_that_exist():
    text = text_of(ROOT / "docs" / "paper-to-code.md")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert files
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for module, name in re.findall(r"`((?:uncertainty|losses|training|data)\.[\w.]+)\.(\w+)", text):
        assert (ROOT / "src" / "equipoise" / Path(*module.split("."))).with_suffix(".py").exists(), module
        assert re.search(rf"\b(def|class) {name}\b", sources), name
