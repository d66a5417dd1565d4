"""Pairs of faces in ``.bin`` files: pickles of encoded images, read without running them."""

from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.pairs import FacePairs, Source, dealt_folds
from equipoise.paper.faces.plain_pickle import (
    RecordedCall,
    RefusedPickleError,
    array_content,
    plain_bytes,
    read_plain_pickle,
    scalar_content,
)

BIN_BYTES = 2**31
"""Largest file, and most bytes of its images."""
TRUTH_TYPES = ("b1", "?", "bool")
BYTE_TYPES = ("u1", "i1", "uint8", "int8")


def read_bin_pairs(path: Source) -> FacePairs:
    """Read a ``.bin`` file, a pickle of encoded images and booleans; its folds are consecutive tenths."""
    file = Path(path).expanduser()
    images, same = read_plain_pickle(file, _images_and_truth, what="a file of pairs", most_bytes=BIN_BYTES)
    if len(images) != 2 * len(same) or not same:
        raise InvalidInputError(
            f"{file.name} must hold two images for each of its {len(same):,} pairs, got {len(images):,} images."
        )
    truth = np.array(same)
    fold, notes = dealt_folds(truth, file.name)
    faces = np.arange(len(images))
    return FacePairs(tuple(images), faces, faces[::2], faces[1::2], truth, fold, notes=notes)


def _images_and_truth(found: Any) -> tuple[list[bytes], list[bool]]:
    images, same = found
    truth = [*_row(same, TRUTH_TYPES)] if isinstance(same, RecordedCall) else same
    if not isinstance(images, list) or not isinstance(truth, list):
        raise TypeError("not a pair of lists")
    contents, total = list[bytes](), 0
    for image in images:  # a file may refer to one object millions of times, and each may become a copy
        contents.append(_encoded(image))
        total += len(contents[-1])
        if total > BIN_BYTES:
            raise RefusedPickleError(f"has images of more than {BIN_BYTES:,} bytes")
    return contents, [_truth(value) for value in truth]


def _encoded(image: Any) -> bytes:
    try:
        return plain_bytes(image)
    except TypeError:
        return _row(image, BYTE_TYPES)


def _row(value: Any, kinds: tuple[str, ...]) -> bytes:
    shape, content = array_content(value, kinds)
    if len(shape) != 1:
        raise TypeError("not a one-dimensional array")
    return content


def _truth(value: Any) -> bool:
    content = scalar_content(value, TRUTH_TYPES)
    if content in (b"\0", b"\1"):
        return content == b"\1"
    if type(value) in (bool, int) and value in (0, 1):
        return bool(value)
    raise TypeError("a truth value is neither true nor false")
