"""Shared code of the image readers: finding files, unpacking archives, and building samples from names."""

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from equipoise.data.images import Images
from equipoise.data.images.check import check_files, tolerate
from equipoise.data.images.decode import GREY_MODES, UnreadableImageError, header, read_bytes
from equipoise.data.images.file_table import FileTable
from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.sets.dataset import Reading, Size
from equipoise.storage.archives import is_archive, unpack

SUFFIXES = (".jpg", ".jpeg", ".png", ".pgm", ".bmp")

Found = TypeVar("Found")


def image_names(folder: Path) -> list[str]:
    """Return the image files directly in a folder, sorted; none if it is not a folder."""
    return sorted(name for name in _entries(folder) if name.lower().endswith(SUFFIXES))


def subfolders(folder: Path) -> list[str]:
    """Return the folders directly in a folder, sorted; none if it is not a folder."""
    return sorted(name for name in _entries(folder) if (folder / name).is_dir())


def images_below(root: Path, folders: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the image files of each folder, relative to the root, and the number in each folder."""
    each = [[f"{folder}/{name}" for name in image_names(root / folder)] for folder in folders]
    return [name for names in each for name in names], [len(names) for names in each]


def _entries(folder: Path) -> list[str]:
    with readable(folder, "check its permissions"):
        return [name for name in os.listdir(folder) if name[0] != "."] if folder.is_dir() else []


def in_folder_or_archives(folder: Path, find: Callable[[list[Path]], Found | None], expected: str) -> Found:
    """Return what ``find`` finds in the folder, or otherwise in the archives in it, unpacked into the cache."""
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder; give the one with {expected}.")
    found = find([folder]) or find([unpack(folder / name) for name in sorted(_entries(folder)) if is_archive(name)])
    if not found:
        raise InvalidInputError(f"{folder} must hold {expected}, or an archive of it; neither is there.")
    return found


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, which must have the given columns."""
    with readable(path, "fetch it again", csv.Error), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True, strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InvalidInputError(f"{path} must have the column {missing[0]!r}, got {reader.fieldnames or []}.")
        for row in reader:
            if any(not row[name] for name in columns):
                raise InvalidInputError(f"{path} has no {' or no '.join(columns)} in line {reader.line_num}.")
            yield row


def left_out(count: int, listing: str) -> list[str]:
    """Return a note on listed images that are missing, if any."""
    return [f"{count:,} images of {listing} are not there and were left out."] if count else []


def image_samples(
    root: Path, rows: Labelled, reading: Reading, *, size: Size | None = None, channels: int | None = None
) -> Samples:
    """Build samples from image files, named relative to ``root``.

    ``size`` and ``channels`` default to those of the first file.
    """
    if not rows.names:
        raise InvalidInputError(f"{root} has the folders of the set, but no image is in them.")
    table = FileTable.of(root, rows.names)
    reasons = np.where(table.sizes > 0, "", "the file is empty")
    if reading.check:
        verified = check_files(table, progress=reading.progress)
        reasons, table = verified.reasons, replace(table, digests=verified.digests)
    bad = [f"{table.name(int(row))!r} ({reasons[row]})" for row in np.flatnonzero(reasons != "")]
    note = tolerate(bad, len(table), what="image files cannot be read", remedy="fetch the data again")
    height, width, mode = _first_header(table, int(np.argmax(reasons == "")))
    images = Images.of_table(
        table, size=reading.size or size or (height, width), channels=channels or (1 if mode in GREY_MODES else 3)
    )
    notes = (*rows.notes, *([note] if note else []))
    samples = Samples(images, rows.y, rows.attributes, rows.groups, rows.partition, notes)
    return samples.take(np.flatnonzero(reasons == "")) if bad else samples


def _first_header(table: FileTable, row: int) -> tuple[int, int, str]:
    try:
        return header(read_bytes(table.path(row)))
    except UnreadableImageError as error:
        raise InvalidInputError(
            f"{table.path(row)} cannot be read ({error.reason}); fetch the data again, or read with check=True, which "
            "leaves out what is broken."
        ) from None
