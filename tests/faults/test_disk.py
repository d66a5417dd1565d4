"""A full disk and a folder that may not be written: one sentence, what was there stays, and it goes on once it can."""

import errno
import json
import os
import shutil
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from equipoise.app.compare.fit_store import Fit, ResultStore
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone, ImageInput, LeNet, extract_features
from equipoise.storage.files import DiskFullError, raise_if_full


def fill(folder):
    """Leave no byte free."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 1):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break
    return ballast


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    x = np.random.default_rng(0).normal(size=(120, 3)).round(3)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    pd.DataFrame(x, columns=list("abc")).assign(y=np.where(x[:, 0] > 0.7, "rare", "common")).to_csv(path, index=False)
    return path


def test_training_on_a_full_disk_goes_on_once_there_is_room(equipoise, small_disk, table):
    run = small_disk / "run"
    ballast = fill(small_disk)
    options = ("train", table, "--epochs", 3, "--quiet", "--resume", "--out", run)
    first = equipoise(*options)
    assert first.code == 1
    assert "no space left" in first.err.lower()
    assert first.err.count("\n") == 1
    assert not list(small_disk.rglob("*.part"))
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - 24_000)  # room for the beginning, not for all of it
    second = equipoise(*options)
    assert (second.code, second.err.count("\n")) == (1, 1), second.err
    assert "no space left" in second.err.lower()
    assert not (run / "model.json").exists()
    assert json.loads((run / "run.json").read_text())["options"]["epochs"] == 3
    assert not list(small_disk.rglob("*.part"))
    ballast.unlink()
    done = equipoise(*options)
    assert (done.code, (run / "model.json").exists()) == (0, True), done.err


def test_predictions_on_a_full_disk_leave_the_earlier_file(equipoise, small_disk, table_run):
    out = small_disk / "answers.csv"
    out.write_text("earlier")
    ballast = fill(small_disk)
    done = equipoise("predict", table_run, table_run.parent / "digits.csv", "--out", out, "--force", "--quiet")
    assert (done.code, done.err.count("\n")) == (1, 1), done.err
    assert "no space left for" in done.err
    assert (out.read_text(), names(small_disk)) == ("earlier", ["answers.csv", "ballast"])
    ballast.unlink()
    done = equipoise("predict", table_run, table_run.parent / "digits.csv", "--out", out, "--force", "--quiet")
    assert (done.code, len(out.read_text().splitlines())) == (0, 601)


def test_a_report_on_a_full_disk_leaves_the_earlier_page(equipoise, small_disk, table_run):
    page = small_disk / "page.html"
    page.write_text("earlier")
    fill(small_disk)
    done = equipoise("report", table_run, "--out", page, "--force", "--quiet")
    assert (done.code, done.err.count("\n")) == (1, 1), done.err
    assert "no space left for" in done.err
    assert (page.read_text(), names(small_disk)) == ("earlier", ["ballast", "page.html"])


def test_a_finished_cell_that_finds_no_room_leaves_the_others(small_disk):
    def store():
        return ResultStore(small_disk / "fits.jsonl", data={}, settings={})

    with store() as open_store:
        open_store.add(Fit("case", "first", 0), {"scores": {}})
        ballast = fill(small_disk)
        with pytest.raises(DiskFullError, match=r"no space left for .*fits\.jsonl"):
            open_store.add(Fit("case", "second", 0), {"scores": {}, "long": "x" * 9000})
    with store() as again:
        assert [record["method"] for record in again.records] == ["first"]
        ballast.unlink()
        again.add(Fit("case", "second", 0), {"scores": {}})
    with store() as again:
        assert len(again) == 2


def test_features_that_find_no_room_go_on_where_they_were(small_disk):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 1, 28, 28), dtype=np.uint8)
    network = ImageBackbone(ImageInput(1), LeNet())
    ballast = fill(small_disk)
    with pytest.raises(InvalidInputError, match=r"(?i)features cannot be kept in .*no space left.*pass cache=FOLDER"):
        extract_features(pixels, network, cache=small_disk, batch_size=4)
    ballast.unlink()
    found = extract_features(pixels, network, cache=small_disk, batch_size=4)
    np.testing.assert_array_equal(found, extract_features(pixels, network, cache=False, batch_size=4))
    assert not list(small_disk.rglob("*.part"))


@pytest.mark.slow
def test_a_folder_that_may_not_be_written_is_one_sentence_for_every_command(equipoise, read_only, table_run, table):
    shutil.copytree(table_run, read_only.folder / "run", ignore=shutil.ignore_patterns("checkpoints"))
    (read_only.folder / "run" / "report.html").unlink(missing_ok=True)
    folder = read_only()
    run, before = folder / "run", names(folder / "run")
    digits = table_run.parent / "digits.csv"
    for arguments in (
        ("train", table, "--epochs", 1, "--out", folder / "new"),
        ("predict", run, digits, "--out", folder / "answers.csv"),
        ("report", run),
        ("export", run, folder / "model.onnx"),
    ):
        done = equipoise(*arguments, "--quiet")
        assert (done.code, done.err.count("\n")) == (1, 1), (arguments, done.err)
        assert "ead-only file system" in done.err
        assert "unexpected error" not in done.err
    done = equipoise("predict", run, digits, "--out", folder.parent / "answers.csv", "--quiet")  # reading needs no more
    assert done.code == 0
    assert names(folder / "run") == before


@contextmanager
def files_of_at_most(size):
    """Lower the limit on the size of a file for this process."""
    resource = pytest.importorskip("resource", reason="there is no such limit")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_on_the_size_of_files_is_named_and_training_goes_on_without_it(equipoise, tmp_path, table):
    options = ("train", table, "--epochs", 3, "--quiet", "--resume", "--out", tmp_path / "run")
    with files_of_at_most(20_000):
        done = equipoise(*options)
    assert (done.code, done.err.count("\n")) == (1, 1), done.err
    assert str(tmp_path / "run") in done.err
    assert (
        "exceeds the size limit of files here, the limit being 20,000 bytes; what was written before is untouched"
        in done.err
    )
    assert not list((tmp_path / "run").rglob("*.part"))
    done = equipoise(*options)
    assert (done.code, (tmp_path / "run" / "model.json").exists()) == (0, True), done.err


@pytest.mark.parametrize(
    ("number", "kind", "sentence"),
    [
        (errno.ENOSPC, DiskFullError, "^no space left for .*a.json .5 bytes."),
        (errno.EDQUOT, DiskFullError, "^no space left for .*a.json"),
        (errno.EFBIG, DiskFullError, "^.*a.json .5 bytes. exceeds the size limit of files here"),
        (errno.EROFS, OSError, "Read-only file system: '.*a.json'"),
        (errno.EACCES, PermissionError, "Permission denied: '.*a.json'"),
    ],
)
def test_an_error_of_a_write_names_the_file(tmp_path, number, kind, sentence):
    def fails():
        try:
            raise OSError(number, os.strerror(number))  # as a write raises it, without a name
        except OSError as error:
            raise_if_full(error, tmp_path / "a.json", 5)
            raise

    with pytest.raises(kind, match=sentence):
        fails()
