"""Tables that are no UTF-8 text with delimiters: old encodings, JSON lines, Excel workbooks, Arrow."""

import datetime
import json
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise import TableEncoder
from equipoise.data.tables.excel import read_excel
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.errors import InvalidInputError

in_one_folder = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


# --- encodings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "called", "word"),
    [("cp1252", "Windows-1252", "café € “so”"), ("latin-1", "Latin-1", "na\x81 caf\xe9")],
)
def test_old_encodings_are_read_and_named(encoding, called, word, tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes(f"a;y\n{word};p\nplain;q\n{word};q\n".encode(encoding))
    samples = read_table(path, target="y")
    assert samples.x["a"].tolist() == [word, "plain", word]
    assert samples.notes == (f"{path} is not UTF-8; read as {called}: check letters such as é, ß or €.",)
    (part,) = iterate_table(path)
    assert part["a"].tolist() == [word, "plain", word]


def test_one_old_letter_far_down_in_a_long_file(tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes(b"a,y\n" + b"plain,p\nother,q\n" * 300_000 + b"caf\xe9,p\n")
    samples = read_table(path, target="y")
    assert samples.x["a"].iloc[-1] == "café"
    assert len(samples.notes) == 1


@pytest.mark.parametrize(
    "content",
    [
        "a,y\nçedille äöü,p\nßß,q\n".encode() + b"\xe9,p\n",  # UTF-8 with a damaged letter
        "a,y\né,p\nüä,q\n".encode()[:-5] + b"\xc3",  # cut within a letter
        b"a,y\n\x01\x02\xe9\xff,p\n1,q\n",
    ],
)
def test_damaged_text_is_still_refused(content, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"is not UTF-8 text \(byte 0x..\); save it as UTF-8, in Excel as"):
        read_table(tmp_path / "t.csv", target="y")


@pytest.mark.slow
@in_one_folder
@given(st.text(st.characters(codec="cp1252", exclude_categories=["Cc", "Zs"]), min_size=1, max_size=20))
def test_any_western_word_comes_back(tmp_path, word):
    word = f"x{word}x".replace('"', "'").replace(",", ".")
    content = f'a,y\n"{word}",p\n"é€",q\n"{word}",q\n'.encode("cp1252")
    (tmp_path / "t.csv").write_bytes(content)
    try:
        content.decode()
    except UnicodeDecodeError:
        assert read_table(tmp_path / "t.csv", target="y").x["a"].tolist()[::2] == [word, word]


# --- JSON lines -----------------------------------------------------------------------------------------------------

LINES = [
    {"a": 1, "b": "x", "y": "p"},
    {"a": 2.5, "y": "q", "c": True},
    {"y": "p", "a": None, "b": "Zürich"},
    {"a": 10**17 + 1, "b": "x", "y": "q"},
]


def write_lines(path, records, end="\n"):
    path.write_text(end.join(json.dumps(record, ensure_ascii=False) for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["t.jsonl", "t.NDJSON"])
@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n"])
def test_json_lines(name, end, tmp_path):
    path = write_lines(tmp_path / name, LINES, end)
    samples = read_table(path, target="y")
    assert samples.y.tolist() == ["p", "q", "p", "q"]
    assert list(samples.x) == ["a", "b", "c"]
    assert samples.x["b"].tolist()[:1] + samples.x["b"].tolist()[2:] == ["x", "Zürich", "x"]
    assert pd.isna(samples.x["b"][1])
    parts = list(iterate_table(path, rows=3))
    assert [len(part) for part in parts] == [3, 1]
    assert list(parts[1]) == ["a", "b", "y", "c"]  # though its own line has no c
    assert parts[1]["a"].tolist() == [10**17 + 1]


@in_one_folder
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.booleans(), st.text(), st.integers()))))
def test_any_plain_objects_come_back(tmp_path, records):
    path = write_lines(tmp_path / "t.jsonl", [{"y": "p"}, *records])
    whole = pd.concat(list(iterate_table(path, rows=3)))
    assert len(whole) == len(records) + 1
    for record, (_, row) in zip(records, whole.iloc[1:].iterrows(), strict=True):
        assert all(row[name] == value or value is None for name, value in record.items())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[1, 2]", "line 2 of .* must be an object in braces"),
        ('{"a": [1]}', "line 2 of .* holds a list or an object in 'a'; give plain values"),
        ('{"a": {"b": 1}}', "holds a list or an object in 'a'"),
        ('{"a": 1', r"line 2 of .* is not JSON \(.*\); each line must be one object"),
        ("[" * 100_000, "line 2 of .* is not JSON"),
    ],
)
def test_other_json_is_refused(line, sentence, tmp_path):
    (tmp_path / "t.jsonl").write_text(f'{{"a": 1, "y": "p"}}\n{line}\n')
    with pytest.raises(InvalidInputError, match=sentence):
        read_table(tmp_path / "t.jsonl", target="y")


