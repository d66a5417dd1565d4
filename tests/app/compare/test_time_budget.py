"""What is planned, and handed out fit by fit, stays within the time."""

from itertools import count

import numpy as np
import pytest

from equipoise.app.compare import Fit, FitOptions, Method, ResultStore
from equipoise.app.compare.deadline import Deadline
from equipoise.app.compare.duration_estimates import FirstSteps, Measured, estimate_durations
from equipoise.app.compare.runner import run_fits
from equipoise.app.compare.single_fit import FoldFitter
from equipoise.app.compare.time_budget import Schedule, choose
from equipoise.data.samples import Samples
from tests.app.compare.clocks import HandClock

COST = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 30.0}


@pytest.mark.parametrize(
    ("left", "methods", "rounds"),
    [
        (1000.0, "abcde", 25),
        (200.0, "abcde", 5),
        (90.0, "abcd", 22),
        (12.0, "abcd", 3),
        (11.0, "abcd", 2),  # three rounds of three methods would leave out a fourth that can be tried
        (3.0, "abc", 1),
        (0.5, "", 0),
    ],
)
def test_a_plan_gives_three_rounds_to_as_many_methods_as_fit(left, methods, rounds):
    plan = choose("abcde", COST, {}, rounds=25, left=left)
    assert ("".join(plan.methods), plan.rounds) == (methods, rounds)
    assert sum(COST[name] for name in plan.methods) * plan.rounds <= left


def test_a_plan_without_time_is_what_is_finished():
    finished = {"a": {0, 1, 2}, "b": {0, 1, 2, 3}, "c": {0, 1, 2}, "d": {0, 1, 2}, "e": {0}}
    assert choose("abcde", COST, finished, rounds=25, left=0.0).methods == ("a", "b", "c", "d")
    assert choose("abcde", COST, finished | {"a": {0}}, rounds=25, left=0.0).rounds == 1


def schedule_of(seconds, estimates, *, budget, jobs=1, first=("a",), rounds=9):
    """A schedule whose fits take so many seconds of a clock that only they move, and a function that runs it."""
    clock = HandClock()
    store = ResultStore(None, data={}, settings={})
    deadline = Deadline(0.0, budget, clock)
    own = Schedule(
        list(seconds),
        store,
        deadline,
        first=first,
        fit=lambda name, n: Fit("case", name, n),
        rounds=rounds,
        jobs=jobs,
    )
    own.estimates = dict(estimates)
    handed = []

    def run(fit):
        handed.append(fit.method)
        clock.now += seconds[fit.method]
        return {"scores": {}}

    run_fits(own, store, run, clock=clock, counts=own.counts)
    return own, handed, clock


def test_no_fit_begins_that_does_not_fit():
    seconds = {"a": 4.0, "b": 1.0, "c": 50.0, "d": 2.0, "e": 3.0}
    own, handed, clock = schedule_of(seconds, seconds, budget=60.0)
    assert clock.now <= 60
    assert "c" not in handed
    assert handed[:4] == ["b", "d", "e", "a"]  # the cheapest first
    assert set(own.reached().methods) == {"a", "b", "d", "e"}
    assert own.reached().rounds >= 3
    assert own.left_out() == {"c": "a fit takes about 50 s"}


def test_measurements_replace_estimates():
    seconds = {"a": 8.0, "b": 8.0, "c": 8.0, "d": 8.0, "e": 8.0}
    own, _, clock = schedule_of(seconds, dict.fromkeys(seconds, 1.0), budget=100.0)
    assert clock.now <= 100
    assert own.costs() == seconds
    assert own.reached().methods[0] == "a"
    assert "minutes" not in own.needed()
    assert own.needed().startswith("about 3 for 3 fits of each method or about 8 for 9 fits of each method")  # min


def test_a_method_that_has_begun_is_not_given_up_for_another_as_cheap():
    estimates = dict.fromkeys("abcdefgh", 2.0)
    own, handed, _ = schedule_of(estimates | {"b": 2.1}, estimates, budget=30.0)
    assert set(handed) == set(own.reached().methods) == set("abcd")  # b took a little longer than it was to
    assert own.reached().rounds == 3


def test_methods_of_a_model_share_a_measurement_and_grow_as_they_declare():
    """On a clock that a fit moves by a second for each of its rows."""
    clock, fits = HandClock(), []

    class Stump:
        def fit(self, x, y):
            fits.append(len(x))
            clock.now += len(x)
            self.label = y[0]

        def predict(self, x):
            return np.full(len(x), self.label)

    methods = {
        "plain": Method("a", "table", lambda *_: Stump(), model="a", growth=1.0),
        "shifted": Method("b", "table", lambda *_: Stump(), model="a", growth=1.0),
        "other": Method("c", "own", lambda *_: Stump()),
    }
    y = np.array([0] * 4000 + [1] * 2000)
    run = FoldFitter(Samples(np.zeros((6000, 2)), y), 3, FitOptions(), False, lambda x: x, methods=methods)
    found: dict[str, float] = {}
    estimate_durations(methods, run, Deadline(0.0, 1e9, clock), found)
    assert fits == [500, 500]  # an eighth of 4,000 rows, once for each model
    assert found == pytest.approx({"plain": 4000, "shifted": 4000, "other": 500 * 8**2}, rel=1e-6)


def test_measuring_leaves_most_of_the_time_to_fits():
    """Ten methods of 10 s each, within 100 s: three are measured, which takes a little more than a quarter of it."""
    clock = HandClock()

    class Slow:
        def fit(self, x, y):  # noqa: ARG002
            clock.now += 10

        def predict(self, x):
            return np.zeros(len(x))

    methods = {name: Method(name, "own", lambda *_: Slow()) for name in "abcdefghij"}
    run = FoldFitter(
        Samples(np.zeros((60, 2)), np.arange(60) % 2), 3, FitOptions(), False, lambda x: x, methods=methods
    )
    found: dict[str, float] = {}
    estimate_durations(methods, run, Deadline(0.0, 100.0, clock), found)
    assert found == {"a": 10.0, "b": 10.0, "c": 10.0}


def test_first_steps_end_after_enough_of_them():
    clock = HandClock()
    watcher = FirstSteps(Deadline(0.0, 1000.0, clock), steps=10)
    for _ in range(3):
        clock.now += 4.0
        watcher.step(0, "train", 25)
    clock.now += 4.0
    with pytest.raises(Measured):
        watcher.step(0, "train", 25)  # 12 s are more than a hundredth of the time
    assert (watcher.seconds_a_step, watcher.in_an_epoch) == (4.0, 25)


@pytest.mark.parametrize(("epochs", "steps"), [(None, 2_010), (40, 40 * 5)])  # 160 rows in batches of 32
def test_the_cost_of_a_fit_is_that_of_all_its_steps(epochs, steps):
    """On a clock that moves by a second whenever it is read, which is equally often at each step."""
    y = np.array([0] * 195 + [1] * 45)
    x = np.random.default_rng(0).normal(size=(240, 3)).astype(np.float32)
    run = FoldFitter(Samples(x, y), 3, FitOptions(epochs=epochs, width=8), False, lambda x: x)
    ticks = count()
    found: dict[str, float] = {}
    deadline = Deadline(0.0, 1e9, lambda: float(next(ticks)))
    estimate_durations(["cross_entropy", "random_under"], run, deadline, found)
    assert found["cross_entropy"] == pytest.approx(steps, rel=0.02)
    assert found["random_under"] == pytest.approx(steps, rel=0.1)  # as many, with fewer rows
