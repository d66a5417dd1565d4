"""Moving probabilities to another class mix, and finding the mix of samples without labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.calibration import estimate_prior, move_prior
from equipoise.errors import InvalidInputError
from tests.reference import trust as reference


def random_probabilities(seed, *shape):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(shape[-1], 0.5), shape[:-1])
    return p, rng.dirichlet(np.full(shape[-1], 2.0), shape[1:-1])


def gaussians(seed, mix, rows, *, old, distance=2.0):
    """Exact posteriors at the mix ``old`` of points drawn at ``mix``: unit Gaussians on a line."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(mix), rows, p=mix)
    x = rng.normal(size=rows) + distance * labels
    likelihood = np.exp(-0.5 * (x[:, None] - distance * np.arange(len(mix))) ** 2)
    posterior = likelihood * old
    return posterior / posterior.sum(1, keepdims=True), labels


# --- moving ---------------------------------------------------------------------------------------------------------


def test_moved_posteriors_are_those_of_the_other_mix():
    old, new = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.1, 0.8])
    at_old, at_new = (gaussians(0, old, 200, old=mix)[0] for mix in (old, new))
    np.testing.assert_allclose(move_prior(at_old, old=old, new=new), at_new, rtol=1e-9)
    np.testing.assert_allclose(move_prior(at_old, old=5 * old, new=3 * new), at_new, rtol=1e-9)


def test_of_a_class_never_seen_nothing_is_known():
    p = [[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]]
    moved = move_prior(p, old=[0.5, 0.5, 0.0], new=[0.25, 0.25, 0.5])
    np.testing.assert_allclose(moved, [[0.625, 0.375, 0.0], [0.25, 0.25, 0.5]])
    with pytest.raises(InvalidInputError, match="old must hold one share per class"):
        move_prior(p, old=[1, 1], new=[1, 1, 1])


# --- estimating -----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 5), st.integers(1, 30), st.booleans())
def test_each_step_is_what_a_loop_gives_and_the_likelihood_never_falls(seed, rows, classes, steps, absent):
    p, old = random_probabilities(seed, rows, classes)
    if absent:
        old = np.where(np.arange(classes) == seed % classes, 0.0, old)
        old = old / old.sum()
    expected, likelihood = old.tolist(), -np.inf
    for number in range(1, steps + 1):
        expected = reference.em_step(p.tolist(), expected, old.tolist())
        found = estimate_prior(p, old=7 * old, tolerance=1e-300, iterations=number)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
        now = reference.mixture_likelihood(p.tolist(), found.tolist(), old.tolist())
        assert now >= likelihood - 1e-9
        likelihood = now
    if absent:
        assert found[seed % classes] == 0


def test_at_the_end_no_other_mix_explains_the_samples_better():
    p, old = random_probabilities(3, 60, 3)
    best = estimate_prior(p, old=old, tolerance=1e-12, iterations=20_000)
    top = reference.mixture_likelihood(p.tolist(), best.tolist(), old.tolist())
    for other in np.random.default_rng(0).dirichlet(np.ones(3), 300):
        assert reference.mixture_likelihood(p.tolist(), other.tolist(), old.tolist()) <= top + 1e-9


@pytest.mark.parametrize("mix", [[0.5, 0.3, 0.2], [0.02, 0.08, 0.9], [0.0, 0.5, 0.5]])
def test_the_mix_of_gaussians_is_found_within_the_error_of_counting(mix):
    """Ten draws: the estimate is unbiased, and spreads hardly more than the share of labels would."""
    rows, old = 4000, np.array([0.8, 0.15, 0.05])
    found = np.array([estimate_prior(gaussians(seed, mix, rows, old=old)[0], old=old) for seed in range(10)])
    counting = np.sqrt(np.maximum(np.array(mix) * (1 - np.array(mix)), 0.01) / rows)
    assert (np.abs(found.mean(0) - mix) < 3 * 2 * counting / np.sqrt(10)).all()
    assert (np.abs(found - mix) < 4 * 2 * counting).all()
    np.testing.assert_allclose(found.sum(1), 1)


def test_what_is_estimated_beats_the_old_mix_in_log_loss():
    old, mix = np.array([0.8, 0.15, 0.05]), [0.1, 0.2, 0.7]
    p, labels = gaussians(1, mix, 2000, old=old)
    moved = move_prior(p, old=old, new=estimate_prior(p, old=old))
    loss, before, ideal = (
        -np.log(q[np.arange(2000), labels]).mean() for q in (moved, p, move_prior(p, old=old, new=mix))
    )
    assert loss < before - 0.1
    assert loss == pytest.approx(ideal, abs=0.005)


