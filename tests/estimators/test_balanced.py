"""BalancedClassifier: any classifier in, honest and balanced answers out."""

import json
import shutil
import threading

import numpy as np
import pandas as pd
import pytest
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import Pipeline as SamplingPipeline
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.estimators import cross_fitted, families
from equipoise.estimators.families import MOST_BOOSTED, as_estimators

OTHER_FOLDS = "copies of a row fall into other folds than a row of their weight"


def clouds(rows=1200, rare=0.08, seed=0, apart=1.5):
    """Two Gaussian clouds whose best balanced decision is x0 > apart / 2."""
    rng = np.random.RandomState(seed)
    y = (rng.rand(rows) < rare).astype(int)
    x = rng.randn(rows, 3)
    x[:, 0] += apart * y
    return x, y


def truth(x, rare=0.08, apart=1.5):
    odds = rare / (1 - rare) * np.exp(apart * x[:, 0] - apart**2 / 2)
    return odds / (1 + odds)


@parametrize_with_checks(
    [BalancedClassifier(GaussianNB(), members=2, probabilities="balanced", random_state=0)],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": OTHER_FOLDS},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [BalancedClassifier(members=2, random_state=0)],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": OTHER_FOLDS},
)
def test_scikit_learns_own_checks_of_the_default(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def default():
    return BalancedClassifier(random_state=0).fit(*clouds())


def test_the_default_finds_the_rare_class(default):
    new, labels = clouds(4000, seed=1)
    best = balanced_accuracy_score(labels, (new[:, 0] > 0.75).astype(int))
    assert balanced_accuracy_score(labels, default.predict(new)) > best - 0.03
    assert default.class_uncertainty_[1] > default.class_uncertainty_[0]
    assert default.weights_.shape == (4,)
    assert default.weights_.sum() == pytest.approx(1)


def digits_by_class():
    x, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")
    return x[order], y[order]


def test_a_class_that_lies_in_one_fold_keeps_its_room():
    """Members that have not seen a class give it 0; that teaches nothing about it."""
    x, y = digits_by_class()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    groups = np.arange(len(y)) % 7
    groups[y == 3] = 3  # one hospital alone
    with pytest.warns(UserWarning, match="all rows of 3 lie in one fold"):
        fitted = BalancedClassifier(model, random_state=0).fit(x[::2], y[::2], groups=groups[::2])
    assert balanced_accuracy_score(y[1::2], fitted.predict(x[1::2])) > 0.94
    assert fitted.predict_proba(x[1::2])[:, 3].mean() == pytest.approx(np.mean(y == 3), abs=0.02)
    assert np.isnan(fitted.out_of_fold_[y[::2] == 3]).all()
    assert fitted.prediction_sets(x[1::2])[:, 3].all()


def test_folds_that_are_the_classes_are_refused():
    x, y = digits_by_class()
    with pytest.raises(InvalidInputError, match=r"each class has all of its rows in one fold.*other groups"):
        BalancedClassifier(GaussianNB(), random_state=0).fit(x, y, groups=y)


def test_a_stack_is_a_classifier_though_it_has_no_probabilities_before_its_fit():
    x, y = clouds(300, rare=0.3)
    stack = StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], cv=2)
    fitted = BalancedClassifier(stack, members=2, random_state=0).fit(x, y)
    assert balanced_accuracy_score(y, fitted.predict(x)) > 0.7


