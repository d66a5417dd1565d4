"""What a process that is ended at once leaves behind: nothing of the user's data, and nothing for good."""

import os
import signal
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest

from equipoise.paper.faces.aligned_folder import remove_parts
from equipoise.storage import archives as unpacking
from equipoise.storage.archives import unpack
from tests.app.runs.made import digits_frame
from tests.marks import mostly_nightly

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of Unix")
PIPE = 2**20  # bytes; more than any pipe holds, so that the reader must have taken some of what is written


@pytest.mark.parametrize("number", mostly_nightly([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
def test_standard_input_leaves_nothing(number, table_run, tmp_path):
    table = digits_frame().to_csv(index=False).encode()
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "equipoise", "predict", str(table_run), "-"]
    obeys = None if number == signal.SIGKILL else partial(signal.signal, number, signal.SIG_DFL)  # under nohup too
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, env=environment, preexec_fn=obeys) as process:  # noqa: PLW1509
        process.stdin.write(table * (2 * PIPE // len(table) + 1))
        process.stdin.flush()
        process.send_signal(number)
        process.wait()
    assert process.returncode == -number
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.name.startswith("equipoise-")] == []


UNPACKING = """
import sys
from equipoise.storage import archives as unpacking

def slow(path, folder, limits):
    (folder / "half").write_text("of a file")
    print(folder.parent, flush=True)
    sys.stdin.read()

unpacking._untar = slow
unpacking.unpack(sys.argv[1])
"""


def test_a_killed_unpacking_is_swept_by_the_next_and_a_living_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "file.txt").write_text("here")
    for name in ("first.tar", "second.tar"):
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.add(tmp_path / "file.txt", "file.txt")
    command = [sys.executable, "-c", UNPACKING, str(tmp_path / "first.tar")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        scratch = Path(process.stdout.readline().strip())
        assert (scratch / "files" / "half").read_text() == "of a file"
        unpack(tmp_path / "second.tar")
        assert (scratch / "files" / "half").exists()
        process.kill()
        process.wait()
    assert (scratch / "files" / "half").exists()
    assert (unpack(tmp_path / "first.tar") / "file.txt").read_text() == "here"
    assert not list((tmp_path / "cache" / "unpacked").glob(f"{unpacking.SCRATCH}*"))


def test_a_link_instead_of_a_scratch_folder_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("")
    (tmp_path / "cache" / "unpacked").mkdir(parents=True)
    (tmp_path / "cache" / "unpacked" / f"{unpacking.SCRATCH}link").symlink_to(tmp_path / "mine")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "mine" / "kept", "kept")
    unpack(tmp_path / "a.tar")
    assert (tmp_path / "mine" / "kept").exists()


def test_parts_of_faces_are_swept_and_other_files_are_not(tmp_path):
    (tmp_path / "person").mkdir()
    for name in (".123.part", "person/.4567.part", "person/.mine.part", "person/1.part"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.part")) == [".mine.part", "1.part"]
