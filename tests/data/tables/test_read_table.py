"""Tables from files, frames and arrays: the right rows, and a clear sentence for everything else."""

import bz2
import csv
import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.data.encoder import TableEncoder
from equipoise.data.tables import read_table as table_files
from equipoise.data.tables.read_table import iterate_table, read_npz, read_table
from equipoise.data.tables.text_layout import sniff_delimiter
from equipoise.errors import InvalidInputError

PLAIN = "age,town,label\n31,Oslo,a\n54,Rome,b\n40,Oslo,a\n"


def written(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def real_data() -> Path:
    folder = os.environ.get("EQUIPOISE_DATA")
    if not folder or not Path(folder, "ham10000", "metadata.csv").exists():
        pytest.skip("EQUIPOISE_DATA names no folder with ham10000")
    return Path(folder)


def assert_plain(samples):
    assert samples.x["age"].tolist() == [31, 54, 40]
    assert samples.x["town"].tolist() == ["Oslo", "Rome", "Oslo"]
    assert list(samples.x) == ["age", "town"]
    assert samples.y.tolist() == ["a", "b", "a"]
    assert samples.notes == ()


# --- text files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   ", ", "])
def test_any_delimiter_is_found(tmp_path, delimiter):
    assert_plain(read_table(written(tmp_path, PLAIN.replace(",", delimiter))))


@pytest.mark.parametrize("delimiter", [":", "^", "~", "#", "!", "/", "&", "=", "\x01"])
def test_any_sign_that_divides_every_row_is_a_delimiter(tmp_path, delimiter):
    assert_plain(read_table(written(tmp_path, PLAIN.replace(",", delimiter))))
    parts = list(iterate_table(written(tmp_path, PLAIN.replace(",", delimiter)), rows=2))
    assert [len(part) for part in parts] == [2, 1]


def test_signs_of_names_and_numbers_are_no_delimiters():
    assert sniff_delimiter(["a:b:c", "1:2:3", "1:2"]) == ",", "not every row has as many"
    assert sniff_delimiter(["a#b:c:d", "u#v:1:2"]) == ":", "the sign that divides most"
    assert sniff_delimiter(["size-cm weight_kg", "1-5 2_5"]) == " "
    assert sniff_delimiter(["first name:last name", "Ann Lee:Bo Lee"]) == ":"
    assert sniff_delimiter(["time x", "12:30 5"]) == " ", "the header has none"
    assert sniff_delimiter(["time,x", "12:30,5"]) == ","
    assert sniff_delimiter(["a.b", "1.5"]) == ","


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_marks_and_line_ends_do_not_matter(tmp_path, end, mark):
    assert_plain(read_table(written(tmp_path, mark + PLAIN.replace("\n", end).encode())))


def test_utf16_is_read(tmp_path):
    assert_plain(read_table(written(tmp_path, PLAIN.replace(",", "\t").encode("utf-16"), "table.txt")))


@pytest.mark.parametrize(("name", "pack"), [("t.csv.gz", gzip), ("t.csv.bz2", bz2), ("t.csv.xz", lzma)])
def test_packed_text_is_read(tmp_path, name, pack):
    assert_plain(read_table(written(tmp_path, pack.compress(PLAIN.encode()), name)))


def test_a_cut_gzip_file_is_named(tmp_path):
    packed = gzip.compress(PLAIN.encode() * 1000)
    with pytest.raises(InvalidInputError, match=r"t\.csv\.gz is damaged or cut short .*; get the file again"):
        read_table(written(tmp_path, packed[: len(packed) // 2], "t.csv.gz"))


def test_quoted_fields_may_hold_delimiters_quotes_and_line_ends(tmp_path):
    text = 'text,label\n"a, b",x\n"say ""hi""",y\n"two\nlines",x\n'
    samples = read_table(written(tmp_path, text))
    assert samples.x["text"].tolist() == ["a, b", 'say "hi"', "two\nlines"]
    assert samples.y.tolist() == ["x", "y", "x"]


def test_names_with_spaces_do_not_make_spaces_the_delimiter():
    assert sniff_delimiter(["first name,last name", "Ann Lee,Bo Lee"]) == ","
    assert sniff_delimiter(["fixed acidity;volatile acidity;pH", "7,4;0,70;3,51"]) == ";"
    assert sniff_delimiter(["a|b,c|d", "1|2,5|3", "1|2|3"]) == "|"


def test_decimal_commas_are_read_where_the_delimiter_is_another(tmp_path):
    samples = read_table(written(tmp_path, "a;y\n1,5;u\n-2,25;v\n3;u\n"))
    assert samples.x["a"].tolist() == [1.5, -2.25, 3.0]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
def test_a_decimal_comma_far_from_the_start_is_seen(tmp_path, delimiter):
    lines = ["3;4;u", "5;4;v"] * 2000 + ["1,5;4;u"]
    samples = read_table(written(tmp_path, "\n".join(["a;b;y", *lines]).replace(";", delimiter)))
    assert samples.x["a"].dtype.kind == "f"
    assert samples.x["a"].iloc[-1] == 1.5
    points = read_table(written(tmp_path, "\n".join(["a;b;y", *lines, "1;2.5;u"]).replace(";", delimiter)))
    assert points.x["b"].iloc[-1] == 2.5


def test_a_decimal_comma_beyond_what_was_looked_at_is_read_by_the_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.data.tables.text_layout.SAMPLE_CHARACTERS", 5000)
    lines = [f"{i % 9};{'uv'[i % 2]}" for i in range(3000)] + ["1,5;u"]
    path = written(tmp_path, "\n".join(["a;y", *lines]))
    x = read_table(path).x
    encoder = TableEncoder().fit(x)
    assert encoder.transform(x)[-1].tolist() == [1.5]
    assert encoder.transform(x)[:9, 0].tolist() == list(range(9))
    parts = [encoder.transform(part) for part in iterate_table(path, rows=500, text=encoder.text_columns)]
    assert np.array_equal(np.concatenate(parts), encoder.transform(x))


def test_decimal_points_stay_points_beside_words_like_decimal_commas(tmp_path):
    samples = read_table(written(tmp_path, "a;code;y\n1.5;1,2;u\n2.5;3,4;v\n2.5;3,4;v\n"))
    assert samples.x["a"].tolist() == [1.5, 2.5, 2.5]
    assert samples.x["code"].tolist() == ["1,2", "3,4", "3,4"]


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)
cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=8).map(
    lambda cell: "v" + cell.rstrip() + "."
)


@settings(max_examples=50)
@given(
    st.lists(names.map(lambda n: "n" + n), min_size=2, max_size=4, unique=True),
    st.data(),
    st.sampled_from([",", ";", "\t", "|"]),
)
def test_what_csv_writes_is_what_is_read(tmp_path_factory, header, data, delimiter):
    rows = data.draw(st.lists(st.lists(cells, min_size=len(header), max_size=len(header)), min_size=1, max_size=5))
    rows = rows * 2  # a target has a value twice
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    path = written(tmp_path_factory.getbasetemp(), text.getvalue())
    samples = read_table(path, target=[header[-1]])
    assert list(samples.x) == header[:-1]
    assert samples.x.to_numpy().tolist() == [row[:-1] for row in rows]
    assert samples.y.tolist() == [row[-1] for row in rows]


def test_a_column_of_numbers_and_words_far_apart_is_text_as_it_stands(tmp_path):
    rows = table_files.PART_ROWS + 5
    lines = [f"0{i % 7},,{i % 3}.5,{'1' if i % 2 else '0'}" for i in range(rows - 1)]
    text = "code,late,number,y\n" + "\n".join([*lines, "A1,word,2.5,1"]) + "\n"
    samples = read_table(written(tmp_path, text))
    assert len(samples) == rows
    assert samples.x["code"].tolist()[:3] == ["00", "01", "02"], "not the numbers 0, 1, 2"
    assert samples.x["code"].iloc[-1] == "A1"
    assert samples.x["late"].isna().sum() == rows - 1
    assert samples.x["late"].iloc[-1] == "word"
    assert samples.x["number"].dtype == np.float32
    assert samples.x["number"].tolist()[:4] == [0.5, 1.5, 2.5, 0.5]
    assert samples.x.index.tolist() == list(range(rows))


def test_whole_numbers_beyond_float32_keep_their_digits(tmp_path):
    samples = read_table(written(tmp_path, "time,y\n1600000001,a\n,b\n1600000002,a\n"))
    assert samples.x["time"].tolist()[::2] == [1600000001, 1600000002]


def test_decimals_that_float32_would_blur_are_kept(tmp_path):
    samples = read_table(written(tmp_path, "near,far,y\n0.1,1000000.01,a\n0.3,1000000.02,b\n0.2,1000000.04,a\n"))
    assert (samples.x["near"].dtype, samples.x["far"].dtype) == (np.float32, np.float64)
    assert samples.x["far"].tolist() == [1000000.01, 1000000.02, 1000000.04]


@pytest.mark.parametrize("word", ["", "NA", "N/A", "nan", "NaN", "null", "?"])
def test_missing_values_are_missing(tmp_path, word):
    samples = read_table(written(tmp_path, f"a,b,y\n{word},p,u\n2,{word},v\n3,p,u\n"))
    assert samples.x.isna().to_numpy().tolist() == [[True, False], [False, True], [False, False]]


def test_none_is_a_class(tmp_path):
    samples = read_table(written(tmp_path, "a,damage\n1,None\n2,heavy\n3,None\n"), target="damage")
    assert samples.y.tolist() == ["None", "heavy", "None"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; a table starts with a line of column names"),
        ("\n\n  \n", "is empty; a table starts with a line of column names"),
        ("a,label\n", "has column names but no rows; add the rows"),
        ("label\n1\n2\n", r"has only one column \(label\); a table must have a target and one other"),
        (
            "5.1,3.5,0\n4.9,3.0,1\n",
            r"starts with numbers \(5.1, 3.5, 0, ...\) instead of column names; add a first line",
        ),
        ("a,a,label\n1,2,x\n", "has more than one column named 'a'; give each its own name"),
        ("a,label\n1,x\n2,y,z\n", "has 3 fields instead of 2 in line 3; correct that row"),
        ("a\tlabel\n1\tx\t\t\n2\tx\t\tz\n", "has 4 fields instead of 2 in line 3; correct that row"),
        ("a,b,label\n1,2,x\n2,y\n3,4,x\n", "has 2 fields instead of 3 in line 3; complete or remove that row"),
        ("a,label\n1,x,7\n2,y,7\n", "has 2 column names and 3 fields in its first row; name every column"),
        ('a,label\n1,"x\n2,y\n', "has a quotation mark that is never closed"),
        ("a,label\n1,caf\u00e9 \u00fc\n".encode() + b"\xe9,x\n", r"is not UTF-8 text \(byte 0xe9\); save it as UTF-8"),
        (b"PK\x03\x04rest", "is a zip archive or a spreadsheet; give a spreadsheet a name that ends in .xlsx"),
        (b"\x89XYZ\0\0\0", "is not a text file; give CSV, TSV, Parquet or .npz"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        read_table(written(tmp_path, text))


@pytest.mark.parametrize("text", ["a,label,,\n1,x,,\n2,y,,\n", "a,label\n1,x,,\n2,y,,\n", "a,label,\n1,x,\n2,y,\n"])
@pytest.mark.parametrize("rows", [1, 100])
def test_empty_fields_at_the_end_of_every_row_are_no_columns(tmp_path, text, rows):
    path = written(tmp_path, text)
    parts = list(iterate_table(path, rows=rows))
    assert [value for part in parts for value in part["label"]] == ["x", "y"]
    assert list(parts[0].columns) == ["a", "label"]
    assert read_table(path).y.tolist() == ["x", "y"]


def test_bytes_that_are_no_utf8_are_found_late_in_the_file_too(tmp_path):
    text = b"a,label\n" + b"1,x\n2,y\n" * 1_000_000 + "3,é\n4,é\n".encode() + b"5,\xe9\n"
    with pytest.raises(InvalidInputError, match="is not UTF-8 text"):
        read_table(written(tmp_path, text))


def test_a_file_without_lines_is_refused_before_it_fills_the_memory(tmp_path):
    with pytest.raises(InvalidInputError, match="has no line end in its first 4,194,304 characters"):
        read_table(written(tmp_path, b"x" * 5_000_000))


def test_a_path_that_is_none_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none\.csv does not exist; check the path"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="is a folder; give the file of the table"):
        read_table(str(tmp_path))
    with pytest.raises(InvalidInputError, match="a table must be a file, a data frame or a pair of arrays, got int"):
        read_table(3)


def test_an_unnamed_column_gets_a_name(tmp_path):
    samples = read_table(written(tmp_path, ",a,label,\n0,5,x,\n1,6,y,\n"))
    assert list(samples.x) == ["unnamed 1", "a"]


# --- the target -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["target", "Label", "CLASS", "y"])
def test_a_usual_name_is_the_target(name):
    assert read_table(pd.DataFrame({"a": [1, 2], name: ["u", "v"]})).y.tolist() == ["u", "v"]


def test_without_a_usual_name_the_columns_are_listed():
    with pytest.raises(InvalidInputError, match=r"has no column named target, label, class or y; .* one of: a, b\."):
        read_table(pd.DataFrame({"a": [1, 2], "b": [1, 2]}))
    with pytest.raises(InvalidInputError, match=r"has the columns label, y; choose the target with --target"):
        read_table(pd.DataFrame({"label": [1, 2], "y": [1, 2]}))


def test_a_misspelt_target_gets_a_hint():
    frame = pd.DataFrame({"Diagnosis": ["a", "b"], "age": [1, 2]})
    with pytest.raises(InvalidInputError, match=r"no column 'diagnoses'; did you mean 'Diagnosis'\?"):
        read_table(frame, target="diagnoses")
    with pytest.raises(InvalidInputError, match=r"no column 'zzz'; its columns are: Diagnosis, age\."):
        read_table(frame, target="zzz")


def test_only_the_first_and_last_of_many_columns_are_listed():
    frame = pd.DataFrame(np.zeros((1, 50)), columns=[f"c{i}" for i in range(50)])
    with pytest.raises(InvalidInputError, match=r"c14, … \(20 more\), c35.*c49\.$"):
        read_table(frame)


@pytest.mark.parametrize(
    ("values", "expected", "kind"),
    [
        (["3", "1", "3"], [3, 1, 3], "i"),
        (["3.0", "1.0", "3"], [3, 1, 3], "i"),
        (["-1", "1", "1"], [-1, 1, 1], "i"),
        (["007", "7", "7"], ["007", "7", "7"], "U"),
        (["True", "False", "True"], [True, False, True], "b"),
        ([" a", "b ", "b"], ["a", "b", "b"], "U"),
        (["<b>ü</b>", "ü ü", "ü ü"], ["<b>ü</b>", "ü ü", "ü ü"], "U"),
        (["1", "one", "one"], ["1", "one", "one"], "U"),
        (["9223372036854775808", "1", "1"], ["9223372036854775808", "1", "1"], "U"),
    ],
)
def test_labels_from_text(tmp_path, values, expected, kind):
    y = read_table(written(tmp_path, "a,label\n" + "".join(f"0,{value}\n" for value in values))).y
    assert y.tolist() == expected
    assert y.dtype.kind == kind


@pytest.mark.parametrize(
    ("column", "expected", "kind"),
    [
        ([1.0, 2.0, 1.0], [1, 2, 1], "i"),
        (np.array([1, 2, 1], dtype=np.uint8), [1, 2, 1], "i"),
        ([True, False, True], [True, False, True], "b"),
        (pd.Series([1, 2, 1], dtype="Int64"), [1, 2, 1], "i"),
        (pd.Categorical(["u", "v", "u"]), ["u", "v", "u"], "U"),
        (pd.Categorical([5, 6, 5]), [5, 6, 5], "i"),
        (pd.Series([1, "a", 1], dtype=object), ["1", "a", "1"], "U"),
    ],
)
def test_labels_from_a_frame(column, expected, kind):
    y = read_table(pd.DataFrame({"a": [1, 2, 3], "y": column})).y
    assert y.tolist() == expected
    assert y.dtype.kind == kind


@pytest.mark.parametrize("values", [[0.5, 1.0, 2.0], [1.0, np.inf, 2.0]])
def test_real_numbers_are_no_classes(values, tmp_path):
    with pytest.raises(InvalidInputError, match=r"holds real numbers such as .* \(3 different ones\), .* pandas.cut"):
        read_table(pd.DataFrame({"a": [1, 2, 3], "y": values}))
    with pytest.raises(InvalidInputError, match=r"holds real numbers such as .* \(3 different ones\), .* pandas.cut"):
        read_table(written(tmp_path, "a,y\n" + "".join(f"0,{value}\n" for value in values)))


def test_dates_are_no_classes():
    with pytest.raises(InvalidInputError, match="the target column 'y' holds datetime64"):
        read_table(pd.DataFrame({"a": [1, 2], "y": pd.to_datetime(["2020-01-01", "2021-01-01"])}))


def test_a_target_that_names_the_rows_is_refused():
    with pytest.raises(InvalidInputError, match="all 4 rows have different values in the target column 'y'"):
        read_table(pd.DataFrame({"a": [1, 1, 1, 1], "y": list("abcd")}))


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    samples = read_table(written(tmp_path, "a,y\n1,u\n2,\n3,v\n4,NA\n5,u\n"))
    assert samples.x["a"].tolist() == [1, 3, 5]
    assert samples.x.index.tolist() == [0, 1, 2]
    assert samples.y.tolist() == ["u", "v", "u"]
    assert samples.notes == ("2 of 5 rows left out: no value in the target column 'y'.",)
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "y": ["u", None, " ", "v"]})
    assert read_table(frame).x["a"].tolist() == [1, 4]
    assert len(frame) == 4, "the caller's frame stays as it is"


def test_a_target_without_values_is_refused():
    with pytest.raises(InvalidInputError, match="has no value in the target column 'y'; choose another target"):
        read_table(pd.DataFrame({"a": [1, 2], "y": [None, None]}))


def test_one_class_is_said():
    samples = read_table(pd.DataFrame({"a": [1, 2], "y": ["u", "u"]}))
    assert samples.notes == ("every row has the target u: training needs at least two classes.",)


@pytest.mark.parametrize("target", ["smile,hat", ["smile", "hat"], "smile , hat"])
def test_several_targets_make_a_matrix(tmp_path, target):
    text = "a,hat,smile\n1,0,1\n2,1,1\n3,,1\n4,1,0\n"
    samples = read_table(written(tmp_path, text), target=target)
    assert samples.y.tolist() == [[1, 0], [1, 1], [0, 1]]
    assert samples.attributes == ("smile", "hat")
    assert list(samples.x) == ["a"]
    assert samples.notes == ("1 of 4 rows left out: no value in the target columns.",)


def test_several_targets_may_be_true_and_false_or_minus_one_and_one():
    frame = pd.DataFrame({"a": [1, 2], "p": [True, False], "q": [-1, 1], "r": ["1.0", "0"], "s": [1, 1]})
    samples = read_table(frame, target=["p", "q", "r", "s"])
    assert samples.y.tolist() == [[1, 0, 1, 1], [0, 1, 0, 1]]
    assert samples.y.dtype == np.int64
    assert samples.notes == (
        "the target column 's' is 1 in every row: there is nothing to learn.",
        "-1 and 1 were read as 0 and 1 in 1 target columns.",
    )


def test_several_targets_of_other_values_are_refused():
    with pytest.raises(
        InvalidInputError, match="the target column 'q' holds '2', but several targets must hold 0 and 1"
    ):
        read_table(pd.DataFrame({"a": [1, 2], "p": [0, 1], "q": [1, 2]}), target="p,q")


def test_a_comma_may_be_part_of_a_name():
    samples = read_table(pd.DataFrame({"a": [1, 2, 3], "p,q": ["u", "v", "u"]}), target="p,q")
    assert samples.y.tolist() == ["u", "v", "u"]


@pytest.mark.parametrize("target", ["", " , ", [], ["a", "a"]])
def test_a_target_must_name_columns(target):
    with pytest.raises(InvalidInputError, match="target must name one column or several different ones, got"):
        read_table(pd.DataFrame({"a": [1, 2], "b": [0, 1]}), target=target)


def test_every_column_a_target_leaves_nothing_to_learn_from():
    with pytest.raises(InvalidInputError, match="every column of the data frame is a target"):
        read_table(pd.DataFrame({"a": [1, 0], "b": [0, 1]}), target="a,b")


def test_frames_are_checked_like_files():
    with pytest.raises(InvalidInputError, match="the data frame has more than one column named 'a'"):
        read_table(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "y"]))
    with pytest.raises(InvalidInputError, match="the data frame has column names but no rows"):
        read_table(pd.DataFrame({"a": [], "y": []}))
    assert list(read_table(pd.DataFrame({0: [1, 2], 1: ["u", "v"]}), target="1").x) == ["0"]