def test_options_and_attributes_are_checked_where_they_are_given():
    x, y = clouds(100, rare=0.3)
    with pytest.raises(InvalidInputError, match="probabilities must be one of natural, balanced, got 'balance'"):
        BalancedClassifier(GaussianNB(), probabilities="balance").fit(x, y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        BalancedClassifier().margins_  # noqa: B018
    with pytest.raises(InvalidInputError, match="add up to 1 in each row, so they are of one label"):
        BalancedClassifier.from_predictions(np.full((4, 2), 0.5), np.eye(4)[:, :2])
    with pytest.raises(InvalidInputError, match="finite numbers, got others in row 1"):
        BalancedClassifier.from_predictions([0.5, np.nan, 0.5, 0.5], [0, 1, 0, 1])
    fitted = BalancedClassifier(GaussianNB(), members=2, random_state=0).fit(x, y)
    with pytest.warns(UserWarning, match="lack the class 0, so every set will contain it"):
        fitted.calibrate(x[y == 1], y[y == 1])


DISTORTED = {
    "class weights": LogisticRegression(class_weight="balanced"),
    "SMOTE": SamplingPipeline([("smote", SMOTE(random_state=0)), ("model", LogisticRegression())]),
    "forest": RandomForestClassifier(30, min_samples_leaf=5, class_weight="balanced", random_state=0),
}


@pytest.mark.parametrize("name", DISTORTED)
def test_distortions_are_undone(name):
    x, y = clouds(4000)
    new, labels = clouds(8000, seed=1)
    model = DISTORTED[name]
    fitted = BalancedClassifier(model, members=3, random_state=0).fit(x, y)
    own = model.fit(x, y).predict_proba(new)
    found = fitted.predict_proba(new)
    assert own[:, 1].mean() > 2 * labels.mean()  # what is to be undone
    assert found[:, 1].mean() == pytest.approx(y.mean(), abs=0.012)
    assert log_loss(labels, found) < log_loss(labels, own) - 0.05
    assert np.abs(found[:, 1] - truth(new)).mean() < 0.04


def test_balanced_lightgbm_is_undone():
    lightgbm = pytest.importorskip("lightgbm")
    x, y = clouds(4000)
    new, _ = clouds(8000, seed=1)
    model = lightgbm.LGBMClassifier(n_estimators=20, class_weight="balanced", n_jobs=1, verbose=-1)
    fitted = BalancedClassifier(model, members=3, random_state=0).fit(x, y)
    assert fitted.predict_proba(new)[:, 1].mean() == pytest.approx(y.mean(), abs=0.012)


def test_out_of_fold_predictions_have_not_seen_their_row():
    """A full tree knows every training row; of random labels it can know nothing out of fold."""
    rng = np.random.RandomState(0)
    x, y = rng.randn(400, 5), rng.randint(0, 2, 400)
    fitted = BalancedClassifier(DecisionTreeClassifier(random_state=0), random_state=0).fit(x, y)
    assert 0.4 < (fitted.out_of_fold_.argmax(1) == y).mean() < 0.6
    assert np.abs(fitted.out_of_fold_[:, 1] - 0.5).mean() < 0.1  # and says so


def test_groups_stay_on_one_side():
    rng = np.random.RandomState(0)
    group = np.repeat(np.arange(60), 5)
    x, y = rng.randn(60, 4)[group], rng.randint(0, 2, 60)[group]
    tree = DecisionTreeClassifier(random_state=0)
    leaked = BalancedClassifier(tree, random_state=0).fit(x, y)
    kept = BalancedClassifier(tree, random_state=0).fit(x, y, groups=group)
    splitter = BalancedClassifier(tree, cv=GroupKFold(4), random_state=0).fit(x, y, groups=group)
    assert (leaked.out_of_fold_.argmax(1) == y).mean() > 0.95
    assert (kept.out_of_fold_.argmax(1) == y).mean() < 0.7
    assert (splitter.out_of_fold_.argmax(1) == y).mean() < 0.7
    assert len(splitter.members_[0]) == 4


def test_a_trained_model_and_its_predictions_give_the_same_answers():
    x, y = clouds(3000)
    model = LogisticRegression(class_weight="balanced").fit(x[:1500], y[:1500])
    frozen = BalancedClassifier(FrozenEstimator(model)).fit(x[1500:], y[1500:])
    given = BalancedClassifier.from_predictions(model.predict_proba(x[1500:]), y[1500:])
    second = BalancedClassifier.from_predictions(model.predict_proba(x[1500:])[:, 1], y[1500:])
    new, _ = clouds(500, seed=3)
    p = model.predict_proba(new)
    np.testing.assert_array_equal(frozen.predict(new), given.predict(p))
    np.testing.assert_allclose(frozen.predict_proba(new), second.predict_proba(p[:, 1].reshape(-1, 1)))
    assert np.array_equal(model.predict_proba(new), p)  # it is not fitted again


def test_names_of_classes_may_come_in_any_order():
    x, y = clouds(800)
    names = np.array(["zero", "a one"])[y]
    model = LogisticRegression().fit(x, names)
    p = model.predict_proba(x)[:, ::-1]
    given = BalancedClassifier.from_predictions(p, names, classes=model.classes_[::-1])
    right = BalancedClassifier.from_predictions(p[:, ::-1], names)
    np.testing.assert_array_equal(given.predict(p), right.predict(p[:, ::-1]))


def test_named_columns_of_predictions_may_come_in_any_order():
    x, y = clouds(800)
    names = np.array(["no", "yes"])[y]
    p = pd.DataFrame(LogisticRegression().fit(x, names).predict_proba(x), columns=["no", "yes"])
    turned = BalancedClassifier.from_predictions(p[["yes", "no"]], names)
    right = BalancedClassifier.from_predictions(p, names)
    np.testing.assert_array_equal(turned.predict(p), right.predict(p.to_numpy()))


def test_classes_of_one_or_two_rows_and_folds_without_them():
    x, y = clouds(300)
    y = y.copy()
    y[0], y[1:3] = 7, 9
    with pytest.warns(UserWarning, match="all rows of 7 lie in one fold"):
        fitted = BalancedClassifier(RandomForestClassifier(10, random_state=0), random_state=0).fit(x, y)
    assert fitted.classes_.tolist() == [0, 1, 7, 9]
    assert fitted.margins_[2] == pytest.approx(fitted.margins_[1:].max())
    assert np.isfinite(fitted.predict_proba(x)).all()
    assert fitted.prediction_sets(x, 0.9)[:, 2:].all()  # too few rows to rule them out


@pytest.mark.slow
def test_two_hundred_classes():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(200), 4)
    x = np.eye(200)[y] @ rng.randn(200, 8) * 3 + rng.randn(800, 8) * 0.3
    fitted = BalancedClassifier(RandomForestClassifier(10, random_state=0), members=2, random_state=0).fit(x, y)
    assert fitted.predict_proba(x[:5]).shape == (5, 200)
    assert (fitted.predict(x) == y).mean() > 0.9


