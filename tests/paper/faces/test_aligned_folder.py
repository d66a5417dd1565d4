"""A folder of images to one of aligned faces: names, lists, resuming, workers, and bad input."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.paper.faces import align_folder, aligned, find_faces, load_mtcnn
from equipoise.paper.faces import aligned_folder as folder
from equipoise.paper.faces import alignment_worker as files
from equipoise.paper.faces.alignment_log import held
from equipoise.paper.faces.alignment_worker import target_name
from tests.paper.faces.made import made_mtcnn, orl, published, save, squares

ONE = squares(100, 120, (40, 30, 24), channels=3)
TWO = squares(160, 160, (10, 10, 24), (70, 60, 24), channels=3)
NONE = squares(100, 120, channels=3)


def put(path, pixels, **settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(path, **settings)


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save(made_mtcnn(), tmp_path_factory.mktemp("weights"))


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    put(root / "anna" / "1.png", ONE)
    put(root / "anna" / "2.pgm", ONE[:1])
    put(root / "ben" / "deep er" / "1.JPG", TWO)
    put(root / "ben" / "3.gif", ONE[:1])
    put(root / "cleo" / "none.bmp", NONE)
    (root / "cleo" / "broken.jpg").write_bytes(b"not an image")
    (root / "notes.txt").write_text("x")
    return root


def test_faces_get_the_names_of_their_images(photos, tmp_path, weights):
    out = tmp_path / "out"
    seen = []
    done = align_folder(photos, out, weights=weights, progress=lambda *counts: seen.append(counts))
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*") if path.parent != out)
    assert found == ["anna/1.png", "anna/2.pgm", "ben/3.png", "ben/deep er/1.JPG"]
    with Image.open(out / "anna" / "1.png") as face:
        assert (face.size, face.mode) == ((112, 112), "RGB")
    with Image.open(out / "anna" / "2.pgm") as face:
        assert (face.mode, face.format) == ("L", "PPM")
    with Image.open(out / "ben" / "deep er" / "1.JPG") as face:
        assert face.format == "JPEG"
    assert (done.images, done.aligned, done.several, done.without, done.unreadable, done.done) == (6, 4, 1, 1, 1, 6)
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    assert done.notes[0] == "'notes.txt' is not an image and is ignored."
    assert "'cleo/broken.jpg' cannot be read (it is not an image of a known format)" in done.notes[1]


def test_what_is_written_is_the_face_of_the_image(photos, tmp_path, weights):
    align_folder(photos, tmp_path / "out", weights=weights, side=64)
    ((faces, attempt), (mirrored, _)) = find_faces([ONE, ONE[:, :, ::-1]], made_mtcnn())
    other = mirrored.landmarks[0][[1, 0, 2, 4, 3]] * (-1, 1) + (ONE.shape[2], 0)
    landmarks = (faces.landmarks[0] + other) / 2
    with Image.open(tmp_path / "out" / "anna" / "1.png") as face:
        np.testing.assert_array_equal(np.asarray(face), aligned(ONE, landmarks, side=64).transpose(1, 2, 0))
    row = next(row for row in table(tmp_path / "out" / "alignment.csv") if row["image"] == "anna/1.png")
    assert (row["status"], row["faces"], row["attempt"], attempt) == ("aligned", "1", "1", 1)
    np.testing.assert_allclose(
        [float(row[name]) for name in ("left", "top", "right", "bottom")], faces.boxes[0], atol=0.01
    )
    np.testing.assert_allclose([float(row["nose_x"]), float(row["nose_y"])], landmarks[2], atol=0.01)
    assert float(row["left_eye_x"]) < float(row["right_eye_x"])


def test_images_too_large_to_be_together_are_done_one_by_one(photos, tmp_path, weights, monkeypatch):
    align_folder(photos, tmp_path / "out", weights=weights)
    monkeypatch.setattr(files, "PIXELS_AT_ONCE", 1)
    done = align_folder(photos, tmp_path / "other", weights=weights)
    assert (done.aligned, done.unreadable) == (4, 1)
    assert table(tmp_path / "out" / "alignment.csv") == table(tmp_path / "other" / "alignment.csv")


def test_the_smallest_face_is_an_option(tmp_path, weights):
    put(tmp_path / "in" / "1.png", ONE)
    assert align_folder(tmp_path / "in", tmp_path / "one", weights=weights).aligned == 1
    assert align_folder(tmp_path / "in", tmp_path / "two", weights=weights, min_face=1.0).aligned == 0


def test_the_list_says_which_images_to_look_at_and_what_was_done(photos, tmp_path, weights):
    done = align_folder(photos, tmp_path / "out", weights=weights)
    rows = {row["image"]: row for row in table(done.to_check)}
    assert sorted(rows) == ["ben/deep er/1.JPG", "cleo/broken.jpg", "cleo/none.bmp"]
    assert rows["cleo/none.bmp"] | {"image": ""} == {
        "image": "",
        "status": "no face",
        "faces": "0",
        "note": "no face was found in 120 × 100 pixels",
    }
    assert rows["cleo/broken.jpg"]["status"] == "unreadable"
    several = rows["ben/deep er/1.JPG"]
    assert (several["status"], several["faces"]) == ("several", "2")
    assert several["note"].startswith("of 2 faces the largest near the centre was taken, at 8")
    row = next(row for row in table(tmp_path / "out" / "alignment.csv") if row["status"] == "several")
    assert float(row["left"]) > 50  # the one in the middle


def test_an_image_that_becomes_unreadable_loses_its_old_face(photos, tmp_path, weights):
    out = tmp_path / "out"
    align_folder(photos, out, weights=weights)
    assert (out / "anna" / "1.png").exists()
    (photos / "anna" / "1.png").write_bytes(b"cut off")
    done = align_folder(photos, out, weights=weights)
    assert done.unreadable == 2
    assert not (out / "anna" / "1.png").exists()


def test_faces_are_written_through_new_files_that_nobody_can_foresee(tmp_path, monkeypatch):
    out, secret = tmp_path / "out", tmp_path / "secret"
    secret.write_text("mine")
    (out / "anna").mkdir(parents=True)
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "ab" * count)
    (out / "anna" / f".{'ab' * 8}.part").symlink_to(secret)  # as if somebody had guessed the name
    with pytest.raises(FileExistsError):
        files._write(out / "anna" / "1.png", ONE)
    assert secret.read_text() == "mine"


def test_finished_images_are_not_done_again(photos, tmp_path, weights):
    out = tmp_path / "out"
    align_folder(photos, out, weights=weights)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.p*")}
    seen = []
    again = align_folder(photos, out, weights=weights, progress=lambda *counts: seen.append(counts))
    assert seen == [(5, 6), (6, 6)]
    assert (again.done, again.images, again.aligned, again.without) == (1, 6, 4, 1)  # the broken one may be mended
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.p*")} == times
    put(photos / "cleo" / "broken.jpg", ONE)
    put(photos / "anna" / "1.png", NONE)  # changed: no face now
    (out / "anna" / "2.pgm").unlink()
    (out / "ben" / "3.png").write_bytes(b"")  # as after a failure of the machine
    last = align_folder(photos, out, weights=weights)
    assert (last.done, last.aligned, last.without, last.unreadable) == (4, 4, 2, 0)
    assert (out / "cleo" / "broken.jpg").is_file()
    assert (out / "anna" / "2.pgm").is_file()
    assert not (out / "anna" / "1.png").exists()
    assert (out / "ben" / "3.png").stat().st_size > 100
    assert align_folder(photos, out, weights=weights).done == 0
    rows = [row["image"] for row in table(out / "alignment.csv")]
    assert len(rows) == len(set(rows)) == 6


def test_a_run_killed_at_any_byte_goes_on(photos, tmp_path, weights):
    out = tmp_path / "out"
    align_folder(photos, out, weights=weights)
    whole = (out / "alignment.csv").read_bytes()
    first = sorted(table(out / "alignment.csv"), key=lambda row: row["image"])
    torn = [whole[:length] for length in (0, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1)]
    quoted = whole.replace(b"anna", b'"anna', 1) + b"x" * 200_000
    stamp = whole.replace(b"\nanna/2", b"x\nanna/2", 1)  # a number that is none
    for content in (*torn, quoted, stamp, whole.replace(b"aligned", b"al\0x", 1)):
        (out / "alignment.csv").write_bytes(content)
        done = align_folder(photos, out, weights=weights)
        assert (done.images, done.aligned) == (6, 4)
        assert sorted(table(out / "alignment.csv"), key=lambda row: row["image"]) == first


def test_images_that_are_gone_are_told_of_and_their_faces_kept(photos, tmp_path, weights):
    out = tmp_path / "out"
    align_folder(photos, out, weights=weights)
    (photos / "anna" / "1.png").unlink()
    done = align_folder(photos, out, weights=weights)
    assert done.images == 5
    assert "1 images of alignment.csv are no longer there; their faces were kept." in done.notes
    assert (out / "anna" / "1.png").is_file()


def test_an_interruption_loses_nothing_that_was_recorded(photos, tmp_path, weights, monkeypatch):
    monkeypatch.setattr(folder, "FILES_AT_ONCE", 2)

    def stop(done, _):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="are kept: run it again to continue"):
        align_folder(photos, tmp_path / "out", weights=weights, progress=stop)
    assert len(table(tmp_path / "out" / "alignment.csv")) == 4
    assert align_folder(photos, tmp_path / "out", weights=weights).done in (2, 3)


def test_names_may_be_anything(tmp_path, weights):
    names = ["-x.png", 'a,"b\n.png', "ü 1.png", "n" * 251 + ".png"]
    if sys.platform == "linux":
        names.append(os.fsdecode(b"\xff\xfe.png"))
    for name in names:
        put(tmp_path / "in" / "who" / "face.png", ONE)
        os.rename(tmp_path / "in" / "who" / "face.png", tmp_path / "in" / "who" / name)
    done = align_folder(tmp_path / "in", tmp_path / "out", weights=weights)
    assert done.aligned == len(names)
    assert sorted(os.listdir(tmp_path / "out" / "who")) == sorted(names)
    assert align_folder(tmp_path / "in", tmp_path / "out", weights=weights).done == 0


def test_other_settings_are_refused(photos, tmp_path, weights):
    out = tmp_path / "out"
    align_folder(photos, out, weights=weights)
    with pytest.raises(InvalidInputError, match=r"aligned with another side \(112, now 96\); give a new folder"):
        align_folder(photos, out, weights=weights, side=96)
    with pytest.raises(InvalidInputError, match=r"another min_face \(0\.1, now 0\.2\)"):
        align_folder(photos, out, weights=weights, min_face=0.2)
    (out / "alignment.json").write_text("{")
    with pytest.raises(
        InvalidInputError, match=r"alignment\.json cannot be read .*; give another folder, or delete this one"
    ):
        align_folder(photos, out, weights=weights)


def test_a_folder_with_other_things_is_not_touched(photos, tmp_path, weights):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InvalidInputError, match=r"is not empty \(it has 'thesis\.tex'\)"):
        align_folder(photos, tmp_path / "mine", weights=weights)
    assert sorted(os.listdir(tmp_path / "mine")) == ["thesis.tex"]
    with pytest.raises(InvalidInputError, match="is a file; give a folder"):
        align_folder(photos, tmp_path / "mine" / "thesis.tex", weights=weights)


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        ("photos", "photos", "holds the images themselves"),
        ("photos", "photos/anna/out", "lies inside .*photos.*, where its faces would be found as further images"),
        ("photos/anna", "photos", "lies inside .*photos.*; give a folder of its own"),
        ("link", "photos/out", "lies inside .*link"),
        ("nowhere", "out", "'.*nowhere' is not a folder or archive"),
    ],
)
def test_folders_within_each_other_are_refused(photos, tmp_path, weights, source, target, sentence):
    (tmp_path / "link").symlink_to(photos)
    with pytest.raises(InvalidInputError, match=sentence):
        align_folder(tmp_path / source, tmp_path / target, weights=weights)
    assert not (photos / "alignment.json").exists()
    assert not (photos / "out").exists()


def test_names_that_differ_in_case_only_are_refused(tmp_path, weights):
    put(tmp_path / "a" / "Anna" / "1.png", ONE)
    put(tmp_path / "a" / "anna" / "2.png", ONE)
    if len(os.listdir(tmp_path / "a")) == 1:
        pytest.skip("this file system does not tell capital letters from small ones")
    with pytest.raises(InvalidInputError, match="'Anna' and 'anna' would be one folder"):
        align_folder(tmp_path / "a", tmp_path / "out", weights=weights)
    put(tmp_path / "b" / "1.png", ONE)
    put(tmp_path / "b" / "1.GIF", ONE[:1])
    with pytest.raises(InvalidInputError, match=r"'1\.GIF' and '1\.png' would be one file"):
        align_folder(tmp_path / "b", tmp_path / "out", weights=weights)
    assert not (tmp_path / "out").exists()


def test_a_loop_of_links_ends_and_is_told_of(photos, tmp_path, weights):
    (photos / "anna" / "loop").symlink_to(photos)
    done = align_folder(photos, tmp_path / "out", weights=weights)
    assert done.images == 6
    assert "'anna/loop' is a link to a folder already read and is not followed." in done.notes


def test_an_empty_folder_and_bad_options_are_one_sentence(tmp_path, weights):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match=r"no images found in '.*empty'"):
        align_folder(tmp_path / "empty", tmp_path / "out", weights=weights)
    for options, sentence in (
        ({"min_face": 20}, "min_face must lie between 0.001 and 1.0, got 20"),
        ({"side": 8}, "side must lie between 16 and 1024, got 8"),
        ({"choose": "best"}, "choose must be one of centre, largest, got 'best'"),
        ({"workers": 0}, "1 or more; got 0"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            align_folder(tmp_path / "empty", tmp_path / "out", weights=weights, **options)
    assert not (tmp_path / "out").exists()


def test_damaged_weights_leave_no_folder(photos, tmp_path):
    folder = save(made_mtcnn(), tmp_path / "damaged")
    (folder / "onet.pt").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match=r"onet\.pt is not a file of weights"):
        align_folder(photos, tmp_path / "out", weights=folder)
    assert not (tmp_path / "out").exists()


def test_two_at_once_in_one_folder_are_kept_apart(photos, tmp_path, weights):
    with held(tmp_path / "out"), pytest.raises(InvalidInputError, match="another process is aligning"):
        align_folder(photos, tmp_path / "out", weights=weights)


@pytest.mark.usefixtures("photos")
def test_an_archive_is_read_as_its_folder(tmp_path, weights, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "photos.tar"
    subprocess.run(["tar", "cf", archive, "-C", tmp_path, "photos"], check=True)
    done = align_folder(archive, tmp_path / "out", weights=weights)
    assert (done.images, done.aligned) == (6, 4)


def test_a_photograph_on_its_side_is_turned_first(tmp_path, weights):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored turned; upright after a quarter to the right
    upright = squares(100, 140, (80, 30, 24), channels=3)
    put(tmp_path / "in" / "1.jpg", np.rot90(upright, 1, axes=(1, 2)), exif=exif, quality=95)
    put(tmp_path / "in" / "2.jpg", upright, quality=95)
    align_folder(tmp_path / "in", tmp_path / "out", weights=weights)
    one, two = table(tmp_path / "out" / "alignment.csv")
    assert float(one["left"]) == pytest.approx(float(two["left"]), abs=1)
    assert float(one["top"]) == pytest.approx(float(two["top"]), abs=1)
    with Image.open(tmp_path / "out" / "1.jpg") as face:
        assert not face.getexif()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a/b.JPEG", "a/b.JPEG"), ("a.b/c.gif", "a.b/c.png"), ("x.jp2", "x.png"), ("x.pgm", "x.pgm"), ("x.pbm", "x.png")],
)
def test_names_of_faces(name, expected):
    assert target_name(name) == expected


def many(root, count):
    for number in range(count):
        put(root / f"{number % 3}" / f"{number}.png", squares(64, 70, (20 + number % 5, 18, 24)))


@pytest.mark.slow
def test_workers_give_what_one_process_gives(tmp_path, weights, monkeypatch):
    monkeypatch.setattr(folder, "FEW_FILES", 1)
    monkeypatch.setattr(folder, "FILES_AT_ONCE", 4)
    many(tmp_path / "in", 10)
    align_folder(tmp_path / "in", tmp_path / "two", weights=weights, workers=2)
    align_folder(tmp_path / "in", tmp_path / "one", weights=weights)
    assert table(tmp_path / "one" / "alignment.csv") == table(tmp_path / "two" / "alignment.csv")
    for path in (tmp_path / "one").rglob("*.png"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def _end(*_, **__):
    os._exit(1)


@pytest.mark.slow
def test_a_worker_that_ends_is_one_sentence(tmp_path, weights, monkeypatch):
    monkeypatch.setattr(folder, "FEW_FILES", 1)
    monkeypatch.setattr(folder, "_in_worker", _end)
    many(tmp_path / "in", 3)
    others = multiprocessing.active_children()  # joblib keeps its workers
    with pytest.raises(InvalidStateError, match=r"a worker ended early.*Run again with fewer workers to continue"):
        align_folder(tmp_path / "in", tmp_path / "out", weights=weights, workers=2)
    assert [child for child in multiprocessing.active_children() if child not in others] == []


HELD = """
import signal
import sys
from concurrent.futures import Future
from equipoise.main import main
from equipoise.paper.faces import aligned_folder as folder

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without
folder.FEW_FILES, folder.FILES_AT_ONCE = 1, 8
asked, result = [], Future.result

