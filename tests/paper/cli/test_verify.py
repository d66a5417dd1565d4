"""``equipoise verify`` as a person types it."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.paper.faces.faces_made import write_list


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    for person in range(8):
        (tmp_path / "people" / f"p{person}").mkdir(parents=True)
        face = rng.integers(0, 256, (4, 4)).repeat(4, 0).repeat(4, 1)
        for number in range(4):
            pixels = (face + rng.normal(0, 20, face.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "people" / f"p{person}" / f"{number}.png")
    return tmp_path / "people"


def test_pairs_of_a_folder_are_drawn_scored_and_kept(equipoise, image_run, people, tmp_path):
    asked = ("verify", image_run, "--pairs", "mine.txt", "--images", people)
    done = equipoise(*asked, "--protocol", "folder", "--count", 40, "--roc", "roc.csv")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "40 pairs, 20 of one person and 20 of two"
    assert any(line.startswith("accuracy            ") and "±" in line for line in lines)
    assert "TAR at FAR 0.001    – (needs 10,000 pairs of two people, there are 20)" in lines
    assert done.err.splitlines()[-2:] == [
        "The pairs are in mine.txt; --protocol list uses them again.",
        "The ROC is in roc.csv.",
    ]
    again = equipoise(*asked, "--json", "--quiet")
    found = json.loads(again.out)
    assert (again.err, found["protocol"], found["pairs"]) == ("", "list", 40)
    assert f"{found['accuracy']:.2%} ± {found['deviation']:.2%} over the folds" in done.out
    assert len((tmp_path / "mine.txt").read_text().splitlines()) == 40


def test_missing_images_are_one_line_or_counted(equipoise, image_run, people, tmp_path):
    lines = ["p0/0.png p0/1.png 1", "p0/0.png p1/0.png 0"] * 4
    write_list(tmp_path / "list.txt", *lines, "p0/0.png gone.png 0")
    asked = ("verify", image_run, "--pairs", "list.txt", "--images", people)
    done = equipoise(*asked)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: list.txt names 'gone.png', which is not in ")
    assert len(done.err.splitlines()) == 1
    done = equipoise(*asked, "--skip-missing")
    assert done.code == 0
    assert done.err.splitlines()[0] == "1 of 9 pairs are left out: 'gone.png' is not there."
    quiet = equipoise(*asked, "--skip-missing", "--json", "--quiet")
    assert json.loads(quiet.out)["notes"][0] == "1 of 9 pairs are left out: 'gone.png' is not there."


def test_a_curve_that_cannot_be_written_is_said_before_anything_is_done(equipoise, image_run, people, tmp_path):
    (tmp_path / "roc.csv").write_text("mine")
    done = equipoise(
        *("verify", image_run, "--pairs", "new.txt", "--images", people, "--protocol", "folder", "--roc", "roc.csv")
    )
    assert done.err == "error: roc.csv exists; pass --force to replace it, or name another file.\n"
    assert not (tmp_path / "new.txt").exists()
    assert (tmp_path / "roc.csv").read_text() == "mine"


def test_help_has_examples(equipoise):
    done = equipoise("verify", "--help")
    assert "equipoise verify runs/faces --pairs pairs.txt --images lfw-aligned/" in done.out


@pytest.mark.parametrize("option", [("--protocol", "magic"), ("--layer", "first"), ("--frames", "0")])
def test_a_wrong_option_is_a_matter_of_usage(equipoise, option):
    done = equipoise("verify", "run", "--pairs", "pairs.txt", *option)
    assert done.code == 2
    assert f"Invalid value for '{option[0]}'" in done.err


def pixel_embeddings(people, path):
    names = sorted(file.relative_to(people).as_posix() for file in people.rglob("*.png"))
    pixels = np.stack([np.asarray(Image.open(people / name), dtype=float).ravel() for name in names])
    np.savez(path, names=names, embeddings=pixels - pixels.mean(1, keepdims=True))


def test_stored_embeddings_are_verified_and_shown_on_a_page(equipoise, people, tmp_path):
    pixel_embeddings(people, tmp_path / "features.npz")
    lines = [f"p{p}/{a}.png p{p}/{a + 1}.png 1" for p in range(8) for a in range(3)]
    lines += [f"p{p}/{a}.png p{(p + 1) % 8}/{a}.png 0" for p in range(8) for a in range(3)]
    write_list(tmp_path / "list.txt", *lines)
    asked = ("verify", "--embeddings", "features.npz", "--pairs", "list.txt", "--page", "page.html")
    done = equipoise(*asked, "--json", "--quiet")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["source"] == "features.npz"
    assert found["accuracy"] > 0.95
    assert found["probability"]["slope"] > 0
    page = (tmp_path / "page.html").read_text()
    assert "One person, least alike" in page
    assert "mathdefault" not in page
    assert "<img" not in page  # no images were given
    again = equipoise(*asked, "--images", people)
    assert again.err == "error: page.html exists; pass --force to replace it, or name another file.\n"
    again = equipoise(*asked, "--images", people, "--force")
    assert again.err.splitlines()[-1] == "The page is in page.html."
    assert (tmp_path / "page.html").read_text().count('<img src="data:image/jpeg;base64,') == 2 * 2 * 12


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "give exactly one of RUN, --model FILE.onnx and --embeddings FILE.npz, got none."),
        (("--model", "a.onnx", "--embeddings", "b.npz"), "got 2."),
        (("--model", "a.onnx"), "no such file: 'a.onnx'; check --model."),
        (("--embeddings", "a.npz"), "no such file: 'a.npz'; check --embeddings."),
    ],
)
def test_features_come_from_one_place(equipoise, given, said):
    done = equipoise("verify", *given, "--pairs", "list.txt")
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
