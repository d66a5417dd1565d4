"""The page in a real browser: no error, no request, and everything that moves does what it says."""

import base64
import json

import pytest

from equipoise.app.report import write_comparison, write_report
from tests.app.report.runs import HOSTILE, made_up


def column(browser, table, number):
    rows = "[...document.querySelectorAll(arguments[0] + ' tbody tr')]"
    return browser.run(f"return {rows}.map(r => r.cells[arguments[1]].innerText.trim())", table, number)


def wrong_entries(browser):
    return [entry["message"] for entry in browser.log("browser")]


@pytest.fixture
def page(browser, seven):
    browser.protocol("Emulation.setEmulatedMedia", media="", features=[])
    browser.open(seven / "report.html")
    return browser


def test_nothing_is_logged_and_nothing_requested(page, seven):
    assert page.run("return document.querySelectorAll('section').length") == 13
    assert wrong_entries(page) == []
    assert [url for url in page.requests() if not url.startswith("data:")] == [(seven / "report.html").as_uri()]


def test_the_page_of_a_real_run_works(browser, digits):
    browser.open(digits / "report.html")
    assert "model separates the rare classes well from the rest" in browser.text(".headline")
    assert len(column(browser, "#classes", 0)) == 10
    assert wrong_entries(browser) == []


def test_a_class_called_script_is_text(page):
    assert HOSTILE in column(page, "#classes", 0)
    assert page.run("return [...document.querySelectorAll('svg text')].some(t => t.textContent.includes('<script>'))")
    scripts = page.run("return [...document.scripts].map(s => s.type)")
    assert scripts == ["application/json", ""]
    assert page.run("return document.querySelectorAll('dl.columns b').length") == 0
    assert (
        page.run("return JSON.parse(document.getElementById('data').textContent).confusion.heads").count(HOSTILE) == 1
    )


def test_the_policy_stops_what_is_not_the_pages_own(page):
    stopped = """
        window.ran = false;
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
        const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image);
        const box = document.createElement('div');
        box.setAttribute('style', 'width: 7px'); document.body.append(box);
        return [window.ran, box.style.width];
    """
    assert page.run(stopped) == [False, ""]
    blocked = " ".join(wrong_entries(page))
    assert all(name in blocked for name in ("script-src", "img-src", "style-src"))


def test_sorting_by_click(page):
    counts = [int(text.replace(",", "")) for text in column(page, "#classes", 4)]
    assert counts == sorted(counts, reverse=True)
    heads = "return [...document.querySelectorAll('#classes thead th')].map(h => h.getAttribute('aria-sort'))"
    for number in (4, 2, 8):
        page.click(f"#classes thead th:nth-child({number + 1}) button")
        first = [float(text.strip("%").replace(",", "")) for text in column(page, "#classes", number)]
        way = page.run(heads)[number]
        assert first == sorted(first, reverse=way == "descending")
        assert way == ("ascending" if number == 4 else "descending")  # the first was sorted already
        assert sum(state is not None for state in page.run(heads)) == 1
    page.click("#classes thead th:nth-child(1) button")
    names = column(page, "#classes", 0)
    assert names[-1] == 'quote" & <!-- comment'
    assert page.run(heads)[0] == "ascending"
    page.click("#classes thead th:nth-child(2) button")
    assert column(page, "#classes", 1) == ["common"] * 3 + ["medium"] * 2 + ["rare"] * 2


def test_sorting_by_keyboard(page):
    page.run("document.querySelector('#classes thead th:nth-child(3) button').focus()")
    page.press("Enter")
    recall = [float(text.strip("%")) for text in column(page, "#classes", 2)]
    assert recall == sorted(recall, reverse=True)
    page.press(" ")
    assert [float(text.strip("%")) for text in column(page, "#classes", 2)] == sorted(recall)


