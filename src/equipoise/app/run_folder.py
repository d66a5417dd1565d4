"""A run's folder: which files it has, whether it can be begun or gone on with, and how its record is read."""

import io
import itertools
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.evaluation import LabelDoubt
from equipoise.storage.files import DiskFullError, load_arrays, read_plain, remove_abandoned, write_atomically
from equipoise.storage.limits import parse_json
from equipoise.storage.schema import RUN, check

RECORD, SPLIT, MODEL, SOFTMAX = "run.json", "split.json", "model.safetensors", "softmax.safetensors"
FINISHED = "model.json"
"""Written last of all: a folder with it is a finished run."""
SCORES, BEFORE_SCORES, HELD_OUT, GALLERY = "scores.json", "before_scores.json", "held_out.npz", "gallery.json"
REPORT, LABELS = "report.html", "labels.npz"
REMEDY = "train again"
LARGEST_RECORD = 2**26
"""Bytes of a ``run.json`` that are read at most; a foreign file must not fill the memory."""


def new_folder(data: str) -> Path:
    """``runs/NAME``, or with a number behind it where that is taken.

    Args:
        data: a path, whose last part without its suffix is NAME.

    >>> new_folder("there/patients.csv").as_posix()
    'runs/patients'
    """
    name = Path(data).name.split(".")[0] or "data"
    candidates = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def open_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> dict[str, Any]:
    """The start of ``run.json``: of a new run, or of the one to go on with."""
    if folder.is_dir():
        remove_abandoned(folder)  # of an attempt that was killed while it wrote
    known = check_folder(folder, options, resume=resume)
    return {"options": options, "versions": versions()} if known is None else known


def check_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> dict[str, Any] | None:
    """The record of the run to go on with, None for a new one; a folder that can be neither is refused."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / RECORD).is_file():
        raise InvalidInputError(f"{folder} exists and holds no run; choose another folder with --out.")
    if (folder / FINISHED).exists():
        rest = "choose another folder with --out"
        if not (folder / REPORT).exists():
            rest = f"write its report by `equipoise report {folder}`"
        raise InvalidInputError(f"{folder} holds a finished run; {rest}.")
    if not resume:
        raise InvalidInputError(f"{folder} holds an unfinished run; pass --resume to go on, or another --out.")
    known = read_record(folder)
    before = known["options"]
    for name, value in options.items():
        if before.get(name) != value:
            raise InvalidStateError(
                f"{folder} was started with {name} = {before.get(name)!r}, and now it is {value!r}; give it as it was, "
                "or choose another folder with --out."
            )
    return known


def read_record(folder: Path) -> dict[str, Any]:
    """``run.json``, whoever wrote it: a JSON object with ``options``."""
    path = folder / RECORD
    if not path.is_file():
        raise InvalidInputError(f"{folder} holds no run; give a folder that `equipoise train` has written.")
    try:
        record = parse_json(read_plain(path, most_bytes=LARGEST_RECORD))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({error.strerror}); check the folder.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidStateError(f"{path} is damaged ({reason}); train again into another folder.") from error
    if not isinstance(record, dict) or not isinstance(record.get("options"), dict):
        raise InvalidStateError(f"{path} is damaged (it holds no options); train again into another folder.")
    check(record, RUN, path, remedy="train again into another folder")
    return record


def finished_record(folder: Path) -> dict[str, Any]:
    """``run.json`` of a run that has its model."""
    record = read_record(folder)
    if not (folder / FINISHED).is_file():
        raise InvalidInputError(
            f"the run in {folder} is not finished; go on by `equipoise train --resume --out {folder}`."
        )
    return record


def write_json(path: Path, content: Any) -> None:
    """Plain values into the run's folder, which is made where it is missing; whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode())
    except DiskFullError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path.parent} cannot hold a run ({error}); choose a folder to write in.") from error


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    import numpy as np
    import sklearn
    import torch

    return {
        "equipoise": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


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


def is_main() -> bool:
    """Whether this process writes the run's folder and speaks for all of them; one that is alone does."""
    return not are_several() or os.environ.get("RANK", "0") == "0"


def are_several() -> bool:
    """A variable alone may be another program's; both launchers set these two."""
    return "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
