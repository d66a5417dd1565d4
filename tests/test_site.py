"""The site builds strictly, needs nothing from elsewhere, and every page of it is whole in a real browser."""

import base64
import importlib.util
import io
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image

from tests.app.report.browser import Browser, programs
from tests.marks import mostly_nightly

fcntl = pytest.importorskip("fcntl", reason="a lock of POSIX")

ROOT = Path(__file__).parent.parent
FETCHED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "srcset")}
"""What a browser loads by itself."""
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def extension():
    """The site's own Sphinx extension, which is no package."""
    pytest.importorskip("sphinx", reason="the site needs Sphinx: pip install 'equipoise[docs]'")
    spec = importlib.util.spec_from_file_location("equipoise_site", ROOT / "docs" / "_site" / "equipoise_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_printed_sentences_wrap_and_tables_do_not():
    sentence = "  " + "word " * 30 + "end."
    lines = extension().wrapped(sentence).split("\n")
    assert " ".join(" ".join(lines).split()) == " ".join(sentence.split())
    assert len(lines) == 2
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("    word")  # below its own indentation
    table = "│ " + "cell │ " * 30
    assert extension().wrapped(table) == table


def test_the_gallery_orders_every_example():
    names = sorted(path.name for path in (ROOT / "examples").glob("plot_*.py"))
    site = extension()
    assert sorted(site.EXAMPLES) == names
    order = site.ExampleOrder("examples")
    assert sorted(["skorch_net.py", *names], key=order) == [*site.EXAMPLES, "skorch_net.py"]


class Page(HTMLParser):
    """The references and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.ids, self.links, self.fetched, self.math = path, set(), [], [], 0
        self.text: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.math += tag == "math"
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        for name in ("href", "src", "srcset"):
            if values.get(name) is not None and values.get("rel") != "canonical":
                (self.fetched if (tag, name) in FETCHED else self.links).append(values[name])

    def handle_data(self, data):
        self.text.append(data)


def copied(folder: Path) -> Path:
    """Copy what the site is made of, since the gallery is written beside its pages."""
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("gallery", "__pycache__"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, folder)
    return folder / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built once, also where several processes test; kept where EQUIPOISE_SITE says."""
    pytest.importorskip("pydata_sphinx_theme", reason="the site needs Sphinx: pip install 'equipoise[docs]'")
    root = tmp_path_factory.getbasetemp()
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = Path(os.environ.get("EQUIPOISE_SITE") or shared / "site")
    done = shared / "site-is-built"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            source = copied(shared / "site-source")
            command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
            quick = {**os.environ, "EQUIPOISE_SKIP_GALLERY": "1", "PYTHONPATH": str(ROOT / "src")}
            built = subprocess.run([*command, source, folder], env=quick, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stdout + built.stderr
            done.write_text("", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


@pytest.mark.slow
def test_every_page_of_the_docs_is_in_the_site(site, pages):
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert [str(path) for path in sources if site / path not in pages] == []
    assert len(pages) > 30


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages):
    outside = {path.name: [url for url in page.fetched if urlsplit(url).scheme] for path, page in pages.items()}
    assert {name: urls for name, urls in outside.items() if urls} == {}


@pytest.mark.slow
def test_every_link_and_picture_leads_somewhere(pages):
    broken = []
    for path, page in pages.items():
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                broken.append(f"{path.name}: {url}")
    assert broken == []


@pytest.mark.slow
def test_formulae_are_drawn_and_no_markup_is_left(site, pages):
    assert pages[site / "api/uncertainty.html"].math >= 3
    assert pages[site / "api/losses.html"].math >= 8
    assert pages[site / "extending.html"].math == 1
    left = (".. math::", ":math:`", ":class:", ":func:", ":data:", "{toctree}", "{eval-rst}")
    found = {path.name: [mark for mark in left if mark in "".join(page.text)] for path, page in pages.items()}
    assert {name: marks for name, marks in found.items() if marks} == {}


@pytest.fixture
def browser():
    """A window of its own, since pages leave behind what they stored."""
    found = programs()
    if found is None:
        pytest.skip("there is no chromium with its driver")
    with Browser(*found) as window:
        yield window


def complaints(browser):
    """Return what the page logged, without the theme's own remarks."""
    logged = [entry["message"] for entry in browser.log("browser") if entry["level"] != "INFO"]
    return [message for message in logged if "Got invalid theme mode: . Resetting to auto." not in message]


@pytest.mark.parametrize("part", mostly_nightly(range(4), slow=2))  # so that several processes share them
def test_every_page_is_whole_on_a_desktop_and_on_a_phone(browser, pages, part):
    faults = []
    for path in list(pages)[part::4]:
        browser.open(path)
        broken = browser.run("return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        faults += [f"{path.name}: no picture {url}" for url in broken]
        browser.protocol("Emulation.setDeviceMetricsOverride", **PHONE)
        wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
        browser.protocol("Emulation.clearDeviceMetricsOverride")
        if wide > 0:
            faults.append(f"{path.name}: {wide} pixels too wide for a phone")
        faults += [f"{path.name}: {message}" for message in complaints(browser)]
        faults += [f"{path.name}: asks for {url}" for url in browser.requests() if url.startswith(("http", "ws"))]
    assert faults == []


@pytest.mark.slow
def test_a_table_that_goes_on_to_the_right_has_a_shadow_there(browser, site):
    """Seen in the pixels at the right edge, before and after all of the table has been scrolled by."""
    browser.open(site / "results/any-model.html")
    browser.protocol("Emulation.setDeviceMetricsOverride", **PHONE)
    lightest = []
    for script in ("box.scrollLeft = 0", "box.scrollLeft = box.scrollWidth"):
        edge = browser.run(
            "const box = document.querySelector('.pst-scrollable-table-container');"
            "box.scrollIntoView({block: 'center'});"
            f"{script}; const at = box.getBoundingClientRect();"
            "return [at.right + scrollX - 3, at.top + scrollY + 30, box.scrollWidth - box.clientWidth]"
        )
        assert edge[2] > 0
        clip = {"x": edge[0], "y": edge[1], "width": 2, "height": 20, "scale": 1}
        shot = browser.protocol("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as picture:
            lightest.append(picture.convert("L").getextrema()[1])
    browser.protocol("Emulation.clearDeviceMetricsOverride")
    assert lightest[0] < 230
    assert lightest[1] > 240


@pytest.mark.slow
def test_search_works_without_a_server(browser, site):
    browser.open(site / "index.html")
    browser.click(".search-button-field")
    browser.press("curriculum", "Enter")
    browser.until("return document.querySelectorAll('#search-results .search li').length > 0", True)
    assert complaints(browser) == []
