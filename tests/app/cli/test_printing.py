"""What is shown while something runs, and how tables fit a terminal."""

import io
import itertools

import numpy as np
from rich.console import Console

from equipoise.app.cli.printing import ConsoleWatcher, print_scores, print_summary
from equipoise.data.summary import summarize
from equipoise.evaluation import scores


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def lines_shown(capsys, *, steps, seconds, quiet=False):
    """The lines on standard error of so many steps that take so many seconds each, without a terminal."""
    clock = Clock()
    with ConsoleWatcher(quiet=quiet, clock=clock) as watcher:
        for done in range(1, steps + 1):
            clock.now += seconds
            watcher.progress(done, steps, f"fit {done}")
    out, shown = capsys.readouterr()
    assert out == ""
    return shown.splitlines()


def test_work_of_seconds_prints_no_progress_without_a_terminal(capsys):
    assert lines_shown(capsys, steps=1000, seconds=0.014) == []


def test_long_work_prints_a_line_now_and_then_without_a_terminal(capsys):
    shown = lines_shown(capsys, steps=1_200, seconds=5)
    assert shown[:3] == ["3 of 1,200: fit 3", "6 of 1,200: fit 6", "9 of 1,200: fit 9"]
    done = [int(line.split(" ")[0].replace(",", "")) for line in shown]
    assert len(done) < 50
    assert all(later <= 1.15 * earlier + 4 for earlier, later in itertools.pairwise(done))


def test_each_slow_fit_has_a_line_without_a_terminal(capsys):
    assert lines_shown(capsys, steps=3, seconds=60) == ["1 of 3: fit 1", "2 of 3: fit 2", "3 of 3: fit 3"]


def test_quiet_prints_no_progress(capsys):
    assert lines_shown(capsys, steps=3, seconds=60, quiet=True) == []


def test_one_attribute_is_not_called_attributes():
    console = Console(file=io.StringIO(), width=80)
    print_summary(console, summarize([[0], [1], [1]], names=["smiles"]), title="")
    assert "\n1 attribute, imbalance" in console.file.getvalue()


def test_scores_are_printed_with_their_intervals_where_samples_suffice():
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1], [90, 12])
    rare = 1 / (1 + np.exp(2 - 2 * true - rng.normal(size=102)))
    found = scores(true, rare > 0.5, probabilities=np.stack((1 - rare, rare), axis=1), classes=[0, 1], intervals=True)
    lines = scores_shown(found)
    low, high = found.intervals["macro_average_precision"]
    assert f"average precision   {found.average_precision.each[1]:7.1%}  [{low:.1%}, {high:.1%}]" in lines
    low, high = found.intervals["f1"]["mean"]
    assert f"macro F1            {found.f1.mean:7.1%}  [{low:.1%}, {high:.1%}]" in lines
    plain = scores_shown(scores(true, rare > 0.5, classes=[0, 1]))
    assert f"balanced accuracy   {found.balanced_accuracy:7.1%}" in plain
    assert not any("intervals" in line or line.startswith("average precision") for line in plain)


def scores_shown(found):
    file = io.StringIO()
    print_scores(Console(file=file, width=100), found, ["usual", "rare"])
    return file.getvalue().splitlines()
