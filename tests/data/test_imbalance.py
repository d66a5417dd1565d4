"""Protocols of imbalance: which samples stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.imbalance import exponential, step
from equipoise.errors import InvalidInputError

BALANCED = np.repeat(np.arange(10), 200)
labels = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=100)
seeds = st.integers(0, 2**32 - 1)


def test_the_papers_step_keeps_a_tenth_of_half_of_the_classes():
    counts = np.bincount(BALANCED[step(BALANCED)])
    assert sorted(counts) == [20] * 5 + [200] * 5


def test_another_seed_draws_other_classes_and_other_samples():
    first, second = step(BALANCED, rng=0), step(BALANCED, rng=1)
    assert not np.array_equal(np.bincount(BALANCED[first]), np.bincount(BALANCED[second]))
    assert not np.array_equal(step(BALANCED, rng=0, rare=[3]), step(BALANCED, rng=1, rare=[3]))


def test_a_share_of_the_classes_is_what_a_reader_computes():
    y = np.repeat(np.arange(100), 10)
    for percent in range(101):  # 0.29 · 100 is 28.999… in floating point
        assert np.sum(np.bincount(y[step(y, share=percent / 100)]) == 1) == percent
    assert np.sum(np.bincount(y[step(y, share=0.999)]) == 1) == 99


def test_rare_classes_by_name():
    y = BALANCED.astype(str)
    counts = dict(zip(*np.unique(y[step(y, keep=0.25, rare=["3", "7"])], return_counts=True), strict=True))
    assert counts == {str(c): 50 if c in (3, 7) else 200 for c in range(10)}


def test_an_odd_number_of_classes_rounds_the_rare_half_down():
    y = np.repeat([0, 1, 2], 10)
    assert sorted(np.bincount(y[step(y)])) == [1, 10, 10]


@given(labels, st.floats(0.001, 1.0), st.floats(0, 1), seeds)
def test_a_step_keeps_every_class_and_repeats_itself(values, keep, share, seed):
    y = np.array(values)
    kept = step(y, keep, share, rng=seed)
    assert np.array_equal(kept, step(y, keep, share, rng=seed))
    assert np.array_equal(kept, step(y, keep, share, rng=np.random.default_rng(seed)))
    assert np.array_equal(kept, np.unique(kept)), "sorted, each once"
    before, after = (dict(zip(*np.unique(part, return_counts=True), strict=True)) for part in (y, y[kept]))
    assert before.keys() == after.keys()
    fewer = sum(after[c] < before[c] for c in before)
    assert fewer <= int(share * len(before) + 1e-9)
    for c, count in before.items():
        assert after[c] in (count, max(1, round(keep * count)))


def test_the_long_tail_reaches_its_ratio():
    counts = sorted(np.bincount(BALANCED[exponential(BALANCED, ratio=100)]), reverse=True)
    assert counts == [round(200 * 100 ** (-k / 9)) for k in range(10)]
    assert counts[0] / counts[-1] == 100


def test_the_classes_of_the_long_tail_come_in_a_random_order():
    orders = {tuple(np.argsort(-np.bincount(BALANCED[exponential(BALANCED, rng=seed)]))) for seed in range(5)}
    assert len(orders) == 5


@given(labels, st.floats(1, 1000), seeds)
def test_a_long_tail_keeps_every_class_and_repeats_itself(values, ratio, seed):
    y = np.array(values)
    kept = exponential(y, ratio, rng=seed)
    assert np.array_equal(kept, exponential(y, ratio, rng=seed))
    assert np.array_equal(kept, np.unique(kept))
    assert set(y[kept]) == set(values)


def test_a_ratio_of_one_keeps_everything():
    assert len(exponential(BALANCED, ratio=1)) == len(BALANCED)
    assert len(step(BALANCED, keep=1.0)) == len(BALANCED)


@pytest.mark.parametrize(("keep", "share"), [(0, 0.5), (1.1, 0.5), (0.1, -0.1), (0.1, 1.1), (float("nan"), 0.5)])
def test_shares_out_of_range_are_refused(keep, share):
    with pytest.raises(InvalidInputError, match=r"keep must lie in \(0, 1\] and share in \[0, 1\], got"):
        step(BALANCED, keep, share)


@pytest.mark.parametrize("ratio", [0.5, -1, float("nan")])
def test_a_ratio_below_one_is_refused(ratio):
    with pytest.raises(InvalidInputError, match="ratio must be at least 1, got"):
        exponential(BALANCED, ratio)


@pytest.mark.parametrize("protocol", [step, exponential])
@pytest.mark.parametrize("y", [[], [[0, 1], [1, 0]], 3])
def test_anything_but_a_list_of_labels_is_refused(protocol, y):
    with pytest.raises(InvalidInputError, match=r"y must be .*labels.* got an array of shape"):
        protocol(y)


def test_unknown_rare_classes_are_named():
    with pytest.raises(InvalidInputError, match=r"rare names classes that y does not have: \['11', '12'\]"):
        step(BALANCED, rare=[1, 11, 12])


@pytest.mark.parametrize("ratio", [1, 4, 10.0, 50])
def test_a_step_by_its_ratio_keeps_one_in_so_many(ratio):
    y = np.repeat(np.arange(4), 100)
    assert step(y, ratio=ratio, rng=3).tolist() == step(y, keep=1 / ratio, rng=3).tolist()
    counts = np.bincount(y[step(y, ratio=ratio, rare=[1, 2])])
    assert counts.tolist() == [100, round(100 / ratio), round(100 / ratio), 100]


@pytest.mark.parametrize("ratio", [0.5, 0, -3, float("nan")])
def test_a_step_below_one_is_refused(ratio):
    with pytest.raises(InvalidInputError, match="ratio must be at least 1"):
        step([0, 1], ratio=ratio)
