"""The whole comparison on small tables."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from equipoise.app.compare import METHODS, Fit, FitOptions, FitOutcome, Method, OutOfTimeError, compare
from equipoise.app.compare.comparison import _suited, default_methods
from equipoise.app.compare.decision_scores import decision_scores
from equipoise.app.compare.single_fit import FoldFitter
from equipoise.app.runs.preprocessing import make_input
from equipoise.app.runs.run_options import RunOptions
from equipoise.data.samples import Samples
from equipoise.decisions import Costs, FScore, Natural, PrecisionAtLeast, RecallAtLeast, ReviewBudget
from equipoise.errors import InvalidInputError
from tests.app.compare.clocks import StepClock
from tests.marks import mostly_slow

QUICK = FitOptions(epochs=2, width=16, batch_size=32)
NETWORKS = tuple(name for name in default_methods() if METHODS[name].family != "table")
"""Those of the default that need no other package, and support vectors."""


def wine(rows=None):
    x, y = load_wine(return_X_y=True)
    samples = Samples(x, np.array(["red", "rose", "white"])[y])
    return samples if rows is None else samples.take(rows)


def cancer():
    """Breast cancer with a tenth of the malignant, as a data frame of eight columns, a gap and a category."""
    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    rows = np.concatenate([np.flatnonzero(y == 0)[:20], np.flatnonzero(y == 1)[:150]])
    frame = frame.iloc[rows, :8].reset_index(drop=True)
    frame.loc[3, "mean radius"] = np.nan
    frame["ward"] = np.where(np.arange(len(frame)) % 3 == 0, "north", "south")
    return Samples(frame, y.to_numpy()[rows])


def test_a_comparison_ranks_by_score_and_recommends():
    methods = ("cross_entropy", "uncertainty_margin", "smote", "svm_linear")
    told = []
    found = compare(
        cancer(), methods=methods, seeds=2, folds=3, options=QUICK, progress=lambda *each: told.append(each)
    )
    assert {place.method for place in found.ranking.places} == set(methods)
    means = [place.mean for place in found.ranking.places]
    assert means == sorted(means, reverse=True)
    assert all(place.runs == 6 for place in found.ranking.places)
    assert found.recommendation
    assert len(found.records) == len(told) == 24
    assert told[-1][1:] == (24, 24)
    record = found.records[0]
    assert record["rows"] == {"train": 113, "test": 57}
    assert len(record["scores"]["recall"]["each"]) == 2
    assert record["scores"]["balanced_accuracy"] == pytest.approx(np.mean(record["scores"]["recall"]["each"]))
    by_method = {record["method"]: record for record in found.records}
    assert "calibration" not in by_method["svm_linear"]["scores"]
    assert by_method["smote"]["scores"]["calibration"]["ece"] >= 0


RULES = {
    "costs": (Costs(miss={"0": 20}), "cost_saved", "expected_cost"),
    "recall": (RecallAtLeast({"0": 0.9}), "false_alarms_spared", "false_alarms"),
    "precision": (PrecisionAtLeast({"0": 0.6}), "found", "missed"),
    "review": (ReviewBudget(300, of="0"), "found", "missed"),
    "f_score": (FScore(2), "f_score", "mistakes"),
}


@pytest.mark.parametrize("name", mostly_slow(RULES, fast=2))
def test_a_rule_decides_and_ranks(name):
    rule, score, counted = RULES[name]
    methods = ("logistic_regression", "svm_linear")
    found = compare(cancer(), methods=methods, seeds=1, folds=3, options=QUICK, decision=rule)
    assert found.ranking.metric == score
    assert [place.method for place in found.ranking.places] == ["logistic_regression"]
    assert found.ranking.cannot_run == {"svm_linear": "it has no probabilities, which the requested decision needs."}
    means = found.means("logistic_regression")
    assert 0.5 < means[score] <= 1
    assert 0 <= means[counted] < 400


def test_a_rule_that_ranks_nothing_is_refused():
    run = partial(compare, cancer(), methods=("logistic_regression",))
    with pytest.raises(InvalidInputError, match=r"Natural\(\) is about every class, which is how methods are ranked"):
        run(decision=Natural())
    with pytest.raises(InvalidInputError, match="unknown class 'bad'"):
        run(decision=Costs(miss={"bad": 2}))
    with pytest.raises(InvalidInputError, match="a comparison needs one cost per class, got a cost for each row"):
        run(decision=Costs(miss={"0": np.ones(569)}))
    few = cancer()
    few = few.take(np.append(np.flatnonzero(few.y == 1), np.flatnonzero(few.y == 0)[:5]))
    with pytest.raises(InvalidInputError, match=r"'0' has 5 samples, too few .* in each of 3 test parts"):
        compare(few, methods=("logistic_regression",), folds=3, decision=RecallAtLeast({"0": 0.9}))


def test_decision_scores_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    y_train, y_test, p = rng.integers(0, 3, 60), rng.integers(0, 3, 40), rng.dirichlet(np.ones(3), 40)
    y_train[:3] = 0, 1, 2
    matrix = [[0, 1, 4], [3, 0, 2], [9, 6, 0]]
    mix = {0: 0.5, 1: 0.25, 2: 0.25}
    rule = Costs(matrix, class_prior=mix)
    found = decision_scores(rule, y_train, y_test, p, np.arange(3))
    totals, constants = 0.0, np.zeros(3)
    for true, row in zip(y_test.tolist(), p.tolist(), strict=True):
        moved = [row[k] * mix[k] / (y_train == k).mean() for k in range(3)]
        each = [sum(moved[k] * matrix[k][named] for k in range(3)) for named in range(3)]
        weight = mix[true] / (y_test == true).sum()
        totals += weight * matrix[true][each.index(min(each))]
        constants += weight * np.array(matrix[true])
    assert found["expected_cost"] == pytest.approx(1000 * totals, rel=1e-5)
    assert found["cost_saved"] == pytest.approx(1 - totals / constants.min(), rel=1e-5)


def test_thresholds_are_judged_by_rows_that_did_not_choose_them():
    rng = np.random.default_rng(1)
    y = (np.arange(4000) % 5 == 0).astype(int)
    noise = np.stack((1 - (p := rng.random(4000)), p), axis=1)
    found = decision_scores(RecallAtLeast({1: 0.9}), y, y, noise, np.arange(2))
    assert found["found"] == pytest.approx(0.91, abs=0.03)
    assert found["false_alarms_spared"] == pytest.approx(1 - found["found"], abs=0.03)  # a guess ranks nothing
    assert found["false_alarms"] == pytest.approx(800 * (1 - found["false_alarms_spared"]))
    several = decision_scores(ReviewBudget(100), y[:, None], y[:, None], p[:, None], np.arange(2))
    assert several["found"] == pytest.approx(0.1, abs=0.03)
    assert several["missed"] == pytest.approx(200 * (1 - several["found"]))


def test_folds_are_the_same_for_every_method_and_the_intervals_know_of_them():
    found = compare(wine(), methods=("cross_entropy", "weighted"), seeds=2, folds=4, options=QUICK)
    pairs = {}
    for record in found.records:
        pairs.setdefault((record["seed"], record["fold"]), set()).add(tuple(record["rows"].items()))
    assert len(pairs) == 8
    assert all(len(rows) == 1 for rows in pairs.values())
    places = {place.method: place for place in found.ranking.places}
    interval = places["weighted"].to_baseline
    scores = [
        {(r["seed"], r["fold"]): r["scores"]["balanced_accuracy"] for r in found.records if r["method"] == name}
        for name in ("weighted", "cross_entropy")
    ]
    lead = np.array([scores[0][pair] - scores[1][pair] for pair in sorted(scores[0])])
    half = stats.t.ppf(0.975, 7) * lead.std(ddof=1) * np.sqrt(1 / 8 + 1 / 3)
    assert interval.high - interval.mean == pytest.approx(half)


def test_a_killed_comparison_goes_on_and_other_data_are_refused(tmp_path):
    out = tmp_path / "fits.jsonl"
    some = {"methods": ("cross_entropy", "weighted"), "seeds": 1, "folds": 3, "options": QUICK, "out": out}
    first = compare(wine(), **some)
    out.write_bytes(out.read_bytes()[:-30])  # the last of six is torn
    told = []
    again = compare(wine(), **some, progress=lambda *each: told.append(each[0]))
    assert told == [Fit("data", "weighted", 0, 2)]
    assert [place.mean for place in again.ranking.places] == [place.mean for place in first.ranking.places]
    with pytest.raises(InvalidInputError, match="must not be mixed"):
        compare(wine(np.arange(170)), **some)
    with pytest.raises(InvalidInputError, match="settings tune = False, and now it is True"):
        compare(wine(), **some, tune=True)


def test_scores_of_another_backbone_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    images = Samples(rng.integers(0, 256, (24, 1, 28, 28), dtype=np.uint8), np.arange(24) % 2)
    some = {"methods": ("cross_entropy",), "seeds": 1, "folds": 2, "out": tmp_path / "fits.jsonl"}
    told = []
    for _ in range(2):
        lenet = partial(make_input, options=RunOptions("images", backbone="lenet"))
        compare(images, **some, prepare=lenet, progress=lambda *each: told.append(each), options=FitOptions(epochs=1))
    assert len(told) == 2  # two folds, once
    other = partial(make_input, options=RunOptions("images", backbone="resnet18"))
    with pytest.raises(InvalidInputError, match=r"settings backbone = .* must not be mixed"):
        compare(images, **some, prepare=other, options=FitOptions(epochs=1))


@pytest.mark.slow
def test_processes_give_the_same_scores():
    some = {"methods": ("cross_entropy", "focal"), "seeds": 1, "folds": 2, "options": QUICK}
    one, two = compare(cancer(), **some), compare(cancer(), **some, jobs=2)

    def plain(found):
        return {(r["method"], r["fold"]): r["scores"] for r in found.records}

    assert plain(one) == plain(two)


def test_groups_stay_on_one_side():
    whole = wine()
    groups = np.array([f"g{number // 3}" for number in range(len(whole))])
    run = FoldFitter(Samples(whole.x, whole.y, groups=groups), 3, QUICK, False, lambda x: x)
    for train, test in run.split(0):
        assert not set(groups[train]) & set(groups[test])
    assert not all(np.array_equal(*pair) for pair in zip(run.split(0)[0], run.split(1)[0], strict=True))


def test_the_official_test_part_is_used():
    whole = wine()
    part = np.where(np.arange(len(whole)) % 3 == 0, "test", np.where(np.arange(len(whole)) % 3 == 1, "val", "train"))
    found = compare(
        Samples(whole.x, whole.y, partition=part), methods=("cross_entropy", "weighted"), seeds=3, options=QUICK
    )
    assert found.folds is None
    interval = {place.method: place for place in found.ranking.places}["weighted"].to_baseline
    scores = {(r["method"], r["seed"]): r["scores"]["balanced_accuracy"] for r in found.records}
    lead = [scores["weighted", seed] - scores["cross_entropy", seed] for seed in range(3)]
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(lead))
    assert np.ptp(lead) > 0
    assert found.records[0]["rows"] == {"train": 118, "test": 60}
    assert "official test part" in found.notes[0]


def test_a_tiny_class_is_told_of_and_stops_nothing():
    x, y = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == 0)[:30], np.flatnonzero(y == 1)[:30], np.flatnonzero(y == 2)[:1]])
    found = compare(Samples(x[rows], y[rows]), methods=("cross_entropy", "smote"), seeds=1, options=QUICK)
    assert found.folds == 3
    assert found.notes[0] == "3 folds instead of 5, as class 2 has 1 sample."
    assert found.notes[1] == "1 class has fewer samples than there are folds; some test parts have none of them."
    assert "smote" in found.ranking.cannot_run or found.ranking.places[1].method == "smote"


def test_probabilities_find_their_columns_where_training_lacks_a_class():
    y = wine().y
    truth = np.array(["red", "white", "white", "rose"])
    sure = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    said = FitOutcome(np.array(["red", "white", "white", "white"]), sure, np.array(["red", "white"]))
    found = said.record(y[y != "rose"], truth, np.unique(y))
    assert found["scores"]["recall"]["each"] == [1.0, 0.0, 1.0]
    assert found["scores"]["calibration"]["brier"] == pytest.approx(2 / 4)  # only the rose is wrong
    assert found["scores"]["group_recall"].keys() <= {"common", "medium", "rare"}
    assert not any(isinstance(value, list) for value in found["scores"].values())


def test_several_labels_are_compared():
    x, y = load_digits(return_X_y=True)
    several = np.stack([y[:200] % 2, y[:200] >= 5], axis=1).astype(int)
    samples = Samples(x[:200], several, attributes=("odd", "large"))
    found = compare(
        samples,
        methods=("cross_entropy", "uncertainty_margin", "random_over", "smote"),
        seeds=1,
        folds=2,
        options=QUICK,
    )
    assert len(found.ranking.places) == 3
    assert "one label per sample" in found.ranking.cannot_run["smote"]


@pytest.mark.slow
def test_a_budget_is_a_limit_and_what_did_not_fit_is_named():
    clock, told = StepClock(), []
    some = {"methods": NETWORKS, "seeds": 5, "folds": 3, "options": QUICK}
    found = compare(wine(), **some, budget_seconds=450, clock=clock, note=told.append)
    assert clock.now <= 450
    compared = {place.method for place in found.ranking.places} | set(found.ranking.cannot_run)
    assert {"cross_entropy", "uncertainty_margin", "svm_linear", "svm_rbf", "random_under"} <= compared
    assert compared | set(found.left_out) == set(NETWORKS)
    assert not compared & set(found.left_out)
    assert all(place.runs == found.rounds == 3 for place in found.ranking.places)  # what an interval needs
    assert re.fullmatch(r"One fit takes .* to .*: the budget leaves time for \d+ of 25 methods, 3 fits each\.", told[0])
    assert "3 of 15 fits of each method fitted into the budget." in found.notes
    assert found.recommendation.startswith("A remedy is needed: cost-sensitive SVM, linear is ")


def test_the_cheapest_methods_go_first_in_each_round():
    clock, told = StepClock(), []
    compare(
        wine(np.arange(47, 178)),
        methods=("smote", "svm_rbf", "cross_entropy", "random_under"),
        seeds=1,
        folds=3,
        budget_seconds=10_000,
        options=QUICK,
        clock=clock,
        progress=lambda fit, done, total: told.append((fit.fold, fit.method, done, total)),
    )
    order = ("svm_rbf", "cross_entropy", "smote", "random_under")
    fits = [(fold, name) for fold in range(3) for name in order]
    assert told == [(*fit, number, 12) for number, fit in enumerate(fits, start=1)]


def test_a_budget_for_all_gives_what_no_budget_gives():
    some = {"methods": ("cross_entropy", "weighted", "svm_rbf"), "seeds": 2, "folds": 2, "options": QUICK}
    whole, limited = compare(wine(), **some), compare(wine(), **some, budget_seconds=1e6, clock=StepClock())
    assert limited.ranking == whole.ranking
    assert (limited.left_out, limited.rounds, limited.notes) == ({}, 4, whole.notes)


def test_a_budget_that_allows_no_network_compares_what_it_can():
    long = FitOptions(epochs=40, width=16, batch_size=32)
    methods = ("cross_entropy", "uncertainty_margin", "smote", "svm_linear", "svm_rbf", "extra_trees")
    found = compare(wine(), methods=methods, seeds=1, folds=3, budget_seconds=300, options=long, clock=StepClock())
    assert {"svm_linear", "svm_rbf", "extra_trees"} <= {place.method for place in found.ranking.places}
    assert "cross_entropy" in found.left_out
    assert re.fullmatch(r"a fit takes about .* (s|min)", found.left_out["cross_entropy"])


def test_a_budget_too_small_for_any_fit_is_an_error_that_says_what_is_short():
    with pytest.raises(OutOfTimeError, match="ran out before the first fit had finished; give more minutes"):
        compare(wine(), seeds=2, folds=3, budget_seconds=1e-6, options=QUICK, clock=StepClock())


def test_time_spent_before_counts():
    clock = StepClock()
    clock.now = 999.0
    with pytest.raises(OutOfTimeError, match="give more minutes"):
        compare(wine(), seeds=2, folds=3, budget_seconds=1_000, options=QUICK, clock=clock, started=0.0)


def test_a_second_call_goes_on_where_the_budget_ended(tmp_path):
    out = tmp_path / "fits.jsonl"
    some = {"methods": NETWORKS[:5], "seeds": 2, "folds": 3, "options": QUICK, "out": out}
    first = compare(wine(), **some, budget_seconds=175, clock=StepClock())
    kept = out.read_text()
    told = []
    second = compare(wine(), **some, budget_seconds=1e6, clock=StepClock(), progress=lambda fit, *_: told.append(fit))
    assert first.left_out or first.rounds < 6
    assert (second.left_out, second.rounds, len(second.records)) == ({}, 6, 30)
    assert out.read_text().startswith(kept)
    assert len(told) == 30 - (kept.count("\n") - 1)  # none of the finished fits is run again


def test_every_method_has_its_turn_before_the_next_fold():
    told = []
    compare(
        wine(),
        methods=("weighted", "cross_entropy"),
        seeds=2,
        folds=2,
        options=FitOptions(epochs=1, width=4, batch_size=64),
        progress=lambda fit, *_: told.append((fit.seed, fit.fold, fit.method)),
    )
    pairs = [(seed, fold) for seed in range(2) for fold in range(2)]
    assert told == [(*pair, name) for pair in pairs for name in ("cross_entropy", "weighted")]


def test_a_round_that_was_not_finished_does_not_count(tmp_path):
    out = tmp_path / "fits.jsonl"
    some = {"methods": ("cross_entropy", "weighted"), "seeds": 1, "folds": 3, "options": QUICK, "out": out}
    compare(wine(), **some)
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:4]))  # a header, a round and a half
    found = compare(wine(), **some, budget_seconds=1e-6, clock=StepClock())
    assert (found.rounds, len(found.records)) == (1, 2)
    assert "1 fit of each method is too few to tell whether a remedy is needed" in found.recommendation
    assert "Give more minutes" in found.recommendation


def test_estimators_of_ones_own_are_compared_with_the_others(tmp_path):
    methods = {
        "logistic": LogisticRegression(class_weight="balanced", max_iter=1000),
        "forest": make_pipeline(StandardScaler(), RandomForestClassifier(10)),
        "cross_entropy": None,
    }
    some = {"seeds": 1, "folds": 3, "options": QUICK, "out": tmp_path / "fits.jsonl"}
    found = compare(cancer(), methods=methods, **some)
    assert {place.method for place in found.ranking.places} == set(methods)
    assert found.ranking.baseline == "cross_entropy"
    scores = {name: [r["scores"] for r in found.records if r["method"] == name] for name in methods}
    assert all(each["balanced_accuracy"] > 0.6 and "calibration" in each for each in scores["forest"])
    told = []
    limited = compare(
        cancer(),
        methods=methods | {"naive": GaussianNB()},
        **some,
        budget_seconds=1e6,
        clock=StepClock(),
        progress=lambda fit, *_: told.append(fit.method),
    )
    assert told == ["naive"] * 3  # the others' fits are kept
    assert limited.rounds == 3
    with pytest.raises(InvalidInputError, match=r"data method logistic = .* must not be mixed"):
        compare(cancer(), methods=methods | {"logistic": LogisticRegression()}, **some)


def test_an_estimator_that_the_data_do_not_suit_is_named_with_the_reason():
    low = Samples(-wine().x, wine().y)
    found = compare(low, methods={"counts": MultinomialNB(), "normal": GaussianNB()}, seeds=1, folds=2, options=QUICK)
    assert [place.method for place in found.ranking.places] == ["normal"]
    assert found.ranking.cannot_run["counts"].startswith("counts failed (ValueError: Negative values in data")


def test_a_method_may_be_added_to_the_table(monkeypatch):
    def build(seed, hyperparameters, options):  # noqa: ARG001
        return make_pipeline(StandardScaler(), LogisticRegression(random_state=seed, **hyperparameters))

    monkeypatch.setitem(METHODS, "logistic", Method("logistic regression", "own", build, ({}, {"C": 1e-9})))
    assert "logistic" in default_methods()
    found = compare(wine(), methods=["cross_entropy", "logistic"], seeds=1, folds=2, options=QUICK, tune=True)
    chosen = [record["hyperparameters"] for record in found.records if record["method"] == "logistic"]
    assert chosen == [{}, {}]


def test_the_default_methods_are_no_variants_and_begin_with_the_baseline():
    assert default_methods()[:2] == ("cross_entropy", "uncertainty_margin")
    assert "paper_as_printed" not in default_methods()
    assert {"smote", "vs", "svm_rbf", "arcface", "boosting_prior_shift"} <= set(default_methods()) < set(METHODS)


def test_a_package_that_is_not_installed_is_not_offered(monkeypatch):
    monkeypatch.setitem(METHODS, "lightgbm", replace(METHODS["lightgbm"], package="not_to_be_found"))
    assert "lightgbm" not in default_methods()
    with pytest.raises(InvalidInputError, match="'lightgbm' needs not_to_be_found, which is not installed"):
        compare(wine(), methods=["lightgbm", "boosting"])


def test_what_the_data_do_not_suit_is_not_offered_and_named_once():
    rng = np.random.default_rng(0)
    several = rng.integers(0, 2, (30, 2))
    tables = Samples(rng.normal(size=(30, 3)), several, attributes=("a", "b"))
    notes = []
    chosen = _suited(METHODS, tables, notes)
    assert {"cross_entropy", "random_forest_prior_shift"} <= set(chosen)
    assert not {"smote", "boosting", "svm_linear"} & set(chosen)
    assert notes.pop().startswith("Not compared (it takes one label per sample, not several): gradient boosting, ")
    images = Samples(np.zeros((4, 3, 64, 64), dtype=np.uint8), np.arange(4) % 2)
    chosen = _suited(METHODS, images, notes)
    assert {"cross_entropy", "svm_linear", "smote"} <= set(chosen)
    assert not any(method.family == "table" for method in chosen.values())
    assert "too large to be columns" in notes.pop()
    assert (_suited(METHODS, wine(), notes), notes) == (METHODS, [])


def test_doing_nothing_is_a_rival(tmp_path):
    """Classes that any method tells apart: plain boosting is as good as the best."""
    rng = np.random.default_rng(0)
    y = np.repeat(["common", "rare"], [90, 30])
    samples = Samples(rng.normal(size=(120, 2)) + 20.0 * (y == "rare")[:, None], y)
    methods = ("logistic_regression", "logistic_regression_balanced", "extra_trees_prior_shift", "svm_linear")
    found = compare(samples, methods=methods, seeds=1, folds=3, out=tmp_path / "fits.jsonl")
    assert found.verdict == "No remedy is needed: plain logistic regression is the best method."
    assert found.recommendation.startswith(found.verdict)
    assert found.ranking.baseline == "logistic_regression"
    means = found.means("extra_trees_prior_shift")
    assert means["macro_average_precision"] == means["balanced_accuracy"] == means["f1"] == 1.0
    assert means["log_loss"] < 0.1
    assert means["seconds"] > 0
    assert found.means("svm_linear")["log_loss"] is None


def test_a_file_of_results_knows_the_version_of_a_package(tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    some = {"methods": ("lightgbm", "logistic_regression"), "seeds": 1, "folds": 2, "out": tmp_path / "fits.jsonl"}
    compare(wine(), **some)
    monkeypatch.setattr("equipoise.app.compare.method.package_version", lambda package: f"{package} 0.0.1")
    with pytest.raises(InvalidInputError, match=r"data method lightgbm = .*now it is 'lightgbm 0\.0\.1'"):
        compare(wine(), **some)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"methods": ("magic",)}, "methods must be some of cross_entropy.*got 'magic'"),
        ({"methods": ("boostin",)}, r"got 'boostin'; did you mean 'boosting'\?"),
        ({"methods": ()}, "got none"),
        ({"methods": {"focal": GaussianNB()}}, "a method 'focal' exists already"),
        ({"methods": {"mine": 3}}, "'mine' must be a scikit-learn estimator, got int"),
        ({"methods": {"mine": GaussianNB(), "magic": None}}, "got 'magic'"),
        ({"methods": {"mine": FunctionTransformer(lambda x: x)}}, "'mine' must be a scikit-learn estimator"),
        (
            {"methods": {"mine": make_pipeline(FunctionTransformer(lambda x: x), GaussianNB())}, "jobs": 2},
            "'mine' cannot be sent to other processes .*define it in a module",
        ),
        ({"seeds": 0}, "seeds must be 1 or more"),
        ({"budget_seconds": 0}, "the budget above 0"),
        ({"folds": 1}, "folds must be 2 or more, got 1"),
    ],
)
def test_wrong_options_are_told_at_once(wrong, says):
    with pytest.raises(InvalidInputError, match=says):
        compare(wine(), **wrong)


def test_the_checksum_sees_values_labels_groups_and_names():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    y = np.array([0, 1])
    seen = [
        Samples(frame, y).checksum(),
        Samples(frame, y[::-1]).checksum(),
        Samples(frame, y, groups=np.array(["g", "h"])).checksum(),
        Samples(frame, y, partition=np.array(["train", "test"])).checksum(),
        Samples(frame.rename(columns={"a": "c"}), y).checksum(),
        Samples(frame.assign(a=[1.0, 3.0]), y).checksum(),
        Samples(np.array([[1.0], [2.0]]), y).checksum(),
        Samples(np.array([[2.0], [1.0]]), y).checksum(),
    ]
    assert len(set(seen)) == len(seen)
    assert Samples(frame.copy(), y.copy()).checksum() == seen[0]
