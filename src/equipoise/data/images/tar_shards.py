"""Images in tar shards, in the layout of WebDataset: files that share a name up to the first dot are one sample."""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.images.file_table import FileTable
from equipoise.data.images.scan import SUFFIXES, Labelled
from equipoise.errors import InvalidInputError, listed, reason
from equipoise.storage.size_limits import parse_json

SUFFIX = ".tar"
LABEL_FILES = (".cls", ".json", ".txt")
"""Suffixes of a sample's label, in order of preference: a class, an object with a label, or a word."""
LABEL_KEYS = ("label", "cls", "class", "target")
LONGEST_LABEL = 2**16
END = bytes(1024)
"""End of every tar file."""


def tar_shards(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the shards of a folder that has nothing but them and files beside them; none for other folders."""
    root = Path(folder).expanduser()
    if not root.is_dir():
        return []
    inside = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    found = [path for path in inside if path.suffix.lower() == SUFFIX and path.is_file()]
    return found if not any(path.is_dir() or path.suffix.lower() in SUFFIXES for path in inside) else []


def read_shards(folder: str | os.PathLike[str]) -> tuple[FileTable, Labelled]:
    """Find the images of all shards, without unpacking any: they are read at their places inside the tar files."""
    root = Path(folder).expanduser().absolute()
    names, labels, sizes, offsets, times, without = [], [], [], [], [], []
    for shard in tar_shards(root):
        changed = shard.stat()
        for name, place, size, label in _samples(shard):
            if label is None:
                without.append(name)
                continue
            names.append(name)
            labels.append(label)
            sizes.append(size)
            offsets.append(place)
            times.append((changed.st_mtime_ns, changed.st_ctime_ns))
    if not names:
        raise InvalidInputError(
            f"no shard in {str(folder)!r} has an image with a label; a sample is NAME.jpg beside NAME.cls or NAME.json."
        )
    table = FileTable(
        str(root),
        np.array([os.fsencode(name) for name in names], dtype=np.bytes_),
        np.array(sizes, dtype=np.int64),
        np.array(times, dtype=np.int64),
        offsets=np.array(offsets, dtype=np.int64),
    )
    note = f"left out, without a label: {listed(without)}."
    return table, Labelled(names, np.array(labels), notes=[note] if without else [])


def _samples(shard: Path) -> Iterator[tuple[str, int, int, str | None]]:
    """Yield each image of a shard: its name, its place and length in the file, and its label."""
    images: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, dict[str, str]] = {}
    length = shard.stat().st_size
    try:
        with tarfile.open(shard, "r:") as archive:  # in the order of the file; compressed ones cannot be sought in
            for member in archive:
                if not member.isfile():
                    continue
                if member.offset_data + member.size > length:
                    raise tarfile.ReadError(f"{member.name} ends beyond the file")
                folder, _, file = member.name.rpartition("/")
                key, _, rest = file.partition(".")
                key, kind = f"{folder}/{key}", f".{rest.lower()}"
                if os.path.splitext(kind)[1] in SUFFIXES or kind in SUFFIXES:
                    images.setdefault(key, (member.name, member.offset_data, member.size))
                elif kind in LABEL_FILES and member.size <= LONGEST_LABEL:
                    content = archive.extractfile(member)
                    assert content is not None
                    labels.setdefault(key, {})[kind] = content.read().decode("utf-8", "replace")
        with shard.open("rb") as opened:
            opened.seek(max(0, length - len(END)))
            if opened.read() != END:
                raise tarfile.ReadError("its end is missing")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InvalidInputError(
            f"{shard} is not a tar file or is truncated ({reason(error)}); get the file again."
        ) from None
    for key, (name, place, size) in images.items():
        yield f"{shard.name}/{name}", place, size, _label(shard, labels.get(key, {}))


def _label(shard: Path, files: dict[str, str]) -> str | None:
    for kind in LABEL_FILES:
        text = files.get(kind, "").strip()
        if not text:
            continue
        if kind != ".json":
            return text
        try:
            found: Any = parse_json(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"{shard} has a label that is not JSON ({reason(error)}); write it again."
            ) from None
        if isinstance(found, dict):
            found = next((found[name] for name in LABEL_KEYS if name in found), None)
        if isinstance(found, str | int):
            return str(found)
    return None
