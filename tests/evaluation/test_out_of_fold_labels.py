"""Doubt of labels from probabilities, against the formula in a loop."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from equipoise.evaluation.label_quality import doubt_of_probabilities


def test_the_score_is_the_rivals_share_at_the_middle_prior():
    rng = np.random.default_rng(0)
    p, labels, sizes = rng.dirichlet([1, 1, 1], size=7), rng.integers(0, 3, size=7), np.array([900, 90, 10])
    found = doubt_of_probabilities(p, labels, sizes)
    for row, label in enumerate(labels):
        q = [p[row, place] / math.sqrt(sizes[place] / 1000) for place in range(3)]
        rival = max((place for place in range(3) if place != label), key=lambda place: q[place])
        assert found.suggested[row] == rival
        assert found.score[row] == pytest.approx(q[rival] / (q[rival] + q[label]))
        assert found.error[row] == pytest.approx(norm.ppf(q[rival] / (q[rival] + q[label])))
    assert (found.suspected == (found.score > 0.5)).all()


def test_attributes_are_judged_one_by_one():
    p = np.array([[[0.9, 0.1], [0.3, 0.7]]])
    found = doubt_of_probabilities(p, np.array([[0, 0]]), np.array([[50, 50], [50, 50]]))
    np.testing.assert_allclose(found.score, [[0.1, 0.7]])
    assert found.suggested.tolist() == [[1, 1]]


def test_what_cannot_be_judged_is_nan():
    p = np.array([[0.5, 0.5], [np.nan, np.nan], [0.0, 1.0]])
    found = doubt_of_probabilities(p, np.array([1, 0, 0]), np.array([20, 4]))  # 4 are too few
    assert np.isnan(found.error).tolist() == [True, True, False]
    assert np.isfinite(found.error[2])
    assert found.error[2] > 6  # far beyond where the score is 1
