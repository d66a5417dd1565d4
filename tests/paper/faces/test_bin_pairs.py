"""The community's .bin files: read in every form they come in, and never run."""

import os
import pickle
import pickletools
import re
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.paper.faces import bin_pairs, plain_pickle
from equipoise.paper.faces.bin_pairs import read_bin_pairs
from tests.paper.faces.faces_made import encoded

IMAGES = [encoded(level) for level in range(8)]
SAME = [True, False, True, False]


def written(tmp_path, content):
    (tmp_path / "agedb_30.bin").write_bytes(content)
    return tmp_path / "agedb_30.bin"


def contents(pairs):
    return list(pairs.files)


WAYS = {
    "bytes": (IMAGES, SAME),
    "a list of two": [IMAGES, SAME],
    "arrays": ([np.frombuffer(image, dtype=np.uint8) for image in IMAGES], SAME),
    "ints": (IMAGES, [int(truth) for truth in SAME]),
    "numpy truth": (IMAGES, [np.bool_(truth) for truth in SAME]),
    "array of truth": (IMAGES, np.array(SAME)),
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_to_write_it(tmp_path, protocol, way):
    pairs = read_bin_pairs(written(tmp_path, pickle.dumps(way, protocol=protocol)))
    assert contents(pairs) == IMAGES
    assert pairs.same.tolist() == SAME
    assert pairs.first.tolist() == [0, 2, 4, 6]
    assert pairs.second.tolist() == [1, 3, 5, 7]
    assert pairs.images((8, 8), 3)[0:8].shape == (8, 3, 8, 8)


def python2_string(image):
    """How Python 2 with protocol 2 writes a str: BINSTRING or SHORT_BINSTRING, then a memo entry."""
    return (b"U" + bytes([len(image)]) if len(image) < 256 else b"T" + struct.pack("<i", len(image))) + image


def test_a_file_written_by_python_2(tmp_path):
    """Protocol 2 as Python 2.7 has it, byte by byte: str, memo by LONG_BINPUT, True and False."""
    body = b"\x80\x02]r\x00\x00\x00\x00("
    for number, image in enumerate(IMAGES, start=1):
        body += python2_string(image) + b"r" + struct.pack("<i", number)
    body += (
        b"e]r\x64\x00\x00\x00(" + b"".join(b"\x88" if truth else b"\x89" for truth in SAME) + b"e\x86r\x65\x00\x00\x00."
    )
    pairs = read_bin_pairs(written(tmp_path, body))
    assert contents(pairs) == IMAGES
    assert pairs.same.tolist() == SAME
    bins, truth = pickle.loads(body, encoding="bytes")  # our own bytes: the real reader agrees
    assert (bins, truth) == (IMAGES, SAME)


def test_the_same_image_may_be_referred_to(tmp_path):
    pairs = read_bin_pairs(written(tmp_path, pickle.dumps(([IMAGES[0]] * 8, SAME), protocol=2)))
    assert contents(pairs) == [IMAGES[0]] * 8


def test_an_array_that_tells_a_wrong_length_is_refused(tmp_path):
    content = pickle.dumps(([np.zeros(5, np.uint8) for _ in range(8)], SAME), protocol=2)
    assert content.count(b"K\x05\x85") == 8  # (5,)
    with pytest.raises(InvalidInputError, match=r"damaged \(TypeError\)"):
        read_bin_pairs(written(tmp_path, content.replace(b"K\x05\x85", b"K\x06\x85")))


def test_folds_are_tenths_in_order(tmp_path):
    pairs = read_bin_pairs(written(tmp_path, pickle.dumps((IMAGES[:2] * 40, [True, False] * 20))))
    assert pairs.fold.tolist() == sorted([*range(1, 11)] * 4)


class Hostile:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [os.system, eval, open, np.load, np.fromfile], ids=lambda call: call.__name__)
def test_a_hostile_file_is_refused_and_not_run(tmp_path, call, protocol):
    trace = tmp_path / "trace"
    command = {os.system: f"touch {trace}", eval: f"open({str(trace)!r}, 'w')"}.get(call, str(trace))
    arguments = (command, "w") if call is open else (command,)
    for content in (([Hostile(call, *arguments)] * 2, [True]), Hostile(call, *arguments)):
        path = written(tmp_path, pickle.dumps(content, protocol=protocol))
        with pytest.raises(InvalidInputError, match=r"agedb_30\.bin is refused: it names '.*nothing in it was run\.$"):
            read_bin_pairs(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a file of pairs or is damaged"),
        (b"no pickle", "is not a file of pairs or is damaged|is refused"),
        (pickle.dumps((IMAGES, SAME))[:-30], "is not a file of pairs or is damaged"),
        (pickle.dumps(IMAGES), "is not a file of pairs or is damaged"),
        (pickle.dumps({"a": 1}), "is not a file of pairs or is damaged"),
        (pickle.dumps({1, 2}), "it asks for EMPTY_SET"),
        (pickle.dumps((IMAGES, SAME[:3])), "two images for each of its 3 pairs, got 8 images"),
        (pickle.dumps(([], [])), "two images for each of its 0 pairs, got 0 images"),
        (pickle.dumps((IMAGES, [True, False, True, 2])), "damaged"),
        (pickle.dumps((IMAGES, ["a"] * 4)), "damaged"),
        (pickle.dumps((["a"] * 8, SAME)), "damaged"),
        (pickle.dumps((np.zeros((8, 3), np.uint8), SAME)), "damaged"),
        (pickle.dumps(([np.zeros((2, 2), np.uint8)] * 8, SAME)), "damaged"),
        (pickle.dumps(([np.zeros(2, np.float32)] * 8, SAME)), "damaged"),
        (pickle.dumps(([np.array([None])] * 8, SAME)), "damaged"),
        (pickle.dumps((IMAGES, [True] * 4)), "has 4 pairs of one person and 0 of two"),
        (b"(I1\nI2\nt.", "damaged"),
        (b"cos\nsystem\n(S'true'\ntR.", r"it names 'os\.system'"),
        (b"]]b.", "damaged"),
        (b"cnumpy\ndtype\n]b.", "it sets the state of something that is not an array"),
        (b"](I1\ntR.", "damaged"),
        (b"Pname\n.", "it asks for PERSID"),
        (b"(i__main__\nHostile\n.", "it asks for INST"),
        (b"\x80\x02\x82\x01.", "it asks for EXT1"),
        (b"\x80\x04\x97.", "it asks for NEXT_BUFFER"),
        (b"e.", "damaged"),
        (b"h\x01.", "damaged"),
        (b"0.", "it asks for POP"),
    ],
)
def test_damaged_and_odd_files_are_one_sentence(tmp_path, content, said):
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_bin_pairs(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_file_cannot_ask_for_memory(tmp_path):
    """A length of two gigabytes, and a memo entry far away."""
    for content in (
        b"\x80\x02B\xff\xff\xff\x7fx.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x00x.",
        b"]r\xff\xff\xff\x7f.",
    ):
        tracemalloc.start()
        with pytest.raises(InvalidInputError, match="damaged"):
            read_bin_pairs(written(tmp_path, content))
        assert tracemalloc.get_traced_memory()[1] < 2**22
        tracemalloc.stop()


def test_one_image_referred_to_very_often_is_refused_before_it_is_copied(tmp_path, monkeypatch):
    image = bytearray(2**16)
    path = written(tmp_path, pickle.dumps(([image] * 400, [True] * 200), protocol=5))
    monkeypatch.setattr(bin_pairs, "BIN_BYTES", 2**20)
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match="it has images of more than 1,048,576 bytes"):
        read_bin_pairs(path)
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


