"""Conventions of scikit-learn that its own checks do not cover: its configuration, failed fits, restored parameters."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from PIL import Image
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from equipoise import BalancedClassifier, RecallAtLeast, TableEncoder, UncertaintyBalancedClassifier
from equipoise.data.images import read_images
from equipoise.errors import InvalidInputError
from equipoise.models import image_backbone

SUBJECTS = ["the bill is late", "the bill was wrong", "where is my parcel", "my parcel is lost", "thanks"]


def table(rows=120):
    """A frame with a number, a category and free text, and labels that the number nearly decides."""
    rng = np.random.RandomState(0)
    x = rng.randn(rows)
    text = [f"{SUBJECTS[k % 5]}, order {k} of {rows}" for k in range(rows)]
    frame = pd.DataFrame({"x": x, "town": rng.choice(["Oslo", "Rome"], rows), "text": text})
    return frame, (x + 0.3 * rng.randn(rows) > 0.5).astype(int)


ESTIMATORS = {
    "network": UncertaintyBalancedClassifier(epochs=1, calibration="none", random_state=0),
    "blend": BalancedClassifier(["network", GaussianNB()], members=2, random_state=0),
}


@pytest.fixture(params=list(ESTIMATORS))
def estimator(request):
    return sklearn.clone(ESTIMATORS[request.param])


def test_frames_as_output_change_nothing_inside(estimator):
    frame, y = table()
    expected = estimator.fit(frame, y).predict_proba(frame)
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(estimator.fit(frame, y).predict_proba(frame), expected)
    estimator.set_params(encoder=TableEncoder().set_output(transform="pandas"))
    np.testing.assert_array_equal(estimator.fit(frame, y).predict_proba(frame), expected)


def test_a_loaded_model_predicts_from_frames_as_output(estimator, tmp_path):
    frame, y = table()
    estimator.fit(frame, y).save(tmp_path / "model")
    with sklearn.config_context(transform_output="pandas"):
        loaded = type(estimator).load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(frame), estimator.predict_proba(frame))


def test_an_unfitted_estimator_says_so(estimator):
    frame, _ = table()
    for name in ("predict", "predict_proba", "uncertainty", "prediction_sets", "estimate_prior"):
        with pytest.raises(NotFittedError):
            getattr(estimator, name)(frame)
    with pytest.raises(NotFittedError):
        _ = estimator.prior_


def test_a_first_fit_that_fails_leaves_an_estimator_unfitted(estimator):
    frame, y = table()
    with pytest.raises(InvalidInputError, match="at least two classes"):
        estimator.fit(frame, np.zeros_like(y))
    with pytest.raises(NotFittedError):
        estimator.predict(frame)


def test_a_fit_that_fails_leaves_the_last_one(estimator):
    frame, y = table()
    expected = estimator.fit(frame, y).predict_proba(frame)
    with pytest.raises(InvalidInputError, match="at least two classes"):
        estimator.fit(np.zeros((len(y), 2)), np.zeros_like(y))
    np.testing.assert_array_equal(estimator.predict_proba(frame), expected)
    assert estimator.feature_names_in_.tolist() == ["x", "town", "text"]


def test_a_calibration_that_fails_leaves_the_last_one():
    frame, y = table()
    fitted = BalancedClassifier(GaussianNB(), members=2, decision=RecallAtLeast({1: 0.5}), random_state=0)
    fitted.fit(frame[["x"]], y)
    calibrated, evidence = fitted.calibrated_, fitted.evidence_
    common = np.flatnonzero(y == 0)
    with pytest.warns(UserWarning, match="lack the class 1"), pytest.raises(InvalidInputError, match="hold out some"):
        fitted.calibrate(frame[["x"]].iloc[common], y[common])
    assert fitted.calibrated_ is calibrated
    assert fitted.evidence_ is evidence


def test_a_pipeline_routes_the_weights_that_its_steps_request():
    frame, y = table()
    x, weight = frame[["x"]].to_numpy(), np.where(y == 1, 3.0, 1.0)
    expected = BalancedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), members=2, random_state=0)
    expected = expected.fit(x, y, weight).predict_proba(x)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler, linear = StandardScaler(), LogisticRegression()
        unset = BalancedClassifier(make_pipeline(scaler, linear), members=2, random_state=0)
        with pytest.raises(UnsetMetadataPassedError, match="set_fit_request"):
            unset.fit(x, y, weight)
        pipe = make_pipeline(scaler.set_fit_request(sample_weight=False), linear.set_fit_request(sample_weight=True))
        for n_jobs in (None, 2):  # workers need the configuration as well
            routed = BalancedClassifier(pipe, members=2, n_jobs=n_jobs, random_state=0).fit(x, y, weight)
            np.testing.assert_allclose(routed.predict_proba(x), expected)


def test_only_ratios_of_weights_matter(estimator):
    frame, y = table()
    x, weight = frame[["x"]].to_numpy(), np.random.RandomState(1).uniform(0.5, 2, len(y))
    expected = estimator.fit(x, y, weight).predict_proba(x)
    np.testing.assert_allclose(estimator.fit(x, y, 8 * weight).predict_proba(x), expected)


def test_a_loaded_blend_keeps_its_seed(tmp_path):
    frame, y = table()
    x = frame[["x"]].to_numpy()
    fitted = BalancedClassifier("forest", members=2, random_state=np.int64(3)).fit(x, y)
    fitted.save(tmp_path / "model")
    loaded = BalancedClassifier.load(tmp_path / "model")
    assert loaded.random_state == 3
    np.testing.assert_array_equal(sklearn.clone(loaded).fit(x, y).predict_proba(x), fitted.predict_proba(x))


def test_an_encoder_knows_the_columns_it_was_fitted_to():
    frame, y = table()
    pipe = make_pipeline(TableEncoder(), LogisticRegression()).fit(frame, y)
    assert pipe.n_features_in_ == 3
    assert pipe.feature_names_in_.tolist() == ["x", "town", "text"]
    encoder = pipe[0].fit(frame[["x"]].to_numpy())
    assert encoder.n_features_in_ == 1
    assert not hasattr(encoder, "feature_names_in_")


def test_a_refit_to_images_has_no_column_names(tmp_path):
    frame, y = table()
    for number in range(8):
        folder = tmp_path / ("cat" if number % 2 else "dog")
        folder.mkdir(exist_ok=True)
        Image.new("L", (32, 32), 30 * number).save(folder / f"{number}.png")
    images = read_images(tmp_path)
    fitted = UncertaintyBalancedClassifier(epochs=1, calibration="none", random_state=0).fit(frame[["x"]], y)
    fitted.set_params(backbone=image_backbone("lenet"), batch_size=4).fit(images.x, images.y)
    assert fitted.n_features_in_ == 1
    assert not hasattr(fitted, "feature_names_in_")
