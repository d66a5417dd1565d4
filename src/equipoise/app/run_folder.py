"""A run's folder: which files it has, whether it can be begun or gone on with, and how its record is read."""

import itertools
import json
import platform
from pathlib import Path
from typing import Any

from equipoise import __version__
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import DiskFullError, read_plain, remove_abandoned, write_atomically
from equipoise.storage.limits import parse_json
from equipoise.storage.schema import RUN, check

RECORD, SPLIT, MODEL, SOFTMAX = "run.json", "split.json", "model.safetensors", "softmax.safetensors"
FINISHED = "model.json"
"""Written last of all: a folder with it is a finished run."""
SCORES, BEFORE_SCORES, HELD_OUT, GALLERY = "scores.json", "before_scores.json", "held_out.npz", "gallery.json"
REPORT = "report.html"
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
