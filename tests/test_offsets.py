"""Columns far from zero, such as Unix milliseconds, and of any scale: they count for as much as their spread does."""

import warnings

import numpy as np
import pandas as pd
import pytest

from equipoise import UncertaintyBalancedClassifier
from equipoise.app.compare import FitOptions, fit_tuned
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.data.encoder import TableEncoder
from equipoise.errors import ShortTrainingWarning
from equipoise.estimators.input_rows import network_samples
from tests.app.runs import made
from tests.marks import mostly_slow

NOW = 1.7e12  # Unix milliseconds
EPOCHS = 8


def moments(rows: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds, sd about 10 s, that decide the class, and labels with a rare one."""
    rng = np.random.default_rng(0)
    y = (rng.random(rows) < 0.15).astype(int)
    return np.round(rng.normal(24_000 * y, 5_000)), y


def recalls(y: np.ndarray, predicted: np.ndarray) -> list[float]:
    return [float((predicted[y == label] == label).mean()) for label in (0, 1)]


def fitted(x: np.ndarray, y: np.ndarray) -> UncertaintyBalancedClassifier:
    return UncertaintyBalancedClassifier(epochs=EPOCHS, random_state=0).fit(x, y)


def test_the_estimator_learns_from_milliseconds_what_it_learns_without_the_offset():
    x, y = moments()
    near, far = (fitted(x[:, None] + offset, y).predict(x[:, None] + offset) for offset in (0, NOW))
    assert min(recalls(y, far)) > 0.95
    np.testing.assert_array_equal(near, far)


@pytest.fixture(scope="module")
def unscaled():
    x, y = moments(300)
    rows = x[:, None] / 1e4
    return rows, y, fitted(rows, y).predict_proba(rows)


@pytest.mark.parametrize("scale", mostly_slow([1e-40, 5e37, 1e300]))
def test_the_estimator_takes_columns_of_any_scale_without_a_warning(scale, unscaled):
    rows, y, probabilities = unscaled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ShortTrainingWarning)
        scaled = fitted(rows * scale, y)
    np.testing.assert_allclose(scaled.predict_proba(rows * scale), probabilities, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("given", "kept"), [("f8", "f8"), ("i8", "f8"), ("f4", "f4"), ("i2", "f4"), (">f4", "f4")])
def test_the_estimator_keeps_float32_where_it_is_exact(given, kept):
    rows = np.arange(6).reshape(3, 2).astype(given)
    model = UncertaintyBalancedClassifier()
    assert network_samples(model, rows, np.array([0, 1, 0]))[0].dtype == np.dtype(kept)


def table(path, offset):
    x, y = moments()
    moment = pd.Series(x + offset, dtype="int64")
    pd.DataFrame({"moment": moment, "noise": np.arange(len(x)) % 7, "label": y}).to_csv(path, index=False)
    return y


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = {}
    for name, offset in (("near", 0), ("far", NOW)):
        folder = tmp_path_factory.mktemp(name)
        table(folder / "t.csv", offset)
        with pytest.MonkeyPatch.context() as patch:
            made.plain_pages(patch)
            train_run(RunOptions(str(folder / "t.csv"), target="label", epochs=EPOCHS), folder / "run")
        found[name] = folder
    return found


@pytest.mark.slow
def test_a_run_learns_from_milliseconds_what_it_learns_without_the_offset(runs):
    _, y = moments()
    far, near = (
        np.array(RunModel.load(runs[name] / "run").predict(pd.read_csv(runs[name] / "t.csv"))).astype(int)
        for name in ("far", "near")
    )
    assert min(recalls(y, far)) > 0.95
    np.testing.assert_array_equal(near, far)


@pytest.mark.slow
def test_an_exported_run_takes_milliseconds_as_float64(runs, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    from equipoise.app.runs.export import export_run, metadata

    model, frame = RunModel.load(runs["far"] / "run"), pd.read_csv(runs["far"] / "t.csv")
    assert metadata(model)["dtype"] == '"float64"'
    assert metadata(RunModel.load(runs["near"] / "run"))["dtype"] == '"float32"'
    export_run(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"x": model.input.rows(frame)})
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), atol=1e-4)


def test_dates_keep_their_seconds():
    x, _ = moments(50)
    dates = pd.DataFrame({"moment": pd.to_datetime(np.int64(NOW) + x.astype(np.int64), unit="ms").astype(str)})
    days = TableEncoder().fit(dates).transform(dates)[:, 0]
    np.testing.assert_allclose(days * 86_400_000 - NOW, x, atol=1)


@pytest.mark.parametrize(
    "name", ["cross_entropy", "smote", "random_over", "svm_linear", "svm_rbf", "random_forest", "boosting"]
)
def test_compared_methods_see_the_signal_as_well(name):
    x, y = moments(300)
    rows = np.column_stack([x + NOW, np.arange(300) % 5])
    options = FitOptions(epochs=EPOCHS)
    found = fit_tuned(name, rows[:200], y[:200], rows[200:], seed=0, options=options)
    assert min(recalls(y[200:], found.labels)) > 0.9
