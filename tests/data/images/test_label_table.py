"""A CSV that tells the label of each file."""

import numpy as np
import pytest

from equipoise.data.images import read_images
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import write

NAMES_OUTSIDE = ["../a.png", "sub/../../a.png", "/etc/passwd", "..\\a.png", "C:\\a.png"]


@pytest.fixture
def photos(tmp_path):
    for seed, name in enumerate(["a.png", "b.png", "sub/c.png", "sub/deep/d.png"]):
        write(tmp_path / "photos" / name, seed)
    return tmp_path / "photos"


def read(photos, text: str, **options):
    path = photos.parent / "labels.csv"
    path.write_text(text, encoding="utf-8")
    return read_images(photos, labels=path, **options)


@pytest.mark.parametrize("header", ["file,label", "FileName,Target", "image_id,dx", "path,class", "image,what"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_usual_columns_and_separators_are_known(header, separator, photos):
    rows = [header, "sub/c.png,y", "b.png,x", "a.png,x", "d,<b>é"]
    samples = read(photos, "\n".join(rows).replace(",", separator))
    assert samples.x.names == ["a.png", "b.png", "sub/c.png", "sub/deep/d.png"]
    assert samples.y.tolist() == ["x", "x", "y", "<b>é"]
    assert samples.attributes == ()


@pytest.mark.parametrize("name", ["c", "c.png", "sub/c", "sub/c.png", "./sub/c.png", "photos/sub/c.png", "sub\\c.png"])
def test_a_file_is_found_by_its_path_its_name_or_its_stem(name, photos):
    samples = read(photos, f"file,label\n{name},y\na.png,x\n")
    assert samples.x.names == ["a.png", "sub/c.png"]
    assert samples.y.tolist() == ["x", "y"]


def test_a_name_in_two_folders_needs_its_path(photos):
    write(photos / "other" / "c.png", 9)
    with pytest.raises(
        InvalidInputError, match=r"the file 'c\.png', which may be 'other/c\.png' or 'sub/c\.png'; write its path"
    ):
        read(photos, "file,label\nc.png,y\na.png,x\n")
    assert read(photos, "file,label\nother/c.png,y\na.png,x\n").x.names == ["a.png", "other/c.png"]


@pytest.mark.parametrize("name", ["c", "sub/c", "photos/sub/c"])
def test_a_name_without_its_ending_must_be_of_one_file(name, photos):
    write(photos / "sub" / "c.bmp", 9)
    with pytest.raises(
        InvalidInputError, match=rf"'{name}', which may be 'sub/c\.bmp' or 'sub/c\.png'; write .* with its suffix\.$"
    ):
        read(photos, f"file,label\n{name},y\na.png,x\n")
    assert read(photos, "file,label\nsub/c.png,y\na,x\n").x.names == ["a.png", "sub/c.png"]


@pytest.mark.parametrize("name", NAMES_OUTSIDE)
def test_names_that_leave_the_folder_are_refused(name, photos):
    with pytest.raises(InvalidInputError, match="names must start from the folder and stay inside it"):
        read(photos, f"file,label\n{name},y\na.png,x\n")


def test_labels_stay_as_they_are_written(photos):
    samples = read(photos, 'file,label\na.png,007\nb.png,NA\nc.png,"a, b"\nd.png,1.0\n')
    assert samples.y.tolist() == ["007", "NA", "a, b", "1.0"]


def test_several_columns_of_0_and_1_are_several_labels(photos):
    samples = read(photos, "file,smile,hat\nb.png,0,1\na.png,1,1.0\nd,0,0\n")
    assert samples.multilabel
    assert samples.attributes == ("smile", "hat")
    assert samples.y.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert samples.y.dtype == np.int64


def test_columns_can_be_given_by_name(photos):
    text = "who,kind,p,q,r\na.png,x,0,1,1\nb.png,y,1,1,0\n"
    assert read(photos, text, file_column="who", target="kind").y.tolist() == ["x", "y"]
    assert read(photos, text, file_column="who", target=["r", "p"]).y.tolist() == [[1, 0], [0, 1]]
    assert read(photos, text, file_column="who", target="r, p").attributes == ("r", "p")
    with pytest.raises(InvalidInputError, match=r"no column 'knd' for target; did you mean 'kind'\?"):
        read(photos, text, file_column="who", target="knd")
    with pytest.raises(InvalidInputError, match=r"no column 'zzz' for group; it has 'who', 'kind'"):
        read(photos, text, file_column="who", target="kind", group="zzz")
    with pytest.raises(InvalidInputError, match=r"none of the columns .* hold file names; name it with file_column="):
        read(photos, text)
    with pytest.raises(
        InvalidInputError, match=r"none of the columns 'kind', 'note' .* hold labels; name it with target="
    ):
        read(photos, "file,kind,note\na.png,x,u\nb.png,y,v\n")
    with pytest.raises(InvalidInputError, match="several labels must be columns of 0 and 1, but 'kind' holds 'x'"):
        read(photos, text, file_column="who", target=["p", "kind"])


def test_groups_and_partition_come_along_in_the_order_of_the_files(photos):
    text = "image_id,dx,lesion_id,split\nd,x,L2,test\nb,y,L1,Train\na,x,L2,validation\n"
    samples = read(photos, text, group="lesion_id")
    assert samples.y.tolist() == ["x", "y", "x"]
    assert samples.groups.tolist() == ["L2", "L1", "L2"]
    assert samples.partition.tolist() == ["val", "train", "test"]


def test_a_split_column_of_another_meaning_is_no_partition(photos):
    assert read(photos, "file,label,set\na,x,3\nb,y,4\n").partition is None


def test_a_few_rows_without_a_file_are_noted_and_more_are_an_error(photos):
    for number in range(100):
        write(photos / f"n{number}.png", number, height=2, width=2)
    rows = [f"n{number},{'xy'[number % 2]}" for number in range(100)]
    samples = read(photos, "\n".join(["file,label", *rows[:99], "gone.png,x"]))
    assert len(samples) == 99
    assert any(
        "1 of 100 rows of the labels name files that are not in" in n and "'gone.png'" in n for n in samples.notes
    )
    with pytest.raises(
        InvalidInputError, match=r"4 of 100 rows .* more than the 3 that may.*the first 'gone\.png'; check the"
    ):
        read(photos, "\n".join(["file,label", *rows[:96], "gone.png,x", "lost.png,y", "no.png,y", "none.png,x"]))


def test_files_without_a_row_double_rows_and_empty_labels_are_noted(photos):
    samples = read(photos, "file,label\na.png,x\na.png,x\nb.png,y\nc.png, \n")
    assert samples.x.names == ["a.png", "b.png"]
    assert "'sub/deep/d.png' is not listed in the labels." in samples.notes
    assert "1 duplicate rows of the labels count once." in samples.notes
    assert "1 rows of the labels have an empty label and are left out." in samples.notes


def test_a_file_with_two_labels_is_an_error_among_few(photos):
    with pytest.raises(
        InvalidInputError, match=r"1 of 3 files have two different labels.*the first 'a\.png'; keep one"
    ):
        read(photos, "file,label\na.png,x\na.png,y\nb.png,y\n")


def test_a_file_with_two_labels_among_many_is_left_out(photos):
    for number in range(100):
        write(photos / f"n{number}.png", number, height=2, width=2)
    rows = [f"n{number},{'xy'[number % 2]}" for number in range(100)]
    samples = read(photos, "\n".join(["file,label", *rows, "n7,x"]))
    assert "n7.png" not in samples.x.names
    assert len(samples) == 99
    assert "1 of 101 files have two different labels; left out: 'n7'." in samples.notes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty; a table starts with a line of column names"),
        (b"file,label\n", "has 0 rows"),
        (b"file\na.png\n", "1 columns"),
        (b"file,label\n\xff\xfe,x\n", "name files that are not in"),
    ],
)
def test_a_file_that_is_no_table_of_labels_is_refused(content, reason, photos):
    path = photos.parent / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=reason):
        read_images(photos, labels=path)
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file"):
        read_images(photos, labels=photos / "none.csv")


