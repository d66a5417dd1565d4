"""A run that is killed at any moment and resumed ends with the bits of one that was left alone."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from equipoise.errors import EquipoiseError, InvalidStateError
from equipoise.losses import LOSSES
from equipoise.models import MLP
from equipoise.training import (
    ArrayData,
    Curriculum,
    EpochBatches,
    Network,
    NonFiniteLossError,
    Settings,
    Stopped,
    train,
)
from equipoise.training.checkpoints import Checkpoints
from equipoise.training.resumable_run import IDENTITY
from equipoise.training.watchers import Silence
from tests.marks import mostly_slow
from tests.training.digits_run import STOPPED, Digits, digits_network, imbalanced_digits, run, without_seconds
from tests.training.processes import ENVIRONMENT, ROOT, Attempts, command, shared_once

STEPS = 12
"""Steps per epoch of the first two stages, which leave a tenth of the samples out; the sample stage has one more."""
ALL = 6 * STEPS + 3 * (STEPS + 1)
"""In an epoch of the digits."""

BEYOND_THE_BEST = 0.02
"""A learning rate with which the last epoch is not the best one."""


class Deadline(Silence):
    """Does something real after a number of steps."""

    def __init__(self, steps, action):
        self.left, self.action = steps, action

    def step(self, epoch, stage, steps):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            self.action()


class AbandonedError(Exception):
    """The process is gone, as far as the run can tell."""


def abandon():
    raise AbandonedError


def position(folder: Path) -> dict:
    found = Checkpoints(folder / "checkpoints").newest()
    assert found is not None
    return found[1]["position"]


def recorded(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return shared_once(tmp_path_factory, "undisturbed", lambda folder: run(folder / "run"))


def assert_same_end(folder: Path, sha256: str, history: list[dict], undisturbed) -> None:
    expected_sha256, expected_history = undisturbed
    assert without_seconds(history) == without_seconds(expected_history)
    assert sha256 == expected_sha256
    assert recorded(folder) == history


def test_the_same_seed_gives_the_same_weights_with_and_without_a_folder(undisturbed):
    sha256, history = run(None)
    assert sha256 == undisturbed[0]
    assert without_seconds(history) == without_seconds(undisturbed[1])


def test_the_run_goes_through_every_stage(undisturbed):
    assert [record["stage"] for record in undisturbed[1]] == ["softmax"] * 2 + ["class"] * 4 + ["sample"] * 3
    assert undisturbed[1][-1]["strength"] > 0


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_it_ends_with_the_same_bits(tmp_path, undisturbed):
    draw = random.Random(0)
    moments = sorted(draw.sample(range(1, ALL - 30), 11))
    folder = tmp_path / "run"
    with Attempts(folder, "--checkpoint-steps", 2) as attempts:
        done = 0
        for moment in moments:
            steps = max(1, moment - done)  # each attempt starts where the one before had saved
            pid = attempts.start(steps + 2)
            assert attempts.after(steps), "it was over before the kill"
            time.sleep(draw.uniform(0, 0.01))  # so that the kill may fall anywhere in the next two steps
            assert attempts.killed(pid) == -signal.SIGKILL
            done = position(folder)["total"] if any((folder / "checkpoints").glob("step-*")) else 0
            assert moment - 2 <= done <= ALL - 20

    starting = subprocess.Popen(
        command(folder, "--checkpoint-steps", 2, "--steps", 1), cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.PIPE
    )
    time.sleep(draw.uniform(0.2, 1.0))  # in the imports, on most machines
    starting.kill()
    starting.communicate()
    assert starting.returncode == -signal.SIGKILL

    before = position(folder)["total"]
    last = subprocess.run(
        command(folder, "--checkpoint-steps", 2), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    result = json.loads(last.stdout.splitlines()[-1].removeprefix("finished "))
    assert last.stdout.count("\nstep ") == ALL - before, "it goes on where it was"
    assert_same_end(folder, result["sha256"], result["history"], undisturbed)


def test_killed_before_a_checkpoint_gets_its_name_it_resumes_from_the_one_before(tmp_path, monkeypatch, undisturbed):
    replace = Path.replace

    def killed(part, target):
        if "step-000000020" in target.name:
            (tmp_path / "left").write_bytes(part.read_bytes())  # what SIGKILL would leave; an exception removes it
            raise AbandonedError
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(AbandonedError):
        run(tmp_path / "run", checkpoint_steps=2)
    monkeypatch.undo()
    part = tmp_path / "run" / "checkpoints" / ".step-000000020.safetensors.123-0badcafe.part"
    (tmp_path / "left").rename(part)
    assert position(tmp_path / "run")["total"] == 18
    assert_same_end(tmp_path / "run", *run(tmp_path / "run", checkpoint_steps=2), undisturbed)
    assert not part.exists()


@pytest.mark.slow
def test_asked_to_stop_it_saves_that_very_step_and_resumes_to_the_same_bits(tmp_path, undisturbed):
    folder = tmp_path / "run"
    with Attempts(folder) as attempts:  # what is saved within an epoch, the signal saved
        for number, steps in ((signal.SIGTERM, 5), (signal.SIGINT, 3 * STEPS)):
            before = position(folder)["total"] if (folder / "checkpoints").exists() else 0
            pid = attempts.start(steps)
            assert attempts.after(steps)
            assert attempts.killed(pid, number) == STOPPED
            after = position(folder)
            assert after["total"] == before + steps
            assert after["total"] == after["epoch"] * STEPS + max(0, after["epoch"] - 6) + after["step"]
    assert_same_end(folder, *run(folder), undisturbed)


@pytest.mark.parametrize(
    ("number", "steps"),
    mostly_slow(
        [(signal.SIGTERM, STEPS), (signal.SIGINT, STEPS - 1), (signal.SIGTERM, 1), (signal.SIGINT, 5 * STEPS + 4)]
    ),
)
def test_a_signal_stops_after_the_step_it_came_in(tmp_path, undisturbed, number, steps):
    handler = signal.getsignal(number)
    with pytest.raises(
        Stopped, match=rf"stopped in epoch {(steps - 1) // STEPS + 1} as asked; train into .* again to resume"
    ):
        run(tmp_path, watcher=Deadline(steps, lambda: os.kill(os.getpid(), number)))
    assert position(tmp_path)["total"] == steps
    assert signal.getsignal(number) is handler
    assert_same_end(tmp_path, *run(tmp_path), undisturbed)


@pytest.fixture
def interruptible():
    """Python's own handler: a suite that a shell runs in the background inherits an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_without_a_folder_signals_are_left_alone():
    with pytest.raises(KeyboardInterrupt) as caught:
        run(None, watcher=Deadline(2, lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert not isinstance(caught.value, Stopped)


def test_gradients_that_are_being_added_up_are_not_lost(tmp_path):
    expected = run(None, epochs=6, accumulate=3)
    for steps in (7, 22, 35):
        with pytest.raises(AbandonedError):
            run(tmp_path, epochs=6, accumulate=3, checkpoint_steps=1, watcher=Deadline(steps, abandon))
    sha256, history = run(tmp_path, epochs=6, accumulate=3, checkpoint_steps=1)
    assert without_seconds(history) == without_seconds(expected[1])
    assert sha256 == expected[0]


def test_the_best_epochs_weights_are_not_lost(tmp_path):
    options = {"patience": 5, "learning_rate": BEYOND_THE_BEST}
    expected = run(None, **options)
    scores = [record["balanced_accuracy"] for record in expected[1] if record["stage"] == "sample"]
    assert max(scores[:-1]) > scores[-1], "the last epoch must not be the best for this test to tell"
    with pytest.raises(AbandonedError):
        run(tmp_path, watcher=Deadline(8 * STEPS + 5, abandon), **options)
    sha256, history = run(tmp_path, **options)
    assert without_seconds(history) == without_seconds(expected[1])
    assert sha256 == expected[0]
    assert sha256 != run(None, learning_rate=BEYOND_THE_BEST)[0]


def test_a_finished_run_returns_at_once_with_its_weights(tmp_path, undisturbed):
    run(tmp_path)
    taken = []
    again = run(tmp_path, watcher=Deadline(1, lambda: taken.append("a step")))
    assert taken == []
    assert_same_end(tmp_path, *again, undisturbed)


def other_digits(**changes) -> Digits:
    digits = imbalanced_digits()
    for name, change in changes.items():
        setattr(digits, name, change(getattr(digits, name)))
    return digits


def heavier(data: ArrayData) -> ArrayData:
    return ArrayData(data.x[data.rows], data.y, torch.full((len(data),), 2.0))


def other_values(data: ArrayData) -> ArrayData:
    return ArrayData(data.x[data.rows] + 1e-3, data.y)


def other_labels(data: ArrayData) -> ArrayData:
    return ArrayData(data.x[data.rows], data.y.roll(1))


@pytest.fixture(scope="module")
def three_epochs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three")
    run(folder, epochs=3)
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning_rate": 1e-2}, r"settings\.learning_rate was 0\.003 and is now 0\.01"),
        ({"epochs": 6}, r"curriculum\.\w+ was \d+ and is now \d+"),
        ({"digits": {"train": other_values}}, r"data\.samples was .* and is now"),
        ({"digits": {"train": other_labels}}, r"data\.labels was .* and is now"),
        ({"digits": {"train": heavier}}, r"data\.sample_weight was None and is now"),
        ({"digits": {"validation": other_values}}, r"validation\.samples was .* and is now"),
        ({"network": 16}, r"head\.in_features was 32 and is now 16"),
    ],
)
def test_another_run_in_the_same_folder_is_refused(three_epochs, changes, named):
    metrics = (three_epochs / "metrics.jsonl").read_bytes()
    changes = {"epochs": 3} | changes
    if "digits" in changes:
        changes["digits"] = other_digits(**changes["digits"])
    if "network" in changes:
        changes["network"] = digits_network(changes["network"])
    with pytest.raises(InvalidStateError, match=f"holds another run: {named}.*choose another folder"):
        run(three_epochs, **changes)
    assert (three_epochs / "metrics.jsonl").read_bytes() == metrics


