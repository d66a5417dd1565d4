"""Classifiers for tables are their libraries' own; a prior shift moves the decision and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from equipoise.app.compare import METHODS, CannotRunError, FitOptions, PriorShift, fit_tuned
from equipoise.app.compare.classifiers import TABLE_MODELS, CodedLabels
from equipoise.app.compare.methods import GRID, check_installed
from equipoise.app.compare.single_fit import fit_method
from equipoise.errors import InvalidInputError
from tests.marks import mostly_slow

OPTIONS = FitOptions(epochs=1)
FEW = {"catboost": {"iterations": 20}, "easy_ensemble": {"n_estimators": 2}}
"""Settings that make slow ones quick."""


def table(samples=240):
    """Three classes, 70, 20 and 10 % of the samples, that overlap."""
    rng = np.random.default_rng(0)
    names = np.array(["common", "medium", "rare"])
    codes = np.repeat([0, 1, 2], [samples * 7 // 10, samples // 5, samples // 10])
    x = rng.normal(size=(samples, 4)) + codes[:, None] * [1.0, 0.5, 0.0, 0.0]
    order = rng.permutation(samples)
    return x[order].astype(np.float32), names[codes][order]


def fitted(name, x, y, x_test, **hyperparameters):
    method = METHODS[name]
    if method.package:
        pytest.importorskip(method.package)
    own = FEW.get(name.removesuffix("_balanced").removesuffix("_prior_shift"), {}) | hyperparameters
    return fit_method(method, x, y, x_test, seed=3, options=OPTIONS, hyperparameters=own)


@pytest.mark.parametrize("name", mostly_slow(name for name, method in METHODS.items() if method.remedy == "threshold"))
def test_a_prior_shift_keeps_the_probabilities_and_divides_by_the_shares(name):
    plain = "cross_entropy" if name == "logit_adjustment_post_hoc" else name.removesuffix("_prior_shift")
    x, y = table()
    one, shifted = (fitted(each, x, y, x) for each in (plain, name))
    shares = np.array([0.7, 0.2, 0.1])
    expected = one.probabilities / shares
    names = np.array(["common", "medium", "rare"])
    np.testing.assert_array_equal(shifted.labels, names[expected.argmax(1)])
    if name != "logit_adjustment_post_hoc":  # whose probabilities are those at its prior
        np.testing.assert_array_equal(shifted.probabilities, one.probabilities)
        np.testing.assert_array_equal(one.labels, names[one.probabilities.argmax(1)])


@pytest.mark.parametrize(
    ("name", "twin"),
    mostly_slow(
        [
            ("random_forest", RandomForestClassifier()),
            ("random_forest_balanced", RandomForestClassifier(class_weight="balanced")),
            ("extra_trees_balanced", ExtraTreesClassifier(class_weight="balanced")),
            ("boosting", HistGradientBoostingClassifier()),
            ("boosting_balanced", HistGradientBoostingClassifier(class_weight="balanced")),
            ("logistic_regression_balanced", LogisticRegression(class_weight="balanced", max_iter=1000)),
        ]
    ),
)
def test_a_classifier_is_scikit_learns_own_on_standardised_columns(name, twin):
    x, y = table()
    scaled = StandardScaler().fit_transform(x)
    model = clone(twin).set_params(random_state=3).fit(scaled, y)
    found = fitted(name, x, y, x)
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(scaled))
    np.testing.assert_array_equal(found.labels, model.predict(scaled))


@pytest.mark.parametrize("package", ["lightgbm", "xgboost", "catboost"])
def test_other_packages_take_names_as_labels_and_weigh_rare_classes(package):
    x, y = table()
    plain, balanced = fitted(package, x, y, x), fitted(f"{package}_balanced", x, y, x)
    for found in (plain, balanced):
        assert found.labels.shape == (240,)
        assert set(found.labels) <= set(y)
        np.testing.assert_allclose(found.probabilities.sum(1), 1, rtol=1e-12)
    assert balanced.probabilities[:, 2].mean() > plain.probabilities[:, 2].mean()


def test_coded_labels_weigh_samples_inversely_to_their_class():
    x, y = table()
    found = CodedLabels(RandomForestClassifier(20, random_state=0), balanced=True).fit(x, y)
    weight = compute_sample_weight("balanced", y)
    twin = RandomForestClassifier(20, random_state=0).fit(x, np.unique(y, return_inverse=True)[1], weight)
    np.testing.assert_allclose(found.predict_proba(x), twin.predict_proba(x), rtol=1e-12)
    np.testing.assert_array_equal(found.predict(x), found.classes_[twin.predict(x)])


def test_a_prior_shift_is_an_estimator():
    x, y = table()
    model = PriorShift(LogisticRegression(C=0.5))
    assert clone(model).get_params()["estimator__C"] == 0.5
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(x)
    model.fit(x, y)
    assert model.classes_.tolist() == ["common", "medium", "rare"]
    assert model.prior_.tolist() == pytest.approx([0.7, 0.2, 0.1])
    assert not hasattr(model.estimator, "classes_")  # a copy was fitted
    assert model.score(x, y) == pytest.approx((model.predict(x) == y).mean())


def test_with_two_classes_the_threshold_is_the_rare_ones_share():
    x, y = table()
    model = PriorShift(LogisticRegression()).fit(x, y == "rare")
    np.testing.assert_array_equal(model.predict(x), model.predict_proba(x)[:, 1] > 0.1)


def test_forests_take_several_labels_each_shifted_on_its_own():
    x, y = table()
    several = np.stack([y == "rare", y != "common"], axis=1).astype(int)
    plain, shifted = (fitted(name, x, several, x[:50]) for name in ("random_forest", "random_forest_prior_shift"))
    assert plain.labels.shape == plain.probabilities.shape == (50, 2)
    np.testing.assert_array_equal(shifted.probabilities, plain.probabilities)
    np.testing.assert_array_equal(shifted.labels, plain.probabilities > several.mean(0))


@pytest.mark.parametrize("name", ["boosting", "balanced_random_forest", "easy_ensemble", "logistic_regression"])
def test_others_take_one_label(name):
    x, y = table(40)
    with pytest.raises(CannotRunError, match="cannot run on these data: it takes one label per sample, not several"):
        fitted(name, x, np.stack([y == "rare", y == "common"], axis=1).astype(int), x)


def test_small_images_are_columns_and_large_ones_are_refused():
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    small = (rng.integers(0, 100, (20, 1, 8, 8)) + 100 * y[:, None, None, None]).astype(np.uint8)
    assert fitted("random_forest", small, y, small).labels.tolist() == y.tolist()
    large = np.zeros((20, 3, 64, 64), dtype=np.uint8)
    with pytest.raises(CannotRunError, match=r"images of 12,288 values are too large to be columns \(at most 4,096"):
        fitted("random_forest", large, y, large)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.family == "table"])
def test_hyperparameters_reach_the_classifier(name):
    if METHODS[name].package:
        pytest.importorskip(METHODS[name].package)
    assert len(METHODS[name].grid) in (1, GRID)
    for setting in METHODS[name].grid[1:]:
        found = METHODS[name].build(0, setting, OPTIONS).get_params()
        ((parameter, value),) = setting.items()
        assert value in [each for key, each in found.items() if key.rpartition("__")[2] == parameter]


def test_every_model_is_compared_plain_and_no_remedy_is_called_plain():
    assert set(TABLE_MODELS) <= set(METHODS)
    for name, model in TABLE_MODELS.items():
        assert METHODS[name].remedy == model.remedy
    assert METHODS["boosting"].name_in_text == "plain gradient boosting"
    assert METHODS["logit_adjustment_post_hoc"].name_in_text == "plain cross-entropy with a moved threshold"
    assert METHODS["boosting_balanced"].name_in_text == "gradient boosting, balanced"


def test_what_another_package_refuses_is_one_sentence():
    x, y = table(40)
    with pytest.raises(CannotRunError, match=r"^gradient boosting failed \(InvalidParameterError: .*\)\.$"):
        fitted("boosting", x, y, x, learning_rate=-1.0)


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    absent = replace(METHODS["xgboost"], package="not_to_be_found")
    monkeypatch.setitem(METHODS, "xgboost", absent)
    assert not absent.installed
    sentence = "'xgboost' needs not_to_be_found, which is not installed; run: pip install not_to_be_found"
    with pytest.raises(InvalidInputError, match=sentence):
        check_installed(["mine", "boosting", "xgboost"])
    x, y = table(40)
    with pytest.raises(InvalidInputError, match=sentence):
        fit_tuned("xgboost", x, y, x, seed=0, options=OPTIONS)