def test_an_empty_file_of_json_lines(tmp_path):
    (tmp_path / "t.jsonl").write_text("\n")
    with pytest.raises(InvalidInputError, match="has no column"):
        read_table(tmp_path / "t.jsonl", target="y")


# --- Excel ----------------------------------------------------------------------------------------------------------

ROWS = [
    ["age", "town", "seen", "y"],
    [31, "Oslo", datetime.datetime(2020, 1, 31), "p"],
    [None, "#N/A", datetime.datetime(2021, 5, 1), "q"],
    [],
    [4.5, "Rome", None, "p"],
]


def workbook(path, *sheets, hidden=()):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
        if number in hidden:
            sheet.sheet_state = "hidden"
    book.save(path)
    return path


def test_a_workbook(tmp_path):
    samples = read_table(workbook(tmp_path / "t.xlsx", ROWS), target="y")
    assert samples.notes == ()
    assert samples.y.tolist() == ["p", "q", "p"]
    encoder = TableEncoder().fit(samples.x)
    assert [guess.kind for guess in encoder.guesses_] == ["number", "identifier", "date"]
    assert samples.x["age"].tolist()[::2] == [31, 4.5]
    assert samples.x["town"].isna().tolist() == [False, True, False]
    assert [len(part) for part in iterate_table(tmp_path / "t.xlsx", rows=2)] == [2, 1]


def test_the_first_sheet_with_a_table_is_read_and_named(tmp_path):
    path = workbook(tmp_path / "t.XLSX", [["notes"]], [], ROWS, hidden=[0])
    samples = read_table(path, target="y")
    assert samples.notes == (f"{path}: sheet 'sheet 2' of 3 is read.",)
    assert list(samples.x) == ["age", "town", "seen"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "is empty; a table starts with a row of column names"),
        ([["a", None, "y"], [1, 2, "p"]], "has no name for column 2 in its first row"),
        ([["a", "y"], [1, "p", 3]], "has no name for column 3 in its first row"),
        ([["a", "a", "y"], [1, 2, "p"]], "more than one column named 'a'"),
        ([["a", "y"]], "has column names but no rows"),
    ],
)
def test_workbooks_without_a_table(rows, sentence, tmp_path):
    with pytest.raises(InvalidInputError, match=sentence):
        read_table(workbook(tmp_path / "t.xlsx", rows), target="y")


def test_what_is_no_workbook(tmp_path):
    for content in (b"", b"PK\x03\x04rest", b"a,y\n1,p\n"):
        (tmp_path / "t.xlsx").write_bytes(content)
        with pytest.raises(
            InvalidInputError, match=r"is not an Excel workbook or is damaged \(.*\); save the table as CSV"
        ):
            read_table(tmp_path / "t.xlsx", target="y")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("other.txt", "text")
    with pytest.raises(InvalidInputError, match="is not an Excel workbook"):
        read_excel(tmp_path / "t.xlsx")


def test_a_workbook_that_unpacks_to_far_more_than_its_size(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * 2**26)
    with pytest.raises(InvalidInputError, match="unpacks to more than"):
        read_excel(tmp_path / "t.xlsx")


def test_a_workbook_that_claims_to_be_huge(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ROWS)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name] = parts[name].replace(b'<dimension ref="A1:D5"', b'<dimension ref="A1:XFD1048576"')
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    assert b"XFD1048576" in parts[name]
    assert len(read_table(path, target="y")) == 3


# --- Arrow ----------------------------------------------------------------------------------------------------------


def test_a_frame_of_another_library_is_taken():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", "x"]})
    table = pyarrow.Table.from_pandas(frame)
    encoder = TableEncoder().fit(table)
    assert np.array_equal(encoder.transform(table), TableEncoder().fit_transform(frame))


def test_frames_of_polars_are_encoded_as_those_of_pandas():
    polars = pytest.importorskip("polars")
    columns = {
        "age": [31.0, None, 54.0, 40.0] * 6,
        "town": ["Oslo", "Rome", None, "Oslo"] * 6,
        "in": [True, False] * 12,
    }
    columns["since"] = [datetime.date(2020, 1, 1 + day) for day in range(24)]
    frame, theirs = pd.DataFrame(columns), polars.DataFrame(columns)
    encoder = TableEncoder().fit(theirs)
    assert encoder.column_names_ == TableEncoder().fit(frame).column_names_
    np.testing.assert_array_equal(encoder.transform(theirs), encoder.transform(frame))
