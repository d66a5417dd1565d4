"""Archives are unpacked once, whole or not at all, and never outside of their folder."""

import io
import json
import os
import stat
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from equipoise.errors import InvalidInputError
from equipoise.storage.archives import is_archive, unpack

FILES = {"photos/cat/1.jpg": b"meow", "photos/dog/1.jpg": b"woof", "photos/dog/sub/é ü.jpg": b"wau"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tar(path: Path, files: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
    mode = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz", ".xz": "w:xz", ".bz2": "w:bz2"}[path.suffix]
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name) if name.endswith("/") else name, content)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.xz", "a.tar.bz2", "A.ZIP"])
def test_every_kind_gives_its_files(name, tmp_path, cache):
    archive = (zipped if name.lower().endswith("zip") else tar)(tmp_path / name, FILES)
    folder = unpack(archive)
    assert contents(folder) == FILES
    assert folder.parent == cache / "unpacked"
    assert folder.name.startswith(name[0] + "-")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_the_second_time_finds_what_the_first_unpacked_and_a_changed_archive_is_unpacked_anew(tmp_path):
    archive = tar(tmp_path / "a.tar", FILES)
    first = unpack(archive)
    made = first.stat().st_ino, (first / "photos/cat/1.jpg").stat().st_ctime_ns
    assert unpack(archive) == first
    assert (first.stat().st_ino, (first / "photos/cat/1.jpg").stat().st_ctime_ns) == made
    os.utime(archive, ns=(1, 1))
    second = unpack(archive)
    assert second != first
    assert contents(second) == FILES


def test_several_at_once_give_one_whole_folder(tmp_path, cache):
    archive = tar(tmp_path / "a.tar", {f"{n}.jpg": bytes(100) for n in range(300)})
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(unpack, [archive] * 4))
    assert len(folders) == 1
    assert len(contents(folders.pop())) == 300
    assert len([path for path in (cache / "unpacked").iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("harm", ["deleted", "cut", "added", "no record", "torn record"])
def test_a_folder_that_is_not_what_was_unpacked_is_unpacked_again(harm, tmp_path, cache):
    archive = zipped(tmp_path / "a.zip", FILES)
    folder = unpack(archive)
    record = cache / "unpacked" / f".{folder.name}.json"
    if harm == "deleted":
        (folder / "photos/dog/sub/é ü.jpg").unlink()
    elif harm == "cut":
        (folder / "photos/dog/1.jpg").write_bytes(b"wo")
    elif harm == "added":
        (folder / "photos/dog/2.jpg").touch()
    elif harm == "no record":
        record.unlink()
    else:
        record.write_text('{"files": 3')
    assert unpack(archive) == folder
    assert contents(folder) == FILES
    assert json.loads(record.read_text()) == {"files": 3, "bytes": 11}
    assert {path.name for path in (cache / "unpacked").iterdir()} == {folder.name, record.name}


def test_a_broken_folder_stays_when_its_archive_broke_too(tmp_path):
    archive = zipped(tmp_path / "a.zip", FILES)
    folder, status = unpack(archive), archive.stat()
    (folder / "photos/cat/1.jpg").unlink()
    archive.write_bytes(bytes(status.st_size))
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InvalidInputError, match=r"is damaged \(.+\); fetch it again\."):
        unpack(archive)
    assert len(contents(folder)) == 2


def left_behind(cache: Path) -> list[str]:
    return [path.name for path in cache.rglob("*") if path.parent != cache]


@pytest.mark.parametrize("name", ["../x.jpg", "/etc/x.jpg", "a/../../x.jpg"])
def test_a_member_that_leads_out_is_refused(name, tmp_path, cache):
    if not name.startswith("/"):  # tarfile makes an absolute name relative, which is as safe
        with pytest.raises(InvalidInputError, match=r"its member '.*x\.jpg' leads out of its folder"):
            unpack(tar(tmp_path / "a.tar", FILES | {name: b"!"}))
    with pytest.raises(InvalidInputError, match=r"its member '.*x\.jpg' leads out of its folder"):
        unpack(zipped(tmp_path / "a.zip", FILES | {name: b"!"}))
    assert left_behind(cache) == []
    assert not (tmp_path / "x.jpg").exists()


@pytest.mark.parametrize("name", ["..\\x.jpg", "C:\\x.jpg", "c:/x.jpg"])
def test_names_of_windows_that_lead_out_are_refused(name, tmp_path):
    with pytest.raises(InvalidInputError, match="leads out of its folder"):
        unpack(zipped(tmp_path / "a.zip", {name: b"!"}))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind, tmp_path, cache):
    odd = tarfile.TarInfo("odd")
    odd.type, odd.linkname = kind, "photos/cat/1.jpg"
    with pytest.raises(InvalidInputError, match="its member 'odd' is a link or a device"):
        unpack(tar(tmp_path / "a.tar", FILES, odd))
    assert left_behind(cache) == []


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    with pytest.raises(InvalidInputError, match="its member 'link' is a link or a device"):
        unpack(tmp_path / "a.zip")


