"""The ``.bin`` files of LFW, AgeDB-30 and CFP-FP that are passed around: a pickle, read without running it.

It holds a list of encoded images and a list of truth values, one for two images each. The opcodes of the pickle are
walked through here: lists, tuples, bytes, numbers and truth values are built, a call of anything is only written down,
and of these calls a few are understood, those by which numpy and Python write bytes. Nothing is imported, called or
unpickled, so that a hostile file can do no more than be refused.
"""

import os
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.pairs import EncodedImages, Pairs, dealt_folds

LIMIT_BYTES = 2**31
MOST_OPCODES = 2**24
"""Of the published files none has more than 2**18."""
ARRAY = frozenset({"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"})
BUFFER = frozenset({"numpy.core.numeric _frombuffer", "numpy._core.numeric _frombuffer"})
SCALAR = frozenset({"numpy.core.multiarray scalar", "numpy._core.multiarray scalar"})
TYPE, ENCODE = "numpy dtype", "_codecs encode"
BYTES_EMPTY = "__builtin__ bytes"
KNOWN = ARRAY | BUFFER | SCALAR | {TYPE, ENCODE, BYTES_EMPTY, "builtins bytes", "numpy ndarray"}
TRUTH_TYPES = ("b1", "?", "bool")
BYTE_TYPES = ("u1", "i1", "uint8", "int8")


@dataclass(frozen=True)
class _Global:
    name: str  # module and name with a space between, as pickletools gives them


