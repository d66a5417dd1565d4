"""The machine is liblinear's, which scikit-learn brings: the same objective, the same answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from equipoise.app.compare import linear_svm
from equipoise.app.compare.linear_svm import fit_linear_svm, linear_svm_codes
from equipoise.errors import InvalidInputError


def drawn(seed, *, classes=3, rows=300, columns=5):
    """Overlapping clouds, the first class the most frequent."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1)
    codes = np.concatenate([np.arange(classes), rng.choice(classes, rows - classes, p=share / share.sum())])
    centres = rng.normal(scale=1.5, size=(classes, columns))
    return (centres[codes] + rng.normal(size=(rows, columns))).astype(np.float32), codes


def objective(w, x, codes, positive, cost, *, both):
    """Half the squared length, and what each sample falls short of its side, squared; sample by sample."""
    counts, total = np.bincount(codes), 0.5 * float(np.float64(w) @ np.float64(w))
    for row, code, own in zip(x, codes, positive, strict=True):
        short = max(0.0, 1 - (1 if own else -1) * float(np.float64(row) @ np.float64(w[:-1]) + w[-1]))
        total += cost * (len(codes) / (len(counts) * counts[code]) if own or both else 1) * short**2
    return total


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(2, 5), st.sampled_from([0.01, 1.0, 10.0]))
def test_it_is_liblinears(seed, classes, cost):
    x, codes = drawn(seed, classes=classes)
    weights, unsettled = fit_linear_svm(x, codes, cost=cost)
    said = linear_svm_codes(weights, x)
    theirs = LinearSVC(class_weight="balanced", C=cost, tol=1e-8, max_iter=100_000, dual=False).fit(x, codes)
    wanted = np.column_stack([theirs.coef_, theirs.intercept_]).T
    if classes == 2:
        assert weights[:, 0] == pytest.approx(-weights[:, 1], abs=1e-3)
        weights = weights[:, 1:]
    for machine in range(weights.shape[1]):
        positive = codes == (1 if classes == 2 else machine)
        least = objective(wanted[:, machine], x, codes, positive, cost, both=classes == 2)
        assert objective(weights[:, machine], x, codes, positive, cost, both=classes == 2) < 1.01 * least + 1e-4
    assert unsettled == ""
    assert (said == theirs.predict(x)).mean() > 0.97


def test_rare_classes_cost_more():
    x, codes = drawn(0, classes=2, rows=400)
    few = np.concatenate([np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)[:8]])
    weights, _ = fit_linear_svm(x[few], codes[few])
    plain = LinearSVC().fit(x[few], codes[few])
    assert (linear_svm_codes(weights, x)[codes == 1] == 1).mean() > (plain.predict(x)[codes == 1] == 1).mean()


def test_too_few_rounds_are_told(monkeypatch):
    monkeypatch.setattr(linear_svm, "ROUNDS", 2)
    assert fit_linear_svm(*drawn(1))[1].startswith("after 2 rounds (")


def test_a_constant_column_has_no_say_beside_the_intercept():
    x, codes = drawn(2)
    said = linear_svm_codes(fit_linear_svm(x, codes)[0], x)
    padded = np.concatenate([x, np.zeros((len(x), 1), np.float32)], axis=1)
    weights, _ = fit_linear_svm(padded, codes)
    assert weights[-2].tolist() == [0, 0, 0]
    assert (linear_svm_codes(weights, padded) == said).all()


def test_what_cannot_be_learnt_from_is_refused():
    x, codes = drawn(3)
    with pytest.raises(InvalidInputError, match="x must be finite"):
        fit_linear_svm(np.where(np.arange(5) == 2, np.nan, x).astype(np.float32), codes)
    with pytest.raises(InvalidInputError, match="every class number from 0 to the largest"):
        fit_linear_svm(x, 2 * codes)
