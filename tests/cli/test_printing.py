"""What is shown while something runs, and how tables fit a terminal."""

import io

import pytest
from rich.console import Console
from rich.markdown import Markdown

from equipoise.cli.printing import ConsoleWatcher, print_summary, rows_as_lists
from equipoise.data.summary import summarize


def test_progress_is_shown_as_lines_where_there_is_no_terminal(capsys):
    with ConsoleWatcher() as watcher:
        for done in range(1, 1001):
            watcher.progress(done, 1000, "reading images")
    out, shown = capsys.readouterr()
    assert out == ""
    assert shown.splitlines() == [f"{done:,} of 1,000: reading images" for done in range(100, 1001, 100)]


@pytest.mark.parametrize(("quiet", "lines"), [(False, 3), (True, 0)])
def test_every_fit_of_a_comparison_has_a_line(capsys, quiet, lines):
    with ConsoleWatcher(quiet=quiet) as watcher:
        for done in range(1, 4):
            watcher.progress(done, 3, f"fit {done}", lines=3)
    assert capsys.readouterr().err.splitlines() == [f"{done} of 3: fit {done}" for done in range(1, lines + 1)]


def test_one_attribute_is_not_called_attributes():
    console = Console(file=io.StringIO(), width=80)
    print_summary(console, summarize([[0], [1], [1]], names=["smiles"]), title="")
    assert "\n1 attribute, imbalance" in console.file.getvalue()


def test_no_word_of_a_wide_table_is_cut_at_80_columns():
    head = ("method", "accuracy", "precision", "recall", "F1", "G-mean", "IBA", "paper", "difference")
    row = ("Equipoise, class level only", *["78.4 ± 0.5 (7.9)"] * 6, "80.6", "-2.2")
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * 9, row)]
    page = "\n".join(["before", "", *lines, "", "after"])
    console = Console(file=io.StringIO(), width=80)
    console.print(Markdown(rows_as_lists(page, 80)))
    shown = " ".join(console.file.getvalue().split())
    assert "…" not in shown
    assert all(word in shown for word in (*head[1:], *row))
    assert rows_as_lists(page, 200) == page
