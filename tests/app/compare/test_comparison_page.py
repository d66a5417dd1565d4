"""The page of a comparison: one file, strict, with every figure, and harmless whatever methods and data are called."""

import re
from dataclasses import replace

import pytest

from equipoise.app.compare import METHODS, Comparison, rank, recommend
from equipoise.app.compare.comparison import SHOWN
from equipoise.app.compare.comparison_page import check_page, html, markdown, table_rows, write_methods_page
from equipoise.app.compare.method import Method
from equipoise.decisions import Costs
from equipoise.errors import InvalidInputError

PROBABLE = {"macro_average_precision": 0.6, "auc": {"mean": 0.9}, "log_loss": 0.25, "calibration": {"ece": 0.04}}
CROSS = '<script>alert("x")</script>|'


def record(method, seed, score, *, probable=True):
    scores = {"balanced_accuracy": score, "g_mean": {"mean": 0.7}, "f1": {"mean": 0.65}, "matthews": 0.5}
    scores |= PROBABLE if probable else {}
    return {"case": "data", "method": method, "seed": seed, "fold": 0, "scores": scores, "seconds": 1.5 + seed}


@pytest.fixture(scope="module")
def found():
    """Plain boosting, the same shifted, a machine without probabilities, and a method with a hostile name."""
    means = {"boosting": 0.7, "boosting_prior_shift": 0.8, "svm_linear": 0.78, CROSS: 0.6}
    records = [
        record(name, seed, mean + 0.01 * seed * (number + 1), probable=name != "svm_linear")
        for number, (name, mean) in enumerate(means.items())
        for seed in range(4)
    ]
    methods = {name: METHODS[name] for name in means if name in METHODS} | {"smote": METHODS["smote"]}
    methods |= {CROSS: Method(CROSS, "own", lambda *_: None), "vs": METHODS["vs"]}
    records.append({"case": "data", "method": "smote", "seed": 0, "fold": 0, "cannot_run": "too few.", "seconds": 0.0})
    ranking = rank(records, baseline=["boosting"])
    said = {name: method.name_in_text for name, method in methods.items()}
    advice = recommend(ranking, said, plain=["boosting"], moved=["boosting_prior_shift"])
    return Comparison(
        ranking=ranking,
        verdict=advice.verdict,
        recommendation=str(advice),
        left_out={"vs": "a fit takes about 9 min"},
        notes=("3 folds instead of 5, as class x has 3 samples.",),
        records=records,
        methods=methods,
        seeds=4,
        folds=None,
        rounds=4,
        seconds=10.0,
    )


def test_the_page_holds_the_verdict_every_score_and_every_note(found):
    page = html(found, "patients.csv")
    assert f'<p class="headline">{found.verdict}</p>' in page
    assert page.index(found.verdict) < page.index("<svg")
    for name in [*SHOWN.values(), "behind the best", "fit"]:
        assert name.replace("-", "‑") in page
    row = re.search(r"<tr><th scope=\"row\">gradient boosting</th>(.*?)</tr>", page)[1]
    cells = re.findall(r">([^<]+)</td>", row)
    assert cells[:8] == ["71.5%", "60.0%", "90.0%", "50.0%", "0.250", "70.0%", "65.0%", "4.0%"]
    assert cells[8].startswith("11.5 (")
    assert cells[9:] == ["3.00 s"]
    machine = re.search(r"<tr><th scope=\"row\">cost-sensitive SVM, linear</th>(.*?)</tr>", page)[1]
    assert re.findall(r">([^<]+)</td>", machine)[1:3] == ["–", "–"]
    assert "3 folds instead of 5, as class x has 3 samples." in page
    assert "SMOTE: too few." in page
    assert "Left out for the budget (a fit takes about 9 min): VS." in page


def test_the_page_loads_nothing_and_runs_only_its_own_script(found):
    page = html(found, "patients.csv")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert " style=" not in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page)


def test_names_are_text_whatever_is_in_them(found):
    page = html(found, '<img src=x onerror="a()">\x1b')
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<img" not in page
    assert "\x1b" not in page


def test_the_figure_shows_every_method_with_what_it_does(found):
    page = html(found, "patients.csv")
    figure = page[page.index("<svg") : page.index("</svg>")]
    for text in (
        "no remedy",
        "moved threshold",
        "remedy",
        "gradient boosting, prior shift",
        "difference to the best, in points",
    ):
        assert f">{text}</text>" in figure
    assert "<title>gradient boosting: 71.5%</title>" in figure
    assert figure.count("<title>") == 4
    assert figure.count(">3.00 s</text>") == 4
    assert ">cost</text>" not in figure


def test_cost_stands_beside_the_ranking_where_there_is_one(found):
    costs = {"boosting": 812.4, "boosting_prior_shift": 57.25}
    priced = [
        each | {"scores": each["scores"] | {"expected_cost": costs[each["method"]]}}
        if each["method"] in costs
        else each
        for each in found.records
    ]
    page = html(replace(found, records=priced, yardstick=Costs.yardstick), "patients.csv")
    figure = page[page.index("<svg") : page.index("</svg>")]
    assert all(f">{text}</text>" in figure for text in ("cost", "812", "57.2"))
    assert '<td class="n best">57.2</td></tr>' in page
    assert '<td class="n">–</td></tr>' in page
    assert "the cost per 1,000 cases" in page
    assert "the cost per 1,000 cases" not in html(found, "patients.csv")


def test_the_best_of_a_column_is_bold_and_less_is_better_for_errors(found):
    worse = [
        each | {"scores": each["scores"] | {"log_loss": 0.9}} if each["method"] == CROSS else each
        for each in found.records
    ]
    page = html(replace(found, records=worse), "patients.csv")
    assert '<td class="n best">0.250</td>' in page
    assert '<td class="n">0.900</td>' in page


def test_markdown_has_the_same_figures(found):
    text = markdown(found, "patients.csv")
    assert found.recommendation in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(table_rows(found))
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    assert len(set(cells)) == 1  # a name with a bar is one cell
    assert "| 71.5% | 60.0% | 90.0% | 50.0% | 0.250 | 70.0% | 65.0% | 4.0% |" in text


def test_where_nothing_could_run_the_page_says_so(found):
    nothing = replace(found, ranking=rank([found.records[-1]], baseline=[]), verdict="No method could run.")
    page = html(nothing, "patients.csv")
    assert "No method could run." in page
    assert "<svg" not in page


def test_two_fits_have_no_interval(found):
    few = [each for each in found.records if each["seed"] < 2]
    rows = table_rows(replace(found, records=few, ranking=rank(few, baseline=["boosting"])))
    assert rows[-1]["behind"] == "19.0"
    assert "<svg" in html(replace(found, records=few, ranking=rank(few, baseline=["boosting"])), "patients.csv")


@pytest.mark.parametrize("name", ["page.html", "page.md"])
def test_a_page_replaces_its_like_and_nothing_else(found, tmp_path, name):
    path = tmp_path / "new" / name
    assert write_methods_page(found, path, data="patients.csv") == path
    write_methods_page(found, path, data="others.csv")
    assert "others.csv" in path.read_text("utf-8")
    path.write_text("somebody's own")
    with pytest.raises(InvalidInputError, match="exists and is not a page of equipoise"):
        write_methods_page(found, path, data="patients.csv")
    with pytest.raises(InvalidInputError, match=r"must end in .html or .md, got page\.txt"):
        check_page(tmp_path / "page.txt")
