"""``labels.npz`` of a run: every label that it was trained and scored with, and how likely each is wrong."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError
from equipoise.evaluation import LabelDoubt
from equipoise.storage.files import load_arrays, write_atomically

LABELS = "labels.npz"
REMEDY = "train again"


@dataclass(frozen=True)
class JudgedLabels:
    """One entry a sample, training samples first.

    Args:
        rows: of the user's data; of a test set of its own, of that.
        test: whether it was held out.
        labels: as they were given, by their place in the classes, (samples,), or 0 and 1, (samples, attributes).
        doubt: how likely each is wrong.
        names: of image files; None for rows of a table or an array.
    """

    rows: NDArray[np.int64]
    test: NDArray[np.bool_]
    labels: NDArray[np.int64]
    doubt: LabelDoubt
    names: tuple[str, ...] | None = None

    def save(self, folder: Path) -> None:
        """Write the file, without any Python object in it: names are one text, with zeros between."""
        arrays: dict[str, Any] = {"rows": self.rows, "test": self.test, "labels": self.labels}
        arrays |= {"suggested": self.doubt.suggested, "error": self.doubt.error.astype(np.float32)}
        if self.names is not None:
            arrays["names"] = np.frombuffer("\0".join(self.names).encode("utf-8"), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_atomically(folder / LABELS, buffer.getvalue())


def read_labels(folder: Path, classes: int, *, multilabel: bool) -> JudgedLabels:
    """Read a run's file, whoever wrote it."""
    path = folder / LABELS
    if not path.exists():
        raise InvalidInputError(
            f"{folder} keeps no judged labels: an earlier version wrote it, or its notes say why; train again by "
            f"`equipoise train --config "
            f"{folder / 'run.json'} --out NEW`."
        )
    stored = load_arrays(path, remedy=REMEDY)
    missing = {"rows", "test", "labels", "suggested", "error"} - set(stored)
    if missing:
        raise InvalidInputError(f"{path} lacks {', '.join(sorted(missing))}; {REMEDY}.")
    found = JudgedLabels(
        rows=stored["rows"],
        test=stored["test"],
        labels=stored["labels"],
        doubt=LabelDoubt(stored["error"], stored["suggested"]),
        names=_names(stored.get("names"), path),
    )
    _check(found, classes, multilabel, path)
    return found


def _names(stored: NDArray[Any] | None, path: Path) -> tuple[str, ...] | None:
    if stored is None:
        return None
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise InvalidInputError(f"the names in {path} are no text; {REMEDY}.")
    return tuple(stored.tobytes().decode("utf-8", errors="replace").split("\0"))


def _check(found: JudgedLabels, classes: int, multilabel: bool, path: Path) -> None:
    samples = len(found.rows) if found.rows.ndim == 1 else -1
    shape = (samples, classes) if multilabel else (samples,)
    highest = 1 if multilabel else classes - 1
    error = found.doubt.error
    fits = found.rows.dtype == np.int64 and found.test.dtype == np.bool_ and error.dtype == np.float32
    fits &= samples > 0 and found.test.shape == (samples,) and error.shape == shape
    fits &= found.names is None or len(found.names) == samples
    for places in (found.labels, found.doubt.suggested):
        fits = fits and places.dtype == np.int64 and places.shape == shape
        fits = fits and bool(((places >= 0) & (places <= highest)).all())
    if not fits:
        raise InvalidInputError(f"the arrays of {path} do not fit each other or the {classes} classes; {REMEDY}.")
