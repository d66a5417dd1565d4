"""A table as fits, each stored in a file as soon as it is finished, so that a killed run loses at most one fit."""

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import lock, raise_if_full, remove_abandoned, write_atomically
from equipoise.storage.versions import versions

FORMAT = 1
Record = dict[str, Any]


class CannotRunError(InvalidInputError):
    """The data do not allow a method; a table says so in its row and continues."""


@dataclass(frozen=True, order=True)
class Fit:
    """One fit: a method on a case, with a seed and a fold.

    Args:
        case: the data's name.
        method: its name in ``METHODS``.
        seed: of the folds and of the weights.
        fold: which one, from 0.

    >>> Fit("iris", "focal", seed=3)
    Fit(case='iris', method='focal', seed=3, fold=0)
    """

    case: str
    method: str
    seed: int
    fold: int = 0


@functools.cache
def code_checksum() -> str:
    """Return a hash of the package's own modules: records of other code are marked, though not refused."""
    found = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


class ResultStore:
    """Finished fits, in a file of JSON lines: a header, then one record per line, each flushed to disk.

    A last line that was cut off by a kill or a full disk is dropped. Results of other data, settings or versions are
    refused; data that are new to the file join those it has. One process at a time may have the file open.

    Args:
        path: the file; None keeps the records in memory only.
        data: checksums of the data, by name.
        settings: whatever else the results depend on, as plain values.

    >>> with ResultStore(None, data={"iris": "5f3a"}, settings={"folds": 3}) as store:
    ...     store.add(Fit("iris", "cross_entropy", 0), {"scores": {"accuracy": 0.9}})
    ...     Fit("iris", "cross_entropy", 0) in store, [record["scores"] for record in store.records]
    (True, [{'accuracy': 0.9}])
    """

    def __init__(self, path: str | Path | None, *, data: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        plain = {"data": dict(data), "settings": dict(settings), "versions": versions()}
        self.header: dict[str, Any] = json.loads(json.dumps(plain))  # as it will be read again
        self._records: dict[Fit, Record] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "ResultStore":
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self.path.parent, self.path.name)
            if not self.path.exists():
                write_atomically(self.path, self._first_line())
            self._open(self.path)
        return self

    def _open(self, path: Path) -> None:
        self._file = path.open("r+b")
        try:
            if lock(self._file) is False:
                raise InvalidStateError(f"{path} is in use by another process; wait for it, or choose another file.")
            if not self._read(self._file, path):
                return
            self._file.seek(0)
            records = self._file.read().partition(b"\n")[2]
        except BaseException:
            self._file.close()
            raise
        self._file.close()  # Windows replaces no open file
        write_atomically(path, self._first_line() + records)
        self._open(path)

    def _first_line(self) -> bytes:
        return (json.dumps({"format": FORMAT, **self.header}, ensure_ascii=False) + "\n").encode()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __contains__(self, fit: Fit) -> bool:
        return fit in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, fit: Fit) -> Record:
        return self._records[fit]

    @property
    def records(self) -> list[Record]:
        """All records, in the order in which they were finished."""
        return list(self._records.values())

    def add(self, fit: Fit, result: Mapping[str, Any]) -> None:
        """Store a fit's result, a mapping of plain values; it is on disk when this returns."""
        if fit in self:
            raise InvalidStateError(f"{fit} is finished already; it must not be run twice.")
        record: Record = {**asdict(fit), **result, "code": code_checksum()}
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        if self.path is not None:
            self._append(f"{line}\n".encode(), self.path)
        self._records[fit] = json.loads(line)

    def _append(self, line: bytes, path: Path) -> None:
        if self._file is None:
            raise InvalidStateError(f"{path} is not open; use the store in a with statement.")
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            try:
                self._file.truncate(end)
            finally:
                raise_if_full(error, path, len(line))
            raise

    def _read(self, file: IO[bytes], path: Path) -> bool:
        """Read all records; return whether some of the data are new to the file."""
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        parsed: list[Any] = []
        for number, line in enumerate(lines, start=1):
            try:
                parsed.append(json.loads(line))
            except ValueError as error:
                if number == len(lines) and number > 1:  # written out of order before the power went
                    whole = whole[: -len(line) - 1]
                    break
                raise InvalidInputError(f"line {number} of {path} is damaged ({error}); move the file away.") from error
        grown = self._check_header(parsed[0] if parsed else None, path)
        for record in parsed[1:]:
            self._records.setdefault(_fit_of(record, path), record)
        file.truncate(len(whole))
        return grown

    def _check_header(self, found: Any, path: Path) -> bool:
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise InvalidInputError(f"{path} is not a file of results of format {FORMAT}; choose another file.")
        for part, wanted in self.header.items():
            before = found.get(part)
            before = before if isinstance(before, dict) else {}
            for name in sorted(before.keys() & wanted.keys() if part == "data" else before.keys() | wanted.keys()):
                if before.get(name) != wanted.get(name):
                    raise InvalidInputError(
                        f"{path} was made with the {part} {name} = {before.get(name)!r}, and now it is "
                        f"{wanted.get(name)!r}; results of both must not be mixed: choose another file."
                    )
        before = found["data"] if isinstance(found.get("data"), dict) else {}
        grown = bool(self.header["data"].keys() - before.keys())
        self.header["data"] = before | self.header["data"]
        return grown


def _fit_of(record: Any, path: Path) -> Fit:
    try:
        return Fit(str(record["case"]), str(record["method"]), int(record["seed"]), int(record["fold"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path} holds a line that is not a result ({error!r}); move the file away.") from error