def test_sizes_are_bounded(tmp_path, monkeypatch):
    path = written(tmp_path, pickle.dumps((IMAGES, SAME)))
    monkeypatch.setattr(plain_pickle, "MOST_OPCODES", 5)
    with pytest.raises(InvalidInputError, match="it has more than 5 steps"):
        read_bin_pairs(path)
    monkeypatch.setattr(bin_pairs, "BIN_BYTES", 100)
    with pytest.raises(InvalidInputError, match="more than the limit of 100"):
        read_bin_pairs(path)
    with pytest.raises(InvalidInputError, match="No such file"):
        read_bin_pairs(tmp_path / "gone.bin")


@given(st.data())
def test_any_change_of_a_byte_is_read_or_refused(tmp_path_factory, data):
    """Whatever happens is an answer or one sentence; nothing of the file is imported."""
    content = bytearray(pickle.dumps(([b"ab", b"cd"] * 4, SAME), protocol=data.draw(st.integers(0, 4))))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "changed.bin"
    path.write_bytes(content)
    try:
        pairs = read_bin_pairs(path)
    except InvalidInputError as error:
        said = str(error)
    else:
        said = f"changed.bin {len(pairs.files) // len(pairs.same)}"
    assert re.search(r"changed\.bin (2$|is refused|is not a file of pairs|must hold|has \d)", said)


def test_every_opcode_here_is_one_of_pickles():
    known = {opcode.name for opcode in pickletools.opcodes}
    assert set(plain_pickle.OPCODES) <= known
    assert not {"NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4"} & set(
        plain_pickle.OPCODES
    )
