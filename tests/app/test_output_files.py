"""Names that a spreadsheet would run, or that a terminal would obey."""

import io
import json

import pandas as pd
import pytest

from equipoise.app.cli.printing import print_json
from equipoise.app.output_files import defused_table, printable_json, write_rows
from equipoise.paper.faces.alignment_log import ALIGNED, NONE, UNREADABLE, AlignmentLog, AlignmentOutcome

NAMES = ["=1+1", "+cmd", "-x", "@SUM(A1)", "\ttab", "\rreturn", "plain", "-1.5", "+2", "a\x1b[31mred", "[red]"]


def test_formulae_and_control_characters_are_defused_and_numbers_stay():
    found = defused_table(pd.DataFrame({"=class": NAMES, "score": [-1.5] * len(NAMES)}))
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


def test_json_escapes_what_a_terminal_would_obey_and_keeps_the_values(tmp_path, capsys):
    names = ["\x1b[31m", "\x7f", "\x9b1m", "\u202e", "\udce9", "\U000e0001", "é\n"]
    print_json({"names": names})
    text = capsys.readouterr().out
    assert text.rstrip("\n").isprintable()
    assert json.loads(text) == {"names": names}
    assert printable_json("é") == "é"
    write_rows(pd.DataFrame({"class": ["a\x9b1m", "\x7f"]}), tmp_path / "a.jsonl", kind="jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert lines == ['{"class":"a\\u009b1m"}', '{"class":"\\u007f"}']


def test_records_of_faces_are_defused_and_still_known(tmp_path):
    made = [
        AlignmentOutcome("=cmd()/1.png", NONE, note="=1+1"),
        AlignmentOutcome("a\x1b[31m/2.png", UNREADABLE, note="\x9b1m"),
        AlignmentOutcome("-3/3.png", ALIGNED),
    ]
    AlignmentLog(tmp_path).add(made)
    record = AlignmentLog(tmp_path)
    assert list(record.known) == [one.image for one in made]
    cells = [line.split(",") for line in (tmp_path / "alignment.csv").read_text().splitlines()]
    assert [row[0] for row in cells[1:]] == ["./=cmd()/1.png", "a\x1b[31m/2.png", "./-3/3.png"]
    assert record.finish().read_text().splitlines() == [
        "image,status,faces,note",
        "./=cmd()/1.png,no face,0,'=1+1",
        "a�[31m/2.png,unreadable,0,�1m",
    ]
    record.add(made[:1])
    record.finish()
    assert set(record.known) == {one.image for one in made}
