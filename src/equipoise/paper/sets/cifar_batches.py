"""CIFAR-10's batches: the binary ones, and the Python ones, which are pickles and are read without running them."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError

PIXELS = 3 * 32 * 32
LIMIT_BYTES = 2**28
"""The largest batch read; the published ones hold 31 MB."""

Batch = tuple[NDArray[np.uint8], NDArray[np.intp]]


def read_binary_batch(path: Path) -> Batch:
    """Images (n, 3, 32, 32) and labels 0 to 9 from records of one label byte and 3,072 pixel bytes."""
    content = _content(path)
    if len(content) == 0 or len(content) % (PIXELS + 1):
        raise InvalidInputError(
            f"{path} must hold records of {PIXELS + 1:,} bytes, got {len(content):,} bytes; fetch it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, PIXELS + 1)
    return _checked(path, records[:, 1:], records[:, 0].astype(np.intp))


def read_python_batch(path: Path) -> Batch:
    """As :func:`read_binary_batch`, from a pickled dictionary of ``data`` and ``labels``.

    Nothing that the file names is imported or called: arrays are rebuilt from their bytes, and whatever is not a
    plain dictionary, list, text, number or array of bytes is refused.
    """
    content = _content(path)
    try:
        batch = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except InvalidInputError as error:
        raise InvalidInputError(f"{path} {error}") from error
    except Exception as error:  # a hostile or damaged pickle fails in whatever way it likes
        reason = type(error).__name__
        raise InvalidInputError(f"{path} is not a batch of CIFAR-10 or is damaged ({reason}).") from error
    entries = {k.decode("latin-1") if isinstance(k, bytes) else k: v for k, v in _items(batch)}
    data, labels = entries.get("data"), entries.get("labels")
    if not isinstance(data, _PlainArray) or not isinstance(labels, list) or not all(type(i) is int for i in labels):
        raise InvalidInputError(
            f"{path} must be a dictionary with the array data and the list labels of whole numbers."
        )
    pixels = data.rebuilt()
    if pixels is None or len(pixels) != len(labels) or len(labels) == 0:
        raise InvalidInputError(
            f"{path} must hold an array of bytes, ({len(labels)}, {PIXELS}), for its {len(labels)} labels."
        )
    return _checked(path, pixels, np.array([i if 0 <= i <= 9 else -1 for i in labels], np.intp))


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LIMIT_BYTES:
            raise InvalidInputError(f"{path} has {size:,} bytes, more than any batch of CIFAR-10; fetch it again.")
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _checked(path: Path, pixels: NDArray[np.uint8], labels: NDArray[np.intp]) -> Batch:
    if labels.min() < 0 or labels.max() > 9:
        raise InvalidInputError(f"{path} must hold labels from 0 to 9, got others; fetch it again.")
    return pixels.reshape(-1, 3, 32, 32), labels


def _items(batch: object) -> list[tuple[object, object]]:
    return list(batch.items()) if isinstance(batch, dict) else []


class _PlainArray:
    """Stands where the pickle wants a numpy array: keeps the state that follows, and builds nothing by itself."""

    state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def rebuilt(self) -> NDArray[np.uint8] | None:
        """The array (n, 3072), or nothing if the state is not one of unsigned bytes in C order."""
        match self.state:
            case (_, (int(rows), int(columns)), _PlainType(name=b"u1" | "u1"), (False | 0), bytes(content)):
                if columns == PIXELS and rows * columns == len(content):
                    return np.frombuffer(content, np.uint8).reshape(rows, columns)
        return None


class _PlainType:
    """Stands where the pickle wants a numpy type: keeps its name."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment, which a single byte does not have."""


def _stand_ins() -> dict[tuple[str, str], Callable[..., Any]]:
    """What a batch may name, and what it gets instead; made anew for every file, so that none can alter the next."""

    def reconstruct(*_: object) -> _PlainArray:
        return _PlainArray()

    def kind(name: object, *_: object) -> _PlainType:
        return _PlainType(name)

    def array_class() -> None:
        """Only named, as an argument of the first; never called."""

    def encode(text: str, encoding: str) -> bytes:
        """How Python 3 writes bytes for Python 2."""
        return text.encode({"latin1": "latin-1"}[encoding])

    return {
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("numpy", "ndarray"): array_class,
        ("numpy", "dtype"): kind,
        ("_codecs", "encode"): encode,
    }


class _PlainUnpickler(pickle._Unpickler):
    """In Python, not in C: the C one sets aside as much memory as the file asks for (its memo's index)."""

    def __init__(self, file: io.BytesIO, *, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._known = _stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        """Only the stand-ins."""
        if (module, name) not in self._known:
            named = " ".join(f"{module}.{name}".split())  # in one line
            raise InvalidInputError(f"names {named}, which no batch of CIFAR-10 needs; it was not run.")
        return self._known[module, name]