def test_a_fold_with_a_single_class_is_no_obstacle():
    x, y = np.arange(6.0).reshape(-1, 1), np.array([0, 0, 0, 0, 0, 1])
    with pytest.warns(UserWarning, match="all rows of 1 lie in one fold"):
        fitted = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(x, y)
    assert fitted.predict(x).shape == (6,)


def test_several_labels():
    x, y = clouds(600)
    both = np.stack((y, x[:, 1] > 1), axis=1).astype(int)
    fitted = BalancedClassifier("forest", members=3, random_state=0).fit(x, both)
    new, _ = clouds(1000, seed=2)
    wanted = (new[:, 1] > 1).astype(int)
    assert fitted.predict(new).shape == (1000, 2)
    assert balanced_accuracy_score(wanted, fitted.predict(new)[:, 1]) > 0.9
    assert fitted.predict_proba(new).shape == (1000, 2)
    assert fitted.margins_.shape == (2, 2)
    assert fitted.prediction_sets(new).shape == (1000, 2, 2)
    assert fitted.uncertainty(new).shape == (1000,)


def two_labels(rows, seed=0):
    x, y = clouds(rows, rare=0.2, seed=seed)
    return x, np.stack((y, x[:, 1] > 1), axis=1).astype(int)


TRAINED = {
    "a list of probabilities": DecisionTreeClassifier(max_depth=4, random_state=0),
    "a matrix of probabilities": OneVsRestClassifier(LogisticRegression(class_weight="balanced")),
    "a chain": ClassifierChain(LogisticRegression()),
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_of_several_labels_is_each_label_by_itself(name, tmp_path):
    x, y = two_labels(600)
    model = clone(TRAINED[name]).fit(x[:300], y[:300])
    found = BalancedClassifier(FrozenEstimator(model)).fit(x[300:], y[300:])
    given = BalancedClassifier.from_predictions(model.predict_proba(x[300:]), y[300:])
    new, _ = two_labels(200, seed=3)
    p = model.predict_proba(new)
    np.testing.assert_array_equal(found.predict_proba(new), given.predict_proba(p))
    assert found.prediction_sets(new).shape == (200, 2, 2)
    assert (found.uncertainty(new, kind="epistemic") == 0).all()
    single = p[1] if isinstance(p, list) else np.stack((1 - p[:, 1], p[:, 1]), 1)
    raw = model.predict_proba(x[300:])
    own = raw[1] if isinstance(raw, list) else np.stack((1 - raw[:, 1], raw[:, 1]), 1)
    alone = BalancedClassifier.from_predictions(own, y[300:, 1])
    np.testing.assert_allclose(found.margins_[1], alone.margins_, atol=0.3)  # the scaling's form is chosen for both
    assert (found.predict(new)[:, 1] == alone.predict(single)).mean() > 0.95
    for kept, rows in ((found, new), (given, p)):
        kept.save(tmp_path / "model")
        np.testing.assert_array_equal(
            BalancedClassifier.load(tmp_path / "model").predict_proba(rows), kept.predict_proba(rows)
        )


def test_columns_of_several_labels_are_found_by_their_names():
    _, y = two_labels(300)
    p = pd.DataFrame(np.random.RandomState(0).rand(300, 2), columns=["ill", "old"])
    truth = pd.DataFrame(y, columns=["ill", "old"])
    turned = BalancedClassifier.from_predictions(p[["old", "ill"]], truth)
    np.testing.assert_array_equal(turned.predict_proba(p[["old", "ill"]]), turned.predict_proba(p.to_numpy()))


def test_a_model_of_several_labels_is_refused_for_one():
    x, y = two_labels(300)
    tree = FrozenEstimator(clone(TRAINED["a list of probabilities"]).fit(x, y))
    with pytest.raises(InvalidInputError, match="gives several labels per row, and y has one"):
        BalancedClassifier(tree).fit(x, y[:, 0])
    rest = FrozenEstimator(OneVsRestClassifier(LogisticRegression()).fit(x, y))
    with pytest.raises(InvalidInputError, match="add up to 1 in each row, and some do not"):
        BalancedClassifier(rest).fit(x, y[:, 0])


def test_the_default_leaves_boosting_out_where_classes_are_many():
    assert [type(each).__name__ for each, _ in as_estimators("auto", 100, MOST_BOOSTED)][-1] == (
        "HistGradientBoostingClassifier"
    )
    few = [type(each) for each, _ in as_estimators("auto", 100, MOST_BOOSTED + 1)]
    assert few == [type(each) for each, _ in as_estimators(["network", "forest", "extra_trees"], 100)]
    assert len(as_estimators("boosting", 100, 1000)) == 1  # asked for by name


def frame(rows=400, seed=0):
    x, y = clouds(rows, rare=0.2, seed=seed)
    town = np.where(y == 1, "Oslo", "Rome").astype(object)
    town[::3] = "Bern"
    table = pd.DataFrame({"size": x[:, 0], "town": town, "grade": pd.Categorical(np.where(x[:, 1] > 0, "a", "b"))})
    table.loc[::7, "size"] = np.nan
    table.loc[::11, "town"] = None
    return table, y


def test_frames_with_text_categories_and_missing_values():
    table, y = frame()
    fitted = BalancedClassifier("forest", members=3, random_state=0).fit(table, y)
    new, labels = frame(seed=1)
    assert balanced_accuracy_score(labels, fitted.predict(new)) > 0.8
    assert list(fitted.feature_names_in_) == ["size", "town", "grade"]


def test_a_pipeline_gets_the_frame_as_it_is():
    table, y = frame()
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town", "grade"]))
    fitted = BalancedClassifier(make_pipeline(columns, LogisticRegression()), members=3, random_state=0).fit(table, y)
    assert fitted.encoder_ is None
    assert fitted.predict(table).shape == (400,)


def test_sample_weights_reach_every_part():
    x, y = clouds(1500)
    weight = np.where(y == 1, 10.0, 1.0)
    fitted = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(x, y, weight)
    wanted = 10 * y.sum() / (10 * y.sum() + (1 - y).sum())
    assert fitted.prior_[1] == pytest.approx(wanted)
    assert fitted.predict_proba(x)[:, 1] @ weight / weight.sum() == pytest.approx(wanted, abs=0.02)
    assert fitted.members_[0][0].predict_proba(x)[:, 1] @ weight / weight.sum() == pytest.approx(wanted, abs=0.05)
    piped = BalancedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), members=3, random_state=0)
    piped.fit(x, y, weight)
    assert piped.members_[0][0].predict_proba(x)[:, 1] @ weight / weight.sum() == pytest.approx(wanted, abs=0.05)


