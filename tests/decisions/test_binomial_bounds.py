"""Promises hold as often as they say: by simulation, against sums of binomial terms, and for several classes."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.decisions import Evidence, PrecisionAtLeast, RecallAtLeast, Situation
from equipoise.decisions.binomial_bounds import allowed_misses, least_share, samples_needed
from tests.decisions.made import many_classes, several_labels, two_classes

DRAWS = 1000
BAND = 3 * np.sqrt(0.05 * 0.95 / DRAWS)


def slow_tail(k: int, n: int, p: float) -> float:
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


@given(st.integers(1, 300), st.floats(0.05, 0.99), st.floats(0.001, 0.2))
def test_allowed_misses_are_the_most_that_keep_the_risk(n, floor, risk):
    k = allowed_misses(n, floor, risk)
    assert k == -1 or slow_tail(k, n, 1 - floor) <= risk * (1 + 1e-9)
    assert slow_tail(k + 1, n, 1 - floor) > risk * (1 - 1e-9)


@given(st.integers(1, 100), st.integers(0, 100))
def test_the_least_share_is_where_so_many_hits_become_too_improbable(n, hits):
    hits = min(hits, n)
    share = least_share(hits, n, 0.05)
    if hits:
        assert 1 - slow_tail(hits - 1, n, share) == pytest.approx(0.05, rel=1e-6)
    else:
        assert share == 0


@pytest.mark.parametrize(("floor", "risk"), [(0.95, 0.05), (0.9, 0.05), (0.5, 0.025), (0.99, 0.01)])
def test_samples_needed_are_the_fewest(floor, risk):
    n = samples_needed(floor, risk)
    assert floor**n <= risk < floor ** (n - 1)
    assert allowed_misses(n, floor, risk) == 0
    assert allowed_misses(n - 1, floor, risk) == -1


@pytest.mark.parametrize(
    ("samples", "floor"),
    [(59, 0.95), (35, 0.9), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((200, 0.95), (150, 0.8)))],
)
def test_the_promised_recall_holds_in_95_of_100_draws(samples, floor):
    """Scores are uniform, so that the true recall of a threshold is known; any other scores are a monotone map."""
    rng = np.random.default_rng(samples)
    failed, expected = 0, slow_tail(allowed_misses(samples, floor, 0.05), samples, 1 - floor)
    y = np.repeat([0, 1], [5, samples])
    prior = np.bincount(y) / len(y)
    for _ in range(DRAWS):
        p = np.concatenate((np.full(5, 0.5), rng.random(samples)))
        situation = Situation((0, 1), prior, prior, Evidence.of(np.stack((1 - p, p), 1), y))
        (claim,) = RecallAtLeast({1: floor})._policy(situation).claims
        failed += 1 - claim.threshold < floor
    assert failed / DRAWS <= 0.05 + BAND
    assert failed / DRAWS == pytest.approx(expected, abs=BAND)


@pytest.mark.slow
def test_two_promises_hold_together_and_in_their_order():
    """A row goes to b where b reaches its threshold, else to c where c does: the true recalls from a huge sample."""
    huge = many_classes(100_000, seed=10_000)
    q, y = huge.probabilities, huge.evidence.labels
    rng, failed = np.random.default_rng(0), 0
    rule = RecallAtLeast({"b": 0.6, "c": 0.3})
    draws = 1000
    scores = {place: q[y == place] for place in (1, 2)}
    rows = np.array([400, 150, 80])
    labels = np.repeat(np.arange(3), rows)
    for _ in range(draws):
        drawn = np.concatenate([q[rng.choice(np.flatnonzero(y == place), rows[place])] for place in range(3)])
        chosen = rule._policy(Situation(huge.classes, huge.prior, huge.aimed, Evidence.of(drawn, labels)))
        one, two = (claim.threshold for claim in chosen.claims)
        assert [promise.promised for promise in chosen.promises] == [0.6, 0.3]
        first = (scores[1][:, 1] >= one).mean()
        second = ((scores[2][:, 2] >= two) & (scores[2][:, 1] < one)).mean()
        failed += first < 0.6 or second < 0.3
    assert failed / draws <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)
    assert failed > 0


def test_the_promised_precision_holds_in_95_of_100_draws():
    truth = two_classes(400_000, 0.2, seed=77)
    true_p = np.sort(truth.probabilities[:, 1])[::-1]
    precise = true_p.cumsum() / np.arange(1, len(true_p) + 1)  # calibrated: the precision above each probability
    failed, draws = 0, 1000
    for seed in range(draws):
        chosen = PrecisionAtLeast({"fraud": 0.6})._policy(two_classes(600, 0.2, seed=seed))
        named = int(np.searchsorted(-true_p, -chosen.claims[0].threshold))
        failed += precise[max(named - 1, 0)] < chosen.promises[0].promised
    assert failed / draws <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_13_positives_cannot_carry_95_percent_and_a_sentence_says_what_they_can():
    rng = np.random.default_rng(0)
    p, y = rng.random(513), np.repeat([0, 1], [500, 13])
    prior = np.array([500, 13]) / 513
    evidence = Evidence.of(np.stack((1 - p, p), 1), y)
    chosen = RecallAtLeast({"fraud": 0.95}).choose(Situation(("ok", "fraud"), prior, prior, evidence))
    (note,) = chosen.policy.notes
    assert note == (
        "a recall of 95 % cannot be promised for class 'fraud', 79.4 % can: it has 13 samples to choose by, "
        "and 59 are needed."
    )
    assert chosen.promises[0].promised == pytest.approx(0.05 ** (1 / 13))
    assert chosen.policy.claims[0].threshold == pytest.approx(p[500:].min(), rel=1e-5)
    assert "with 95 % confidence it finds at least 79.4 % of class 'fraud'." in list(chosen.sentences())


def test_classes_that_ask_for_the_same_rows_are_served_in_order_and_the_loser_is_told():
    situation = many_classes()
    first, second = (
        RecallAtLeast(floors).choose(situation) for floors in ({"b": 0.95, "c": 0.95}, {"c": 0.95, "b": 0.95})
    )
    for chosen, loser in ((first, "c"), (second, "b")):
        assert chosen.promises[0].promised == 0.95
        assert f"cannot be promised for class {loser!r}" in chosen.policy.notes[0]
        assert "go to classes listed before it; list it earlier" in chosen.policy.notes[0]
        assert chosen.expected is not None
        place = situation.classes.index(loser)
        assert chosen.promises[1].promised < chosen.expected.classes[place].recall.value


def test_each_of_several_labels_has_its_own_promise():
    situation = several_labels()
    chosen = RecallAtLeast({"s": 0.9, "t": 0.7}).choose(situation)
    answers, y = chosen.policy.places(situation.probabilities), situation.evidence.labels
    for place, floor in enumerate((0.9, 0.7)):
        found = answers[y[:, place] == 1, place]
        missed = int((found == 0).sum())
        assert missed == allowed_misses(len(found), floor, 0.025)
