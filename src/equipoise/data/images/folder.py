"""A folder of image files, or an archive of one, as samples with labels."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.check import Verified, contradiction_note, duplicate_note, tolerate, verify
from equipoise.data.images.decode import Fit, Size
from equipoise.data.images.label_table import label_table
from equipoise.data.images.lazy import FileTable, Images
from equipoise.data.images.scan import SUFFIXES, Labelled, Scan, class_folders, scan
from equipoise.data.samples import Progress, Samples
from equipoise.errors import InvalidInputError
from equipoise.storage.archives import is_archive, unpack

SMALLEST, LARGEST, STEP = 32, 224, 8  # sides of images whose size is chosen here
DEEP_ENOUGH = 13  # bits of a 16-bit image whose use leaves shades enough
SAMPLE = 256  # files that decide it when not all are checked


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
    """Image files with their labels; the images stay on disk, ``samples.x`` is :class:`Images`.

    Args:
        folder: ``CLASS/image.jpg`` below it (any depth; the first folder is the class), or ``train/CLASS/image.jpg``
            with ``test`` and perhaps ``val`` beside it; or a tar or zip archive of such a folder.
        labels: a CSV with a row for each file, instead of class folders.
        file_column: the CSV's column of file names; None looks for the usual names.
        target: the CSV's column of labels; several columns of 0 and 1 give several labels; None looks for them.
        group: the CSV's column of what must stay on one side of a split, such as a patient.
        size: side of the images, or (height, width); None takes the median shorter side, from 32 to 224.
        channels: 1 (grey) or 3 (colour); None takes 1 when every image is grey.
        fit: how an image gets its size, as in :func:`~equipoise.data.images.decode_image`.
        check: decode every file once and leave out what is broken; the result is remembered.
        progress: called with the files checked so far and all of them.
    """
    if labels is None and (file_column is not None or target is not None or group is not None):
        raise InvalidInputError("file_column, target and group are columns of a CSV; give it (--labels, labels=).")
    root = unpack(folder) if is_archive(folder) and Path(folder).is_file() else Path(folder)
    found = scan(root)
    if not found.images:
        raise InvalidInputError(
            f"there is no image in {str(folder)!r}; expected files such as cat/1.jpg, ending in one of "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    if labels is None:
        rows = class_folders(found)
    else:
        rows = label_table(found, labels, file_column=file_column, target=target, group=group)
    return _samples(found, rows, size=size, channels=channels, fit=fit, check=check, progress=progress)


def _samples(
    found: Scan,
    rows: Labelled,
    *,
    size: int | Size | None,
    channels: int | None,
    fit: Fit,
    check: bool,
    progress: Progress | None,
) -> Samples:
    table, notes = FileTable.of(found.root, rows.names), found.notes() + rows.notes
    if check:
        verified = verify(table, progress=progress)
    else:
        spread = np.unique(np.linspace(0, len(table) - 1, SAMPLE).round().astype(np.intp))
        verified = verify(table.take(spread))
    side, side_note = _chosen_size(verified) if size is None else (_given_size(size), None)
    depth, depth_note = _chosen_channels(verified) if channels is None else (channels, None)
    good, skipped, broken_note = _good_rows(table, verified) if check else (np.arange(len(table)), (), None)
    kept = table.take(good)
    if check:
        kept = replace(kept, digests=verified.digests[good])
    images = Images.of_table(kept, size=side, channels=depth, fit=fit)
    images.skipped = skipped
    notes += [note for note in (broken_note, side_note, depth_note, _range_note(verified)) if note]
    samples = Samples(
        images,
        rows.y[good],
        rows.attributes,
        None if rows.groups is None else rows.groups[good],
        None if rows.partition is None else rows.partition[good],
    )
    return replace(samples, notes=tuple(notes + _content_notes(samples)))


def _good_rows(
    table: FileTable, verified: Verified
) -> tuple[NDArray[np.intp], tuple[tuple[str, str], ...], str | None]:
    skipped = tuple((table.name(int(row)), str(verified.reasons[row])) for row in verified.bad)
    note = tolerate(
        [f"{name!r} ({reason})" for name, reason in skipped],
        len(table),
        what="image files cannot be read",
        remedy="repair or delete them, or fetch the data again",
    )
    return verified.good, skipped, note


def _content_notes(samples: Samples) -> list[str]:
    if not samples.multilabel and len(np.unique(samples.y)) < 2:
        raise InvalidInputError(
            f"all {len(samples)} images are of one class, {str(samples.y[0])!r}; a classifier needs two at least, a "
            "folder for each."
        )
    notes = [None if samples.multilabel else contradiction_note(samples.x.table, samples.y)]
    if samples.partition is not None:
        train = samples.part("train").x
        rest = samples.x.take(np.flatnonzero(samples.partition != "train"))
        notes.append(duplicate_note(train, rest))
    return [note for note in notes if note]


def _given_size(size: int | Size) -> Size:
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def _chosen_size(verified: Verified) -> tuple[Size, str]:
    sides = verified.shapes[verified.good].min(axis=1)
    middle = float(np.median(sides)) if len(sides) else float(SMALLEST)
    side = int(np.clip(STEP * round(middle / STEP), SMALLEST, LARGEST))
    return (side, side), f"the median shorter side is {middle:.0f} pixels: images are read at {side} × {side}."


def _chosen_channels(verified: Verified) -> tuple[int, str]:
    grey = int(verified.grey[verified.good].sum())
    if grey == len(verified.good):
        return 1, "every image is grey: one channel is read."
    return 3, f"{len(verified.good) - grey} of {len(verified.good)} images have colour: three channels are read."


def _range_note(verified: Verified) -> str | None:
    """Instruments write 10, 12 or 14 bits into files of 16, whose highest bits are then empty."""
    deepest = int(verified.deepest.max(initial=0))
    if not 0 < deepest < 2**DEEP_ENOUGH:
        return None
    return (
        f"the 16-bit images hold no value above {deepest} of 65,535: {deepest // 256 + 1} of 256 shades are left of "
        f"them; multiply their values by {2 ** (16 - deepest.bit_length())} to use all."
    )