def test_rows_without_weight_are_left_out():
    x, y = clouds(300)
    y = y.copy()
    y[:40] = 5
    fitted = BalancedClassifier(GaussianNB(), random_state=0).fit(x, y, (y != 5).astype(float))
    assert np.isnan(fitted.out_of_fold_[:40]).all()
    assert np.isfinite(fitted.out_of_fold_[40:]).all()
    assert fitted.classes_.tolist() == [0, 1]


def test_large_tables_are_thinned_without_a_change_of_meaning(monkeypatch):
    x, y = clouds(12_000, rare=0.03)
    new, _ = clouds(6000, rare=0.03, seed=1)
    monkeypatch.setattr(families, "MOST_OF_A_MEMBER", 1500)
    monkeypatch.setattr(cross_fitted, "MOST_OUT_OF_FOLD", 2500)
    fitted = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(x, y)
    assert np.isnan(fitted.out_of_fold_[:, 0]).sum() == 12_000 - 2500
    assert not np.isnan(fitted.out_of_fold_[y == 1]).any()  # rare rows are all looked at
    assert fitted.prior_[1] == pytest.approx(y.mean())
    assert fitted.predict_proba(new)[:, 1].mean() == pytest.approx(0.03, abs=0.006)
    assert np.abs(fitted.predict_proba(new)[:, 1] - truth(new, rare=0.03)).mean() < 0.01


