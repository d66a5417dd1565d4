"""Risk over coverage and who is abstained on, against slow counting."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.decisions import abstained_shares, risk_coverage
from equipoise.errors import InvalidInputError
from tests.reference import trust as reference


def share(part, whole):
    return part / whole if whole else float("nan")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4), st.sampled_from([2, 11, 101]), st.booleans())
def test_risk_over_coverage_is_what_counting_gives(seed, samples, classes, points, equal):
    rng = np.random.default_rng(seed)
    labels, right = rng.integers(0, classes, samples), rng.integers(0, 2, samples) == 1
    uncertainty = rng.integers(0, 3, samples) / 2 if equal else rng.normal(size=samples)
    found = risk_coverage(right, uncertainty, labels, classes, points=points)
    assert found.share.tolist() == [number / (points - 1) for number in range(points)]
    assert found.answered[0] == 0
    assert found.answered[-1] == samples
    for point in range(points):
        wanted = samples * point / (points - 1)
        assert abs(found.answered[point] - wanted) <= 0.5 or (point > 0 and found.answered[point] == 1)
        rest = reference.answered_first(uncertainty.tolist(), found.answered[point])
        wrong = [place for place in rest if not right[place]]
        assert found.error[point] == pytest.approx(share(len(wrong), len(rest)), nan_ok=True)
        for which in range(classes):
            mine = [place for place in rest if labels[place] == which]
            bad = [place for place in wrong if labels[place] == which]
            all_ = labels.tolist().count(which)
            assert found.class_error[point, which] == pytest.approx(share(len(bad), len(mine)), nan_ok=True)
            assert found.class_answered[point, which] == pytest.approx(share(len(mine), all_), nan_ok=True)


def test_any_share_above_nothing_answers_a_sample():
    found = risk_coverage([True, False], [0.1, 0.2], [0, 0], 1)
    assert found.answered[:2].tolist() == [0, 1]
    assert math.isnan(found.error[0])
    assert found.error[1] == 0


def test_zeros_and_ones_of_an_attribute_are_two_classes():
    rng = np.random.default_rng(0)
    labels, right = rng.integers(0, 2, (60, 3)), rng.integers(0, 4, (60, 3)) > 0
    uncertainty = rng.normal(size=60)
    found = risk_coverage(right, uncertainty, labels, 3, points=7)
    assert found.class_error.shape == found.class_answered.shape == (7, 3, 2)
    for place in range(3):
        alone = risk_coverage(right[:, place], uncertainty, labels[:, place], 2, points=7)
        np.testing.assert_array_equal(found.class_error[:, place], alone.class_error)
        np.testing.assert_array_equal(found.class_answered[:, place], alone.class_answered)
    rest = reference.answered_first(uncertainty.tolist(), 20)
    assert found.error[2] == pytest.approx(1 - right[rest].mean())


def test_a_useful_uncertainty_lowers_the_risk():
    rng = np.random.default_rng(0)
    uncertainty = rng.uniform(size=4000)
    right = rng.uniform(size=4000) > uncertainty
    found = risk_coverage(right, uncertainty, np.zeros(4000, int), 1, points=11)
    assert all(low < high for low, high in pairwise(found.error[1:].tolist()))
    assert found.error[-1] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("sent", "of", "overall", "verdict"),
    [
        (20, 100, (80, 900), "in proportion"),  # twice the overall share, and not more
        (40, 100, (60, 900), "abstained away"),
        (19, 100, (1, 900), "in proportion"),  # much more than the others, yet less than a fifth
        (20, 100, (0, 900), "abstained away"),
        (5, 5, (95, 995), "abstained away"),
        (2, 5, (98, 995), "unclear"),  # 2 of 5 happens by chance
        (85, 100, (535, 900), "abstained away"),  # answered less than half as often: 15 % against 38 %
        (75, 100, (545, 900), "in proportion"),
        (0, 0, (90, 900), "untested"),
        (100, 100, (900, 900), "in proportion"),
        (0, 100, (0, 900), "in proportion"),
    ],
)
def test_a_class_is_abstained_away_where_it_pays_for_the_others(sent, of, overall, verdict):
    labels = np.repeat([0, 1], [overall[1], of])
    abstained = np.zeros(len(labels), dtype=bool)
    abstained[: overall[0]] = True
    abstained[overall[1] : overall[1] + sent] = True
    found = abstained_shares(labels, abstained, 2)
    assert found.verdicts == ("in proportion", verdict)
    assert found.samples == (overall[1], of)
    assert found.overall == pytest.approx((sent + overall[0]) / len(labels))
    assert found.each == pytest.approx((overall[0] / overall[1], share(sent, of)), nan_ok=True)
    assert found.abstained_away == ((1,) if verdict == "abstained away" else ())


@pytest.mark.parametrize("count", [3, 5, 10, 30, 200])
@pytest.mark.parametrize("overall", [0.02, 0.1, 0.3])
def test_fewer_than_one_in_twenty_classes_are_called_so_by_chance(count, overall):
    """The probability of every number of abstained samples that earns the verdict, added up."""
    others = 100_000
    away = 0.0
    for sent in range(count + 1):
        labels = np.repeat([0, 1], [others, count])
        abstained = np.zeros(len(labels), dtype=bool)
        abstained[: round(others * overall)] = True
        abstained[others : others + sent] = True
        if abstained_shares(labels, abstained, 2).verdicts[1] == "abstained away":
            away += math.comb(count, sent) * overall**sent * (1 - overall) ** (count - sent)
    assert 0 < away < 0.051


def test_the_class_that_pays_most_is_first_and_attributes_count_their_ones():
    labels = np.repeat([0, 1, 2], [1000, 50, 50])
    abstained = np.zeros(1100, dtype=bool)
    abstained[1000:1030] = abstained[1050:1095] = True
    assert abstained_shares(labels, abstained, 3).abstained_away == (2, 1)
    several = np.eye(3, dtype=int)[labels]
    assert abstained_shares(several, abstained, 3).each == pytest.approx((0.0, 0.6, 0.9))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: risk_coverage([True], [0.1, 0.2], [0, 1], 2), r"right must have the shape of labels, \(2,\)"),
        (lambda: risk_coverage([True, True], [0.1], [0, 1], 2), r"the shapes \(2,\) and \(1,\)\."),
        (lambda: risk_coverage([True, True], [0.1, np.nan], [0, 1], 2), "with NaN"),
        (lambda: risk_coverage([True, True], [0.1, 0.2], [0, 2], 2), "indices of 2 classes, .* up to 2"),
        (lambda: risk_coverage([True, True], [0.1, 0.2], [0, -1], 2), "indices of 2 classes"),
        (lambda: risk_coverage([], [], [], 2), "of at least one sample"),
        (lambda: risk_coverage([True], [0.1], [0.5], 2), "got float64 of shape"),
        (lambda: risk_coverage([[True, True]], [0.1], [[0, 1]], 3), "0 and 1 for each of 3 attributes"),
        (lambda: risk_coverage([True], [0.1], [0], 1, points=1), "points must be at least 2"),
        (lambda: abstained_shares([0, 1], [True], 2), r"one boolean for each of 2 samples, got \(1,\)"),
        (lambda: abstained_shares([0, 3], [True, True], 2), "indices of 2 classes, .* up to 3"),
    ],
)
def test_what_does_not_fit_is_refused(call, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        call()