# --- arrays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("X", "y"), ("x", "y"), ("features", "labels"), ("data", "target")])
def test_npz_by_the_usual_names(tmp_path, first, second):
    x, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "a"])
    np.savez(tmp_path / "t.npz", **{first: x, second: y, "other": np.zeros(1)})
    samples = read_table(tmp_path / "t.npz")
    assert np.array_equal(samples.x, x)
    assert samples.y.tolist() == ["a", "b", "a"]


def test_npz_with_one_hot_labels_in_parts(tmp_path):
    one_hot = np.eye(3)[[2, 0, 1, 2]]
    np.savez(
        tmp_path / "t.npz", x_train=np.ones((3, 2)), y_train=one_hot[:3], x_test=np.ones((1, 2)), y_test=one_hot[3:]
    )
    samples = read_table(tmp_path / "t.npz")
    assert samples.y.tolist() == [2, 0, 1, 2]
    assert samples.partition.tolist() == ["train"] * 3 + ["test"]


def test_a_target_that_arrays_do_not_have_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x_train=np.ones((3, 2)), y_train=[0, 1, 0], x_test=np.ones((1, 2)), y_test=[1])
    with pytest.raises(InvalidInputError, match=r"no labels named 'sick'; .* in y_train and y_test: leave target out"):
        read_table(tmp_path / "t.npz", target="sick")
    with pytest.raises(InvalidInputError, match="has its labels in the second one, so target='sick' does not apply"):
        read_table((np.ones((2, 2)), [0, 1]), target="sick")