def test_thinned_rows_of_uneven_weight_keep_the_prior(monkeypatch, tmp_path):
    x, y = clouds(4000, rare=0.05)
    weight = np.random.RandomState(0).gamma(1.0, 1.0, len(y))
    y[0] = 2  # a class that folds lack
    monkeypatch.setattr(families, "MOST_OF_A_MEMBER", 900)
    monkeypatch.setattr(cross_fitted, "MOST_OUT_OF_FOLD", 1000)
    with pytest.warns(UserWarning, match="all rows of 2 lie in one fold"):
        fitted = BalancedClassifier(GaussianNB(), members=3, random_state=0).fit(x, y, weight)
    assert fitted.prior_[1] == pytest.approx(weight[y == 1].sum() / weight.sum())
    fitted.save(tmp_path)
    np.testing.assert_array_equal(BalancedClassifier.load(tmp_path).predict_proba(x), fitted.predict_proba(x))


def test_trained_models_are_never_thinned(monkeypatch):
    x, y = clouds(3000, rare=0.1)
    p = LogisticRegression().fit(x, y).predict_proba(x)
    whole = BalancedClassifier.from_predictions(p, y).predict_proba(p)
    monkeypatch.setattr(families, "MOST_OF_A_MEMBER", 200)
    np.testing.assert_array_equal(BalancedClassifier.from_predictions(p, y).predict_proba(p), whole)


