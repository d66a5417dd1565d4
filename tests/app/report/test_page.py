"""The page itself: one file, escaped, small, the same every time, and written without torch."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from equipoise.app.report import run_page as page_module
from equipoise.app.report import write_report
from equipoise.app.report.drawing import label_points
from equipoise.app.report.markup import Section, fill
from equipoise.app.report.run_page import write_page
from equipoise.app.report.sections.gallery import shown_samples
from equipoise.app.stored_run import read_run
from equipoise.errors import InvalidInputError
from tests.app.report.runs import HOSTILE, dump, jpeg, made_up, write_run

VOID = {"meta", "link", "br", "img", "input"}
SECTIONS = [
    "Verdict",
    "Choose the threshold",
    "Class by class",
    "Scores",
    "Uncertainty against frequency",
    "Before and after",
    "Confusion",
    "Reliability",
    "Human review of uncertain samples",
    "Training",
    "Samples to look at",
    "Hard, or merely rare?",
    "How it was made",
]


class Page(HTMLParser):
    """Elements, their text, and whether they nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def parsed(path):
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(seven):
    return parsed(seven / "report.html")


def test_the_sections_stand_in_their_order(page):
    assert page.texts["h2"] == SECTIONS


def test_a_new_section_is_a_function_and_a_line(seven, tmp_path, monkeypatch):
    def section(record):
        body = fill("<p>{{ record.nouns }} of {{ name }}</p>", record=record, name=HOSTILE)
        return Section("Mine", "My own", body, {"mine": [1]})

    monkeypatch.setattr(page_module, "SECTIONS", [*page_module.SECTIONS, section])
    page = parsed(write_report(seven, tmp_path / "page.html"))
    assert page.texts["h2"] == [*SECTIONS, "My own"]
    assert "Mine" in page.texts["a"]
    assert f"classes of {HOSTILE}" in page.texts["p"]
    assert json.loads(page.texts["script"][0])["mine"] == [1]
    assert ("section", {"id": "s12", "aria-labelledby": "h12"}) in page.elements


def test_ids_are_unique_and_every_reference_leads_somewhere(page):
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert [name for name, number in ids.items() if number > 1] == []
    wanted = [attributes["href"] for _, attributes in page.elements if attributes.get("href", "").startswith("#")]
    wanted += [
        f"#{name}" for _, a in page.elements for key in ("for", "aria-labelledby") for name in a.get(key, "").split()
    ]
    wanted += re.findall(r"url\((#[^)]+)\)", str([attributes for _, attributes in page.elements]))
    assert len(wanted) > 50
    assert {name.lstrip("#") for name in wanted} <= set(ids)


def test_nothing_is_loaded_from_anywhere(page):
    sources = [a[key] for _, a in page.elements for key in ("src", "href", "srcset", "action", "data") if key in a]
    assert all(source.startswith(("#", "data:")) for source in sources)
    assert not any("url(" in text or "@import" in text for text in page.texts["style"])


