"""Pickles of plain data, read without running them.

The opcodes of a pickle are walked through here: lists, dictionaries, bytes, text, numbers and truth values are built; a
call of anything is only recorded, and of these calls a few are understood, those by which numpy and Python write bytes.
Nothing is imported, called or unpickled, so a hostile file can do no more than be refused.
"""

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import InvalidInputError
from equipoise.storage.files import read_plain

Decoded = TypeVar("Decoded")

MOST_OPCODES = 2**24
"""Of the published files none has more than 2**18."""
ARRAY = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
BUFFER = ("numpy.core.numeric _frombuffer", "numpy._core.numeric _frombuffer")
SCALAR = ("numpy.core.multiarray scalar", "numpy._core.multiarray scalar")
NO_BYTES = ("__builtin__ bytes", "builtins bytes")
TYPE, ENCODE = "numpy dtype", "_codecs encode"
KNOWN = {*ARRAY, *BUFFER, *SCALAR, *NO_BYTES, TYPE, ENCODE, "numpy ndarray"}


class RefusedPickleError(Exception):
    """Something that no pickle of plain data asks for."""


@dataclass(eq=False)  # so that it can be a key, as bytes are that Python 3 writes for Python 2
class RecordedCall:
    """A call that a pickle asks for, and the state it would give the result; neither happens."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True)
class _Global:
    name: str  # module and name with a space between, as pickletools gives them


_MARK = object()  # where a list, tuple or dictionary begins on the stack


def read_plain_pickle(path: Path, decode: Callable[[Any], Decoded], *, what: str, most_bytes: int) -> Decoded:
    """Read a pickle and decode what it would build, with calls recorded in place of their results.

    Args:
        path: the file.
        decode: makes something of it; whatever it raises means that the file is something else.
        what: the kind of file, for messages.
        most_bytes: refuse a larger file.
    """
    content = read_bounded(path, most_bytes=most_bytes)
    try:
        return decode(_walk(content))
    except InvalidInputError:
        raise
    except RefusedPickleError as error:
        raise InvalidInputError(f"{path} is refused: it {error}; nothing in it was run.") from None
    except Exception as error:  # a damaged pickle fails in whatever way it likes
        said = type(error).__name__
        raise InvalidInputError(f"{path} is not {what} or is damaged ({said}); fetch it again.") from error


def read_bounded(path: Path, *, most_bytes: int) -> bytes:
    """Read a regular file of at most so many bytes."""
    try:
        return read_plain(path, most_bytes=most_bytes)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _walk(content: bytes) -> Any:
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if count > MOST_OPCODES:
            raise RefusedPickleError(f"has more than {MOST_OPCODES:,} steps")
        if opcode.name == "STOP":
            return machine.stack.pop()
        act = ACTIONS.get(opcode.name)
        if act is None:
            raise RefusedPickleError(f"asks for {opcode.name}, which plain data do not need")
        act(machine, argument)
    raise ValueError("the pickle has no end")


def array_content(value: Any, kinds: tuple[str, ...]) -> tuple[tuple[int, ...], bytes]:
    """Return the shape and the bytes of a recorded numpy array in C order, of a type with elements of one byte."""
    match value:
        case RecordedCall(name=name, state=(_, tuple(shape), kind, 0, content)) if name in ARRAY:
            pass
        case RecordedCall(name=name, arguments=(content, kind, tuple(shape), "C")) if name in BUFFER:  # protocol 5
            pass
        case _:
            raise TypeError("it is no array in C order")
    found = plain_bytes(content)
    if not _is_type(kind, kinds) or len(found) != math.prod(shape):
        raise TypeError("the array is not of single bytes, or has another length than its shape")
    return shape, found


def scalar_content(value: Any, kinds: tuple[str, ...]) -> bytes | None:
    """Return the bytes of a recorded numpy scalar of one of the types, or None if it is something else."""
    match value:
        case RecordedCall(name=name, arguments=(kind, content)) if name in SCALAR and _is_type(kind, kinds):
            return plain_bytes(content)
    return None


def plain_bytes(value: Any) -> bytes:
    """Return bytes that are there as they are, or as Python 3 writes them for Python 2."""
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case RecordedCall(name="_codecs encode", arguments=(str(text), "latin1" | "latin-1")):
            return text.encode("latin-1")
        case RecordedCall(name=name, arguments=()) if name in NO_BYTES:
            return b""
    raise TypeError("it is no bytes")


def _is_type(value: Any, kinds: tuple[str, ...]) -> bool:
    match value:
        case RecordedCall(name="numpy dtype", arguments=(str(kind), *_)):
            return kind in kinds
        case RecordedCall(name="numpy dtype", arguments=(bytes(kind), *_)):
            return kind.decode("latin-1") in kinds
    return False


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """Pop what lies above the last mark, and the mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                inside = self.stack[place + 1 :]
                del self.stack[place:]
                return inside
        raise ValueError("there is no mark")

    def popped(self, count: int) -> tuple[Any, ...]:
        if len(self.stack) < count:
            raise ValueError("the stack is empty")
        values = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return values

    def extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("it appends to what is no list")
        self.stack[-1].extend(values)

    def update(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise TypeError("it sets an entry of what is no dictionary")
        self.stack[-1].update(_paired(values))

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def named(self, name: Any) -> None:
        if name not in KNOWN:
            said = " ".join(str(name).replace(" ", ".", 1).split())  # in one line
            raise RefusedPickleError(f"names {said!r}, which plain data do not need")
        self.push(_Global(name))

    def stack_named(self) -> None:
        module, name = self.popped(2)
        self.named(f"{module} {name}")

    def reduce(self) -> None:
        called, arguments = self.popped(2)
        if not isinstance(called, _Global) or not isinstance(arguments, tuple):
            raise RefusedPickleError("calls what is no function of numpy's")
        self.push(RecordedCall(called.name, arguments))

    def build(self) -> None:
        (state,) = self.popped(1)
        if not isinstance(self.stack[-1], RecordedCall):
            raise RefusedPickleError("sets the state of what is no array")
        self.stack[-1].state = state


def _paired(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _push(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _push_text(machine: _Machine, argument: Any) -> None:
    """Python 2 wrote bytes so; pickletools gives them as latin-1 text."""
    machine.push(argument.encode("latin-1") if isinstance(argument, str) else argument)


def _nothing(_: _Machine, __: Any) -> None:
    """Frames and versions tell how the file is cut, not what it holds."""


ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    **dict.fromkeys(("PROTO", "FRAME"), _nothing),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _push),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _push_text),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _push),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"), _push),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "MARK": lambda machine, _: machine.push(_MARK),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "LIST": lambda machine, _: machine.push(machine.marked()),
    "APPEND": lambda machine, _: machine.extend(list(machine.popped(1))),
    "APPENDS": lambda machine, _: machine.extend(machine.marked()),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "DICT": lambda machine, _: machine.push(_paired(machine.marked())),
    "SETITEM": lambda machine, _: machine.update(list(machine.popped(2))),
    "SETITEMS": lambda machine, _: machine.update(machine.marked()),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.marked())),
    "TUPLE1": lambda machine, _: machine.push(machine.popped(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.popped(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.popped(3)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, place: machine.remember(place)),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, place: machine.push(machine.memo[place])),
    "GLOBAL": lambda machine, name: machine.named(name),
    "STACK_GLOBAL": lambda machine, _: machine.stack_named(),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
"""What each opcode does here; one that is not here is refused."""
