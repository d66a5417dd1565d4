"""A bar on a terminal and nowhere else; ``metrics.jsonl`` always."""

import json
from io import StringIO

import pytest
from rich.console import Console

from equipoise.training import Bar
from equipoise.training.resumable_run import append_metrics, write_metrics
from equipoise.training.watchers import Silence, watched_by
from tests.training.digits_run import run

RECORD = {"epoch": 1, "stage": "class", "loss": 0.1234, "recall_rare": 0.5, "recall_common": 0.875, "seconds": 1.0}


def drawn(*, terminal: bool, shown: bool = True) -> str:
    file = StringIO()
    with Bar(4, shown=shown, console=Console(force_terminal=terminal, file=file, width=120)) as bar:
        for _ in range(3):
            bar.step(1, "class", 3)
        bar.epoch(RECORD)
        bar.progress.refresh()
    return file.getvalue()


def test_the_bar_shows_stage_epoch_loss_and_recalls():
    text = drawn(terminal=True)
    for part in ("class", "epoch 2/4", "50%", "loss 0.123", "recall rare 0.500 common 0.875"):
        assert part in text


def test_the_bar_draws_nothing_where_no_terminal_is():
    assert drawn(terminal=False) == ""


def test_the_bar_draws_nothing_unless_asked():
    assert drawn(terminal=True, shown=False) == ""


def test_the_bar_moves_by_steps_and_ends_full():
    bar = Bar(2, console=Console(force_terminal=True, file=StringIO()))
    task = bar.progress.tasks[0]
    bar.step(0, "softmax", 4)
    assert task.completed == 0.25
    bar.epoch(RECORD | {"epoch": 0})
    assert task.completed == 1.0
    bar.epoch(RECORD)
    assert task.finished


def test_the_bar_needs_no_validation_split():
    bar = Bar(2, console=Console(force_terminal=True, file=StringIO()))
    bar.epoch({"epoch": 0, "loss": 1.0})
    assert bar.progress.tasks[0].fields["scores"] == "loss 1.000"


def test_the_bar_shows_the_recall_of_the_only_group_there_is():
    bar = Bar(2, console=Console(force_terminal=True, file=StringIO()))
    bar.epoch({"epoch": 0, "loss": 1.0, "recall_rare": 0.5})
    assert bar.progress.tasks[0].fields["scores"] == "loss 1.000 · recall rare 0.500"
    bar.epoch({"epoch": 1, "loss": 1.0, "recall_common": 0.75})
    assert bar.progress.tasks[0].fields["scores"] == "loss 1.000 · recall common 0.750"


def test_the_bar_follows_a_real_run(tmp_path):
    file = StringIO()
    with Bar(3, console=Console(force_terminal=True, file=file, width=120)) as bar:
        _, history = run(tmp_path, epochs=3, watcher=bar)
    assert bar.progress.tasks[0].finished
    assert f"loss {history[-1]['loss']:.3f}" in file.getvalue()
    assert "sample" in file.getvalue()


def test_a_watcher_around_a_training_may_end_it():
    class Counted(Silence):
        def __init__(self, most):
            self.steps, self.most = 0, most

        def step(self, epoch, stage, steps):  # noqa: ARG002
            self.steps += 1
            if self.steps == self.most:
                raise TimeoutError

    outer, inner = Counted(3), Counted(99)
    with pytest.raises(TimeoutError), watched_by(outer):
        run(None, epochs=3, watcher=inner)
    assert (inner.steps, outer.steps) == (3, 3)
    run(None, epochs=1)
    assert outer.steps == 3  # outside the block it is told nothing


def test_silence_says_nothing(capsys):
    Silence().step(0, "softmax", 1)
    Silence().epoch(RECORD)
    assert capsys.readouterr() == ("", "")


def test_metrics_begin_with_what_the_checkpoint_knew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"epoch": 0}) + "\n" + json.dumps({"epoch": 1}) + '\n{"epo')  # of a killed run
    write_metrics(path, [{"epoch": 0, "loss": 0.1 + 0.2}])
    append_metrics(path, RECORD)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"epoch": 0, "loss": 0.1 + 0.2}, RECORD]
    assert [child.name for child in tmp_path.iterdir()] == ["metrics.jsonl"]