def test_the_policy_names_the_pages_own_script_and_style(page):
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    script = page.texts["script"][-1]
    for text, rule in ((script, "script-src"), (page.texts["style"][0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy
    inline = [key for _, attributes in page.elements for key in attributes if key == "style" or key.startswith("on")]
    assert inline == []


def test_hostile_names_are_text_everywhere(page, seven):
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert HOSTILE in "".join(page.texts["th"])
    assert any("<script>" in text for text in page.texts["text"])  # in the pictures
    block = page.texts["script"][0]
    assert "<" not in block
    assert HOSTILE in json.loads(block)["confusion"]["heads"]
    assert "<b>bold</b>" in page.texts["dd"]
    raw = (seven / "report.html").read_text(encoding="utf-8")
    assert "<b>" not in raw
    assert "<!-- comment" not in raw


def test_names_are_not_read_as_formulae(page):
    assert any(text.strip().startswith("$5 or $6") for text in page.texts["text"])


def test_every_picture_has_a_name_and_follows_the_theme(page):
    pictures = [a for tag, a in page.elements if tag == "svg" and "figure" in a.get("class", "")]
    assert len(pictures) == 11
    assert all(attributes["aria-label"] and attributes["role"] == "img" for attributes in pictures)
    colours = {a[key] for _, a in page.elements for key in ("fill", "stroke") if key in a}
    assert {colour for colour in colours if not colour.startswith("var(--")} == {"none"}
    style = page.texts["style"][0]
    assert all(f"{colour[4:-1]}:" in style for colour in colours if colour != "none")


def test_marks_carry_the_names_of_their_classes(page, seven):
    record = read_run(seven)
    tips = page.texts["title"]
    for place, name in enumerate(record.classes):
        assert f"{name}: uncertainty {record.uncertainty[place]:.3g}, {record.counts[place]:,} training samples" in tips


def test_the_same_run_gives_the_same_page(seven, tmp_path):
    first = write_report(seven, tmp_path / "a" / "first.html")
    assert first == tmp_path / "a" / "first.html"
    assert first.read_bytes() == (seven / "report.html").read_bytes()


def test_a_folder_is_not_overwritten(seven, tmp_path):
    with pytest.raises(InvalidInputError, match="which is a folder; name a file in it"):
        write_report(seven, tmp_path)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"cannot be written \(.*\); choose another file"):
        write_page("page", tmp_path / "file" / "report.html")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_how_it_was_made(page):
    assert "equipoise train data.csv --target label" in page.texts["code"]
    assert {"seed", "python", "batch size", "time"} <= set(page.texts["dt"])
    assert "one class is small." in page.texts["li"]


@pytest.mark.nightly
def test_a_thousand_classes_stay_small(tmp_path):
    path = write_report(made_up(tmp_path / "run", 1000, samples=1500))
    assert path.stat().st_size < 3_000_000
    page = parsed(path)
    assert sum("scope" in a and a["scope"] == "row" for _, a in page.elements) > 1000
    assert sum(a.get("role") == "gridcell" for _, a in page.elements) == 1600


def test_a_run_without_any_extra(tmp_path):
    options = {"before": None, "class_uncertainty": None, "margins": None, "gallery": None, "method": "cross_entropy"}
    folder = made_up(tmp_path / "run", 4, epochs=[{"epoch": 0, "stage": "train", "loss": 0.5}], **options)
    (folder / "held_out.npz").unlink()
    page = parsed(write_report(folder))
    assert page.texts["h2"] == [title for title in SECTIONS if title != "Choose the threshold"]
    text = " ".join(page.texts["p"])
    assert "This run has no model without rebalancing to compare with." in text
    assert text.count("The held-out answers were not kept with this run.") == 2


def test_a_training_that_went_wrong_and_a_record_without_what_is_not_needed(tmp_path):
    folder = made_up(tmp_path / "run", 3, before=None, epochs=[{"epoch": 0, "stage": "train", "loss": float("nan")}])
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for name in ("training", "versions", "notes", "seconds", "command"):
        del about[name]
    dump(folder / "run.json", about | {"options": {}})
    page = parsed(write_report(folder))
    assert any("no separate stage without rebalancing" in text for text in page.texts["p"])


def test_classes_never_tested_or_never_trained(tmp_path):
    labels = np.array([0, 0, 1])
    probabilities = np.full((3, 4), 0.1)
    probabilities[np.arange(3), labels] = 0.7
    options = {"counts": [5, 0, 3, 9], "names": ["a", "b", "c", "d"], "before": probabilities}
    options |= {"class_uncertainty": [0.1, None, 0.3, 0.0], "margins": [1, 2, None, 3]}
    page = parsed(write_report(write_run(tmp_path / "run", probabilities=probabilities, labels=labels, **options)))
    assert "–" in "".join(page.texts["td"])
    assert not any(
        "nan" in text.lower().split() for tag, texts in page.texts.items() for text in texts if tag != "script"
    )


def test_attributes_have_counts_in_place_of_a_matrix(attributes):
    page = parsed(attributes / "report.html")
    assert page.texts["h2"][2] == "Attribute by attribute"
    assert "false alarms" in page.texts["button"]
    assert not any(a.get("id") == "confusion" for _, a in page.elements)
    found = json.loads((attributes / "scores.json").read_text(encoding="utf-8"))["confusion"][0][1][1]
    assert f"{found:,}" in page.texts["td"]


@pytest.mark.parametrize(
    "thumbnail",
    [
        "",
        "not base64!",
        base64.b64encode(b"<svg onload='alert(1)'>").decode(),
        '"><script>',
        base64.b64encode(b"\xff\xd8\xff" + bytes(90_000)).decode(),
    ],
    ids=["empty", "words", "svg", "markup", "huge"],
)
def test_what_is_no_picture_is_not_shown(tmp_path, thumbnail):
    item = {"row": 1, "name": "x.jpg", "true": "a", "predicted": "b", "probability": 0.9, "uncertainty": 0.1}
    shown = {"uncertain": [item | {"thumbnail": thumbnail}, item | {"thumbnail": jpeg()}], "wrong": []}
    found = shown_samples(read_run(made_up(tmp_path, 3, gallery=shown)))
    assert [part["title"] for part in found] == ["Most uncertain"]
    assert [item["image"][:23] for item in found[0]["items"]] == ["", "data:image/jpeg;base64,"]


def test_names_do_not_lie_on_one_another():
    from matplotlib.figure import Figure

    axes = Figure(figsize=(6, 4), dpi=72).add_subplot()
    axes.set(xlim=(0, 10), ylim=(0, 10))
    places = np.array([[5, 5], [5.05, 5], [5.1, 5], [5, 5.1], [9.9, 9], [1, 1], [np.nan, 2]])
    record = SimpleNamespace(counts=places[:, 0], classes=[f"a long name {n}" for n in range(7)])
    label_points(axes, record, places[:, 1])
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 3 <= len(boxes) <= 5
    assert {"a long name 3", "a long name 5"} <= {text.get_text() for text in axes.texts}
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])


@pytest.mark.slow
def test_no_torch_is_imported(seven, tmp_path):
    code = (
        "import sys; from equipoise.app.report import write_comparison, write_report; "
        f"write_report({str(seven)!r}, {str(tmp_path / 'a.html')!r}); "
        f"write_comparison([{str(seven)!r}] * 2, {str(tmp_path / 'b.html')!r}); "
        "print(sorted({'torch', 'sklearn', 'pandas', 'accelerate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
