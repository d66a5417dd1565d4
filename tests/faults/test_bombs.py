"""Small files that would become large: refused before the memory or the disk is taken for them."""

import gzip
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from equipoise.data.images import UnreadableImageError, decode_image
from equipoise.errors import InvalidInputError
from equipoise.storage.archives import unpack
from equipoise.storage.size_limits import load_arrays


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


def unpacked(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_name_of_gigabytes_is_not_read(tmp_path, kind):
    """Its header alone is enough: nothing after it may be asked for."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, 2**33
    with gzip.open(tmp_path / "names.tar.gz", "wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(InvalidInputError, match=r"whose name or notes take 8,589,934,592 bytes; check where it comes"):
        unpack(tmp_path / "names.tar.gz")
    assert unpacked(tmp_path) == []


def test_a_long_name_is_taken(tmp_path):
    name = "/".join(["folder"] * 30) + "/file.txt"
    (tmp_path / "file.txt").write_text("here")
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / f"long{form}.tar", "w", format=form) as tar:
            tar.add(tmp_path / "file.txt", name)
        assert (unpack(tmp_path / f"long{form}.tar") / name).read_text() == "here"


def test_a_gigabyte_of_zeros_in_a_small_archive_is_refused_by_its_size(tmp_path):
    path = tmp_path / "zeros.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros.bin", "w") as file:
        for _ in range(64):
            file.write(bytes(2**20))
    assert path.stat().st_size < 2**17
    with pytest.raises(InvalidInputError, match="would unpack to more bytes than the limit allows"):
        unpack(path, limit_bytes=2**25)
    assert unpacked(tmp_path) == []


def test_a_member_that_lies_about_its_size_writes_no_more_than_it_said(tmp_path):
    path = tmp_path / "lie.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.bin", bytes(2**22))
    content = path.read_bytes().replace(struct.pack("<I", 2**22), struct.pack("<I", 100))
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="is damaged"):
        unpack(path, limit_bytes=2**20)
    assert unpacked(tmp_path) == []


def test_arrays_of_a_run_that_would_fill_the_memory_are_refused(tmp_path):
    path = tmp_path / "held_out.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**20,)})
        file.write(bytes(2**23))
    with pytest.raises(InvalidInputError, match=r"unpacks to more than 1,048,576 bytes from [0-9,]+; train again"):
        load_arrays(path, remedy="train again", most_bytes=2**20)


def test_arrays_of_a_large_run_are_no_bomb(tmp_path):
    logits = np.random.default_rng(0).normal(scale=10, size=(100, 1000))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.savez_compressed(tmp_path / "held_out.npz", probabilities=shares, sets=shares > 0.01, labels=np.arange(100))
    assert load_arrays(tmp_path / "held_out.npz", remedy="", most_bytes=2**10)["sets"].shape == (100, 1000)


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@pytest.mark.parametrize(("width", "height"), [(2**31 - 1, 2**31 - 1), (60_000, 60_000), (2**31 - 1, 1)])
def test_a_picture_of_thousands_of_millions_of_pixels_is_refused_by_its_header(width, height):
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    with pytest.raises(UnreadableImageError, match="pixels"):
        decode_image(content, size=(8, 8), channels=3)


def test_text_of_a_picture_that_unpacks_without_end_is_refused():
    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    note = chunk(b"zTXt", b"note\x00\x00" + zlib.compress(bytes(2**26), 9))
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + note + chunk(b"IDAT", zlib.compress(bytes(2)))
    with pytest.raises(UnreadableImageError, match=r"(?i)decompress|text|truncated"):
        decode_image(content + chunk(b"IEND", b""), size=(8, 8), channels=1)
