"""Damage to a file: bytes changed anywhere, and changes inside what a checksum would else give away."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

LONGEST = 200_000
NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
TOKENS = (
    *(b"", b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\t", b" ", b'"', b"'", b",", b";"),
    *(b"-1", b"0", b"1e999", b"-0.0", b"nan", b"inf", b"NaN", b"1" * 5000, b"9" * 25, "²".encode(), "٣".encode()),
    *(
        b"\xed\xa0\x80",
        "\u2028\x85\x1c".encode(),
        b"../",
        b"/",
        b"\\",
        b"[" * 3000,
        b"{" * 3000,
        b"null",
        b"true",
        b"{}",
    ),
)
VALUES = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, float("nan"), float("inf"), 2**31, 2**63, 2**64, 10**30),
    *(-(10**400), "", "a", "\0", "\ud800", "é" * 300, "../../etc", "0", "<U99999999", "O", "V8", "float64"),
    *([], {}, [[]], [None], [{}], {"": None}, [0] * 50, [1, 2], ["a", "b"], {"a": 1}, [float("nan")] * 3),
)


def mutated(content: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """A few changes to the bytes, one after another."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(CHANGES)(found, rng, others, tokens)
    return bytes(found[:LONGEST])


Change = Callable[[bytearray, random.Random, Sequence[bytes], Sequence[bytes]], None]


def _place(found: bytearray, rng: random.Random) -> int:
    """Anywhere, and as often near the beginning, where headers are."""
    return rng.randrange(min(len(found), 64) + 1) if rng.random() < 0.5 else rng.randrange(len(found) + 1)


def _flip(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    if found:
        found[_place(found, rng) % len(found)] ^= 1 << rng.randrange(8)


def _byte(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    if found:
        found[_place(found, rng) % len(found)] = rng.randrange(256)


def _cut(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    del found[_place(found, rng) :]


def _remove(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    start = _place(found, rng)
    del found[start : start + rng.choice((1, 2, 4, 16, 256))]


def _repeat(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    start = _place(found, rng)
    piece = bytes(found[start : start + rng.choice((1, 8, 100))])
    found[start:start] = piece * rng.choice((1, 2, 50))


def _insert(found: bytearray, rng: random.Random, _: Any, tokens: Sequence[bytes]) -> None:
    start = _place(found, rng)
    found[start:start] = rng.choice((*TOKENS, *tokens))


def _overwrite(found: bytearray, rng: random.Random, _: Any, tokens: Sequence[bytes]) -> None:
    start, token = _place(found, rng), rng.choice((*TOKENS, *tokens))
    found[start : start + len(token)] = token


def _number(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    size, start = rng.choice((1, 2, 4, 8)), _place(found, rng)
    number = rng.choice(NUMBERS) % 256**size
    found[start : start + size] = number.to_bytes(size, rng.choice(("little", "big")))


def _splice(found: bytearray, rng: random.Random, others: Sequence[bytes], _: Any) -> None:
    other = rng.choice(others)
    start = rng.randrange(len(other) + 1)
    found[_place(found, rng) :] = other[start:]


def _random(found: bytearray, rng: random.Random, _: Any, __: Any) -> None:
    found[_place(found, rng) :] = rng.randbytes(rng.choice((1, 10, 100)))


CHANGES: tuple[Change, ...] = (
    *(_flip, _byte, _cut, _remove, _repeat, _insert, _insert, _overwrite, _overwrite, _number, _splice, _random),
)


def in_json(content: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """One value of a JSON file, or of one of its lines, replaced by another; the file stays JSON."""
    lines = content.splitlines() if content[:1] == b"{" and b"}\n{" in content else [content]
    place = rng.randrange(len(lines)) if lines else 0
    try:
        lines[place] = json.dumps(_replaced(json.loads(lines[place]), rng)).encode()
    except (ValueError, RecursionError, IndexError):
        return mutated(content, rng, others, tokens)
    return b"\n".join(lines)[:LONGEST]


def _replaced(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(VALUES)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy: Any = value.copy()
    if rng.random() < 0.1:
        del copy[key]
    else:
        copy[key] = _replaced(value[key], rng)
    return copy


def in_zip(content: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """A member of a zip file changed, with its checksum set right."""
    written = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
        chosen = rng.choice(list(members))
        change = in_json if members[chosen][:1] == b"{" and rng.random() < 0.8 else mutated
        inner = change(members[chosen], rng, list(members.values()), tokens)
        with zipfile.ZipFile(written, "w") as archive:
            for name, inside in members.items():
                archive.writestr(name, inner if name == chosen else inside)
    except Exception:  # it was no sound zip file any more
        return mutated(content, rng, others, tokens)
    return written.getvalue()[:LONGEST]


def in_gzip(content: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """What a gzip file holds changed, with its checksum set right."""
    try:
        return gzip.compress(mutated(gzip.decompress(content), rng, others, tokens), 1)
    except Exception:  # it was no sound gzip file any more
        return mutated(content, rng, others, tokens)


def in_safetensors(content: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """The JSON before the tensors changed, with its length set right; so is JSON that stands in it as text."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
        state = header["__metadata__"]["state"] if rng.random() < 0.7 else None
        if state is not None:
            header["__metadata__"]["state"] = in_json(state.encode(), rng, others, tokens).decode()
            changed = json.dumps(header).encode()
        else:
            changed = in_json(content[8 : 8 + length], rng, others, tokens)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return mutated(content, rng, others, tokens)
    return len(changed).to_bytes(8, "little") + changed + content[8 + length :]


MUTATORS = {"json": in_json, "zip": in_zip, "gzip": in_gzip, "safetensors": in_safetensors}
