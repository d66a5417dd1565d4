"""The pages on a phone of 400 pixels: nothing is cut without a hint, what matters is in sight, pictures are legible."""

import re

import numpy as np
import pytest

from equipoise.app.report import write_comparison, write_report
from tests.app.report.runs import made_up, write_run
from tests.app.report.test_numbers import one_hot

pytestmark = pytest.mark.slow
WIDTH = 400
SMALLEST_LETTERS = 9.5

OUTSIDE = """
    const found = [];
    for (const element of document.querySelectorAll('body *')) {
        const box = element.getBoundingClientRect();
        if (!box.width || box.right <= innerWidth + 0.5 || element.closest('.skip')) continue;
        const scroll = element.closest('.scroll');
        const hint = scroll && scroll.previousElementSibling;
        const hinted = hint?.matches('.more') && hint.checkVisibility() && hint.innerText.includes('scroll sideways');
        if (!hinted || scroll.getBoundingClientRect().right > innerWidth) found.push(element.outerHTML.slice(0, 80));
    }
    return found.slice(0, 5);
"""
HINTS = """
    const boxes = [...document.querySelectorAll('.scroll')];
    return boxes.map((box) => [box.scrollWidth > box.clientWidth + 1, !box.previousElementSibling.hidden]);
"""
PICTURES = """
    return [...document.querySelectorAll('svg.figure')].map((picture) => {
        const frame = picture.getBoundingClientRect();
        const texts = [...picture.querySelectorAll('text')];
        const outside = texts.filter((text) => {
            const box = text.getBoundingClientRect();
            const inside = box.left > frame.left - 1 && box.right < frame.right + 1;
            return !inside || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
        });
        const scale = frame.width / picture.viewBox.baseVal.width;
        const sizes = texts.map((text) => scale * parseFloat(getComputedStyle(text).fontSize));
        return {
            name: picture.getAttribute('aria-label'), left: frame.left, right: frame.right,
            smallest: Math.min(...sizes),
            outside: outside.map((text) => text.textContent), texts: texts.map((text) => text.textContent),
        };
    });
"""


@pytest.fixture(scope="module")
def pages(digits, seven, attributes, many, tmp_path_factory):
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("phone")
    other = made_up(folder / "a run of another seed", 7, seed=1)
    labels = np.repeat([0, 1], [80, 20])
    missed = {"probabilities": one_hot(np.zeros(100, dtype=int), 2), "labels": labels, "before": None}
    never_found = write_run(folder / "never found", **missed, counts=[800, 200], names=["usual", "missed always"])
    return {
        "digits": digits / "report.html",
        "seven": seven / "report.html",
        "attributes": attributes / "report.html",
        "many": many / "report.html",
        "never found": write_report(never_found),
        "comparison": write_comparison([seven, other], folder / "comparison.html"),
    }


KINDS = ("digits", "seven", "attributes", "many", "never found", "comparison")


@pytest.fixture(scope="module", params=KINDS)
def phone(request, browser, pages):
    browser.protocol("Emulation.setEmulatedMedia", media="", features=[])
    browser.protocol("Emulation.setDeviceMetricsOverride", width=WIDTH, height=800, deviceScaleFactor=1, mobile=True)
    browser.open(pages[request.param])
    yield browser
    browser.protocol("Emulation.clearDeviceMetricsOverride")


def test_nothing_is_cut_without_a_hint(phone):
    assert phone.run("return document.documentElement.scrollWidth") <= WIDTH
    assert phone.run(OUTSIDE) == []
    hints = phone.run(HINTS)
    assert any(wide for wide, _ in hints)
    assert all(wide == hinted for wide, hinted in hints)


def test_pictures_are_whole_and_legible(phone):
    pictures = phone.run(PICTURES)
    assert pictures
    for picture in pictures:
        assert picture["left"] >= 0, picture["name"]
        assert picture["right"] <= WIDTH, picture["name"]
        assert picture["outside"] == [], picture["name"]
        assert picture["smallest"] >= SMALLEST_LETTERS, picture["name"]


def test_no_axis_goes_beyond_all_or_below_nothing(phone):
    for picture in phone.run(PICTURES):
        ticks = [text for text in picture["texts"] if re.fullmatch(r"[-−]?[\d.]+%", text)]
        assert all(0 <= float(text.strip("%").replace("−", "-")) <= 100 for text in ticks), picture["name"]


@pytest.mark.parametrize("phone", ["digits", "seven", "attributes", "many"], indirect=True)
def test_recall_and_precision_are_in_sight(phone):
    ends = phone.run("""
        const table = document.getElementById('classes'), box = table.closest('.scroll').getBoundingClientRect();
        const heads = [...table.tHead.rows[0].cells];
        return heads.filter((head) => ['recall', 'precision'].includes(head.innerText.trim().split(/[^a-z]/)[0]))
            .flatMap((head) => [head, ...[...table.tBodies[0].rows].map((row) => row.cells[head.cellIndex])])
            .map((cell) => cell.getBoundingClientRect().right - box.right);
    """)
    assert len(ends) > 2
    assert max(ends) <= 0


@pytest.mark.parametrize("phone", ["seven"], indirect=True)
def test_the_class_stays_in_sight_while_its_scores_scroll(phone):
    scroll = "document.getElementById('classes').closest('.scroll').scrollLeft = "
    phone.run(f"{scroll}200")
    cells = "document.querySelectorAll('#classes th[scope=row], #classes thead th:first-child')"
    lefts = phone.run(f"return [...{cells}].map((cell) => Math.round(cell.getBoundingClientRect().left))")
    phone.run(f"{scroll}0")
    assert set(lefts) == {17}  # the page's margin and the box's border
