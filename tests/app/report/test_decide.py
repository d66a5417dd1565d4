"""The section Decide in a real browser: sliders dragged and keys pressed, its numbers against Python's."""

import json
import re
import shlex
import sys

import numpy as np
import pandas as pd
import pytest

from equipoise.app.report import write_report
from equipoise.app.report.asked_rule import asked_threshold
from equipoise.app.report.decide_sliders import BUDGETS, CASES, MISSES, Choice
from equipoise.app.report.decide_texts import amount, command, python, rows, sentence, situation
from equipoise.app.report.sections.decide import candidates, notes, section
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.stored_run import read_run
from equipoise.decisions import Costs, Evidence, Natural, ReviewBudget, Situation
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.main import main
from tests.app.report.runs import made_up, write_run
from tests.app.runs.made import fewer_pictures, patients_frame
from tests.marks import mostly_slow

STEPS = """
    for (const [id, value] of arguments[0]) {
        const input = document.getElementById("decide-" + id);
        input.value = value;
        input.dispatchEvent(new Event(id === "class" ? "change" : "input", { bubbles: true }));
    }
"""
SHOWN = """
    const text = (id) => document.getElementById("decide-" + id).textContent;
    const names = ["found", "missed", "alarms", "reviews", "cost"];
    const point = (id) => ["cx", "cy"].map((at) => document.querySelector(`#decide-${id} .point`).getAttribute(at));
    return {
        said: text("said"), settings: text("settings"), command: text("command"), python: text("python"),
        rows: names.map((name) => [text(name), text(name + "-span"), text(name + "-next")]),
        pr: point("pr"), roc: point("roc"),
        paths: [...document.querySelectorAll(".plot path:not(.grid)")].map((path) => path.getAttribute("d")),
    };
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = made_up(tmp_path_factory.mktemp("decide") / "two", 2, samples=3000, names=["no", "yes"])
    write_report(folder)
    return folder


def set_to(page, **steps):
    return page.run(STEPS + SHOWN, list(steps.items()))


def check(shown, chosen):
    assert shown["said"] == sentence(chosen)
    assert shown["settings"] == situation(chosen)
    assert shown["rows"] == [[value, span, ahead] for _, _, value, span, ahead in rows(chosen)]
    points, place = chosen.candidate.points, chosen.place
    recall, rate = points.found[place] / points.positives, points.alarms[place] / points.negatives
    precision = chosen.outcome.precision
    expected = {"pr": (recall, 1.0 if precision is None else precision.value), "roc": (rate, recall)}
    for name, (across, up) in expected.items():
        x, y = map(float, shown[name])
        assert [x, y] == pytest.approx([56 + 344 * across, 280 - 268 * up], abs=0.11)


@pytest.mark.parametrize("which", mostly_slow(["two", "seven", "attributes"]))
def test_the_script_says_what_python_says(browser, request, which):
    folder = request.getfixturevalue(which)
    run = read_run(folder)
    found = candidates(run, run.held_out)
    browser.open(folder / "report.html")
    rng = np.random.default_rng(0)
    for _ in range(12):
        at = int(rng.integers(len(found)))
        miss, budget = (int(rng.integers(len(steps))) for steps in (MISSES, BUDGETS))
        prevalence = int(rng.integers(len(found[at].prevalences)))
        shown = set_to(browser, **{"class": at}, miss=miss, prevalence=prevalence, budget=budget)
        chosen = Choice(found[at], MISSES[miss], found[at].prevalences[prevalence], BUDGETS[budget])
        check(shown, chosen)
        assert shown["python"].startswith(python(chosen).split("(X")[0])
    assert [entry["message"] for entry in browser.log("browser")] == []


@pytest.mark.parametrize("which", mostly_slow(["two", "seven", "attributes"]))
def test_the_page_without_its_script_says_the_same(browser, request, which):
    folder = request.getfixturevalue(which)
    browser.protocol("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(folder / "report.html")
        still = browser.run(SHOWN)
        texts = "return [...document.querySelectorAll('#decide-miss-now, #decide-prevalence-now, #decide-budget-now')]"
        settings = browser.run(f"{texts}.map((each) => each.textContent)")
    finally:
        browser.protocol("Emulation.setScriptExecutionDisabled", value=False)
    browser.open(folder / "report.html")
    moved = browser.run(SHOWN)
    drawn, redrawn = (
        [float(each) for each in re.findall(r"[\d.]+", " ".join(one.pop("paths")))] for one in (still, moved)
    )
    assert redrawn == pytest.approx(drawn, abs=0.11)  # halves are rounded either way
    assert moved == still
    assert browser.run(f"{texts}.map((each) => each.textContent)") == settings


@pytest.mark.parametrize("which", mostly_slow(["two", "seven", "attributes"]))
def test_nothing_is_wider_than_the_printed_page(browser, request, which):
    browser.open(request.getfixturevalue(which) / "report.html")
    screen = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    try:
        browser.protocol("Emulation.setEmulatedMedia", media="print")
        for width in (794, 688):  # of A4, with and without its margins
            browser.protocol("Emulation.setDeviceMetricsOverride", width=width, **screen)
            wider = browser.run(
                "const ends = (each) => each.getBoundingClientRect().right;"
                "return [...document.querySelectorAll('main *')].filter((each) => each.checkVisibility() && "
                "ends(each) > innerWidth + 1).map((each) => each.tagName + '#' + each.id + ' ' + ends(each))"
            )
            assert wider == []
        assert browser.run("return document.getElementById('decide-settings').checkVisibility()")
    finally:
        browser.protocol("Emulation.clearDeviceMetricsOverride")
        browser.protocol("Emulation.setEmulatedMedia", media="")


def test_a_slider_is_dragged_with_the_mouse(browser, two):
    browser.open(two / "report.html")
    browser.run("document.getElementById('decide-miss').scrollIntoView({ block: 'center' })")
    box = browser.run("return document.getElementById('decide-miss').getBoundingClientRect().toJSON()")
    middle = box["y"] + box["height"] / 2
    at = box["x"] + box["width"] * browser.run(
        "const i = document.getElementById('decide-miss'); return Number(i.value) / Number(i.max)"
    )
    for kind, x in (("mousePressed", at), ("mouseMoved", box["x"] + 5), ("mouseReleased", box["x"] + 5)):
        browser.protocol("Input.dispatchMouseEvent", type=kind, x=x, y=middle, button="left", buttons=1, clickCount=1)
    run = read_run(two)
    first = candidates(run, run.held_out)[0]
    assert browser.text("#decide-miss-now") == "0.1 false alarms"
    check(browser.run(SHOWN), Choice(first, MISSES[0], first.points.prevalence, CASES))


def test_sliders_by_keyboard_speak(browser, two):
    browser.open(two / "report.html")
    run = read_run(two)
    first = candidates(run, run.held_out)[0]
    browser.run("document.getElementById('decide-miss').focus()")
    browser.press("End")
    assert browser.text("#decide-miss-now") == "1000 false alarms"
    browser.run("document.getElementById('decide-budget').focus()")
    browser.press("Home")
    browser.press("Right", "Right")
    assert browser.text("#decide-budget-now") == "3 of 1,000 cases"
    value = "return document.getElementById('decide-budget').getAttribute('aria-valuetext')"
    assert browser.run(value) == "3 of 1,000 cases"
    chosen = Choice(first, 1000, first.points.prevalence, 3)
    assert chosen.limited
    check(browser.run(SHOWN), chosen)
    assert browser.text("#decide-said").endswith("The review budget sets the limit.")
    assert browser.run("return document.getElementById('decide-said').getAttribute('aria-live')") == "polite"
    labelled = """
        const inputs = [...document.querySelectorAll('#decide-class, [id^=decide-][type=range]')];
        return inputs.map((input) => input.labels.length)
    """
    assert browser.run(labelled) == [1, 1, 1, 1]


def test_another_class_is_chosen_and_its_lines_copied(browser, seven):
    browser.open(seven / "report.html")
    names = browser.run("return [...document.getElementById('decide-class').options].map((each) => each.text)")
    assert names[0] == 'quote" & <!-- comment'  # the rarest
    assert sorted(names) == sorted(read_run(seven).classes)
    shown = set_to(browser, **{"class": names.index("$5 or $6")}, miss=MISSES.index(50))
    words = shlex.split(shown["command"])
    assert words[words.index("--cost") + 1] == "miss:$5 or $6=50"
    assert shown["python"].splitlines()[1].startswith('clf.predict(X, decision=Costs(miss={"$5 or $6": 50}, class_')
    hostile = set_to(browser, **{"class": 0}, prevalence=0)
    words = shlex.split(hostile["command"])
    assert words[:4] == ["equipoise", "predict", seven.as_posix(), "new.csv"]
    shares = [entry.rpartition("=") for entry in words[words.index("--prior") + 1].split(",")]
    assert {name: float(share) for name, _, share in shares}['quote" & <!-- comment'] == 0.0001
    assert sum(float(share) for *_, share in shares) == pytest.approx(1, abs=1e-4)
    line = hostile["python"].splitlines()[1]
    rule = eval(line, {"Costs": dict, "X": 0, "clf": type("clf", (), {"predict": lambda _, decision: decision})})
    assert rule["class_prior"] == {'quote" & <!-- comment': 0.0001}
    browser.run("document.querySelector('[data-copy=decide-python]').scrollIntoView()")
    browser.click("[data-copy=decide-python]")
    browser.until("return document.querySelector('[data-copy=decide-python]').textContent !== 'Copy Python'", True)
    assert browser.run("return getSelection().toString()") == hostile["python"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on patients of whom few are ill; their table lies beside it."""
    folder = tmp_path_factory.mktemp("trained")
    patients_frame(900).to_csv(folder / "patients.csv", index=False)
    options = RunOptions(str(folder / "patients.csv"), target="state", model="forest")
    with pytest.MonkeyPatch.context() as patch:
        fewer_pictures(patch)
        return train_run(options, folder / "run").folder