def small_network(method: str) -> Network:
    torch.manual_seed(0)
    return Network(MLP(64, (8,)), LOSSES[method](8, 10, dropout=0.1, class_counts=torch.arange(1, 11)))


def test_another_loss_of_the_same_shape_does_not_resume_the_first(tmp_path):
    digits, settings = imbalanced_digits(), Settings(epochs=1, batch_size=256)
    train(small_network("cross_entropy"), digits.train, settings, folder=tmp_path)
    with pytest.raises(InvalidStateError, match=r"head\.criterion was 'cross_entropy' and is now 'focal'"):
        train(small_network("focal"), digits.train, settings, folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "cannot be read"),
        ("[" * 10**5, "cannot be read"),
        ("[]", "is invalid: expected an object in braces, got a list"),
        (json.dumps({IDENTITY: 3}), "does not identify its run"),
    ],
)
def test_a_damaged_run_json_is_named(tmp_path, content, reason):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(EquipoiseError, match=rf"run\.json {reason}.*choose another folder"):
        run(tmp_path, epochs=1)


def test_what_else_stands_in_run_json_stays(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"options": {"target": "kind"}}))
    run(tmp_path, epochs=1)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["options"] == {"target": "kind"}
    assert record["training"]["settings"]["epochs"] == 1


