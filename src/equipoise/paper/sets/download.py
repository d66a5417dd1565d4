"""Download of the public data sets over HTTP: resumable, and kept only if the checksum is right."""

# Not with pooch: it downloads into a temporary file that it deletes when a connection fails, so nothing can be resumed,
# and it has neither a lowest rate nor an overall limit; a pooch downloader with these would be all of what follows.

import hashlib
import http.client
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from equipoise.errors import EquipoiseError, InvalidInputError, reason
from equipoise.paper.sets.dataset import PublishedFile
from equipoise.paper.sets.registry import DATASETS

BLOCK = 2**16
STEPS = 20
"""Steps that a file is divided into; a connection that gets one step further resets the count of failures."""

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes received, and the total bytes."""


class FetchError(EquipoiseError, OSError):
    """A file could not be fetched; what has arrived is kept as NAME.part, and the next call continues from there."""


@dataclass(frozen=True)
class Limits:
    """When to give up.

    Args:
        attempts: connections in a row that fail without getting notably further.
        pause: seconds before the second attempt, doubled for each further one.
        answer_seconds: how long a server may take to answer, and how long it may then send nothing.
        lowest_rate: bytes per second, averaged over ``answer_seconds``; a slower connection counts as failed.
        total_seconds: for all files together.
    """

    attempts: int = 4
    pause: float = 1.0
    answer_seconds: float = 30.0
    lowest_rate: float = 2_000.0
    total_seconds: float = 4 * 3600.0

    def __post_init__(self) -> None:
        """Raise an error for invalid limits."""
        least = {"attempts": 1, "pause": 0, "answer_seconds": 0.001, "lowest_rate": 0, "total_seconds": 0}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise InvalidInputError(f"{name} must be {bound} or more, got {getattr(self, name)}.")


def fetch(
    name: str,
    folder: Path,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Path]:
    """Fetch a public data set's files into a folder; correct files that are already there are kept.

    Args:
        name: one of :data:`~equipoise.paper.sets.DATASETS` that is published.
        mirror: address of a folder with the same files, instead of the published addresses.
    """
    limits = limits or Limits()
    published = {key: known.published for key, known in DATASETS.items() if known.published}
    public = published.get(name.lower().replace("-", "_"))
    if public is None:
        raise InvalidInputError(
            f"{name!r} cannot be fetched, only {', '.join(sorted(published))}; see its own web page."
        )
    if mirror is not None and urlsplit(mirror).scheme not in ("http", "https"):
        raise InvalidInputError(f"mirror must be an http or https address, got {mirror!r}.")
    places, end = public.places if mirror is None else (mirror,), clock() + limits.total_seconds
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_Download(file, folder, progress, limits, clock, end).from_any(places) for file in public.files]
    except _UnreachableError as error:
        files = ", ".join(file.name for file in public.files)
        raise FetchError(f"{error}; give --mirror URL or put the files {files} into {folder} yourself.") from error
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(f"{folder} cannot be written: {reason(error)}; give another folder.") from error


class _UnreachableError(Exception):
    """A server does not provide the file; the message has no full stop yet."""


class _DroppedError(Exception):
    """The connection failed; another attempt may succeed."""


@dataclass(frozen=True)
class _Download:
    """A file being downloaded into a folder."""

    file: PublishedFile
    folder: Path
    progress: Progress | None
    limits: Limits
    clock: Callable[[], float]
    end: float

    @property
    def part(self) -> Path:
        return self.folder / f"{self.file.name}.part"

    def from_any(self, places: Sequence[str]) -> Path:
        """Fetch the file from the first address that provides it."""
        target = self.folder / self.file.name
        if target.exists():
            if not self._right(target):
                raise FetchError(f"{target} is there but is not the published file; move it away and fetch again.")
            return target
        failures = []
        for place in places:
            try:
                self._from(place.rstrip("/") + "/" + self.file.name)
                return self.part.rename(target)
            except _UnreachableError as error:
                failures.append(str(error))
        raise _UnreachableError("; ".join(failures))

    def _from(self, url: str) -> None:
        """Fetch the complete, verified part file from one address."""
        resumed = self._present() > 0
        self._receive(url)
        if not self._right(self.part) and resumed:  # the beginning may come from elsewhere
            self.part.unlink()
            self._receive(url)
        if not self._right(self.part):
            found = _sha256(self.part)
            self.part.unlink()
            raise FetchError(
                f"{url} has the checksum {found[:12]}…, not the published {self.file.sha256[:12]}…; the "
                "download was removed: give another --mirror."
            )

    def _receive(self, url: str) -> None:
        """Receive all bytes, resuming after a dropped connection, in at most ``STEPS * attempts`` connections."""
        furthest, failed = self._present(), 0
        while (present := self._present()) < self.file.size:
            self._check_time()
            try:
                self._connect(url, present)
            except _DroppedError as error:
                failed += 1
                if self._present() - furthest >= self.file.size / STEPS:
                    furthest, failed = self._present(), 1
                if failed >= self.limits.attempts:
                    raise _UnreachableError(f"could not fetch {url} ({error})") from error
                time.sleep(self.limits.pause * 2 ** (failed - 1))

    def _present(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _check_time(self) -> None:
        if self.clock() > self.end:
            raise FetchError(
                f"{self.file.name} did not arrive within {self.limits.total_seconds:,.0f} seconds; what has arrived "
                "is kept: run the same command again to continue, or give another --mirror."
            )

    def _connect(self, url: str, offset: int) -> None:
        """Open one connection: append what it sends, or start again if the server cannot continue."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "equipoise"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        try:
            with _answer(urllib.request.Request(url, headers=headers), self.limits.answer_seconds) as reply:
                self._store(reply, self._start(url, reply, offset))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # it cannot continue there: start again
                self.part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):
                raise _UnreachableError(f"could not fetch {url} (it answered {error.code} {error.reason})") from error
            raise _DroppedError(f"it answered {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            inner = getattr(error, "reason", None)
            raise _DroppedError(reason(inner if isinstance(inner, Exception) else error)) from error

    def _start(self, url: str, reply: http.client.HTTPResponse, offset: int) -> int:
        """Return the position in the file where a response begins; refuse another size of the file, or position."""
        start, total = 0, reply.headers.get("Content-Length", "*")
        if reply.status == 206:
            given = reply.headers.get("Content-Range", "")
            found = re.fullmatch(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15}|\*)", given)
            if found is None or int(found[1]) != offset:
                self.part.unlink(missing_ok=True)
                raise _DroppedError(f"it answered with the bytes {given or 'of an unknown place'}")
            start, total = offset, found[2]
        if total.isdecimal() and len(total) < 16 and int(total) < self.file.size:
            raise _UnreachableError(
                f"could not fetch {url} (it has {int(total):,} bytes, the published file {self.file.size:,})"
            )
        return start

    def _store(self, reply: http.client.HTTPResponse, offset: int) -> None:
        """Write bytes as they come; drop a connection that is slower than the lowest rate."""
        with self.part.open("r+b" if offset else "wb", buffering=0) as file:
            file.seek(offset)
            present = since = offset
            begun = self.clock()
            while present < self.file.size and (block := reply.read1(min(BLOCK, self.file.size - present))):
                file.write(block)
                present += len(block)
                if self.progress is not None:
                    self.progress(self.file.name, present, self.file.size)
                self._check_time()
                if (passed := self.clock() - begun) >= self.limits.answer_seconds:
                    if (rate := (present - since) / passed) < self.limits.lowest_rate:
                        raise _DroppedError(f"it sends {rate:,.0f} bytes per second")
                    begun, since = self.clock(), present
        if present < self.file.size:
            raise _DroppedError(f"the connection ended after {present:,} of {self.file.size:,} bytes")

    def _right(self, path: Path) -> bool:
        return path.stat().st_size == self.file.size and _sha256(path) == self.file.sha256


def _answer(request: urllib.request.Request, seconds: float) -> http.client.HTTPResponse:
    """Return the response's head within a total time: a socket's timeout restarts with every byte."""
    found: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found.put(urllib.request.urlopen(request, timeout=seconds))  # an address of the user's  # nosec B310
        except Exception as error:
            found.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = found.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} seconds") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(2**20):
            digest.update(content)
    return digest.hexdigest()