def test_npz_that_is_none_or_holds_objects_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"is not a \.npz file or is damaged"):
        read_table(written(tmp_path, b"nothing", "t.npz"))
    np.savez(tmp_path / "o.npz", X=np.array([[object()]]), y=np.zeros(1))
    with pytest.raises(InvalidInputError, match="holds Python objects, which are not read because they can run code"):
        read_table(tmp_path / "o.npz")
    np.savez(tmp_path / "n.npz", a=np.zeros(1))
    with pytest.raises(InvalidInputError, match="must hold arrays X and y, got 'a'"):
        read_table(tmp_path / "n.npz")


@pytest.mark.parametrize(("x", "y"), [("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels")])
def test_npz_with_an_official_partition(tmp_path, x, y):
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 5), dtype=np.uint8)
    labels = np.array([[0], [1], [0], [1], [0], [2]])
    arrays = {}
    for part, rows in (("test", slice(4, 6)), ("train", slice(0, 3)), ("val", slice(3, 4))):
        arrays |= {x.format(part): images[rows], y.format(part): labels[rows]}
    np.savez(tmp_path / "t.npz", **arrays)
    samples = read_table(tmp_path / "t.npz")
    assert samples.y.tolist() == labels[:, 0].tolist()
    assert np.array_equal(samples.x[:, 0], images)
    assert [len(samples.part(part)) for part in ("train", "val", "test")] == [3, 1, 2]
    assert samples.part("test").y.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x_test": np.zeros((2, 3))}, "has parts of different shapes"),
        ({"y_test": np.zeros(3)}, "has 2 samples but 3 labels to test"),
        ({"y_test": np.array([1.0, np.nan])}, "has samples without a label; leave them out"),
        ({"x_train": np.zeros((1, 2))}, "has 1 samples but 2 labels to train"),
    ],
)
def test_npz_whose_parts_do_not_fit_is_refused(tmp_path, change, sentence):
    arrays = {"x_train": np.zeros((2, 2)), "y_train": np.array([0, 1])}
    np.savez(tmp_path / "t.npz", **arrays | {"x_test": np.zeros((2, 2)), "y_test": np.array([0, 1])} | change)
    with pytest.raises(InvalidInputError, match=sentence):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 1, 5, 6), (4, 5, 6, 1), (4, 3, 5, 6), (4, 5, 6, 3)])
