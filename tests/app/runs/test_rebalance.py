"""Predictions of a model that lives elsewhere, undistorted, calibrated and balanced."""

import json
from html import unescape

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.metrics import balanced_accuracy_score

from equipoise import BalancedClassifier
from equipoise.app.report.sections.verdict import verdict
from equipoise.app.runs.decision_file import Decision
from equipoise.app.runs.given_predictions import read_labelled
from equipoise.app.runs.rebalance import CrossFitted, apply_decision, rebalance
from equipoise.errors import InvalidInputError

RARE = 0.05


def gaussian(rows=4000, *, shift=2.5, scale=1.6, seed=0):
    """x ~ N(±1, 1), 5 % of it around +1; its true logit, scaled and shifted as class weights do."""
    draws = np.random.default_rng(seed)
    y = (draws.random(rows) < RARE).astype(int)
    x = draws.normal(size=rows) + 2 * y - 1
    return x, y, expit(scale * (2 * x + np.log(RARE / (1 - RARE))) + shift)


def three_classes(rows=1500, seed=0):
    """Logits of three classes, unequally common, under a known distortion."""
    draws = np.random.default_rng(seed)
    y = draws.choice(3, rows, p=[0.75, 0.2, 0.05])
    x = draws.normal(size=(rows, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    z = -0.5 * ((x[:, None] - np.array([[0, 0], [2, 0], [0, 2]])) ** 2).sum(-1) + np.log([0.75, 0.2, 0.05])
    return y, softmax(1.5 * z + np.array([0, 0.5, 2.5]), -1)


def written(folder, frame, name="predictions.csv"):
    path = folder / name
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of ``rebalance``, made once from three named classes."""
    folder = tmp_path_factory.mktemp("rebalance")
    y, p = three_classes()
    frame = pd.DataFrame(p, columns=["p_cat", "p_dog", "p_owl"]).assign(label=np.array(["cat", "dog", "owl"])[y])
    frame.insert(0, "animal_id", [f"{row:05d}" for row in range(len(frame))])
    source = written(folder, frame)
    return rebalance(source, folder / "out", target="label"), source, p, y


def applied(decision, source, out, **options):
    told = []
    found = apply_decision(decision, source, out, kind="csv", tell=told.append, **options)
    return pd.read_csv(out, dtype={"animal_id": str}), found, told


def test_a_known_distortion_is_undone(tmp_path):
    x, y, p = gaussian(shift=4.0)
    source = written(tmp_path, pd.DataFrame({"p_0": 1 - p, "p_1": p, "y": y}))
    found = rebalance(source, tmp_path / "out")
    answers = pd.read_csv(tmp_path / "out/answers.csv")
    deviation = np.sqrt((answers["p_1"] * (1 - answers["p_1"])).sum()) / len(y)
    assert abs(answers["p_1"].mean() - y.mean()) < 2 * deviation
    assert abs(p.mean() - y.mean()) > 20 * deviation
    best = expit(2 * x + np.log(RARE / (1 - RARE)))  # the true probability
    of_truth = np.where(y == 1, best, 1 - best)
    assert found.after.calibration.log_loss < -np.log(of_truth).mean() + 0.005
    assert found.before.calibration.log_loss > found.after.calibration.log_loss + 0.1
    assert found.after.calibration.mean_class_ece < found.before.calibration.mean_class_ece / 5


@pytest.mark.parametrize("shift", [-4.0, 8.0])
def test_balanced_accuracy_rises_to_that_of_the_bayes_rule(shift):
    x, y, p = gaussian(shift=shift, seed=1)
    found = CrossFitted.of(np.stack((1 - p, p), 1), y)
    bayes = balanced_accuracy_score(y, x > 0)  # if both were equally common
    assert balanced_accuracy_score(y, found.predicted) > bayes - 0.015
    assert balanced_accuracy_score(y, p > 0.5) < bayes - 0.05


def test_no_row_is_answered_by_a_correction_that_has_seen_it(monkeypatch):
    _, y, p = gaussian(400)
    fit, asked = BalancedClassifier.from_predictions, []

    def watched(given, target, **options):
        fitted = fit(given, target, **options)
        predict = fitted.predict

        def answer(rows, **more):
            asked.append((given[:, 1], rows[:, 1]))
            return predict(rows, **more)

        monkeypatch.setattr(fitted, "predict", answer)
        return fitted

    monkeypatch.setattr(BalancedClassifier, "from_predictions", watched)
    monkeypatch.setattr("equipoise.app.runs.rebalance.FOLDS", 10)
    found = CrossFitted.of(np.stack((1 - p, p), 1), y)
    assert len(asked) == found.folds == 10
    assert sorted(np.concatenate([own for _, own in asked])) == sorted(p)
    assert [set(others) & set(own) for others, own in asked] == [set()] * 10


def test_applied_to_the_same_rows_it_answers_as_the_estimator(made, tmp_path):
    found, source, p, y = made
    fitted = BalancedClassifier.from_predictions(p, y, random_state=0)
    names = np.array(["cat", "dog", "owl"])
    answers, counts, _ = applied(found.decision, source, tmp_path / "a.csv", abstain=0.1)
    assert counts.samples == len(y)
    assert list(answers) == [
        *("animal_id", "class", "rule", "p_cat", "p_dog", "p_owl", "uncertainty", "human", "set", "abstain")
    ]
    np.testing.assert_array_equal(answers["class"], names[fitted.predict(p)])
    np.testing.assert_allclose(answers[["p_cat", "p_dog", "p_owl"]], fitted.predict_proba(p), rtol=1e-6)
    np.testing.assert_allclose(answers["uncertainty"], fitted.uncertainty(p), rtol=1e-6)
    sets = fitted.prediction_sets(p, 0.9)
    assert answers["set"].tolist() == ["|".join(names[row]) for row in sets]
    assert answers["animal_id"][7] == "00007"


def test_the_file_keeps_every_bit(made, tmp_path):
    found, _, p, _ = made
    read = Decision.load(found.folder / "decision.json")
    before, after = found.decision, read
    assert (after.classes, after.columns) == (before.classes, before.columns)
    np.testing.assert_array_equal(after.logits(p), before.logits(p))
    for name, tensor in before.calibrated.tensors().items():
        np.testing.assert_array_equal(after.calibrated.tensors()[name], tensor, err_msg=name)
    read.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (found.folder / "decision.json").read_bytes()


def test_the_answers_given_are_those_of_the_report(made):
    found, _, _, y = made
    answers = pd.read_csv(found.folder / "answers.csv")
    recalls = [np.mean(answers["class"][y == place] == name) for place, name in enumerate(("cat", "dog", "owl"))]
    assert np.mean(recalls) == pytest.approx(found.after.balanced_accuracy)
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    assert f"{found.after.balanced_accuracy:.1%}" in page
    assert f"{found.before.balanced_accuracy:.1%}" in page
    for place, name in enumerate(("cat", "dog", "owl")):
        covered = answers["set"][y == place].str.split("|").map(lambda own, name=name: name in own).mean()
        assert covered > 0.84  # 90 % in expectation; of the 75 owls with a deviation of 3.5 points
    assert 0.05 < answers["human"].mean() < 0.15


def test_the_verdict_says_what_the_model_is_worth_and_what_rebalancing_changed(made):
    found, _, _, _ = made
    judged = verdict(found.run)
    assert "the rare class owl" in judged.headline
    before, after = (each.recall.each[2] for each in (found.before, found.after))
    assert f"recall {before:.1%} before, {after:.1%} after" in judged.change[0]
    assert judged.change[-1].endswith("the change comes from the correction and the decision alone.")
    page = unescape((found.folder / "report.html").read_text())
    assert judged.headline in page
    assert "What rebalancing changed" in page
    advice = " ".join(judged.next)
    assert "see Decide" in advice
    assert ">Decide</a>" in page
    assert "equipoise predict" not in advice


def test_a_model_that_ranks_at_random_is_called_no_better_than_guessing(tmp_path):
    rows = np.arange(600)
    frame = pd.DataFrame({"p_b": (rows + 0.5) / 600, "label": np.where(rows % 10 == 5, "b", "a")})
    found = rebalance(written(tmp_path, frame), tmp_path / "out", target="label")
    assert verdict(found.run).headline.startswith("No better than guessing")


def test_columns_in_another_order_and_beside_others_give_the_same_answers(made, tmp_path):
    found, source, _, _ = made
    frame = pd.read_csv(source, dtype={"animal_id": str})
    other = written(tmp_path, frame[["p_owl", "label", "p_cat", "animal_id", "p_dog"]].assign(age=1), "other.csv")
    renamed = frame.rename(columns={"p_cat": "a", "p_dog": "b", "p_owl": "c"}).drop(columns="label")
    first, *_ = applied(found.decision, source, tmp_path / "1.csv")
    second, *_ = applied(found.decision, other, tmp_path / "2.csv")
    third, *_ = applied(found.decision, written(tmp_path, renamed), tmp_path / "3.csv", columns="a,b,c")
    fourth, *_ = applied(found.decision, written(tmp_path, renamed), tmp_path / "4.csv", columns="owl=c,cat=a,dog=b")
    for answers in (second, third, fourth):
        pd.testing.assert_frame_equal(answers, first)


def test_parquet_is_read_as_csv_is(made, tmp_path):
    found, source, _, _ = made
    frame = pd.read_csv(source, dtype={"animal_id": str})
    frame.to_parquet(tmp_path / "new.parquet")
    first, *_ = applied(found.decision, source, tmp_path / "1.csv")
    second, *_ = applied(found.decision, str(tmp_path / "new.parquet"), tmp_path / "2.csv")
    pd.testing.assert_frame_equal(second, first)


def test_a_class_prior_moves_answers(made, tmp_path):
    found, source, p, y = made
    fitted = BalancedClassifier.from_predictions(p, y, random_state=0)
    answers, *_ = applied(found.decision, source, tmp_path / "1.csv", prior="cat=0.1,dog=0.1,owl=0.8")
    want = fitted.predict_proba(p, target_prior=[0.1, 0.1, 0.8])
    np.testing.assert_allclose(answers[["p_cat", "p_dog", "p_owl"]], want, rtol=1e-6)
    estimated, *_ = applied(found.decision, source, tmp_path / "2.csv", prior="estimate")
    np.testing.assert_allclose(estimated["p_owl"], fitted.predict_proba(p, fitted.estimate_prior(p))[:, 2], rtol=1e-5)


def test_a_row_without_a_probability_has_no_class(made, tmp_path):
    found, source, _, _ = made
    frame = pd.read_csv(source).iloc[:5]
    frame.loc[2, "p_dog"] = np.nan
    answers, counts, told = applied(found.decision, written(tmp_path, frame), tmp_path / "a.csv", abstain=0.1)
    assert (counts.samples, counts.broken) == (5, 1)
    assert answers["class"].isna().tolist() == [False, False, True, False, False]
    assert answers["human"][2]
    assert told[0] == "1 of 5 rows lack a probability and have no class; a human should look."


@pytest.mark.parametrize(
    ("columns", "labels", "taken"),
    [
        (["p_no", "p_yes"], ["no", "yes"], ("p_no", "p_yes")),
        (["prob_yes", "prob_no"], ["no", "yes"], ("prob_no", "prob_yes")),
        (["yes", "no"], ["no", "yes"], ("no", "yes")),
        (["probability_0", "probability_1"], [0, 1], ("probability_0", "probability_1")),
        (["p_true", "p_false"], [False, True], ("p_false", "p_true")),
        (["score"], [0, 1], (None, "score")),
        (["p"], ["ok", "fraud"], ("p", None)),  # rows of fraud, the second here, have the higher values
        (["p_fraud"], ["ok", "fraud"], ("p_fraud", None)),
    ],
)
def test_columns_are_found_by_their_names(tmp_path, columns, labels, taken):
    _, y, p = gaussian(400)
    values = dict.fromkeys(columns, p)
    if len(columns) == 2:
        values = {name: p if name.lower().endswith(str(labels[1]).lower()) else 1 - p for name in columns}
    frame = pd.DataFrame(values).assign(truth=np.array(labels)[y], age=3)
    found = read_labelled(written(tmp_path, frame), target="truth")
    assert found.columns == taken
    names = np.array(found.classes)
    assert (names[found.target] == np.array(labels)[y].astype(str)).all()
    np.testing.assert_allclose(found.probabilities[:, found.classes.index(str(labels[1]))], p)


def assert_refused(tmp_path, frame, match, **options):
    with pytest.raises(InvalidInputError, match=match):
        rebalance(written(tmp_path, frame), tmp_path / "out", target="y", **options)
    assert not (tmp_path / "out").exists()


def two(rows=400):
    _, y, p = gaussian(rows)
    return pd.DataFrame({"p_0": 1 - p, "p_1": p, "y": y})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda frame: frame.assign(p_0=100 * frame["p_0"], p_1=100 * frame["p_1"]), "look like percentages; divide"),
        (lambda frame: frame.drop(columns="p_0").assign(p_1=100 * frame["p_1"]), "look like percentages; divide"),
        (lambda frame: frame.assign(p_0=0.3, p_1=0.3), "row 0 of .* add up to 0.6 instead of 1"),
        (lambda frame: frame.assign(p_1=np.log(frame["p_1"])), "holds -.* in a column of probabilities"),
        (lambda frame: frame.assign(p_1="high"), "holds 'high' in the column 'p_1'"),
        (lambda frame: frame.assign(p_1=frame["p_1"].where(frame.index != 7)), "row 7 of .* lacks a probability"),
        (lambda frame: frame.assign(y=np.arange(len(frame)) % 3), "rows with the label '2' and no column 'p_2'"),
        (lambda frame: frame.assign(p_2=0.0), "the column 'p_2' and no row with the label '2'"),
        (lambda frame: frame.rename(columns={"p_0": "a", "p_1": "b"}), "no column of probabilities named p_0"),
        (lambda frame: frame.assign(y=0), "every row of .* has the label 0; at least two classes"),
        (lambda frame: frame.assign(y=np.nan), "no value in the target column 'y'"),
        (lambda frame: frame.iloc[:20], "has 20 labelled rows, at least 50 are needed"),
        (lambda frame: frame.assign(y=[1] + [0] * (len(frame) - 1)), "has one row with the label 1, each class"),
        (lambda frame: frame.rename(columns={"y": "z"}), "has no column 'y'"),
        (lambda frame: frame.iloc[:0], "has no rows"),
    ],
)
def test_what_is_no_table_of_predictions_is_refused_in_a_sentence(tmp_path, change, match):
    assert_refused(tmp_path, change(two()), match)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ("p_0,q", "has no column 'q'"),
        ("p_0,p_0", "must name 2 different columns"),
        ("no=p_0,1=p_1", "class=column for each of the classes '0', '1'"),
        ("p_0,1=p_1", "class=column for each of the classes"),
        ("", "must name 2 different columns"),
    ],
)
def test_wrong_columns_are_refused_in_a_sentence(tmp_path, columns, match):
    assert_refused(tmp_path, two(), match, columns=columns)


def test_rows_without_a_label_are_left_out_and_said(tmp_path):
    frame = two().astype({"y": object})
    frame.loc[[0, 5], "y"] = None
    notes = []

    class Watcher:
        note = staticmethod(notes.append)

    rebalance(written(tmp_path, frame), tmp_path / "out", watcher=Watcher())
    assert notes == ["2 of 400 rows left out: no value in the column 'y'."]
    assert pd.read_csv(tmp_path / "out/answers.csv")["row"].tolist()[:5] == [1, 2, 3, 4, 6]


def test_a_folder_with_something_in_it_is_refused(made):
    found, source, _, _ = made
    with pytest.raises(InvalidInputError, match="exists and is not empty; choose another folder"):
        rebalance(source, found.folder)


HOSTILE = [
    (lambda record: record.update(format=2), "has format 2, this version reads 1"),
    (lambda record: record.pop("aimed"), "no valid field 'aimed': it is missing"),
    (lambda record: record["classes"].pop(), "has 2 classes and 3 entries in 'columns'"),
    (lambda record: record["classes"].__setitem__(0, "dog"), "must name every class once"),
    (lambda record: record["columns"].__setitem__(0, "p_dog"), "must name every class once"),
    (lambda record: record.update(columns=[None, None, "p"]), "a column of its own for all or all but one"),
    (lambda record: record["prior"].__setitem__(0, float("nan")), "not finite|no valid field 'prior"),
    (lambda record: record["prior"].__setitem__(0, 0.9), "an impossible prior or impossible uncertainties"),
    (lambda record: record["aimed"].__setitem__(0, 0.0), "no valid field 'aimed"),
    (lambda record: record["scaling"]["scale"].__setitem__(0, 1e300), "no valid field 'scaling.scale"),
    (lambda record: record["undistort"]["bias"].__setitem__(0, float("inf")), "no valid field 'undistort.bias"),
    (lambda record: record["class_uncertainty"].__setitem__(0, -1.0), "no valid field 'class_uncertainty"),
    (lambda record: record["margins"].__setitem__(0, 1e4), "no valid field 'margins"),
    (lambda record: record["margins"].pop(), "has 3 classes and 2 entries in 'margins'"),
    (lambda record: record["uncertainty"].reverse(), "an impossible prior or impossible uncertainties"),
    (lambda record: record["conformal"][0].update(rows=10**9), "impossible scores"),
    (lambda record: record["conformal"][0]["scores"].reverse(), "impossible scores"),
    (lambda record: record["conformal"][2]["scores"].pop(), "impossible scores"),
    (lambda record: record["conformal"][2].update(scores=None), "no valid field 'conformal"),
]


@pytest.mark.parametrize(("change", "match"), HOSTILE)
def test_a_hostile_decision_is_refused_in_a_sentence(made, tmp_path, change, match):
    found, *_ = made
    record = json.loads((found.folder / "decision.json").read_text())
    change(record)
    (tmp_path / "decision.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match=match):
        Decision.load(tmp_path / "decision.json")


def test_predictions_that_lack_a_column_of_the_decision_are_refused(made, tmp_path):
    found, source, _, _ = made
    short = written(tmp_path, pd.read_csv(source).drop(columns="p_dog"))
    with pytest.raises(InvalidInputError, match=r"has no column 'p_dog', from which .* probability of 'dog'"):
        applied(found.decision, short, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_certain_predictions_are_no_trouble(tmp_path):
    """A tree says 0 and 1."""
    _, y, p = gaussian(600)
    hard = (p > 0.9).astype(float)
    found = rebalance(written(tmp_path, pd.DataFrame({"p_0": 1 - hard, "p_1": hard, "y": y})), tmp_path / "out")
    assert np.isfinite(found.after.calibration.log_loss)
    assert found.after.calibration.log_loss < found.before.calibration.log_loss
    assert np.isfinite(log_softmax(found.decision.logits(np.stack((1 - hard, hard), 1)).numpy(), -1)).all()
