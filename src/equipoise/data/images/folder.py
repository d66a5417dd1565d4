"""Image folders, or archives of one, as labelled samples."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.check import check_files, contradiction_note, duplicate_note, tolerate
from equipoise.data.images.decode import Fit, Size
from equipoise.data.images.file_table import FileTable
from equipoise.data.images.images_on_disk import Images
from equipoise.data.images.label_table import label_table
from equipoise.data.images.scan import Labelled, class_folders, scan_images
from equipoise.data.images.tar_shards import read_shards, tar_shards
from equipoise.data.samples import Progress, Samples
from equipoise.errors import InvalidInputError

SMALLEST, LARGEST, STEP = 32, 224, 8  # sides of automatically sized images
DEEP_ENOUGH = 13  # bits of a 16-bit image that leave enough shades when used
SAMPLE = 256  # files that decide the size if not all are checked


def read_images(
    folder: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    file_column: str | None = None,
    target: str | Sequence[str] | None = None,
    group: str | None = None,
    size: int | Size | None = None,
    channels: int | None = None,
    fit: Fit = "crop",
    check: bool = True,
    progress: Progress | None = None,
) -> Samples:
    """Read image files with their labels; the images stay on disk, ``samples.x`` is :class:`Images`.

    Args:
        folder: ``CLASS/image.jpg`` below it (any depth; the first folder is the class), or ``train/CLASS/image.jpg``
            with ``test`` and perhaps ``val`` beside it; or a tar or zip archive of such a folder; or a folder of tar
            shards in the layout of WebDataset, which are not unpacked.
        labels: a CSV with a row for each file, instead of class folders.
        file_column: its column of file names; None looks for a usual name.
        target: its column of labels, or several 0/1 columns; None looks for a usual name.
        group: its column of groups, such as patients; None if there is none.
        size: side of the images, or (height, width); None takes the median shorter side, from 32 to 224.
        channels: 1 (grey) or 3 (colour); None takes 1 if every image is grey.
        fit: how an image is resized, as in :func:`~equipoise.data.images.decode_image`.
        check: whether to decode every file once and leave out broken ones; the result is cached.
        progress: callback (done, total) while files are checked.
    """
    table, rows, notes = _listed(folder, labels, file_column, target, group)
    if check:
        verified = check_files(table, progress=progress)
        table = replace(table, digests=verified.digests)
    else:
        spread = np.unique(np.linspace(0, len(table) - 1, SAMPLE).round().astype(np.intp))
        verified = check_files(table.take(spread))
    skipped = [(table.name(row), str(verified.reasons[row])) for row in _bad_rows(verified)] if check else []
    broken = tolerate(
        [f"{name!r} ({reason})" for name, reason in skipped],
        len(table),
        what="image files cannot be read",
        remedy="repair or delete them, or fetch the data again",
    )
    notes += [broken] if broken else []
    side = _chosen_side(verified, notes) if size is None else size
    depth = _chosen_channels(verified, notes) if channels is None else channels
    images = Images.of_table(table, size=(side, side) if isinstance(side, int) else side, channels=depth, fit=fit)
    images.skipped = tuple(skipped)
    samples = Samples(images, rows.y, rows.attributes, rows.groups, rows.partition)
    if skipped:
        samples = samples.take(np.setdiff1d(np.arange(len(table)), _bad_rows(verified)))
    _note_range(verified, notes)
    return replace(samples, notes=tuple(notes + _content_notes(samples)))


def _listed(
    folder: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None,
    file_column: str | None,
    target: str | Sequence[str] | None,
    group: str | None,
) -> tuple[FileTable, Labelled, list[str]]:
    """Return the files, what the layout or the CSV says about each, and notes on others."""
    if labels is not None:
        found = scan_images(folder)
        rows = label_table(found, labels, file_column=file_column, target=target, group=group)
    elif file_column is not None or target is not None or group is not None:
        raise InvalidInputError("file_column, target and group are columns of a CSV; give it (--labels, labels=).")
    elif tar_shards(folder):
        table, rows = read_shards(folder)
        return table, rows, list(rows.notes)
    else:
        found = scan_images(folder)
        rows = class_folders(found)
    return FileTable.of(found.root, rows.names), rows, found.notes() + rows.notes


def _bad_rows(verified: Any) -> list[int]:
    found: list[int] = np.flatnonzero(verified.reasons != "").tolist()
    return found


def _content_notes(samples: Samples) -> list[str]:
    if not samples.multilabel and len(samples.encoded[0]) < 2:
        raise InvalidInputError(
            f"all {len(samples)} images are of one class, {str(samples.y[0])!r}; a classifier needs at least two, "
            "one folder each."
        )
    notes = [None if samples.multilabel else contradiction_note(samples.x, samples.y)]
    if samples.partition is not None:
        rest = samples.x.take(np.flatnonzero(samples.partition != "train"))
        notes.append(duplicate_note(samples.part("train").x, rest))
    return [note for note in notes if note]


def usual_side(sides: NDArray[Any]) -> int:
    """Return the side to resize images to: the median of their shorter sides, within 32 to 224.

    >>> usual_side(np.array([100, 300, 120])), usual_side(np.array([4000, 3000]))
    (120, 224)
    """
    middle = float(np.median(sides)) if len(sides) else float(SMALLEST)
    return int(np.clip(STEP * round(middle / STEP), SMALLEST, LARGEST))


def _chosen_side(verified: Any, notes: list[str]) -> int:
    sides = verified.shapes[verified.reasons == ""].min(axis=1)
    middle, side = float(np.median(sides)) if len(sides) else float(SMALLEST), usual_side(sides)
    notes.append(f"the median shorter side is {middle:.0f} pixels: images are read at {side} × {side}.")
    return side


def _chosen_channels(verified: Any, notes: list[str]) -> int:
    grey = verified.grey[verified.reasons == ""]
    if grey.all():
        notes.append("every image is grey: one channel is read.")
        return 1
    notes.append(f"{(~grey).sum()} of {len(grey)} images have colour: three channels are read.")
    return 3


def _note_range(verified: Any, notes: list[str]) -> None:
    """Add a note if 16-bit files leave their highest bits empty: instruments write 10, 12 or 14 bits into them."""
    deepest = int(verified.deepest.max(initial=0))
    if 0 < deepest < 2**DEEP_ENOUGH:
        notes.append(
            f"the 16-bit images hold no value above {deepest} of 65,535, so only {deepest // 256 + 1} of 256 shades "
            f"are left; multiply their values by {2 ** (16 - deepest.bit_length())} to use all."
        )
