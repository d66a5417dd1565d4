"""The machine is liblinear's, which scikit-learn brings: the same objective, the same answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from equipoise.compare import linear_svm
from equipoise.compare.linear_svm import fit_linear_svm, linear_svm_codes


def drawn(seed, *, classes=3, rows=300, columns=5):
    """Overlapping clouds, the first class the most frequent."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1)
    codes = np.concatenate([np.arange(classes), rng.choice(classes, rows - classes, p=share / share.sum())])
    centres = rng.normal(scale=1.5, size=(classes, columns))
    return (centres[codes] + rng.normal(size=(rows, columns))).astype(np.float32), codes


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(2, 5), st.sampled_from([0.01, 1.0, 10.0]))
def test_it_is_liblinears(seed, classes, cost):
    x, codes = drawn(seed, classes=classes)
    weights, settled = fit_linear_svm(x, codes, cost=cost)
    theirs = LinearSVC(class_weight="balanced", C=cost, tol=1e-8, max_iter=100_000, dual=False).fit(x, codes)
    ours = np.concatenate([weights[:-1].T, weights[-1:].T], axis=1)
    wanted = np.column_stack([theirs.coef_, theirs.intercept_])
    if classes == 2:
        assert ours[0] == pytest.approx(-ours[1], abs=1e-3)
        ours = ours[1:]
    assert settled
    assert np.abs(ours - wanted).max() < 0.05 * np.abs(wanted).max()
    assert (linear_svm_codes(weights, x) == theirs.predict(x)).mean() > 0.97


def test_rare_classes_cost_more():
    x, codes = drawn(0, classes=2, rows=400)
    few = np.concatenate([np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)[:8]])
    weights, _ = fit_linear_svm(x[few], codes[few])
    plain = LinearSVC().fit(x[few], codes[few])
    assert (linear_svm_codes(weights, x)[codes == 1] == 1).mean() > (plain.predict(x)[codes == 1] == 1).mean()


def test_too_few_rounds_are_told(monkeypatch):
    monkeypatch.setattr(linear_svm, "ROUNDS", 2)
    assert not fit_linear_svm(*drawn(1))[1]
