"""A crash-safe CSV log of what became of each image, from which an interrupted alignment continues."""

import csv
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from equipoise.app.output_files import defused, is_formula, printable
from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import AlignmentOptions
from equipoise.storage.files import lock, raise_if_full, remove_abandoned, write_atomically, written_beside
from equipoise.storage.records import read_json

SETTINGS, LOG, TO_CHECK, LOCK = "alignment.json", "alignment.csv", "to_check.csv", ".alignment.lock"
ALIGNED, SEVERAL, NONE, UNREADABLE = STATUSES = ("aligned", "several", "no face", "unreadable")
POINTS = ("left_eye", "right_eye", "nose", "left_mouth", "right_mouth")
COLUMNS = (
    *("image", "status", "faces", "attempt", "probability", "residual", "left", "top", "right", "bottom"),
    *(f"{point}_{axis}" for point in POINTS for axis in "xy"),
    *("note", "bytes", "modified", "written"),
)
WHOLE = re.compile(r"-?\d{1,20}")


@dataclass(frozen=True)
class AlignmentOutcome:
    """The outcome for one image: its status, and where the chosen face is.

    size, modified: of the image's file, to detect changes.
    written: size of the face's file, to detect one that a crash left incomplete.
    place: box and landmarks, 14 numbers in pixels of the image; none without a face.
    """

    image: str
    status: str
    size: int = 0
    modified: int = 0
    written: int = 0
    faces: int = 0
    attempt: int = 0
    probability: float | None = None
    residual: float | None = None
    place: tuple[float, ...] = ()
    note: str = ""

    def row(self) -> list[str]:
        """Return the row of the CSV."""
        sure = "" if self.probability is None else f"{self.probability:.4f}"
        off = "" if self.residual is None else f"{self.residual:.2f}"
        numbers = [f"{number:.2f}" for number in self.place] or [""] * 14
        stamps = [str(stamp) for stamp in (self.size, self.modified, self.written)]
        start = [_written(self.image), self.status, str(self.faces), str(self.attempt or ""), sure, off]
        return [*start, *numbers, defused(self.note), *stamps]


@dataclass(frozen=True, slots=True)
class LoggedImage:
    """The log's entry for an image, and its row; kept small, since a log may have millions."""

    status: str
    faces: str
    note: str
    size: int
    modified: int
    written: int
    number: int

    @classmethod
    def of(cls, row: list[str], number: int) -> "LoggedImage":
        """Read a valid row."""
        note, size, modified, written = row[-4:]
        return cls(sys.intern(row[1]), row[2], note, int(size), int(modified), int(written), number)


class AlignmentLog:
    """The log in a folder, open for more rows; use it within :func:`held`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOG
        self.known: dict[str, LoggedImage] = {}
        self._replaced = False
        remove_abandoned(folder)
        self._read()

    def add(self, outcomes: Iterable[AlignmentOutcome]) -> None:
        """Append rows; they are on disk when this returns."""
        rows = {outcome.image: outcome.row() for outcome in outcomes}
        content = _table(rows.values())
        try:
            with self.path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise_if_full(error, self.path, len(content))
            raise
        self._replaced = self._replaced or any(image in self.known for image in rows)
        self.known |= {image: LoggedImage.of(row, -1) for image, row in rows.items()}  # numbered when they are read

    def finish(self) -> Path:
        """Write the list of images to check by eye: without a face, with several, or unreadable."""
        if self._replaced:
            self._read()
        rows = [
            [printable(_written(image)), one.status, one.faces, one.note]
            for image, one in sorted(self.known.items())
            if one.status != ALIGNED
        ]
        path = self.folder / TO_CHECK
        write_atomically(path, _table([["image", "status", "faces", "note"], *rows]))
        return path

    def _read(self) -> None:
        """Take over the valid rows; rewrite the file if a row is torn or was replaced by a later one."""
        self.known, self._replaced = {}, False
        rows = 0
        for number, row in _rows(self.path):
            rows = number + 1
            if len(row) == len(COLUMNS) and row[1] in STATUSES and all(map(WHOLE.fullmatch, row[-3:])):
                self.known[row[0].removeprefix("./")] = LoggedImage.of(row, number)
        if rows != len(self.known) + 1 or not _ends_with_line(self.path):  # one row is the heading
            self._write_anew()

    def _write_anew(self) -> None:
        kept = {one.number for one in self.known.values()}
        try:
            with written_beside(self.path) as file:
                file.write(_table([list(COLUMNS)]))
                for number, row in _rows(self.path):
                    if number in kept:
                        file.write(_table([row]))
        except OSError as error:
            raise_if_full(error, self.path, self.path.stat().st_size)
            raise


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV with their numbers, as far as it is valid; a name may be any bytes."""
    with suppress(FileNotFoundError, csv.Error), path.open(encoding="utf-8", errors="surrogateescape", newline="") as f:
        yield from enumerate(csv.reader(line.replace("\0", "") for line in f))


def _table(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", errors="surrogateescape")


def _written(image: str) -> str:
    """Return an image's path for a spreadsheet: a ``./`` prefix keeps it from being a formula."""
    return f"./{image}" if is_formula(image) else image


def _ends_with_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"
    except OSError:  # not there, or empty
        return False


def check_empty_or_ours(folder: Path) -> None:
    """Raise an error for a folder that holds anything but an earlier alignment; nothing is written."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{str(folder)!r} is a file; give a folder for the aligned faces.")
    if not folder.exists() or (folder / SETTINGS).exists():
        return
    strange = next((name for name in sorted(os.listdir(folder)) if name != LOCK), None)
    if strange is not None:
        raise InvalidInputError(
            f"{str(folder)!r} is not empty (it has {strange!r}) and is not an earlier alignment; give a new folder."
        )


def claim(folder: Path, settings: AlignmentOptions) -> None:
    """Record how the faces in the folder are aligned, or check that existing ones are aligned in this way."""
    path = folder / SETTINGS
    if not path.exists():
        write_atomically(path, msgspec.json.format(msgspec.json.encode(settings)) + b"\n")
        return
    earlier = vars(read_json(path, AlignmentOptions, remedy="give another folder, or delete this one"))
    for name, value in vars(settings).items():
        if earlier[name] != value:
            raise InvalidInputError(
                f"{str(folder)!r} holds faces aligned with another {name} ({earlier[name]!r}, now {value!r}); give a "
                "new folder, or the same options."
            )


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes; the system releases it however this one ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as file:
        if lock(file) is False:
            raise InvalidInputError(
                f"another process is aligning faces into {str(folder)!r}; wait for it, or give another folder."
            )
        yield