@pytest.mark.slow
def test_two_classes_and_a_value_that_is_not_known(browser, tmp_path):
    names = ["unknown", "known"]
    browser.open(write_report(made_up(tmp_path / "run", 2, names=names, margins=[None, 3.0], gallery=None)))
    assert wrong_entries(browser) == []
    for _ in range(2):
        browser.click("#classes thead th:nth-child(9) button")
        assert column(browser, "#classes", 8) == ["3.00", "–"]  # last both ways
    assert column(browser, "#classes", 0) == ["known", "unknown"]


def test_the_slider_changes_the_numbers(page):
    data = json.loads(page.run("return document.getElementById('data').textContent"))
    steps, places = data["steps"], data["places"]

    def shown(step):
        return [f"{100 * step[name]:.1f}%" for name in ("accuracy", "balanced_accuracy")]

    assert [page.text("#now-accuracy"), page.text("#now-balanced")] == shown(steps[10])
    assert steps[10]["left"] == steps[10]["tested"] == 7 > steps[99]["left"]
    page.run("document.getElementById('share').focus()")
    page.press("Right", "Right")
    assert page.text("#share-now") == "12%"
    assert [page.text("#now-accuracy"), page.text("#now-balanced")] == shown(steps[12])
    assert page.text("#now-rare").startswith(f"{steps[12]['rare_sent']} of {steps[12]['rare']}")
    page.press("End")
    assert page.text("#share-now") == "99%"
    assert page.text("#now-balanced") == f"{shown(steps[99])[1]}, {steps[99]['left']} of 7 left"
    assert page.text("#now-sent").startswith(f"{steps[99]['sent']} of 900")
    assert page.run("return Number(document.querySelector('#coverage-mark line').getAttribute('x1'))") == places[99][0]
    assert steps[99]["accuracy"] > steps[0]["accuracy"]


def test_the_mark_lies_on_the_curve(page):
    on_curve = """
        const dot = document.querySelector('#coverage-mark circle');
        const [x, y] = [Number(dot.getAttribute('cx')), Number(dot.getAttribute('cy'))];
        const lines = [...document.querySelectorAll('svg[aria-label^="Accuracy of the rest"] path')]
            .filter(p => p.getAttribute('stroke') === 'var(--accent)' && p.getTotalLength() > 100);
        let best = 1e9;
        for (const line of lines) for (let s = 0; s < line.getTotalLength(); s += 0.2) {
            const at = line.getPointAtLength(s); best = Math.min(best, Math.hypot(at.x - x, at.y - y));
        }
        return best;
    """
    assert page.run(on_curve) < 0.3


def test_the_matrix_says_what_is_pointed_at(page):
    page.hover("#confusion tbody tr:nth-child(1) td:nth-of-type(2)")
    assert page.text("#cell").startswith("True nv, predicted as mel: ")
    page.run("document.querySelector('#confusion tbody td[tabindex=\"0\"]').focus()")
    assert page.text("#cell").startswith("True nv, found rightly: ")
    page.press("Right", "Down", "Down")
    assert page.text("#cell").startswith("True bkl, predicted as mel: ")
    page.press("End")
    assert page.text("#cell").startswith('True bkl, predicted as quote" & <!-- comment: ')
    assert page.run("return document.querySelectorAll('#confusion td[tabindex=\"0\"]').length") == 1


