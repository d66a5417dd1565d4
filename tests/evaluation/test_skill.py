"""Whether a model is any good: against scikit-learn, slow counting, and answers that are no use."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import fisher_exact
from sklearn.metrics import average_precision_score, roc_auc_score

from equipoise.evaluation.intervals import auc_interval, combined, wilson
from equipoise.evaluation.ranking import ranking
from equipoise.evaluation.scores import scores
from equipoise.evaluation.skill import skill, with_bootstrap


def case(seed, samples=80, classes=3, decimals=None):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    p = rng.dirichlet(np.ones(classes), samples) + 0.4 * (true[:, None] == np.arange(classes))
    p /= p.sum(1, keepdims=True)
    return true, p if decimals is None else p.round(decimals)


@pytest.mark.parametrize("decimals", [None, 1])  # rounded to a tenth, most probabilities are tied
def test_the_ranking_is_that_of_scikit_learn(decimals):
    true, p = case(0, decimals=decimals)
    area, precision = ranking(p, true)
    for place in range(3):
        assert area[place] == pytest.approx(roc_auc_score(true == place, p[:, place]))
        assert precision[place] == pytest.approx(average_precision_score(true == place, p[:, place]))
    several = np.stack([true == 0, true != 2], axis=1).astype(np.int64)
    area, precision = ranking(p[:, :2], several)
    assert area[1] == pytest.approx(roc_auc_score(several[:, 1], p[:, 1]))
    assert precision[1] == pytest.approx(average_precision_score(several[:, 1], p[:, 1]))


def test_a_class_of_none_or_all_of_the_samples_has_no_rank():
    area, precision = ranking(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 0]))
    assert np.isnan([area, precision]).all()
    assert np.isnan(ranking(np.array([[np.nan, 0.1], [0.8, 0.2]]), np.array([0, 1]))).all()


def test_scores_have_the_ranking_where_there_are_probabilities():
    true, p = case(1)
    found = scores(true, p.argmax(1), probabilities=p)
    area, precision = ranking(p, true)
    assert found.auc.each == tuple(area)
    assert found.average_precision.mean == pytest.approx(precision.mean())
    assert found.as_dict()["auc"]["each"] == area.tolist()
    assert scores(true, p.argmax(1)).auc is None


@pytest.mark.parametrize("seed", range(3))
def test_counts_against_guessing(seed):
    true, p = case(seed, samples=40)
    predicted = p.argmax(1)
    found = skill(true, predicted, 3, probabilities=p)
    for place in range(3):
        own, named = true == place, predicted == place
        assert found.recall[place] == pytest.approx(named[own].mean())
        assert found.false_alarms[place] == pytest.approx(named[~own].mean())
        assert found.precision[place] == pytest.approx(own[named].mean())
        assert found.prevalence[place] == pytest.approx(own.mean())
        assert found.gap_low[place] < found.gap[place] < found.gap_high[place]
        table = [[(own & named).sum(), (own & ~named).sum()], [(~own & named).sum(), (~own & ~named).sum()]]
        assert found.gap_chance[place] == pytest.approx(fisher_exact(table, alternative="greater").pvalue)


def test_the_chance_is_that_of_shuffled_answers():
    """All ways to give 3 of 8 samples the answer 1, counted."""
    true, predicted = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    ways = list(combinations(range(8), 3))
    as_good = sum(len({0, 1, 2} & set(way)) >= 2 for way in ways)
    assert skill(true, predicted, 2).gap_chance[1] == pytest.approx(as_good / len(ways))


@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize("several", [False, True])
def test_one_answer_for_all_has_no_skill(answer, several):
    true = np.repeat([0, 1], [970, 30])
    predicted = np.full(1000, answer)
    probabilities = np.full((1000, 2), 0.5)
    if several:
        true, predicted, probabilities = true[:, None], predicted[:, None], probabilities[:, :1]
    found = skill(true, predicted, 1 if several else 2, probabilities=probabilities)
    place = -1
    assert found.recall[place] == answer
    assert found.gap[place] == 0
    assert found.gap_chance[place] == 1
    assert found.gap_low[place] <= 0 <= found.gap_high[place]
    assert found.auc[place] == 0.5
    assert found.auc_chance[place] == 0.5
    assert found.average_precision[place] == pytest.approx(0.03)


@pytest.mark.slow
def test_random_answers_rarely_look_better_than_guessing():
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1], [180, 20])
    taken = [skill(true, (rng.uniform(size=200) < 0.3).astype(np.int64), 2).gap_chance[1] < 0.05 for _ in range(400)]
    assert np.mean(taken) < 0.06


@pytest.mark.parametrize(("distance", "area"), [(0.5, 0.6382), (1.5, 0.8556), (2.5, 0.9615)])
@pytest.mark.parametrize("positives", [10, 60])
def test_the_interval_of_an_auc_holds_it(distance, area, positives):
    """Two Gaussians at a distance d have the AUC Φ(d/√2)."""
    assert area == pytest.approx(0.5 * (1 + math.erf(distance / 2)), abs=1e-4)
    rng = np.random.default_rng(0)
    own = np.repeat([True, False], [positives, 200])
    draws = 300
    drawn = rng.normal(size=(draws, len(own))) + distance * own
    found = (drawn[:, own, None] > drawn[:, None, ~own]).mean((1, 2))  # pairs in the right order
    low, high = auc_interval(found, np.full(draws, float(positives)), np.full(draws, 200.0))
    assert 0.92 < ((low <= area) & (area <= high)).mean() <= 1


def test_an_auc_of_one_is_not_certain_and_one_of_nothing_unknown():
    low, high = auc_interval(np.array([1.0, 0.0, np.nan]), np.array([5.0, 50.0, 0.0]), np.array([50.0, 5.0, 9.0]))
    assert 0.6 < low[0] < 0.9
    assert high[0] == 1
    assert low[1] == pytest.approx(0, abs=1e-9)
    assert high[1] == pytest.approx(1 - low[0])  # the other way round
    assert np.isnan([low[2], high[2]]).all()


def test_a_mean_of_shares_is_narrower_than_each():
    hits, trials = np.array([8.0, 9.0, 7.0]), np.full(3, 10.0)
    low, high = wilson(hits, trials)
    below, above = combined(hits / trials, low, high, np.full(3, 1 / 3))
    assert below > low.mean()
    assert above < high.mean()
    assert below < 0.8 < above


def test_the_bootstrap_of_the_scores_is_taken_where_every_class_has_samples_enough():
    rng = np.random.default_rng(3)
    true = np.repeat([0, 1], [60, 20])
    p = np.clip(0.3 * true + rng.uniform(0, 0.7, 80), 0, 1)
    both = np.stack((1 - p, p), axis=1)
    kept = scores(true, (p > 0.5).astype(int), probabilities=both, intervals=True).intervals
    found = with_bootstrap(skill(true, (p > 0.5).astype(np.int64), 2, probabilities=both), kept)
    assert [found.auc_low[1], found.auc_high[1]] == kept["auc"]["each"][1]
    assert list(found.mean_auc) == kept["auc"]["mean"]
    few = skill(true[51:], (p[51:] > 0.5).astype(np.int64), 2, probabilities=both[51:])
    assert with_bootstrap(few, kept) is few  # nine samples of a class
    assert with_bootstrap(found, None) is found
    gaps = {"auc": {"each": [[None, None], [0.4, 0.6]], "mean": None}}
    partly = with_bootstrap(found, gaps)
    assert (partly.auc_low[0], partly.auc_high[1], partly.mean_auc) == (found.auc_low[0], 0.6, None)
