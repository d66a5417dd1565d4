"""Intervals against scipy's own, rankings against cases worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from equipoise.app.compare import Interval, paired_interval, rank
from equipoise.app.compare.leaderboard import mean_score
from equipoise.errors import InvalidInputError


def records(**scores):
    """One record a number, seeds counted from 0."""
    return [
        {"case": "c", "method": name, "seed": seed, "fold": 0, "scores": {"balanced_accuracy": value}}
        for name, values in scores.items()
        for seed, value in enumerate(values)
    ]


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=20), st.floats(0.5, 0.99))
def test_interval_of_independent_runs_is_students(values, confidence):
    found = paired_interval(values, confidence=confidence)
    expected = stats.ttest_1samp(np.asarray(values, dtype=float), 0.0) if np.ptp(values) > 1e-6 else None
    if expected is None:
        return
    low, high = expected.confidence_interval(confidence)
    assert found.low == pytest.approx(low, abs=1e-9)
    assert found.high == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.3]])
def test_fewer_than_three_pairs_give_no_interval(values):
    found = paired_interval(values)
    assert (found.mean, found.low, found.high, found.pairs) == (pytest.approx(np.mean(values)), None, None, len(values))
    assert found.contains_zero


def test_folds_widen_the_interval_as_nadeau_and_bengio_say():
    values = [0.02, 0.05, 0.01, 0.04, 0.03, 0.00, 0.02, 0.06, 0.03, 0.02]
    found = paired_interval(values, test_to_train=1 / 4)
    error = math.sqrt(np.var(values, ddof=1) * (1 / 10 + 1 / 4))
    low, high = stats.t.interval(0.95, 9, loc=np.mean(values), scale=error)
    assert (found.low, found.high) == pytest.approx((low, high))
    plain = paired_interval(values)
    assert found.high - found.low > 1.8 * (plain.high - plain.low)


def test_one_pair_has_no_interval_and_may_be_no_difference():
    found = paired_interval([0.3])
    assert found == Interval(0.3, None, None, 1)
    assert found.contains_zero


@pytest.mark.parametrize("values", [[], [math.nan, 0.1], [math.inf]])
def test_differences_must_be_finite(values):
    with pytest.raises(InvalidInputError, match="finite numbers, one per pair"):
        paired_interval(values)


@pytest.mark.parametrize("wrong", [{"test_to_train": -1.0}, {"confidence": 1.0}])
def test_nonsense_options_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="must not be negative and confidence between 0 and 1"):
        paired_interval([0.1, 0.2], **wrong)


def test_ranking_pairs_the_runs_of_a_seed():
    """Both vary by 0.2 between seeds, and differ by 0.01 to 0.02 within each: the pairs tell them apart."""
    found = rank(records(cross_entropy=[0.5, 0.6, 0.7], smote=[0.51, 0.62, 0.71], vs=[0.50, 0.63, 0.70]))
    assert [place.method for place in found.places] == ["smote", "vs", "cross_entropy"]
    first, second, last = found.places
    assert first.mean == pytest.approx(1.84 / 3)
    assert first.deviation == pytest.approx(np.std([0.51, 0.62, 0.71], ddof=1))
    assert first.to_best is None
    assert last.to_baseline is None
    assert last.to_best.mean == pytest.approx(0.04 / 3)
    assert first.to_baseline.mean == pytest.approx(0.04 / 3)
    assert second.tied  # 0.01, -0.01, 0.01
    assert not rank(records(a=[0.5, 0.6, 0.7], b=[0.4, 0.501, 0.6])).places[1].tied


def test_only_shared_runs_are_paired():
    some = records(cross_entropy=[0.5, 0.6, 0.7], smote=[0.6, 0.7, 0.8])
    without = [record for record in some if (record["method"], record["seed"]) != ("smote", 0)]
    found = {place.method: place for place in rank(without).places}
    assert found["smote"].runs == 2
    assert found["smote"].to_baseline.pairs == 2
    assert found["smote"].to_baseline.mean == pytest.approx(0.1)


def test_the_claim_allows_for_having_picked_the_best_of_many():
    """A lead that would pass alone does not pass as the best of forty."""
    lead = [0.01, 0.02, 0.03, 0.002, 0.02]
    rivals = {f"m{number}": [0.4] * 5 for number in range(39)}
    base = [0.5] * 5
    top = [0.5 + step for step in lead]
    alone = rank(records(cross_entropy=base, smote=top))
    among = rank(records(cross_entropy=base, smote=top, **rivals))
    assert not alone.claims["cross_entropy"].contains_zero
    assert among.claims["cross_entropy"].contains_zero
    expected = stats.t.interval(1 - 0.05 / 40, 4, loc=np.mean(lead), scale=stats.sem(lead))
    claim = among.claims["cross_entropy"]
    assert (claim.low, claim.high) == pytest.approx(expected)


def test_a_method_that_could_not_run_once_has_no_place():
    some = records(cross_entropy=[0.5, 0.6], smote=[0.6])
    some.append({"case": "c", "method": "smote", "seed": 1, "fold": 0, "cannot_run": "too few."})
    found = rank(some)
    assert [place.method for place in found.places] == ["cross_entropy"]
    assert found.cannot_run == {"smote": "too few."}


def test_scores_of_classes_go_by_mean_or_deviation():
    record = {"case": "c", "method": "a", "seed": 0, "fold": 0, "scores": {"f1": {"mean": 0.7, "deviation": 0.1}}}
    assert rank([record], metric="f1").places[0].mean == 0.7
    assert rank([record], metric="f1.deviation").places[0].mean == 0.1
    with pytest.raises(InvalidInputError, match="no score 'iba'"):
        rank([record], metric="iba")


def test_two_results_of_a_run_and_two_cases_are_refused():
    with pytest.raises(InvalidInputError, match="two results for seed 0"):
        rank(records(a=[0.5]) * 2)
    with pytest.raises(InvalidInputError, match="of a single case, got 2"):
        rank([*records(a=[0.5]), records(b=[0.5])[0] | {"case": "d"}])


def test_the_baseline_is_the_best_of_several():
    scores = {"boosting": [0.7, 0.8, 0.9], "cross_entropy": [0.5, 0.6, 0.7], "smote": [0.6, 0.7, 0.8]}
    found = rank(records(**scores), baseline=("cross_entropy", "boosting", "never_run"))
    assert found.baseline == "boosting"
    assert {place.method: place.to_baseline and round(place.to_baseline.mean, 3) for place in found.places} == {
        "boosting": None,
        "smote": -0.1,
        "cross_entropy": -0.2,
    }
    assert set(found.claims) == {"smote", "cross_entropy"}
    assert rank(records(**scores), baseline=()).baseline is None


@pytest.mark.parametrize("metric", ["log_loss", "calibration.ece"])
def test_errors_are_not_ranked_by(metric):
    with pytest.raises(InvalidInputError, match=f"higher is better, got '{metric}'"):
        rank(records(a=[0.5]), metric=metric)


def test_a_mean_is_over_the_fits_that_have_the_score():
    some = [{"scores": {"auc": {"mean": value}}} for value in (0.5, None, 0.7)]
    assert mean_score(some, "auc") == pytest.approx(0.6)
    assert mean_score([{"scores": {}}, {"cannot_run": "too few."}], "auc") is None