@pytest.mark.parametrize(
    ("steps", "rule"),
    mostly_slow(
        [
            ({"miss": MISSES.index(50)}, Costs(miss={"ill": 50}, class_prior={"ill": 0.122222})),  # as held out
            ({"miss": MISSES.index(20), "prevalence": 11}, Costs(miss={"ill": 20}, class_prior={"ill": 0.03})),
            ({"miss": MISSES.index(1000), "budget": BUDGETS.index(50)}, ReviewBudget(50, per=1000)),
        ]
    ),
)
def test_the_copied_lines_run_and_decide_alike(browser, trained, tmp_path, monkeypatch, steps, rule):
    browser.open(trained / "report.html")
    shown = set_to(browser, **steps)
    rows = pd.read_csv(trained.parent / "patients.csv")
    x = rows.drop(columns="state")
    clf, encoded = BalancedClassifier.load(trained), RunModel.load(trained).input.rows(x)
    space = {"clf": clf, "X": encoded}
    exec(shown["python"].replace("clf.predict", "answers = clf.predict"), space)
    assert space["answers"].tolist() == clf.predict(encoded, decision=rule).tolist()
    x.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*shlex.split(shown["command"]), "--out", "answers.csv"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert pd.read_csv("answers.csv")["class"].tolist() == space["answers"].tolist()
    assert 0 < (space["answers"] == "ill").sum() < len(x)


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    """The folder of a run that was asked for a recall, tested on patients of whom more are ill than in training."""
    folder = tmp_path_factory.mktemp("promised")
    patients = patients_frame(2100)
    patients[:1200].to_csv(folder / "patients.csv", index=False)
    other = patients[1200:]
    healthy = other.index[other["state"] != "ill"]
    other.drop(index=healthy[::2]).to_csv(folder / "test.csv", index=False)
    options = RunOptions(
        str(folder / "patients.csv"), target="state", model="forest", recall="ill=0.8", test=str(folder / "test.csv")
    )
    with pytest.MonkeyPatch.context() as patch:
        fewer_pictures(patch)
        return train_run(options, folder / "run").folder