def wait(future):
    if future not in asked:
        asked.append(future)
    if len(asked) == 3 and not sys.stdin.closed:
        print("waiting", file=sys.stderr, flush=True)
        with sys.stdin:
            sys.stdin.read()
    return result(future)

Future.result = wait
main()
"""
"""The command line, which waits for its third part of the files until its standard input is closed."""


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="signals to a group of processes")
def test_ctrl_c_keeps_what_workers_have_done(tmp_path, weights):
    many(tmp_path / "in", 100)  # two parts of 8 are there by then, and eight more are under way at most
    record = tmp_path / "out" / "alignment.csv"
    command = [sys.executable, "-c", HELD, "faces", "align", tmp_path / "in", tmp_path / "out"]
    command += ["--weights", weights, "--workers", "2"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen(command, start_new_session=True, text=True, **pipes)
    assert any(said == "waiting\n" for said in running.stderr)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    rows = table(record)
    assert running.returncode == 130
    assert said.splitlines()[-1] == f"stopped; the faces in {tmp_path / 'out'} are kept: run it again to continue."
    assert 16 <= len(rows) <= len(list((tmp_path / "out").rglob("*.png"))) <= 80
    assert all((tmp_path / "out" / row["image"]).stat().st_size == int(row["written"]) for row in rows)


def test_published_networks_align_orl(tmp_path):
    weights, root = published(), orl()
    some = tmp_path / "in"
    for path in sorted(root.rglob("*.pgm"))[5::40]:
        (some / path.parent.name).mkdir(parents=True, exist_ok=True)
        (some / path.parent.name / path.name).write_bytes(path.read_bytes())
    done = align_folder(some, tmp_path / "out", weights=weights)
    assert done.images == done.aligned == 10
    for row in table(tmp_path / "out" / "alignment.csv"):
        assert float(row["residual"]) < 12
    images = [np.asarray(Image.open(path))[None] for path in (tmp_path / "out").rglob("*.pgm")]
    again = find_faces(images, load_mtcnn(weights))
    eyes = np.array([faces.landmarks[0, :2] for faces, _ in again if len(faces)])
    assert len(eyes) >= 9
    np.testing.assert_allclose(eyes.mean(axis=0), [[38.8, 52.2], [74.0, 52.0]], atol=2.5)


def test_the_settings_are_plain_json(photos, tmp_path, weights):
    align_folder(photos, tmp_path / "out", weights=weights, choose="largest")
    stored = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert {name: stored[name] for name in ("min_face", "choose", "side")} == {
        "min_face": 0.1,
        "choose": "largest",
        "side": 112,
    }
    assert len(stored["weights"]) == 16
