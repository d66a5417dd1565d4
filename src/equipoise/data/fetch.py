"""The public data sets, fetched over HTTP: resumed where a connection dropped, kept only if the checksum is right."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from equipoise.errors import EquipoiseError, InvalidInputError

CHUNK = 2**16
TIMEOUT_SECONDS = 30.0

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes there, and the bytes in all."""


class FetchError(EquipoiseError, OSError):
    """A file could not be fetched; what had arrived is kept as NAME.part and used by the next attempt."""


@dataclass(frozen=True)
class PublicFile:
    """A published file: its name, its size in bytes, and the SHA-256 of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublicSet:
    """Where a data set is published, each place tried in turn, and what it consists of."""

    places: tuple[str, ...]
    files: tuple[PublicFile, ...]


PUBLIC: dict[str, PublicSet] = {
    "mnist": PublicSet(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            PublicFile(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "fashion_mnist": PublicSet(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (
            PublicFile(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
    ),
    "cifar10": PublicSet(
        ("https://www.cs.toronto.edu/~kriz/",),
        (
            PublicFile(
                "cifar-10-python.tar.gz",
                170_498_071,
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
    ),
}
"""The sets with lasting public files of known checksum; the others ask for a registration or a form."""


def fetch(
    name: str,
    folder: Path,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
    attempts: int = 4,
    pause: float = 1.0,
) -> list[Path]:
    """Fetch a public data set's files into a folder. A file that is there already, and right, is left as it is.

    Args:
        name: one of :data:`PUBLIC`.
        folder: where the files go; made when it is not there.
        mirror: the address of a folder with the same files, instead of the published places.
        progress: called as bytes arrive.
        attempts: how often in a row a connection may fail before a place is given up.
        pause: seconds before the second attempt, doubled for each further one.
    """
    key = name.lower().replace("-", "_")
    if key not in PUBLIC:
        raise InvalidInputError(f"{name!r} cannot be fetched, only {', '.join(sorted(PUBLIC))}; see its own web page.")
    if attempts < 1 or pause < 0:
        raise InvalidInputError(f"attempts must be 1 or more and pause 0 or more, got {attempts} and {pause}.")
    if mirror is not None and urlsplit(mirror).scheme not in ("http", "https"):
        raise InvalidInputError(f"mirror must be an http or https address, got {mirror!r}.")
    public = PUBLIC[key]
    places = public.places if mirror is None else (mirror,)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_Download(file, folder, progress, attempts, pause).from_any(places) for file in public.files]
    except _UnreachableError as error:
        files = ", ".join(file.name for file in public.files)
        raise FetchError(f"{error}; give --mirror URL or put the files {files} into {folder} yourself.") from error
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(f"{folder} cannot be written: {error.strerror or error}; give another folder.") from error


class _UnreachableError(Exception):
    """No place gave the file; the message has no full stop yet."""


class _DroppedError(Exception):
    """The connection failed; another attempt may succeed."""


@dataclass(frozen=True)
class _Download:
    """One file on its way into a folder."""

    file: PublicFile
    folder: Path
    progress: Progress | None
    attempts: int
    pause: float

    @property
    def target(self) -> Path:
        return self.folder / self.file.name

    @property
    def part(self) -> Path:
        return self.folder / f"{self.file.name}.part"

    def from_any(self, places: Sequence[str]) -> Path:
        """The file, from the first place that gives it."""
        if self.target.exists():
            if not self._right(self.target):
                raise FetchError(f"{self.target} is there but is not the published file; move it away and fetch again.")
            return self.target
        failures = []
        for place in places:
            url = place.rstrip("/") + "/" + self.file.name
            try:
                self._from(url)
            except _UnreachableError as error:
                failures.append(str(error))
                continue
            self.part.rename(self.target)
            return self.target
        raise _UnreachableError("; ".join(failures))

    def _from(self, url: str) -> None:
        """Fetch the part file whole and right from one address."""
        resumed = self._present() > 0
        self._receive(url)
        if not self._right(self.part) and resumed:  # what was there may stem from elsewhere
            self.part.unlink()
            self._receive(url)
        if not self._right(self.part):
            found = _sha256(self.part)
            self.part.unlink()
            raise FetchError(
                f"{url} has the checksum {found[:12]}…, not the published {self.file.sha256[:12]}…; what came was "
                "removed: give another --mirror."
            )

    def _receive(self, url: str) -> None:
        """All bytes of the file, resuming after every dropped connection."""
        failed = 0
        while (before := self._present()) < self.file.size:
            try:
                self._connect(url, before)
            except _DroppedError as error:
                failed = 1 if self._present() - before > CHUNK else failed + 1
                if failed >= self.attempts:
                    raise _UnreachableError(f"could not fetch {url} ({error})") from error
                time.sleep(self.pause * 2 ** (failed - 1))

    def _present(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _connect(self, url: str, offset: int) -> None:
        """One connection: append what it gives, or start anew where the server cannot continue."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "equipoise"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as reply:
                if reply.status == 206 and reply.headers.get("Content-Range") != self._range(offset):
                    self.part.unlink()  # another file, or another place in it: start anew
                    raise _DroppedError(f"it answered with the bytes {reply.headers.get('Content-Range')}")
                self._store(reply, offset if reply.status == 206 else 0)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # it cannot continue there: start anew
                self.part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):
                raise _UnreachableError(f"could not fetch {url} (it answered {error.code} {error.reason})") from error
            raise _DroppedError(f"it answered {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            raise _DroppedError(_reason(error)) from error

    def _range(self, offset: int) -> str:
        return f"bytes {offset}-{self.file.size - 1}/{self.file.size}"

    def _store(self, reply: http.client.HTTPResponse, offset: int) -> None:
        with self.part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            present = offset
            while present < self.file.size and (content := reply.read(min(CHUNK, self.file.size - present))):
                file.write(content)
                present += len(content)
                if self.progress is not None:
                    self.progress(self.file.name, present, self.file.size)
        if present < self.file.size:
            raise _DroppedError(f"the connection ended after {present:,} of {self.file.size:,} bytes")

    def _right(self, path: Path) -> bool:
        return path.stat().st_size == self.file.size and _sha256(path) == self.file.sha256


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(2**20):
            digest.update(content)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(error).__name__).rstrip(".")
