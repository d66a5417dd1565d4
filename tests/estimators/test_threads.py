"""Read-only calls from many threads at once: each gets what a single thread gets, and nothing is left changed."""

import threading

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from equipoise import UncertaintyBalancedClassifier

THREADS = 6
ROUNDS = 4

CALLS = {
    "predict": lambda clf, x: clf.predict(x),
    "predict at a prior": lambda clf, x: clf.predict(x, target_prior=np.arange(1, 11)),
    "predict_proba": lambda clf, x: clf.predict_proba(x),
    "predict_proba by passes": lambda clf, x: clf.predict_proba(x, passes=5),
    "uncertainty": lambda clf, x: clf.uncertainty(x),
    "uncertainty of the passes": lambda clf, x: clf.uncertainty(x, kind="passes"),
    "prediction_sets": lambda clf, x: clf.prediction_sets(x),
    "predict or abstain": lambda clf, x: clf.predict(x, abstain=0.2).filled(-1),
    "estimate_prior": lambda clf, x: clf.estimate_prior(x),
}


@pytest.fixture(scope="module")
def fitted():
    x, y = load_digits(return_X_y=True)
    clf = UncertaintyBalancedClassifier(epochs=3, width=64, random_state=0, calibration="none").fit(x[:800], y[:800])
    return clf.calibrate(x[800:1300], y[800:1300]), x[1300:1500]


def test_every_call_of_every_thread_gives_what_one_thread_gets(fitted):
    clf, x = fitted
    expected = {name: call(clf, x) for name, call in CALLS.items()}
    modes = [module.training for module in clf.network_.modules()]
    state, threads_used = torch.get_rng_state(), torch.get_num_threads()
    wrong: list[str] = []
    together = threading.Barrier(THREADS)

    def work(first: int) -> None:
        names = list(CALLS)
        together.wait()
        for number in range(ROUNDS * len(names)):
            name = names[(first + number) % len(names)]
            if not np.array_equal(CALLS[name](clf, x), expected[name]):
                wrong.append(name)

    started = [threading.Thread(target=work, args=(3 * number,)) for number in range(THREADS)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert wrong == []
    assert [module.training for module in clf.network_.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads_used
    for name, call in CALLS.items():
        assert np.array_equal(call(clf, x), expected[name]), name


@pytest.mark.parametrize(
    "name", ["predict_proba", "predict_proba by passes", "uncertainty", "uncertainty of the passes"]
)
def test_a_row_does_not_depend_on_the_rows_beside_it(fitted, name):
    clf, x = fitted
    call, together = CALLS[name], CALLS[name](clf, x)
    np.testing.assert_allclose(call(clf, x[::-1].copy())[::-1], together, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(call(clf, x[7:8]), together[7:8], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(call(clf, np.concatenate((x[50:51], x)))[1:], together, rtol=1e-4, atol=1e-6)
