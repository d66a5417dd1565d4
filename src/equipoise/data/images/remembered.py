"""What is known of image files once they were decoded, and its memory from one start to the next."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.storage.files import write_atomically

FORMAT = 2  # of the memory, and of what is looked at; part of its name
DIGEST_BYTES = 16


class Finding(NamedTuple):
    """One file, decoded or not."""

    digest: bytes = bytes(DIGEST_BYTES)
    height: int = 0
    width: int = 0
    grey: bool = False
    deepest: int = 0  # the largest value where a pixel has more than 8 bits
    reason: str = ""  # why it cannot be read
    passing: bool = False  # that may be another time: the reason is the disk's or the system's, not the file's


@dataclass(frozen=True)
class Verified:
    """What is known of each file once it was decoded."""

    digests: NDArray[np.uint8]  # (files, 16)
    shapes: NDArray[np.int32]  # (files, 2): height, width
    grey: NDArray[np.bool_]  # (files,)
    deepest: NDArray[np.int32]  # (files,), 0 where all pixels have 8 bits
    reasons: NDArray[np.str_]  # (files,), empty where the file is good
    passing: NDArray[np.bool_]  # (files,)

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> "Verified":
        """The findings, column by column."""
        digests = np.frombuffer(b"".join(found.digest for found in findings), dtype=np.uint8)
        return cls(
            digests.reshape(-1, DIGEST_BYTES),
            np.array([(found.height, found.width) for found in findings], dtype=np.int32).reshape(-1, 2),
            np.array([found.grey for found in findings], dtype=np.bool_),
            np.array([found.deepest for found in findings], dtype=np.int32),
            np.array([found.reason for found in findings], dtype=np.str_),
            np.array([found.passing for found in findings], dtype=np.bool_),
        )

    @property
    def good(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.reasons == "")

    @property
    def bad(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.reasons != "")

    def with_rows(self, rows: NDArray[np.intp], other: "Verified") -> "Verified":
        """These files, with other findings for some of them."""
        source = np.arange(len(self.grey))
        source[rows] = len(source) + np.arange(len(rows))
        theirs = other.columns()
        return Verified(**{name: np.concatenate([mine, theirs[name]])[source] for name, mine in self.columns().items()})

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def remembered(memory: Path, files: int) -> Verified | None:
    """What an earlier start found of as many files, or None."""
    try:
        with np.load(memory, allow_pickle=False) as stored:
            known = Verified(**{field.name: stored[field.name] for field in fields(Verified)})
    except Exception:  # absent or damaged: it is only a memory
        return None
    return known if {len(column) for column in known.columns().values()} == {files} else None


def remember(memory: Path, verified: Verified) -> None:
    """Keep what was found for the next start, where that is possible."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **verified.columns())
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memory, buffer.getvalue())
    except OSError:  # no room or no right: the next start checks again
        return