def test_a_damaged_newest_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path, undisturbed):
    with pytest.raises(AbandonedError):
        run(tmp_path, checkpoint_steps=4, watcher=Deadline(50, abandon))
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is damaged .*the checkpoint before it is used"):
        result = run(tmp_path, checkpoint_steps=4)
    assert_same_end(tmp_path, *result, undisturbed)


def test_a_loss_that_overflows_names_batch_and_epoch_and_keeps_the_last_checkpoint(tmp_path):
    digits, settings = imbalanced_digits(), Settings(epochs=2, batch_size=64, checkpoint_steps=1)
    batches = EpochBatches(digits.train.y, 64, seed=0)
    batches.start = 4
    weight = torch.ones(len(digits.train))
    weight[next(iter(batches))] = 3e38  # each a weight in range; their sum is not
    data = ArrayData(digits.train.x[digits.train.rows], digits.train.y, weight)
    with pytest.raises(NonFiniteLossError, match=r"the loss is (nan|inf) at batch 5 of epoch 1; try a learning rate"):
        train(small_network("cross_entropy"), data, settings, folder=tmp_path)
    saved = position(tmp_path)
    assert (saved["epoch"], saved["step"]) == (0, 4)


def test_several_checkpoints_of_one_step_keep_the_later_one(tmp_path, undisturbed):
    """checkpoint_steps that fall on an epoch's end save twice under one number."""
    with pytest.raises(AbandonedError):
        run(tmp_path, checkpoint_steps=STEPS, watcher=Deadline(2 * STEPS + 1, abandon))
    assert position(tmp_path)["epoch"] == 2
    assert position(tmp_path)["step"] == 0
    assert_same_end(tmp_path, *run(tmp_path, checkpoint_steps=STEPS), undisturbed)


def test_a_curriculum_of_other_stages_is_another_run(tmp_path):
    digits, settings = imbalanced_digits(), Settings(epochs=3, batch_size=256)
    options = {"validation": digits.validation, "folder": tmp_path}
    train(digits_network(), digits.train, settings, curriculum=Curriculum(3), **options)
    with pytest.raises(InvalidStateError, match=r"curriculum\.\w+ was .* and is now"):
        train(digits_network(), digits.train, settings, curriculum=Curriculum(3, sample_level=2), **options)
