"""How the page of a table fits a terminal."""

import io

from rich.console import Console
from rich.markdown import Markdown

from equipoise.paper.cli.reproduce import rows_as_lists


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
