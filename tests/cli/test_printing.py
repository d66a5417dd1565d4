"""What is shown while something runs."""

import pytest

from equipoise.cli.printing import ConsoleWatcher


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
