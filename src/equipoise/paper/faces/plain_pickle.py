"""Pickles of plain data, read without running them.

Lists, dictionaries, bytes, text, numbers and booleans are built. Calls are only recorded, and a few of them are
understood: those by which numpy and Python write bytes. Nothing that a file names is imported or called, so a
malicious file can only be refused.
"""

import io
import math
import pickle
import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import InvalidInputError, readable
from equipoise.storage.files import read_plain

Decoded = TypeVar("Decoded")
MOST_OPCODES = 2**24
"""Most opcodes of a file; the published ones have at most 2**18."""
OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}
"""Names that a pickle may refer to; any other is refused."""
ARRAY = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
BUFFER = ("numpy.core.numeric _frombuffer", "numpy._core.numeric _frombuffer")
SCALAR = ("numpy.core.multiarray scalar", "numpy._core.multiarray scalar")
NO_BYTES = ("__builtin__ bytes", "builtins bytes")
KNOWN = {*ARRAY, *BUFFER, *SCALAR, *NO_BYTES, "numpy dtype", "_codecs encode", "numpy ndarray"}


class RefusedPickleError(Exception):
    """The file asks for something that no pickle of plain data needs."""


@dataclass(eq=False)  # hashable, since bytes that Python 3 writes for Python 2 may be keys
class RecordedCall:
    """A call that a pickle asks for, and the state it would set; neither is carried out."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        """Record the state."""
        self.state = state


@dataclass(frozen=True)
class _Global:
    """Placeholder for a name in a pickle; records calls of it."""

    name: str

    def __call__(self, *arguments: Any) -> RecordedCall:
        return RecordedCall(self.name, arguments)

    def __setstate__(self, state: Any) -> None:
        raise RefusedPickleError("sets the state of something that is not an array")


class _Steps(dict[int, Callable[[Any], None]]):
    """Opcode table that counts opcodes and refuses those that plain data do not need."""

    count = 0

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self.count += 1
        if self.count > MOST_OPCODES:
            raise RefusedPickleError(f"has more than {MOST_OPCODES:,} steps")
        return super().__getitem__(code)

    def __missing__(self, code: int) -> Callable[[Any], None]:
        opcode = pickletools.code2op[chr(code)]  # type: ignore[attr-defined]
        raise RefusedPickleError(f"asks for {opcode.name}, which plain data do not need")


class _PlainUnpickler(pickle._Unpickler):
    """The pure-Python unpickler: the C one allocates as much memory as the file asks for (its memo's index)."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        allowed = {ord(opcode.code) for opcode in pickletools.opcodes if opcode.name in OPCODES}
        own = {code: act for code, act in pickle._Unpickler.dispatch.items() if code in allowed}
        self.dispatch = _Steps(own | {pickle.BYTEARRAY8[0]: _load_bytearray8})  # type: ignore[misc]

    def find_class(self, module: str, name: str) -> Any:
        """Return placeholders for the few known names."""
        if f"{module} {name}" not in KNOWN:
            said = " ".join(f"{module}.{name}".split())  # in one line
            raise RefusedPickleError(f"names {said!r}, which plain data do not need")
        return _Global(f"{module} {name}")


def _load_bytearray8(unpickler: Any) -> None:
    """Push the bytes that are there; the original allocates as many as the file claims."""
    (length,) = struct.unpack("<Q", unpickler.read(8))
    unpickler.append(unpickler.read(length))


def read_plain_pickle(path: Path, decode: Callable[[Any], Decoded], *, what: str, most_bytes: int) -> Decoded:
    """Read a pickle and decode what it would build, with recorded calls in place of their results.

    Anything that ``decode`` raises means that the file is not ``what``.
    """
    with readable(path, "fetch it again"):
        content = read_plain(path, most_bytes=most_bytes)
    try:
        return decode(_PlainUnpickler(content).load())
    except InvalidInputError:
        raise
    except RefusedPickleError as error:
        raise InvalidInputError(f"{path} is refused: it {error}; nothing in it was run.") from None
    except Exception as error:  # a damaged pickle can fail in any way
        said = type(error).__name__
        raise InvalidInputError(f"{path} is not {what} or is damaged ({said}); fetch it again.") from error


def array_content(value: Any, kinds: tuple[str, ...]) -> tuple[tuple[int, ...], bytes]:
    """Return the shape and the bytes of a recorded numpy array in C order with one-byte elements."""
    match value:
        case RecordedCall(name=name, state=(_, tuple(shape), kind, 0, content)) if name in ARRAY:
            pass
        case RecordedCall(name=name, arguments=(content, kind, tuple(shape), "C")) if name in BUFFER:  # protocol 5
            pass
        case _:
            raise TypeError("it is not an array in C order")
    found = plain_bytes(content)
    if not _is_type(kind, kinds) or len(found) != math.prod(shape):
        raise TypeError("the array is not of single bytes, or has another length than its shape")
    return shape, found


def scalar_content(value: Any, kinds: tuple[str, ...]) -> bytes | None:
    """Return the bytes of a recorded numpy scalar of one of the types, or None."""
    match value:
        case RecordedCall(name=name, arguments=(kind, content)) if name in SCALAR and _is_type(kind, kinds):
            return plain_bytes(content)
    return None


def plain_bytes(value: Any) -> bytes:
    """Return bytes stored directly, or as Python 3 writes them for Python 2."""
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case RecordedCall(name="_codecs encode", arguments=(str(text), "latin1" | "latin-1")):
            return text.encode("latin-1")
        case RecordedCall(name=name, arguments=()) if name in NO_BYTES:
            return b""
    raise TypeError("it is not bytes")


def _is_type(value: Any, kinds: tuple[str, ...]) -> bool:
    match value:
        case RecordedCall(name="numpy dtype", arguments=(str(kind), *_)):
            return kind in kinds
        case RecordedCall(name="numpy dtype", arguments=(bytes(kind), *_)):
            return kind.decode("latin-1") in kinds
    return False
