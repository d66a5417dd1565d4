"""Unlabelled data in parts: rows of a table of any length, or images."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.runs.trained_run import Prior, RunModel
from equipoise.data.data_frames import as_table
from equipoise.data.images import UnreadableImageError, decode_image
from equipoise.data.images.scan import SUFFIXES, encodable, scan
from equipoise.data.sources import NAMED_SETS, open_data
from equipoise.data.tables.read_table import iterate_table
from equipoise.errors import InvalidInputError
from equipoise.storage.archives import is_archive, unpack
from equipoise.storage.files import DAMAGE
from equipoise.storage.size_limits import open_arrays
from equipoise.storage.unnamed_file import HeldFile

MOST_NUMBERS = 2**23
"""Most probabilities that a class prior is estimated from; of more samples, a random selection."""
STANDARD_INPUT = "-"
ROWS_AT_ONCE, IMAGES_AT_ONCE = 20_000, 128
ARRAYS = ("X", "x", "features", "images", "data")
SUFFIX_OF = {
    b"PAR1": ".parquet",
    b"PK\x03\x04": ".npz",
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ": ".xz",
    b'{"': ".jsonl",
}
"""First bytes of files that are not plain text, and their usual suffix."""


@dataclass(frozen=True)
class Part:
    """Some consecutive samples.

    Args:
        names: file names, or row numbers from 0.
        x: a data frame, or images (samples, channels, height, width), of all that could be read.
        broken: why a sample is unreadable, by its index in ``names``.
        ids: the column that names the rows for the user, by its name; empty if there is none.
    """

    names: Sequence[Any]
    x: Any
    broken: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def open_parts(model: RunModel, source: str) -> Iterator[Iterator[Part]]:
    """Open the samples of a ``source`` as the run's model takes them.

    Args:
        source: a table (CSV, Parquet, npz) or ``-``, a table from standard input; for images a file, a folder of any
            depth, an archive of one, npz, or the name of a known set.
    """
    if source == STANDARD_INPUT:
        if model.input.encoder is None:
            raise InvalidInputError(
                "standard input must be a table, and this run was trained on images; give a folder."
            )
        with held_standard_input() as held:
            yield _table(model, held)
        return
    path = Path(source).expanduser()
    if not path.exists() and source not in NAMED_SETS:
        raise InvalidInputError(f"no such file or folder: {source!r}; check the path.")
    if model.input.encoder is not None:
        yield _table(model, path)
    elif not path.exists():
        yield _slices(model, open_data(source, size=model.input.image_shape[1:]).x, source)
    else:
        yield _array_parts(model, path) if path.suffix.lower() == ".npz" else _images(model, path)


@contextmanager
def held_standard_input() -> Iterator[HeldFile]:
    """Store standard input in a file: its first rows are inspected first, and Parquet is read from its end."""
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed; give a file, or pipe a table in.")
    begin = sys.stdin.buffer.read(max(map(len, SUFFIX_OF)))
    suffix = next((suffix for start, suffix in SUFFIX_OF.items() if begin.startswith(start)), "")
    with HeldFile(sys.stdin.buffer, "standard input", suffix=suffix, begin=begin) as held:
        yield held


def _table(model: RunModel, path: Path | HeldFile) -> Iterator[Part]:
    assert model.input.encoder is not None
    if path.suffix.lower() == ".npz":
        yield from _array_parts(model, path)
        return
    start, name = 0, model.id_column
    text = [*model.input.encoder.text_columns, *([] if name is None else [name])]
    for frame in iterate_table(path, rows=ROWS_AT_ONCE, text=text):
        ids = {} if name is None or name not in frame.columns else {name: frame[name].to_numpy()}
        yield Part(range(start, start + len(frame)), frame, ids=ids)
        start += len(frame)


def _array_parts(model: RunModel, path: Path | HeldFile) -> Iterator[Part]:
    """Read the array X of a ``.npz`` file."""
    try:
        with open_arrays(path) as archive:
            names = [name for name in ARRAYS if name in archive.files] or archive.files
            if len(names) == 0:
                raise InvalidInputError(f"{path} must hold an array X, got none.")
            values: NDArray[Any] = archive[names[0]]
    except InvalidInputError:
        raise
    except (OSError, *DAMAGE) as error:
        raise InvalidInputError(
            f"{path} is not a .npz file of numbers, or is damaged; write it with numpy.savez."
        ) from error
    table = model.input.encoder is not None
    if table and values.ndim != 2:
        raise InvalidInputError(f"{path} must hold rows and columns, got an array of shape {values.shape}.")
    if not table and values.ndim == 3:
        values = values[:, None]
    yield from _slices(model, values, str(path))


def _slices(model: RunModel, x: Any, where: str) -> Iterator[Part]:
    table = model.input.encoder is not None
    if not table:
        check_images(model, x, where)
    step = ROWS_AT_ONCE if table else IMAGES_AT_ONCE
    for start in range(0, len(x), step):
        part = x[start : start + step]
        yield Part(range(start, start + len(part)), as_table(part) if table else part)


def check_images(model: RunModel, x: Any, where: str) -> None:
    """Raise an error for images of another shape or type than the run was trained on."""
    channels, height, width = model.input.image_shape
    shape = tuple(getattr(x, "shape", ()))
    if shape[1:] != (channels, height, width) or x.dtype != np.uint8:
        raise InvalidInputError(
            f"the run was trained on uint8 images of {channels} × {height} × {width}, and {where} holds "
            f"{' × '.join(map(str, shape[1:])) or 'no images'}; bring them to that size."
        )


def _images(model: RunModel, path: Path) -> Iterator[Part]:
    """Read image files in batches."""
    root, names = _files(path)
    channels, height, width = model.input.image_shape

    def decoded(name: str) -> Any:
        try:
            return decode_image(root / name, size=(height, width), channels=channels)
        except UnreadableImageError as error:
            return error.reason

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for start in range(0, len(names), IMAGES_AT_ONCE):
            batch = names[start : start + IMAGES_AT_ONCE]
            found = list(pool.map(decoded, batch))
            broken = {place: pixels for place, pixels in enumerate(found) if isinstance(pixels, str)}
            good = [pixels for pixels in found if not isinstance(pixels, str)]
            x = np.stack(good) if good else np.zeros((0, channels, height, width), dtype=np.uint8)
            yield Part([encodable(name) for name in batch], x, broken)


def _files(path: Path) -> tuple[Path, list[str]]:
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return path.parent, [path.name]
    root = unpack(path) if path.is_file() and is_archive(path) else path
    if not root.is_dir():
        raise InvalidInputError(
            f"the run was trained on images, and {path} is neither an image, a folder nor an archive."
        )
    names = scan(root).images
    if not names:
        raise InvalidInputError(f"no images found in {str(path)!r}; give a folder that holds some.")
    return root, names


def estimated_prior(model: RunModel, source: str) -> Prior:
    """Estimate the class prior of unlabelled samples; this reads the source once."""
    if source == STANDARD_INPUT:
        raise InvalidInputError(
            "--prior estimate reads the data twice, and standard input can be read only once; give a file."
        )
    size = len(model.classes)
    kept: NDArray[np.float32] = np.zeros((0, size), dtype=np.float32)
    most, seen = max(1, MOST_NUMBERS // size), 0
    generator = np.random.default_rng(0)
    with open_parts(model, source) as parts:
        for part in parts:
            if len(part.names) == len(part.broken):
                continue
            found = model.predictions(part.x).probabilities
            free = min(len(found), most - len(kept))
            kept = np.concatenate((kept, found[:free])) if free else kept
            seen, rest = seen + free, found[free:]
            # each of the rows seen so far is kept with the same probability
            places = generator.integers(0, seen + 1 + np.arange(len(rest)))
            kept[places[places < most]] = rest[places < most]
            seen += len(rest)
    return model.estimate_prior(kept)