def test_names_in_a_zip_that_are_empty_or_no_text_are_refused(tmp_path, cache):
    nameless = zipped(tmp_path / "a.zip", FILES | {"!.jpg": b"a name ends at a zero byte"})
    nameless.write_bytes(nameless.read_bytes().replace(b"!.jpg", b"\0.jpg"))
    with pytest.raises(InvalidInputError, match="its member '' has no name"):
        unpack(nameless)
    broken = zipped(tmp_path / "b.zip", FILES)
    broken.write_bytes(broken.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(InvalidInputError, match=r"b\.zip' is damaged \(not UTF-8 text\); fetch it again\."):
        unpack(broken)
    assert left_behind(cache) == []


def test_a_time_that_no_clock_knows_is_damage(tmp_path, cache):
    odd = tarfile.TarInfo("late.jpg")
    odd.mtime = 1e300
    with pytest.raises(InvalidInputError, match=r"a\.tar' is damaged \(.+\); fetch it again\."):
        unpack(tar(tmp_path / "a.tar", FILES, odd))
    assert left_behind(cache) == []


@pytest.mark.parametrize("name", ["a.tar.xz", "a.zip"])
def test_more_bytes_or_files_than_allowed_are_refused(name, tmp_path, cache):
    archive = (zipped if name.endswith("zip") else tar)(tmp_path / name, {"zeros.png": bytes(10_000), "b.png": b"b"})
    with pytest.raises(InvalidInputError, match=r"would unpack to more bytes than the limit allows; unpack it"):
        unpack(archive, limit_bytes=10_000)
    with pytest.raises(InvalidInputError, match="would unpack to more files than the limit allows"):
        unpack(archive, limit_members=1)
    assert left_behind(cache) == []
    assert len(contents(unpack(archive, limit_bytes=10_001, limit_members=2))) == 2


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz", "a.zip"])
def test_a_damaged_archive_is_named_and_leaves_nothing(name, tmp_path, cache):
    big = {f"{n}.bin": os.urandom(5000) for n in range(10)}
    archive = (zipped if name.endswith("zip") else tar)(tmp_path / name, big)
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(InvalidInputError, match=r"is damaged \(.+\); fetch it again\."):
        unpack(archive)
    archive.write_bytes(b"not an archive at all" * 100)
    with pytest.raises(InvalidInputError, match=r"is damaged \(.+\); fetch it again\."):
        unpack(archive)
    assert left_behind(cache) == []


def test_what_is_no_archive_or_not_there_is_refused(tmp_path):
    assert is_archive("x/PHOTOS.Tar.Gz")
    assert not is_archive("photos.gz")
    with pytest.raises(InvalidInputError, match=r"an archive must end in one of \.tar, .* got 'x\.rar'"):
        unpack(tmp_path / "x.rar")
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file or directory"):
        unpack(tmp_path / "x.tar")


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(InvalidInputError, match="set EQUIPOISE_CACHE to a folder that can"):
        unpack(tar(tmp_path / "a.tar", FILES))