def test_images_get_their_channels_second(shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    x = read_table((images, [0, 1, 0, 1])).x
    channels = 3 if 3 in shape else 1
    assert x.shape == (4, channels, 5, 6)
    grey = images if len(shape) == 3 else images[:, -1] if shape[1] == channels else images[..., -1]
    assert np.array_equal(x[:, -1], grey)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (np.zeros(3), [0, 1, 0], r"must have samples and columns, got an array of shape \(3,\)"),
        (np.zeros((0, 3)), [], r"must have samples and columns, got an array of shape \(0, 3\)"),
        (np.zeros((3, 2)), [0, 1], "has 3 samples but 2 labels"),
        (np.zeros((3, 2, 2)), [0, 1, 0], "images must be uint8"),
        (np.zeros((3, 2, 2, 2), np.uint8), [0, 1, 0], "images have 1 or 3 channels, second or last"),
        (np.zeros((2, 2)), [[0, 2], [1, 0]], "a matrix of labels must hold 0 and 1 only"),
        (np.zeros((2, 2)), np.zeros((2, 2, 2)), "labels must be a list or a 0/1 matrix"),
    ],
)
def test_arrays_that_are_no_samples_are_refused(x, y, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        read_table((x, y))


def test_arrays_of_labels():
    x = np.arange(6.0).reshape(3, 2)
    assert read_table((x, [[1], [2], [1]])).y.tolist() == [1, 2, 1]
    several = read_table((x, [[0, 1], [1, 1], [0, 0]]))
    assert several.attributes == ("0", "1")
    assert several.y.tolist() == [[0, 1], [1, 1], [0, 0]]
    hot = read_table((x, [[0, 0, 1], [1, 0, 0], [0, 0, 1]]))
    assert hot.y.tolist() == [2, 0, 2]
    assert (hot.y.dtype, hot.attributes) == (np.int64, ())
    assert hot.notes == ("every row of the labels has a single 1 in 3 columns: its place is the class.",)
    some = read_table((x, [1.0, np.nan, 2.0]))
    assert some.x.tolist() == [[0, 1], [4, 5]]
    assert some.y.tolist() == [1, 2]
    assert some.notes == ("1 of 3 rows left out: no label.",)
    frame = read_table((pd.DataFrame(x), ["a", None, "b"]))
    assert frame.x.to_numpy().tolist() == [[0, 1], [4, 5]]


# --- a part at a time -----------------------------------------------------------------------------------------------


def test_parts_are_the_rows_in_order(tmp_path):
    path = written(tmp_path, "a,b\n" + "".join(f"{i},0{i}\n" for i in range(25)))
    parts = list(iterate_table(path, rows=10, text=["b", "elsewhere"]))
    assert [len(part) for part in parts] == [10, 10, 5]
    joined = pd.concat(parts)
    assert joined["a"].tolist() == list(range(25))
    assert joined["b"].tolist() == [f"0{i}" for i in range(25)]


def test_a_table_of_one_column_can_be_predicted(tmp_path):
    assert [len(part) for part in iterate_table(written(tmp_path, "a\n1\n2\n"))] == [2]


def test_parts_must_hold_rows(tmp_path):
    with pytest.raises(InvalidInputError, match="rows must be at least 1, got 0"):
        next(iterate_table(written(tmp_path, PLAIN), rows=0))
    with pytest.raises(InvalidInputError, match="cannot be read in parts"):
        next(iterate_table(written(tmp_path, "", "t.npz")))


def test_memory_stays_flat_over_a_long_file(tmp_path):
    line = ",".join(["0.12345"] * 20)
    path = written(tmp_path, ",".join(f"c{i}" for i in range(20)) + "\n" + f"{line}\n" * 200_000)
    program = (
        "import resource, sys\n"
        "from equipoise.data.tables.read_table import iterate_table\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "parts = iterate_table(sys.argv[1], rows=5_000)\n"
        "next(parts); before = peak()\n"
        "print(sum(map(len, parts)), peak() - before)\n"
    )
    out = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout
    rows, growth = out.split()
    assert int(rows) == 195_000
    assert float(growth) < 10, "32 MB of text, 31 MB of numbers"


# --- Parquet --------------------------------------------------------------------------------------------------------


def test_without_pyarrow_its_name_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = written(tmp_path, b"PAR1", "t.parquet")
    with pytest.raises(InvalidInputError, match=r"needs pyarrow; install it with `pip install 'equipoise\[parquet\]'`"):
        read_table(path)
    with pytest.raises(InvalidInputError, match=r"needs pyarrow; install it with `pip install 'equipoise\[parquet\]'`"):
        next(iterate_table(path))


def test_parquet_is_read_whole_and_in_parts(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = pd.DataFrame({"age": [31, 54, 40], "town": ["Oslo", "Rome", "Oslo"], "label": ["a", "b", "a"]})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=1)
    assert_plain(read_table(tmp_path / "t.parquet"))
    parts = list(iterate_table(tmp_path / "t.parquet", rows=2))
    assert sum(map(len, parts)) == 3
    assert pd.concat(parts)["town"].tolist() == ["Oslo", "Rome", "Oslo"]


def test_a_damaged_parquet_file_is_named(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(
        InvalidInputError, match=r"t\.parquet is not a Parquet file or is damaged \(.*\); get the file again"
    ):
        read_table(written(tmp_path, b"PAR1 and nothing more", "t.parquet"))


DAMAGED_FOOTERS = """
import sys
from pathlib import Path
from equipoise.data.tables.parquet import read_parquet
from equipoise.errors import InvalidInputError

path = Path(sys.argv[1])
sound = path.read_bytes()
footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
read = 0
for place in range(footer, footer + 80):
    for change in (1, 2, 255):
        path.write_bytes(sound[:place] + bytes([(sound[place] + change) % 256]) + sound[place + 1 :])
        try:
            read_parquet(path)
        except InvalidInputError:
            continue
        read += 1
print(read)
"""


def test_no_damage_in_the_footer_of_a_parquet_file_ends_the_process(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1.0, None, 4.0], "k": ["u", "v", None]}).to_parquet(tmp_path / "t.parquet")
    code = [sys.executable, "-c", DAMAGED_FOOTERS, str(tmp_path / "t.parquet")]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 240