def test_smoothing_adds_samples_of_every_class_seen():
    sure = np.eye(4)[[0, 0, 1, 1, 1, 1]]
    np.testing.assert_allclose(estimate_prior(sure, old=[1, 1, 1, 0], smoothing=1), [3 / 9, 5 / 9, 1 / 9, 0])
    p, old = random_probabilities(2, 25, 3)
    expected = old.tolist()
    for _ in range(40):
        expected = [(25 * share + 0.5) / 26.5 for share in reference.em_step(p.tolist(), expected, old.tolist())]
    found = estimate_prior(p, old=old, smoothing=0.5, tolerance=1e-300, iterations=40)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_rare_class_is_not_ruled_out_with_smoothing():
    """Twenty of each of two classes look alike to a model that never names the third, of which there is one sample."""
    p = np.array([[0.7, 0.2999, 0.0001]] * 20 + [[0.3, 0.6999, 0.0001]] * 20 + [[0.4, 0.4, 0.2]])
    old = np.full(3, 1 / 3)
    plain, smooth = (estimate_prior(p, old=old, smoothing=number) for number in (0.0, 1.0))
    assert plain[2] < 1e-3
    assert smooth[2] == pytest.approx(1 / 44, rel=0.5)


def test_attributes_are_estimated_each_by_itself():
    p, old = random_probabilities(5, 30, 4, 2)
    found = estimate_prior(p, old=old)
    assert found.shape == (4, 2)
    for place in range(4):
        np.testing.assert_allclose(found[place], estimate_prior(p[:, place], old=old[place]), rtol=1e-12)


def test_it_stops_once_nothing_moves():
    p, old = random_probabilities(5, 40, 3)
    first, second = (estimate_prior(p, old=old, iterations=number) for number in (1, 2))
    step = np.abs(second - first).max()
    assert np.array_equal(estimate_prior(p, old=old, tolerance=step * 1.001), second)
    assert not np.array_equal(estimate_prior(p, old=old, tolerance=step * 0.999), second)


def test_hopeless_and_certain_probabilities():
    sure = np.eye(3)[[0, 0, 1, 1, 1]]
    np.testing.assert_allclose(estimate_prior(sure, old=[1, 1, 1]), [0.4, 0.6, 0.0])
    same = np.tile([0.5, 0.3, 0.2], (4, 1))
    np.testing.assert_allclose(estimate_prior(same, old=[0.5, 0.3, 0.2]), [0.5, 0.3, 0.2])  # they say nothing
    silent = np.array([[0, 0, 1.0], [0.5, 0.5, 0.0], [1e-300, 0.0, 1.0]])
    found = estimate_prior(silent, old=[0.5, 0.5, 0.0])
    assert found.sum() == pytest.approx(1)
    assert found[0] == pytest.approx(1, abs=1e-3)  # the first row says nothing; the third, that it is not the second
    assert found[2] == 0


@pytest.mark.parametrize(
    ("p", "options", "sentence"),
    [
        ([0.5, 0.5], {}, r"\(rows, classes\) or \(rows, attributes, 2\), with at least one row, got \(2,\)"),
        (np.zeros((0, 2)), {}, r"with at least one row, got \(0, 2\)"),
        (np.full((3, 2, 3), 1 / 3), {}, r"\(rows, attributes, 2\), with at least one row, got \(3, 2, 3\)"),
        ([[2.0, -1.0]], {}, "must lie between 0 and 1; apply softmax"),
        ([[np.nan, 1.0]], {}, "must lie between 0 and 1; apply softmax"),
        ([[0.5, 0.6]], {}, "must sum to 1; apply softmax"),
        ([[0.5, 0.5]], {"old": [1, 1, 1]}, r"^old must hold one share per class, \(2,\), none negative"),
        ([[0.5, 0.5]], {"old": [1, -1]}, "^old must hold one share per class"),
        ([[0.5, 0.5]], {"old": [0, 0]}, "^old must hold one share per class"),
        ([[0.5, 0.5]], {"old": [1e308, 1e308]}, "with a finite sum above 0; got"),
        ([[0.5, 0.5]], {"old": [1.0] * 10**5}, r"got \[1\.0, .{1,200}…\.$"),
        ([[0.0, 1.0]], {"old": [1, 0]}, "pass the prior of these probabilities"),
        ([[0.5, 0.5]], {"tolerance": 0.0}, r"tolerance and iterations must be above 0 .* got 0\.0, 1000 and 0\.0"),
        ([[0.5, 0.5]], {"iterations": 0}, r"smoothing not negative, got 1e-08, 0 and 0\.0"),
        ([[0.5, 0.5]], {"smoothing": -1.0}, r"smoothing not negative, got 1e-08, 1000 and -1\.0"),
    ],
)
def test_what_no_mix_can_be_found_from_is_refused(p, options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        estimate_prior(p, **({"old": [1, 1]} | options))