def test_every_control_is_reached_by_tab_with_a_visible_focus(page):
    page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(64):
        page.protocol("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        page.protocol("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(
            page.run(
                "const e = document.activeElement; return [e.id || e.closest('[id]')?.id, e.tagName, "
                "getComputedStyle(e).outlineStyle]"
            )
        )
    controls = {(where, tag) for where, tag, _ in seen}
    assert {("theme", "BUTTON"), ("classes", "BUTTON"), ("confusion", "TD"), ("share", "INPUT")} <= controls
    sliders = {(f"decide-{name}", "INPUT") for name in ("miss", "prevalence", "budget")}
    assert sliders | {("decide-class", "SELECT")} <= controls
    assert {outline for _, tag, outline in seen if tag != "BODY"} == {"solid"}


def test_light_and_dark(page):
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(paper)
    page.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = page.run(paper)
    assert light != dark
    page.until("return document.getElementById('theme').textContent", "Light theme")
    page.click("#theme")
    assert [page.run(paper), page.text("#theme")] == [light, "Dark theme"]
    ink = "return getComputedStyle(document.querySelector('svg.figure text')).fill"
    bright = page.run(ink)
    page.click("#theme")
    assert page.run(paper) == dark
    assert page.run(ink) != bright
    page.run("localStorage.clear()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(page, scheme):
    page.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    contrast = """
        const light = (rgb) => {
            const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            const [r, g, b] = rgb.map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const parse = (colour, under) => {
            canvas.fillStyle = `rgb(${under.join()})`; canvas.fillRect(0, 0, 1, 1);
            canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
        };
        const white = [255, 255, 255];
        const under = (e) => (e.parentElement ? behind(e.parentElement) : white);
        const behind = (e) => parse(getComputedStyle(e).backgroundColor, under(e));
        let worst = [99, ''];
        const all = 'p, td, th, dt, dd, h1, h2, h3, a, button, span, figcaption, caption, li';
        for (const e of document.querySelectorAll(all)) {
            if (!e.innerText || !e.checkVisibility() || e.className === 'skip') continue;
            const back = behind(e), [a, b] = [light(parse(getComputedStyle(e).color, back)), light(back)];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 200)];
        }
        return worst;
    """
    ratio, where = page.run(contrast)
    assert ratio >= 4.5, where


def test_print_shows_all_rows_and_no_controls(page):
    page.protocol("Emulation.setEmulatedMedia", media="print")
    hidden = "return [...document.querySelectorAll('nav, #theme, #share')].every(e => e.checkVisibility() === false)"
    assert page.run(hidden)
    assert page.run("return getComputedStyle(document.querySelector('.tall')).maxHeight") == "none"
    assert page.run("return document.querySelector('.printed').checkVisibility()")
    page.protocol("Emulation.setEmulatedMedia", media="")
    pdf = base64.b64decode(page.protocol("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 16


@pytest.mark.slow
def test_many_classes(browser, many):
    browser.open(many / "report.html")
    assert wrong_entries(browser) == []
    assert len(column(browser, "#classes", 0)) == 100
    browser.run("document.getElementById('find').focus()")
    browser.press("c", "l", "a", "s", "s", " ", "0", "4")
    assert browser.text("#found") == "10 of 100"
    visible = "return [...document.querySelectorAll('#classes tbody tr')].filter(r => r.checkVisibility()).length"
    assert browser.run(visible) == 10
    browser.hover("#confusion tbody tr:nth-child(1) td:nth-of-type(1)")
    assert browser.text("#cell").startswith("True class 000 … class 002, predicted as class 000 … class 002: ")


@pytest.mark.slow
def test_attributes(browser, attributes):
    browser.open(attributes / "report.html")
    assert wrong_entries(browser) == []
    assert browser.run("return document.getElementById('confusion')") is None
    browser.click("#answers thead th:nth-child(3) button")
    missed = [int(text) for text in column(browser, "#answers", 2)]
    assert missed == sorted(missed, reverse=True)


def test_a_comparison_sorts_without_errors(browser, seven, tmp_path):
    other = made_up(tmp_path / "other", 7, seed=1)
    browser.open(write_comparison([seven, other], tmp_path / "comparison.html"))
    assert wrong_entries(browser) == []
    browser.click("#runs thead th:nth-child(3) button")
    balanced = [float(text.strip("%")) for text in column(browser, "#runs", 2)]
    assert balanced == sorted(balanced, reverse=True)
    assert HOSTILE in column(browser, "#classes", 0)
