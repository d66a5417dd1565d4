"""One door for whatever a user points at: a table, an image folder, an archive of one, or a known set by its name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError


def open_data(
    source: str | Path,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    group: str | None = None,
    size: int | None = None,
    channels: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Samples:
    """Read the samples that ``source`` names.

    Args:
        source: a CSV, Parquet or npz file, a folder or archive of images, or a name of ``DATASETS``.
        target: the column of a table with the label, or several 0/1 columns with commas between.
        labels: a table of ``file,label`` for images that are not sorted into folders.
        group: the column whose equal values belong together.
        size: the side of the square that images are brought to; None chooses it.
        channels: 1 for grey, 3 for colour; None chooses it.
        progress: told how many images of how many have been looked at.
    """
    from equipoise.data.images import read_images
    from equipoise.data.sets import DATASETS, find_set
    from equipoise.data.tables import read_table
    from equipoise.data.unpacking import is_archive

    path = Path(source)
    if not path.exists():
        if str(source) in DATASETS:
            return find_set(str(source), size=None if size is None else (size, size), progress=progress)
        raise InvalidInputError(
            f"there is no file or folder {str(source)!r}; give a table, a folder of images, or one of "
            f"{', '.join(DATASETS)}."
        )
    if path.is_dir() or is_archive(path):
        return read_images(
            path,
            labels=labels,
            target=target,
            group=group,
            size=None if size is None else (size, size),
            channels=channels,
            progress=progress,
        )
    for name, value in (("labels", labels), ("size", size), ("channels", channels)):
        if value is not None:
            raise InvalidInputError(f"{name} is for a folder of images, and {path.name} is a file; leave it out.")
    samples = read_table(path, target=target)
    return samples if group is None else _grouped(samples, group)


def _grouped(samples: Samples, group: str) -> Samples:
    """A column taken out of the table as the groups: who a row belongs to is nothing to learn from."""
    columns = [str(name) for name in getattr(samples.x, "columns", ())]
    if group not in columns:
        raise InvalidInputError(f"group must be a column of the table, got {group!r}; there are {', '.join(columns)}.")
    groups = samples.x[group].astype(str).to_numpy(dtype=np.str_)
    return Samples(
        samples.x.drop(columns=group), samples.y, samples.attributes, groups, samples.partition, samples.notes
    )
