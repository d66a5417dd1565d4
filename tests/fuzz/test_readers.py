"""Damaged files for every reader, and files made to fill the memory; ``python -m tests.fuzz`` makes many more."""

import json
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, InvalidInputError
from tests.fuzz.fuzzing import Outcome, attempt, fuzz
from tests.fuzz.mutations import CHANGES, MUTATORS, mutated
from tests.fuzz.readers import READERS, Reader

SEED = 0
LITTLE_MEMORY = 2**26


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder a reader, kept for all tests of it."""
    folders = {}

    def of(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("fuzz") / name
            folders[name].mkdir()
        return folders[name]

    return of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("files", [12, pytest.param(500, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused(name, place, files):
    outcome = fuzz(name, READERS[name], place(name), files=files, seed=SEED)
    print(f"seed {outcome.seed}: {outcome.as_dict()}")
    assert outcome.faults == {}
    assert outcome.read > 0
    assert outcome.files > outcome.read or name in ("image folder", "checkpoint")  # these go on without a damaged file


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
@given(content=st.binary(max_size=80), cut=st.floats(0, 1))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_bytes_behind_a_sound_beginning(name, place, content, cut):
    reader, folder = READERS[name], place(name)
    sound = _sound(reader, folder)
    outcome = Outcome(name, SEED)
    attempt(reader, folder, sound[: int(cut * len(sound))] + content, outcome)
    assert outcome.faults == {}


_SOUND = {}


def _sound(reader, folder):
    if folder not in _SOUND:  # a worker that takes tests from another has a new folder
        _SOUND[folder] = reader.prepare(folder)[0]
    return _SOUND[folder]


def failing(error):
    def read(_, content):
        if b"bad" in content:
            raise error

    return Reader(lambda _: [b"sound", b"is bad"], read)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("no"), "KeyError in "),
        (InvalidInputError("two\nlines"), "a refusal that is no sentence"),
        (InvalidInputError("a sentence."), "a sound file is refused: test_readers.py:"),
        (RuntimeWarning("odd"), "RuntimeWarning in "),
    ],
)
def test_what_a_fault_is(tmp_path, error, said):
    outcome = fuzz("failing", failing(error), tmp_path, files=50, seed=1)
    assert [fault.startswith(said) for fault in outcome.faults if said in fault] == [True]
    assert outcome.faults[next(fault for fault in outcome.faults if said in fault)].count(b"bad")


def test_what_takes_too_long_or_too_much_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.fuzzing.SECONDS_A_FILE", 0.05)

    def endless(*_):
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    outcome = fuzz("endless", Reader(lambda _: [b"x"], endless), tmp_path, files=1, seed=1)
    assert [fault for fault in outcome.faults if fault.startswith("HangError in ")]
    monkeypatch.setattr("tests.fuzz.fuzzing.MEGABYTES_A_FILE", -1)
    outcome = fuzz("large", Reader(lambda _: [b"x"], lambda *_: None), tmp_path, files=1, seed=1)
    assert next(iter(outcome.faults)) == "0 MB taken for 1 bytes"


def test_the_same_seed_makes_the_same_files(tmp_path):
    def files(seed):
        seen = []
        reader = Reader(lambda _: [b'{"a": [1, 2]}'], lambda _, content: seen.append(content), ("json",))
        fuzz("any", reader, tmp_path, files=50, seed=seed)
        return seen

    assert files(1) == files(1)
    assert files(1) != files(2)


@pytest.mark.parametrize("kind", MUTATORS)
def test_changes_inside_a_format_leave_it_whole(kind, tmp_path):
    """Most of the files have to pass the checksum or the decoder, or the reader behind it is never reached."""
    name = {"json": "split", "zip": "npz", "gzip": "packed table", "safetensors": "checkpoint"}[kind]
    (sound, *_), rng = READERS[name].prepare(tmp_path), random.Random(0)
    changed = [MUTATORS[kind](sound, rng, [sound], ()) for _ in range(40)]
    assert len(set(changed)) > 20
    whole = [content for content in changed if _opens(kind, content, tmp_path / "file")]
    assert len(whole) > 30


def _opens(kind, content, path):
    import gzip

    path.write_bytes(content)
    try:
        if kind == "json":
            json.loads(content)
        elif kind == "zip":
            assert zipfile.ZipFile(path).testzip() is None
        elif kind == "gzip":
            gzip.decompress(content)
        else:
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except Exception:
        return False
    return True


def test_every_change_changes_something():
    for change in CHANGES:
        results = set()
        for seed in range(30):
            found = bytearray(b"some bytes to be changed, long enough for all of it")
            change(found, random.Random(seed), [b"another file"], [b"token"])
            results.add(bytes(found))
        assert len(results) > 5, change.__name__
    assert mutated(b"", random.Random(0), [b"a"], ()) is not None


def npy(shape, kind="<f8"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(16)


def npz(path, shape):
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("X", "y", "uncertainty", "probabilities"):
            archive.writestr(f"{name}.npy", npy(shape))
    return path.read_bytes()


def claims(name, tmp_path):
    """A small file whose header claims a huge content."""
    if name == "idx":
        return bytes([0, 0, 8, 3]) + struct.pack(">III", 2**32 - 1, 2**32 - 1, 2**32 - 1)
    if name in ("npz", "held_out.npz"):
        return npz(tmp_path / "huge.npz", (2**40,))
    if name == "bin pairs":  # bytes of 2**40 by their own length, then a memo's index of 2**31
        return b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"ab" + b"r\xff\xff\xff\x7f."
    if name == "image":
        return _png(60_000)
    if name == "split":
        return json.dumps(
            {"format": "equipoise split 1", "samples": 30, "train": [2**62], "val": [], "test": []}
        ).encode()
    return struct.pack("<Q", 2**40) + b"{}"  # safetensors


def _png(side):
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


RESERVED = pytest.mark.xfail(reason="numpy reserves, without touching it, what an array's header claims", strict=True)


@pytest.mark.parametrize(
    "name",
    [
        *("idx", "bin pairs", "image", "split", "model.safetensors"),
        *(pytest.param(name, marks=RESERVED) for name in ("npz", "held_out.npz")),
    ],
)
def test_a_header_that_claims_much_takes_no_memory(name, place, tmp_path):
    reader, folder = READERS[name], place(name)
    _sound(reader, folder)
    content = claims(name, tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(EquipoiseError, match=r"\.$"):
            reader.read(folder, content)
        assert tracemalloc.get_traced_memory()[1] < LITTLE_MEMORY
    finally:
        tracemalloc.stop()


def test_arrays_that_are_none(tmp_path):
    """What the first hours of damaged files found in ``.npz``."""
    for y in (b"no array", npy((), "<i8"), npy((2,), "<U2").replace(bytes(16), b"\xff" * 16), npy((2,), "|V8")):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", npy((1, 2)))
            archive.writestr("y.npy", y)
        with pytest.raises(InvalidInputError, match=r"is not a \.npz file or is damaged; write it with numpy\.savez"):
            READERS["npz"].read(tmp_path / ".", (tmp_path / "a.npz").read_bytes())
    np.savez(tmp_path / "b.npz", X=np.arange(4.0).reshape(2, 2) ** 2, y=np.array(["å", "\U0001f600"]))
    READERS["npz"].read(tmp_path, (tmp_path / "b.npz").read_bytes())


def odd_parquet():
    """The notes that pandas keeps in a Parquet file, broken."""
    schema = pa.schema([("a", pa.int64()), ("label", pa.string())], metadata={b"pandas": b'{"columns": ['})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2], "label": ["x", "y"]}, schema=schema), sink)
    return sink.getvalue().to_pybytes()


FOUND = {
    "more than a float holds": ("toml options", b"test-share = 1" + b"0" * 400, "a number of more than 300 digits"),
    "more than Python prints": ("toml options", b"data = 0x" + b"f" * 5000, "a number of more than 300 digits"),
    "more digits than Python reads": ("lfw pairs", b"1" * 5000 + b" 2\nAnn 1 2\n", "begin with the number of folds"),
    "as many images": ("celeba attributes", b"1" * 5000 + b"\na b\n", "must start with the number of images"),
    "a name in two lines": ("delimited table", b'"a\nb",c\n1,2\n3,4\n', "one of: a b, c"),
    "a class in two lines": ("bin pairs", b"\x80\x02cn\rpy\nx\n.", r"names 'n py\.x', which plain data"),
    "notes of pandas": ("parquet", odd_parquet(), "is not a Parquet file or is damaged"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_a_fault_once(name, tmp_path):
    reader, content, sentence = FOUND[name]
    READERS[reader].prepare(tmp_path)
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        READERS[reader].read(tmp_path, content)
    assert "\n" not in str(caught.value)