def test_a_mark_of_byte_order_is_no_part_of_the_first_column(photos):
    assert read(photos, "\ufefffile,label\na,x\nb,y\n").y.tolist() == ["x", "y"]


def test_blanks_around_labels_and_groups_do_not_count(photos):
    samples = read(photos, "file,label,who\na.png, x ,P1\nb.png,x,P1 \nc.png,y z,\tP2\na.png,x,P1\n", group="who")
    assert samples.y.tolist() == ["x", "x", "y z"]
    assert samples.groups.tolist() == ["P1", "P1", "P2"]
    assert "1 duplicate rows of the labels count once." in samples.notes


@pytest.mark.parametrize("cell", ["", "  "])
def test_labels_that_are_all_empty_are_an_error(cell, photos):
    with pytest.raises(
        InvalidInputError, match=r"^all 2 rows of the labels are empty in 'label'; fill in the labels, or name another"
    ):
        read(photos, f"file,label\na.png,{cell}\nb.png,{cell}\n")


def test_two_columns_of_one_name_are_refused(photos):
    with pytest.raises(InvalidInputError, match="has more than one column named 'label'; give each its own name"):
        read(photos, "file,label, label\na.png,x,y\n")


def test_columns_with_one_1_in_each_row_are_classes_unless_they_are_named(photos):
    text = "image,MEL,NV,BCC\na,0.0,1.0,0.0\nb,1.0,0.0,0.0\nc,0,1,0\n"
    samples = read(photos, text)
    assert samples.y.tolist() == ["NV", "MEL", "NV"]
    assert samples.attributes == ()
    assert (
        "the columns 'MEL', 'NV', 'BCC' have exactly one 1 in each row: they are read as classes; name them with "
        "target= to read each as a label of its own."
    ) in samples.notes
    named = read(photos, text, target=["MEL", "NV", "BCC"])
    assert named.attributes == ("MEL", "NV", "BCC")
    assert named.y.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert not [note for note in named.notes if "exactly one" in note]
    assert read(photos, text.replace("c,0,1,0", "c,0,0,0")).multilabel
