"""Files that are often mistaken for a table: the refusal says what they are and what to do."""

import io
import unittest.mock
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.columns.texts import is_text
from equipoise.data.sources import open_data
from equipoise.data.tables import text_files
from equipoise.data.tables.delimited import _begins_with_space, read_parts
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.data.tables.text_layout import find_layout
from equipoise.errors import InvalidInputError
from equipoise.models import build_backbone
from equipoise.models.pretrained_weights import load_weights

FILES = {
    "json lines": (
        b'{"a": 1, "y": "b"}\n{"a": 2, "y": "c"}\n',
        r"is JSON; if each line is an object, give it a name that ends in \.jsonl",
    ),
    "json": (b'[\n {"a": 1, "y": "b"}]', r"is JSON; .* otherwise convert it to CSV, for example with pandas.read_json"),
    "web page": (
        b"\n<!DOCTYPE html><html><body>a,y</body></html>",
        "is a web page, not a table; if you downloaded it, check the address",
    ),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
        "Git LFS pointer.*git lfs pull",
    ),
    "spreadsheet": (
        b"PK\x03\x04rest",
        r"is a zip archive or a spreadsheet; give a spreadsheet a name that ends in \.xlsx",
    ),
    "old spreadsheet": (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Excel spreadsheet"),
    "pdf": (b"%PDF-1.7\n", "is a PDF"),
    "image": (b"\x89PNG\r\n\x1a\n", "is an image; give a table, or a folder of images"),
    "photo": (b"\xff\xd8\xff\xe0", "is an image"),
    "parquet": (b"PAR1....PAR1", r"is a Parquet file; give it a name that ends in \.parquet"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_table_is_named(name, tmp_path):
    content, sentence = FILES[name]
    (tmp_path / "table.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=sentence):
        read_table(tmp_path / "table.csv", target="y")


@pytest.mark.parametrize("first", ["sep=;\n", '"sep=;"\r\n', "sep=;  \n"])
def test_the_line_of_excel_is_honoured(first, tmp_path):
    (tmp_path / "table.csv").write_text(first + "a,b;y\n1,5;p\n2,5;q\n3,5;p\n4,5;q\n", newline="")
    samples = read_table(tmp_path / "table.csv", target="y")
    assert list(samples.x) == ["a,b"]
    assert samples.x["a,b"].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert samples.y.tolist() == ["p", "q", "p", "q"]
    (part,) = iterate_table(tmp_path / "table.csv")
    assert list(part) == ["a,b", "y"]
    (tmp_path / "table.csv").write_text(first + "a;b;y\n1;2;p\n2;3\n3;4;p\n", newline="")
    with pytest.raises(InvalidInputError, match=r"has 2 fields instead of 3 in line 4"):
        read_table(tmp_path / "table.csv", target="y")


def test_a_group_that_is_the_target_is_named(tmp_path):
    pd.DataFrame({"a": [1, 2, 3, 4], "y": ["p", "q", "p", "q"]}).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(
        InvalidInputError, match="group must be a column of the table other than the target, got 'y'; there"
    ):
        open_data(tmp_path / "table.csv", target="y", group="y")


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (["1", "2", "1", "2"], "each value of the group column 'g' is one class, so a class"),
        ([1, 1, 1, 1], "all rows have the group '1' in the column 'g', so nothing can be held out"),
    ],
)
def test_groups_that_leave_nothing_to_hold_out_are_refused(groups, sentence, tmp_path):
    pd.DataFrame({"a": [1, 2, 3, 4], "g": groups, "y": ["p", "q", "p", "q"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InvalidInputError, match=sentence):
        open_data(tmp_path / "t.csv", target="y", group="g")


@pytest.mark.parametrize("groups", [[1, 2, 2, 2], [1, 2, 1, 3], [1, 1, 2, 2]])
def test_other_groups_are_taken(groups, tmp_path):
    pd.DataFrame({"a": [1, 2, 3, 4], "g": groups, "y": ["p", "q", "p", "q"]}).to_csv(tmp_path / "t.csv", index=False)
    assert open_data(tmp_path / "t.csv", target="y", group="g").notes == ()


def test_groups_of_one_row_each_are_noted(tmp_path):
    pd.DataFrame({"a": [1, 2, 3, 4], "g": list("wxyz"), "y": ["p", "q", "p", "q"]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    samples = open_data(tmp_path / "t.csv", target="y", group="g")
    assert samples.notes == ("every row is its own group in the column 'g': rows are split as without groups.",)


def test_a_name_instead_of_a_file_of_weights():
    with pytest.raises(
        InvalidInputError, match=r"no such file: 'imagenet'; weights are the path of a .*; download it first"
    ):
        load_weights(build_backbone("lenet"), "imagenet")


@pytest.mark.parametrize("before", ["1,x,3\n", "1,x,3\n" * 9, ""])
def test_spaces_before_fields_are_skipped_wherever_they_begin(tmp_path, before):
    rows = '4, "a, b",6\n7, NA, 9\n, y ,12\n'
    path = tmp_path / "spaced.csv"
    path.write_text("one,two,three\n" + before + rows)
    parts = list(read_parts(find_layout(path), rows=4))
    found = pd.concat(parts, ignore_index=True)
    assert len(found) == before.count("\n") + 3
    assert found["two"].tail(3).fillna("missing").tolist() == ["a, b", "missing", "y "]
    assert found["one"].tail(3).fillna(-1).tolist() == [4, 7, -1]
    assert found["three"].tolist() == [3] * before.count("\n") + [6, 9, 12]


@given(st.lists(st.sampled_from([b"a", b"\n", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xff"]), max_size=9))
def test_utf_8_is_told_from_other_encodings_in_chunks_of_any_length(signs):
    content = b"".join(signs)
    try:
        size = len(content.decode("utf-8").encode("utf-8"))
    except UnicodeDecodeError:
        size = None
    for chunk in (1, 2, 3):
        with (
            unittest.mock.patch.object(text_files, "CHUNK", chunk),
            unittest.mock.patch.object(text_files, "open_table", return_value=io.BytesIO(content)),
        ):
            assert text_files._size_of_utf8(Path("t.csv")) == size


def texts_as_objects():
    """Let pandas store texts as pandas 2 does."""
    return pd.option_context("future.infer_string", False) if pd.__version__ >= "3" else nullcontext()


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
@pytest.mark.parametrize("stored", [nullcontext, texts_as_objects])
def test_codes_and_labels_stay_text_with_their_gaps(stored, tmp_path):
    (tmp_path / "t.csv").write_text("zip,y\n01000,1\n94110,0\n,1\n00042,0\n94110,1\n")
    (tmp_path / "gap.csv").write_text("a,y\n1,p\n2,q\n3,\n4,q\n")
    with stored():
        samples = read_table(tmp_path / "t.csv", target="y")
        unlabelled = read_table(tmp_path / "gap.csv", target="y")
    assert unlabelled.y.tolist() == ["p", "q", "q"]
    assert is_text(samples.x["zip"])
    assert samples.x["zip"].isna().tolist() == [False, False, True, False, False]
    assert samples.x["zip"].dropna().tolist() == ["01000", "94110", "00042", "94110"]
    assert samples.y.tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("storage", ["pyarrow", "python"])
def test_a_space_before_a_text_is_found(storage):
    pytest.importorskip("pandas", "2.3")
    if storage == "pyarrow":
        pytest.importorskip("pyarrow")
    for texts, expected in ((["a", None, "b c"], False), (["a", None, " b"], True)):
        column = pd.Series(texts, dtype=pd.StringDtype(storage, na_value=np.nan))
        assert _begins_with_space(column) is expected