def test_a_trained_model_must_know_the_labels():
    x, y = clouds(300, rare=0.3)
    model = FrozenEstimator(LogisticRegression().fit(x, y))
    with pytest.raises(
        InvalidInputError, match="y must hold labels that the model was trained on, 0, 1; got 'no', 'yes'"
    ):
        BalancedClassifier(model).fit(x, np.array(["no", "yes"])[y])
    with pytest.raises(InvalidInputError, match="must differ"):
        BalancedClassifier.from_predictions(model.predict_proba(x), y, classes=[1, 1])
    with pytest.raises(InvalidInputError, match="add up to 1 in each row, so they are of one label"):
        BalancedClassifier(model).fit(x, np.stack((y, y), 1))
    with pytest.raises(InvalidInputError, match=r"probability of each label being 1, \(300, 3\), got \(300, 2\)"):
        BalancedClassifier(model).fit(x, np.stack((y, y, y), 1))
    three = LogisticRegression().fit(x, np.where(x[:, 1] > 1, 2, y))
    kept = y != 2
    found = BalancedClassifier(FrozenEstimator(three)).fit(x[kept], y[kept]).predict_proba(x)
    np.testing.assert_allclose(found.sum(1), 1)
    assert found.shape == (300, 2)


def test_folds_given_by_rows_mean_the_rows_given():
    x, y = clouds(300, rare=0.3)
    weight = (np.arange(300) % 3 > 0).astype(float)
    even, odd = np.arange(0, 300, 2), np.arange(1, 300, 2)
    fitted = BalancedClassifier(GaussianNB(), cv=[(even, odd), (odd, even)], random_state=0).fit(x, y, weight)
    alone = GaussianNB().fit(x[even][weight[even] > 0], y[even][weight[even] > 0])
    np.testing.assert_allclose(fitted.members_[0][0].theta_, alone.theta_)
    assert (np.isnan(fitted.out_of_fold_[:, 0]) == (weight == 0)).all()


def test_one_column_and_nullable_columns():
    x, y = clouds(300, rare=0.3)
    fitted = BalancedClassifier("network", members=2, random_state=0).fit(x[:, :1], y)
    assert balanced_accuracy_score(y, fitted.predict(x[:, :1])) > 0.7
    table = pd.DataFrame({"a": pd.array((x[:, 0] * 10).astype(int), dtype="Int64"), "b": x[:, 1]})
    table.loc[3, "a"] = pd.NA
    assert BalancedClassifier(GaussianNB(), members=2, random_state=0).fit(table, y).predict(table).shape == (300,)


def test_a_pipeline_may_fill_in_missing_values_itself():
    x, y = clouds(300, rare=0.3)
    x[::9, 1] = np.nan
    pipe = make_pipeline(SimpleImputer(), LogisticRegression())
    assert BalancedClassifier(pipe, members=2, random_state=0).fit(x, y).predict(x).shape == (300,)


def test_sets_hold_the_true_class_as_often_as_asked_for():
    x, y = clouds(3000, rare=0.1)
    new, labels = clouds(8000, rare=0.1, seed=1)
    fitted = BalancedClassifier("forest", members=3, random_state=0).fit(x, y)
    sets = fitted.prediction_sets(new, level=0.9)
    for label in (0, 1):
        own = labels == label
        assert sets[own, label].mean() > 0.9 - 3 * np.sqrt(0.09 / (y == label).sum() + 0.09 / own.sum())
    masked = fitted.predict(new, abstain=0.1)
    np.testing.assert_array_equal(np.ma.getmaskarray(masked), sets.sum(1) > 1)


def test_uncertainty_is_highest_between_the_classes_and_splits_into_parts():
    x, y = clouds(2000, rare=0.3, apart=3)
    fitted = BalancedClassifier("forest", members=3, random_state=0).fit(x, y)
    at = np.array([[-2.0, 0, 0], [1.5, 0, 0], [5.0, 0, 0]])
    total, epistemic = fitted.uncertainty(at), fitted.uncertainty(at, kind="epistemic")
    assert total[1] > max(total[0], total[2])
    assert (fitted.uncertainty(x, kind="epistemic") <= fitted.uncertainty(x)).all()
    assert (epistemic >= 0).all()
    assert total[1] == pytest.approx(0.5, abs=0.1)