@pytest.mark.parametrize("read", [read_table, lambda path: list(iterate_table(path))])
def test_text_in_a_parquet_file_that_is_not_utf8_is_named(read, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd.DataFrame({"age": [31, 54], "town": ["Oslo", "Rome"], "label": ["a", "b"]}).to_parquet(
        tmp_path / "t.parquet", compression=None, use_dictionary=False
    )
    sound = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(sound.replace(b"Oslo", b"\xffslo"))
    with pytest.raises(InvalidInputError, match=r"t\.parquet is .* damaged \(.*Invalid UTF8.*\); get the file again"):
        read(tmp_path / "t.parquet")


# --- the real thing -------------------------------------------------------------------------------------------------


def test_the_skin_lesions_metadata():
    samples = read_table(real_data() / "ham10000" / "metadata.csv", target="dx")
    assert len(samples) == 7017
    assert len(np.unique(samples.y)) == 7
    assert samples.x["lesion_id"].nunique() == 5879
    assert samples.x["age"].dtype == np.float32
    assert samples.notes == ()


def test_an_array_whose_header_breaks_off_is_damaged(tmp_path):
    header = b"{'descr': ((((("
    with zipfile.ZipFile(tmp_path / "broken.npz", "w") as archive:
        for name in ("X.npy", "y.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(
        InvalidInputError, match=r"broken.npz is not a .npz file or is damaged; write it with numpy.savez"
    ):
        read_npz(tmp_path / "broken.npz")


def test_a_data_frame_given_stays_as_it_was():
    frame = pd.DataFrame({1: [1.5, np.nan, 3.0, 4.0], "label": ["a", "b", " ", "a"]}, index=[7, 8, 9, 9])
    before = frame.copy()
    samples = read_table(frame)
    TableEncoder().fit(samples.x).transform(frame)
    samples.x.iloc[:, 0] = 0.0
    pd.testing.assert_frame_equal(frame, before)
    assert list(samples.x.index) == [0, 1, 2]