@dataclass
class _Call:
    """A call that the pickle asks for, and the state it would give the result; neither happens."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None


class _Mark:
    """Where a list or tuple begins on the stack."""


class _HostileError(Exception):
    """Something that no file of pairs holds."""


def read_bin_pairs(path: str | os.PathLike[str]) -> Pairs:
    """Pairs of a ``.bin`` file; its folds are tenths in order, as all who use such files have them."""
    file = Path(path).expanduser()
    try:
        size = file.stat().st_size
        if size > LIMIT_BYTES:
            raise InvalidInputError(f"{file} has {size:,} bytes, more than any file of pairs; check --pairs.")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror or error}; check --pairs.") from error
    try:
        images, same = _images_and_truth(_walk(content))
    except _HostileError as error:
        raise InvalidInputError(f"{file.name} is refused: {error}; nothing in it was run.") from None
    except Exception as error:  # a damaged pickle fails in whatever way it likes
        said = type(error).__name__
        raise InvalidInputError(f"{file.name} is no file of pairs or is damaged ({said}); fetch it again.") from error
    if len(images) != 2 * len(same) or not same:
        raise InvalidInputError(
            f"{file.name} must hold two images for each of its {len(same):,} pairs, got {len(images):,} images."
        )
    truth = np.array(same)
    fold, notes = dealt_folds(truth, file.name)
    faces = np.arange(len(images))
    return Pairs(EncodedImages(tuple(images)), faces, faces[::2], faces[1::2], truth, fold, notes=notes)


def _walk(content: bytes) -> Any:
    """What the pickle would build, with calls written down in place of their results."""
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if count > MOST_OPCODES:
            raise _HostileError(f"it has more than {MOST_OPCODES:,} steps")
        if opcode.name == "STOP":
            return machine.stack.pop()
        act = ACTIONS.get(opcode.name)
        if act is None:
            raise _HostileError(f"it asks for {opcode.name}, which pairs of images do not need")
        act(machine, argument)
    raise ValueError("the pickle has no end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """What lies above the last mark, which goes with it."""
        for place in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[place], _Mark):
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

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def named(self, name: Any) -> None:
        if name not in KNOWN:
            raise _HostileError(f"it names {str(name).replace(' ', '.')!r}, which pairs of images do not need")
        self.push(_Global(name))

    def stack_named(self) -> None:
        module, name = self.popped(2)
        self.named(f"{module} {name}")

    def reduce(self) -> None:
        called, arguments = self.popped(2)
        if not isinstance(called, _Global) or not isinstance(arguments, tuple):
            raise _HostileError("it calls what is no function of numpy's")
        self.push(_Call(called.name, arguments))

    def build(self) -> None:
        (state,) = self.popped(1)
        if not isinstance(self.stack[-1], _Call):
            raise _HostileError("it sets the state of what is no array")
        self.stack[-1].state = state


Action = Callable[[_Machine, Any], Any]


def _pushes(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _pushes_text(machine: _Machine, argument: Any) -> None:
    """Python 2 wrote bytes so; pickletools gives them as latin-1 text."""
    machine.push(argument.encode("latin-1") if isinstance(argument, str) else argument)


def _nothing(_: _Machine, __: Any) -> None:
    """Frames and versions tell how the file is cut, not what it holds."""


ACTIONS: dict[str, Action] = {
    **dict.fromkeys(("PROTO", "FRAME"), _nothing),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _pushes),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _pushes_text),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _pushes),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2"), _pushes),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "MARK": lambda machine, _: machine.push(_Mark()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "LIST": lambda machine, _: machine.push(machine.marked()),
    "APPEND": lambda machine, _: machine.extend(list(machine.popped(1))),
    "APPENDS": lambda machine, _: machine.extend(machine.marked()),
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


def _images_and_truth(found: Any) -> tuple[list[bytes], list[bool]]:
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ValueError("it is no pair of lists")
    images, same = found
    if not isinstance(images, list):
        raise TypeError("the images are no list")
    truth = list(_array(same, TRUTH_TYPES)) if isinstance(same, _Call) else same
    if not isinstance(truth, list):
        raise TypeError("the truth values are no list")
    return _bounded(images), [_truth(value) for value in truth]


def _bounded(images: list[Any]) -> list[bytes]:
    """The bytes of each image. A file may refer to one object millions of times, and each of them may become a copy."""
    found, total = list[bytes](), 0
    for image in images:
        found.append(_encoded(image))
        total += len(found[-1])
        if total > LIMIT_BYTES:
            raise _HostileError(f"its images have more than {LIMIT_BYTES:,} bytes")
    return found


def _encoded(image: Any) -> bytes:
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if not isinstance(image, _Call):
        raise TypeError("an image is no bytes")
    if image.name == ENCODE:
        return _latin(image)
    if image.name in (BYTES_EMPTY, "builtins bytes") and not image.arguments:
        return b""
    return _array(image, BYTE_TYPES)


def _truth(value: Any) -> bool:
    if isinstance(value, _Call) and value.name in SCALAR and len(value.arguments) == 2:
        kind, content = value.arguments
        content = _latin(content) if isinstance(content, _Call) else content
        if _type_name(kind) in TRUTH_TYPES and content in (b"\0", b"\1"):
            return bool(content == b"\1")
    if type(value) in (bool, int) and value in (0, 1):
        return bool(value)
    raise TypeError("a truth value is neither true nor false")


def _latin(call: _Call) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    match call.name, call.arguments:
        case "_codecs encode", (str(text), "latin1" | "latin-1"):
            return text.encode("latin-1")
        case (("__builtin__ bytes" | "builtins bytes"), ()):
            return b""
    raise TypeError("text is encoded otherwise")


def _array(call: _Call, kinds: tuple[str, ...]) -> bytes:
    """The bytes of a numpy array of one dimension."""
    match call:
        case _Call(name=name, state=(_, (int(length),), kind, _, content)) if name in ARRAY:
            pass
        case _Call(name=name, arguments=(content, kind, (int(length),), "C")) if name in BUFFER:  # protocol 5
            pass
        case _:
            raise TypeError("it is no array of one dimension")
    content = _latin(content) if isinstance(content, _Call) else content
    if _type_name(kind) in kinds and isinstance(content, bytes | bytearray) and len(content) == length:
        return bytes(content)
    raise TypeError("the array is not of bytes in one row")


def _type_name(call: Any) -> str:
    if not isinstance(call, _Call) or call.name != TYPE or not call.arguments:
        return ""
    name = call.arguments[0]
    return name.decode("latin-1") if isinstance(name, bytes) else str(name)