def test_prior_and_calibration_of_new_rows():
    x, y = clouds(3000)
    fitted = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(x, y)
    new, labels = clouds(4000, rare=0.4, seed=2)
    moved = fitted.predict_proba(new, target_prior=[0.6, 0.4])
    assert moved[:, 1].mean() == pytest.approx(0.4, abs=0.03)
    assert fitted.estimate_prior(new)[1] == pytest.approx(0.4, abs=0.05)
    before = log_loss(labels, fitted.predict_proba(new, target_prior=[0.6, 0.4]))
    wrong = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(x, y)
    wrong.blend_.scalings[0].scale[:] = 3.0  # far too sure of itself
    assert log_loss(labels, wrong.predict_proba(new, target_prior=[0.6, 0.4])) > before + 0.1
    wrong.calibrate(new, labels)
    assert log_loss(labels, wrong.predict_proba(new, target_prior=[0.6, 0.4])) == pytest.approx(before, abs=0.02)


def test_it_composes():
    x, y = clouds(500, rare=0.2)
    search = GridSearchCV(BalancedClassifier(GaussianNB(), members=2, random_state=0), {"members": [2, 3]}, cv=2)
    best = search.fit(x, y).best_estimator_
    assert len(best.members_[0]) == search.best_params_["members"]
    blend = BalancedClassifier(LogisticRegression(), members=2, random_state=0)
    nested = GridSearchCV(blend, {"estimator__C": [0.1, 1.0]}, cv=2)
    best = nested.fit(x, y).best_estimator_
    assert nested.best_params_["estimator__C"] == best.members_[0][0].C
    pipe = make_pipeline(StandardScaler(), BalancedClassifier(GaussianNB(), members=2, random_state=0))
    assert cross_val_score(pipe, x, y, cv=2, scoring="balanced_accuracy").mean() > 0.7
    models = [(name, BalancedClassifier(GaussianNB(), probabilities="balanced", random_state=0)) for name in "ab"]
    voted = VotingClassifier(models, voting="soft").fit(x, y)
    assert balanced_accuracy_score(y, voted.predict(x)) > 0.7


@pytest.mark.slow
def test_jobs_change_nothing_and_seeds_do():
    x, y = clouds(300)
    other = BalancedClassifier("forest", members=2, random_state=1).fit(x, y).predict_proba(x)
    one = BalancedClassifier("forest", members=2, random_state=0).fit(x, y).predict_proba(x)
    two = BalancedClassifier("forest", members=2, random_state=0, n_jobs=2).fit(x, y).predict_proba(x)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_any_number_of_threads_may_predict():
    x, y = clouds(400)
    fitted = BalancedClassifier(["network", "forest"], members=2, random_state=0).fit(x, y)
    wanted, found = fitted.predict_proba(x), []
    threads = [threading.Thread(target=lambda: found.append(fitted.predict_proba(x))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 4
    assert all(np.array_equal(each, wanted) for each in found)


def assert_saved(fitted, x, folder):
    fitted.save(folder)
    loaded = BalancedClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))
    np.testing.assert_array_equal(loaded.prediction_sets(x), fitted.prediction_sets(x))
    np.testing.assert_array_equal(loaded.uncertainty(x, kind="epistemic"), fitted.uncertainty(x, kind="epistemic"))
    assert loaded.classes_.tolist() == fitted.classes_.tolist()


@pytest.mark.slow
def test_the_saved_default_answers_the_same(default, tmp_path):
    assert_saved(default, clouds(300, seed=1)[0], tmp_path / "model")


SAVED = {
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), False),
    "several labels": (RandomForestClassifier(10), True),
    "the paper's network": (UncertaintyBalancedClassifier(epochs=3), False),
}


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
@pytest.mark.parametrize("name", SAVED)
def test_saved_models_answer_the_same(name, tmp_path):
    estimator, several = SAVED[name]
    x, y = clouds(300, rare=0.3)
    labels = np.stack((y, 1 - y), 1) if several else np.array(["common", "rare"])[y]
    fitted = BalancedClassifier(estimator, members=2, random_state=0).fit(x, labels)
    assert_saved(fitted, x, tmp_path / "model")


def test_a_saved_frame_model_reads_frames(tmp_path):
    table, y = frame(200)
    fitted = BalancedClassifier("forest", members=2, random_state=0).fit(table, y)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(BalancedClassifier.load(tmp_path).predict(table), fitted.predict(table))