def answers(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*shlex.split(command), "--out", "answers.csv"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    return pd.read_csv("answers.csv")["class"]


def test_the_sliders_start_at_the_rule_that_was_asked_for(browser, promised, tmp_path, monkeypatch):
    browser.open(promised / "report.html")
    shown, run = browser.run(SHOWN), read_run(promised)
    first = candidates(run, run.held_out)[0]
    assert first.name == "ill"
    check(shown, first.first)
    assert shown["command"] == f"equipoise predict {promised.as_posix()} new.csv --recall ill=0.8"
    assert shown["command"] == command(first.first, section(run).data["decide"])
    assert shown["python"] == python(first.first)
    assert shown["python"].endswith("decision=RecallAtLeast(floors={'ill': 0.8}))")
    (claim,) = run.record.decision["claims"]
    named = run.held_out.probabilities[:, run.classes.index("ill")] >= claim["threshold"]
    assert first.first.outcome.reviews.value / CASES == pytest.approx(named.mean(), abs=0.01)
    rows = pd.read_csv(promised.parent / "test.csv")
    rows.drop(columns="state").to_csv(tmp_path / "new.csv", index=False)
    given = answers(shown["command"], tmp_path, monkeypatch)
    assert (given == "ill").mean() == pytest.approx(named.mean(), abs=0.01)
    at = int(browser.run("return document.getElementById('decide-miss').value"))
    moved = set_to(browser, miss=at + 1)
    assert "--cost miss:ill=" in moved["command"]
    assert set_to(browser, miss=at) == shown


def test_the_copied_command_names_as_many_as_the_point_shown(browser, promised, tmp_path, monkeypatch):
    run = read_run(promised)
    first = candidates(run, run.held_out)[0]
    assert first.points.prevalence > 1.4 * first.prior
    browser.open(promised / "report.html")
    shown = set_to(browser, miss=first.misses.index(1), prevalence=first.prevalences.index(first.points.prevalence))
    chosen = Choice(first, 1, first.points.prevalence, CASES)
    assert shown["command"] == command(chosen, section(run).data["decide"])
    assert shown["python"] == python(chosen)
    words = shlex.split(shown["command"])
    assert f"ill={first.points.prevalence:.6g}" in words[words.index("--prior") + 1].split(",")
    rows = pd.read_csv(promised.parent / "test.csv")
    rows.drop(columns="state").to_csv(tmp_path / "new.csv", index=False)
    given = (answers(shown["command"], tmp_path, monkeypatch) == "ill").mean()
    assert CASES * given == pytest.approx(chosen.outcome.reviews.value, abs=10)


@pytest.mark.parametrize("rare", [0.5, 0.1])  # at which these probabilities are calibrated, and not
@pytest.mark.parametrize("rule", [Costs(miss={"yes": 9}), Costs(miss={"yes": 9}, class_prior={"yes": 0.2})])
def test_the_threshold_of_a_rule_is_where_its_answers_change(rule, rare):
    prior = np.array([1 - rare, rare])
    chosen = rule.choose(Situation(("no", "yes"), prior, prior, evidence_of_two()))
    at = np.linspace(0.001, 0.999, 999)
    used = chosen.target_prior
    odds = at / (1 - at) * (1 if used is None else (used[1] / used[0]) * (1 - rare) / rare)
    q = odds / (1 + odds)
    named = chosen.policy.places(np.stack([1 - q, q], axis=1)) == 1
    assert asked_threshold(chosen, 1, rare) == pytest.approx(at[named].min(), abs=0.002)


def test_a_rule_that_names_the_most_probable_has_no_threshold_of_its_own():
    prior = np.array([0.9, 0.1])
    chosen = Natural().choose(Situation(("no", "yes"), prior, prior, evidence_of_two()))
    assert asked_threshold(chosen, 1, 0.1) is None


def evidence_of_two():
    rng = np.random.default_rng(0)
    q = rng.dirichlet([1, 1], 500)
    return Evidence.of(q, (rng.uniform(size=500) < q[:, 1]).astype(int))


def test_a_budget_is_a_rule_of_two_classes_and_a_cost_of_more(two, seven):
    for folder, named in ((two, "--review 20/1000"), (seven, "--cost")):
        run = read_run(folder)
        first = candidates(run, run.held_out)[0]
        chosen = Choice(first, 1000, first.points.prevalence, 20)
        assert chosen.limited
        assert named in command(chosen, section(run).data["decide"])
        again = Choice(first, chosen.equivalent_miss, first.points.prevalence, CASES)
        assert again.place == chosen.place
    assert python(chosen).startswith("from equipoise.decisions import Costs\n")
    rare = candidates(read_run(two), read_run(two).held_out)
    assert [each.rarer for each in rare] == [True, False]


def test_the_page_holds_counts_and_no_rows(two):
    data = section(read_run(two)).data["decide"]
    assert all(len(each["thresholds"]) <= 251 for each in data["classes"])
    assert len(json.dumps(data)) < 20_000


def test_of_many_classes_the_rarest_are_offered(tmp_path):
    run = read_run(made_up(tmp_path / "run", 60, samples=3000))
    found = candidates(run, run.held_out)
    assert len(found) == 30
    counts = dict(zip(run.classes, run.counts.tolist(), strict=True))
    tested = sorted((counts[name], held) for name, held in zip(run.classes, run.support, strict=True) if held)
    assert [counts[each.name] for each in found] == [count for count, _ in tested][:30]
    assert "30 more classes are not offered." in notes(run, found)
    assert "the largest of the others’" in notes(run, found)


def test_there_is_nothing_to_decide_without_samples_of_both_kinds(tmp_path):
    p = np.tile([0.9, 0.1], (20, 1))
    folder = write_run(
        tmp_path / "run", probabilities=p, labels=np.zeros(20, int), before=None, counts=[90, 10], names=["a", "b"]
    )
    assert section(read_run(folder)) is None


def test_numbers_read_well():
    assert [amount(value) for value in (0.04, 9.94, 9.96, 999.5, 12345)] == ["0.0", "9.9", "10", "1,000", "12,345"]
