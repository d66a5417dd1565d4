"""A limit on the clock ends whatever is still running, by a clock of the test's own."""

import pickle
import threading

import numpy as np
import pytest
import torch

from equipoise.app.compare import Fit, FitOptions, OutOfTimeError
from equipoise.app.compare.deadline import Deadline, Pace
from equipoise.app.compare.single_fit import FoldFitter
from equipoise.data.samples import Samples
from tests.app.compare.clocks import HandClock, StepClock


def test_a_call_returns_what_the_function_returns_and_raises_what_it_raises():
    deadline = Deadline(0.0, 10.0, HandClock())
    assert deadline.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        deadline.call(lambda: 1 // 0)


def test_a_call_that_cannot_be_interrupted_is_left_behind_at_the_limit():
    clock, release = HandClock(), threading.Event()

    def stuck():
        clock.now = 11.0  # the limit passes while compiled code runs
        release.wait()

    with pytest.raises(OutOfTimeError, match="time limit was reached"):
        Deadline(0.0, 10.0, clock).call(stuck)
    release.set()


def test_nothing_is_called_after_the_limit():
    called = []
    with pytest.raises(OutOfTimeError):
        Deadline(0.0, 10.0, HandClock(10.0)).call(lambda: called.append(1))
    assert not called


def test_an_interrupted_call_ends_its_training_at_the_next_step():
    clock, ended = HandClock(), threading.Event()
    deadline = Deadline(0.0, 10.0, clock)

    def training():
        clock.interrupt = True  # the next look of the main thread at the clock is Ctrl-C
        try:
            while True:
                deadline.step(0, "train", 1)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        deadline.call(training)
    assert ended.wait()


def test_a_training_ends_at_the_step_at_which_the_time_is_up():
    clock = StepClock()
    deadline = Deadline(0.0, 7.0, clock)
    x, y = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)).numpy(), np.arange(64) % 2
    run = FoldFitter(Samples(x, y), 2, FitOptions(epochs=50, width=4, batch_size=4), False, lambda x: x, deadline)
    with pytest.raises(OutOfTimeError):
        run(Fit("data", "cross_entropy", 0))
    assert clock.now == 7.0  # of 400 steps


def test_a_deadline_goes_to_another_process():
    assert pickle.loads(pickle.dumps(Deadline(3.0, 4.0))) == Deadline(3.0, 4.0)


def test_features_that_cannot_be_ready_in_time_end_after_the_second_batch():
    clock, seen = HandClock(), []
    pace = Pace(Deadline(0.0, 100.0, clock), lambda *each: seen.append(each))
    pace(0, 5_000)
    clock.now = 5.0
    pace(100, 5_000)  # the first batch warms up
    clock.now = 9.0
    with pytest.raises(OutOfTimeError, match=r"takes about 3.2 min more.*give more minutes"):
        pace(200, 5_000)  # 4 s for each hundred: 192 s for the rest
    assert seen == [(0, 5_000), (100, 5_000), (200, 5_000)]


def test_features_that_are_ready_in_time_go_on():
    clock, seen = HandClock(), []
    pace = Pace(Deadline(0.0, 100.0, clock), lambda done, _: seen.append(done))
    for done in range(100, 2_100, 100):
        clock.now += 4.0
        pace(done, 2_000)
    assert seen == list(range(100, 2_100, 100))  # to the end, in 80 of the 100 seconds
