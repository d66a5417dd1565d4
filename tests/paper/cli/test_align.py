"""``equipoise faces align`` as a person meets it."""

import json

import pytest

from tests.paper.faces.made import made_mtcnn, save, squares
from tests.paper.faces.test_aligned_folder import NONE, ONE, TWO, put


@pytest.fixture
def photos(tmp_path):
    save(made_mtcnn(), tmp_path / "mtcnn")
    put(tmp_path / "photos" / "anna" / "1.png", ONE)
    put(tmp_path / "photos" / "anna" / "2.png", TWO)
    put(tmp_path / "photos" / "ben" / "1.png", NONE)
    return tmp_path / "photos"


@pytest.mark.usefixtures("photos")
def test_align_says_what_it_did_and_goes_on(equipoise, tmp_path):
    done = equipoise("faces", "align", "photos", "out", "--weights", "mtcnn")
    sentence = "2 of 3 images have their face in out; 1 have several, 1 none, 0 cannot be read: see out/to_check.csv.\n"
    assert (done.code, done.out, done.err) == (0, sentence, "")
    assert (tmp_path / "out" / "anna" / "1.png").is_file()
    again = equipoise("faces", "align", "photos", "out", "--weights", "mtcnn", "--json", "--quiet")
    assert (again.code, again.err) == (0, "")
    found = json.loads(again.out)
    assert (found["images"], found["aligned"], found["done"], found["to_check"]) == (3, 2, 0, "out/to_check.csv")


@pytest.mark.usefixtures("photos")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("photos", "photos/out"), "lies inside 'photos'"),
        (("photos", "out", "--weights", "elsewhere"), "'elsewhere' must hold pnet.pt, rnet.pt, onet.pt"),
        (("nowhere", "out"), "'nowhere' is not a folder or archive"),
    ],
)
def test_what_is_refused_is_one_sentence(equipoise, arguments, sentence):
    if "--weights" not in arguments:
        arguments = (*arguments, "--weights", "mtcnn")
    done = equipoise("faces", "align", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert sentence in done.err


def test_a_folder_without_any_face_is_an_error(equipoise, tmp_path):
    save(made_mtcnn(), tmp_path / "mtcnn")
    put(tmp_path / "walls" / "1.png", squares(64, 64))
    done = equipoise("faces", "align", "walls", "out", "--weights", "mtcnn")
    assert done.code == 1
    assert done.out.startswith("0 of 1 images have their face in out")
    assert done.err == "error: no face was found in any of 1 images; try --min-face 0.025, or check SRC.\n"


def test_help_shows_an_example(equipoise):
    done = equipoise("faces", "align", "--help")
    assert done.code == 0
    assert "equipoise faces align photos/ aligned/ --weights mtcnn/" in done.out


@pytest.mark.parametrize("option", [("--workers", "0"), ("--min-face", "30"), ("--choose", "nose"), ("--size", "1")])
def test_a_wrong_option_is_a_matter_of_usage(equipoise, option):
    done = equipoise("faces", "align", "in", "out", *option)
    assert done.code == 2
    assert f"Invalid value for '{option[0]}'" in done.err