def test_from_predictions_can_be_saved(tmp_path):
    x, y = clouds(600)
    p = LogisticRegression().fit(x, y).predict_proba(x)
    fitted = BalancedClassifier.from_predictions(p, y)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(BalancedClassifier.load(tmp_path).predict(p), fitted.predict(p))


def _damaged(record, change):
    change(record)
    return record


DAMAGE = {
    "another format": (lambda record: record.update(format=9), "has format 9"),
    "a member less": (lambda record: record["members"][0].pop(), "do not fit its classes and folds"),
    "a file elsewhere": (lambda record: record["members"][0][0][0].update(file="../x.skops"), "must lie in the folder"),
    "a class more": (lambda record: record["classes"].append(2), "damaged or of another version"),
    "a wrong type": (lambda record: record.update(multilabel="yes"), "expected true or false"),
    "a share above 1": (lambda record: record["shares"][0].__setitem__(0, [2.0, 1.0]), "no valid field"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    BalancedClassifier("forest", members=2, random_state=0).fit(*clouds(200, rare=0.3)).save(folder)
    return folder


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_models_are_refused_in_a_sentence(name, saved, tmp_path):
    change, sentence = DAMAGE[name]
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    record = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(_damaged(record, change)))
    with pytest.raises(InvalidInputError, match=sentence):
        BalancedClassifier.load(tmp_path)


def _fit(**options):
    x, y = clouds(100, rare=0.3)
    return BalancedClassifier(**({"estimator": GaussianNB(), "random_state": 0} | options)).fit(x, y)


def _groups(groups):
    x, y = clouds(100, rare=0.3)
    return BalancedClassifier(GaussianNB()).fit(x, y, groups=groups)


WRONG = {
    "an unknown name": (lambda: _fit(estimator="trees"), "must be auto, one of network, forest"),
    "a class": (lambda: _fit(estimator=GaussianNB), r"call it: GaussianNB\(\)"),
    "no probabilities": (lambda: _fit(estimator=LinearSVC()), "wrap it in CalibratedClassifierCV"),
    "no estimator": (lambda: _fit(estimator=[]), "at least one classifier"),
    "groups too long": (lambda: _groups(np.arange(101)), "a group for each of the 100 rows"),
    "one group": (lambda: _groups(np.zeros(100)), "at least two groups"),
    "one member": (lambda: _fit(members=1), "whole number of at least 2, got 1"),
    "frozen and not": (lambda: _fit(estimator=[FrozenEstimator(GaussianNB()), GaussianNB()]), "freeze all or none"),
    "probabilities": (lambda: _fit(probabilities="odd").predict([[0.0, 0, 0]]), "natural, balanced, got 'odd'"),
    "a kind": (lambda: _fit().uncertainty([[0.0, 0, 0]], kind="odd"), "'total' or 'epistemic'"),
    "one class": (lambda: BalancedClassifier("forest").fit([[0.0], [1.0]], [1, 1]), "at least two classes"),
    "several percentages": (lambda: BalancedClassifier.from_predictions([[90, 10]] * 2, [[0, 1]] * 2), "0 and 1"),
    "odd labels": (lambda: BalancedClassifier.from_predictions([[0.9, 0.1]] * 2, [[0, 2]] * 2), "0 and 1 only"),
    "too few labels": (lambda: BalancedClassifier.from_predictions([[0.9]] * 2, [[0, 1]] * 2), "columns of y"),
    "two rows": (lambda: BalancedClassifier("forest").fit([[0.0], [1.0]], [0, 1]), "more rows of a class"),
    "percentages": (lambda: BalancedClassifier.from_predictions([[90, 10], [20, 80]], [0, 1]), "add up to 1"),
    "too few columns": (lambda: BalancedClassifier.from_predictions([[1.0]] * 3, list("abc")), "one column for each"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_in_a_sentence(name):
    call, sentence = WRONG[name]
    with pytest.raises(InvalidInputError, match=sentence):
        call()
