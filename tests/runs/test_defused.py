"""Names that a spreadsheet would run, or that a terminal would obey."""

import io

import pandas as pd
import pytest

from equipoise.runs.defused import defused
from equipoise.runs.predictions import write_rows

NAMES = ["=1+1", "+cmd", "-x", "@SUM(A1)", "\ttab", "\rreturn", "plain", "-1.5", "+2", "a\x1b[31mred", "[red]"]


def test_formulae_and_control_characters_are_defused_and_numbers_stay():
    found = defused(pd.DataFrame({"=class": NAMES, "score": [-1.5] * len(NAMES)}))
    assert list(found) == ["'=class", "score"]
    assert found["score"].tolist() == [-1.5] * len(NAMES)
    assert found["'=class"].tolist() == [
        *("'=1+1", "'+cmd", "'-x", "'@SUM(A1)", "'\ufffdtab", "'\ufffdreturn"),
        *("plain", "-1.5", "+2", "a\ufffd[31mred", "[red]"),
    ]


@pytest.mark.parametrize("raw", [False, True])
def test_csv_is_defused_unless_it_is_raw(raw, tmp_path):
    frame = pd.DataFrame({"class": pd.array([*NAMES, pd.NA], dtype="string")})
    write_rows(frame, tmp_path / "a.csv", kind="csv", raw=raw)
    text = (tmp_path / "a.csv").read_bytes().decode()
    assert ("\x1b" in text) is raw
    found = pd.read_csv(io.StringIO(text, newline=""), keep_default_na=False, dtype=str, skip_blank_lines=False)[
        "class"
    ]
    assert (found.iloc[0] == "=1+1") is raw


def test_machines_read_names_as_they_are_in_other_formats(tmp_path):
    frame = pd.DataFrame({"class": NAMES})
    write_rows(frame, tmp_path / "a.jsonl", kind="jsonl")
    assert pd.read_json(tmp_path / "a.jsonl", lines=True, dtype=False)["class"].tolist() == NAMES
