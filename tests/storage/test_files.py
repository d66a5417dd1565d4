"""Files that are whole or not there, whoever wrote beside them before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.storage import files
from equipoise.storage.files import (
    cache_folder,
    check_plain,
    read_plain,
    remove_abandoned,
    write_atomically,
    written_beside,
)

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    with written_beside(path) as file:
        file.write(b"one")
        assert not path.exists()
        (part,) = names(tmp_path)
        assert part.startswith(".file.")
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["file"])

    def broken():
        with written_beside(path) as file:
            file.write(b"two")
            raise ZeroDivisionError("an error")

    with pytest.raises(ZeroDivisionError, match="an error"):
        broken()
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["file"])


def test_a_link_under_the_name_is_replaced_not_followed(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    write_atomically(tmp_path / "file", b"new")
    assert ((tmp_path / "victim").read_text(), (tmp_path / "file").read_bytes()) == ("mine", b"new")
    assert not (tmp_path / "file").is_symlink()


def test_two_parts_of_one_process_have_different_names(tmp_path):
    with written_beside(tmp_path / "file") as one, written_beside(tmp_path / "file") as other:
        one.write(b"1")
        other.write(b"2")
        assert len(names(tmp_path)) == 2
    assert (tmp_path / "file").read_bytes() == b"1"  # the one that ended last


@posix
def test_what_a_killed_process_left_goes_and_all_else_stays(tmp_path):
    write = "import os, sys; from pathlib import Path; from equipoise.storage.files import written_beside\n"
    write += "with written_beside(Path(sys.argv[1])) as file:\n file.write(b'x'); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", write, tmp_path / "file"], check=False)
    assert done.returncode == -9
    (left,) = names(tmp_path)
    others = [".movie.part", "film.part", ".other.77-0badcafe.part", ".file.77-0badcafe.part.txt"]
    for name in others:
        (tmp_path / name).write_text("somebody's")
    (tmp_path / ".file.78-0badcafe.part").symlink_to(tmp_path / "film.part")
    os.mkfifo(tmp_path / ".file.79-0badcafe.part")
    with written_beside(tmp_path / "file") as file:
        file.write(b"y")
        remove_abandoned(tmp_path, "file")  # not the one that is being written
    assert (tmp_path / "file").read_bytes() == b"y"
    assert left not in names(tmp_path)
    assert set(others) <= set(names(tmp_path))
    assert (tmp_path / "film.part").read_text() == "somebody's"
    remove_abandoned(tmp_path)
    assert ".other.77-0badcafe.part" not in names(tmp_path)
    assert set(others) - {".other.77-0badcafe.part"} <= set(names(tmp_path))


@posix
def test_only_a_plain_file_of_a_bearable_size_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert read_plain(tmp_path / "file", most_bytes=5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes, more than the limit of 4"):
        read_plain(tmp_path / "file", most_bytes=4)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device", ""):
        with pytest.raises(OSError, match="not a regular file"):
            check_plain(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="nothing"):
        check_plain(tmp_path / "nothing")


@posix
def test_a_scratch_folder_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    made = []

    def swept_once(**options):
        made.append(mkdtemp(**options))
        if len(made) == 1:
            files.remove_abandoned_folders(tmp_path, ".partial-")  # another process, at just this moment
        return made[-1]

    mkdtemp = files.tempfile.mkdtemp
    monkeypatch.setattr(files.tempfile, "mkdtemp", swept_once)
    with files.scratch_folder(tmp_path, ".partial-") as folder:
        assert [str(folder)] == made[1:]
        assert [folder] == list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_the_variable_of_our_own_wins_then_the_system_s_then_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EQUIPOISE_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("EQUIPOISE_CACHE", "")  # as good as unset
    assert cache_folder() == Path("/shared/equipoise")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "equipoise"
    assert list(tmp_path.iterdir()) == []  # asking makes nothing
