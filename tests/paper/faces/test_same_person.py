"""The probability of one person, against the curve that made the pairs."""

import numpy as np
import pytest
from scipy.special import expit

from equipoise.paper.faces.verify import fit_same_person


def pairs_of(slope, intercept, pairs=20_000):
    rng = np.random.default_rng(0)
    similarity = rng.uniform(-1, 1, pairs)
    return similarity, rng.random(pairs) < expit(slope * similarity + intercept), np.arange(pairs) % 10


def test_the_curve_that_made_the_pairs_is_found():
    similarity, same, fold = pairs_of(8.0, -2.0)
    found = fit_same_person(similarity, same, fold)
    assert found.slope == pytest.approx(8.0, rel=0.05)
    assert found.intercept == pytest.approx(-2.0, rel=0.05)
    np.testing.assert_allclose(found.probability([0.25, 1.0]), expit([0.0, 6.0]), atol=0.02)
    assert found.ece < 0.01
    truth = expit(8 * similarity - 2)
    assert found.log_loss == pytest.approx(-np.where(same, np.log(truth), np.log1p(-truth)).mean(), abs=2e-3)
    assert found.brier == pytest.approx(((found.out_of_fold - same) ** 2).mean())


def test_a_fold_is_answered_by_the_others():
    similarity, same, fold = pairs_of(8.0, 0.0, 400)
    found = fit_same_person(similarity, same, fold)
    turned = np.where(fold == 3, ~same, same)
    np.testing.assert_array_equal(fit_same_person(similarity, turned, fold).out_of_fold[fold == 3],
                                  found.out_of_fold[fold == 3])  # fmt: skip


def test_another_share_of_pairs_moves_the_odds_by_bayes():
    found = fit_same_person(*pairs_of(8.0, 0.0))
    odds = found.probability(0.3) / (1 - found.probability(0.3))
    moved = found.probability(0.3, share=0.01)
    expected = odds * (0.01 / 0.99) / (found.share / (1 - found.share))
    assert moved / (1 - moved) == pytest.approx(float(expected))


def test_pairs_that_similarities_separate_have_finite_probabilities():
    similarity = np.concatenate([np.linspace(0.6, 0.9, 20), np.linspace(-0.2, 0.2, 20)])
    found = fit_same_person(similarity, np.arange(40) < 20, np.arange(40) % 4)
    assert 0 < found.slope < 1e3
    assert ((found.out_of_fold > 0) & (found.out_of_fold < 1)).all()
    assert found.as_dict()["share"] == 0.5
