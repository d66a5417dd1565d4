"""A run's folder: the table of its files, the record of each, how it is begun, written and read.

Anyone may have written a folder that is read: files are data only, nothing in them is executed, and what does not fit
is refused in one sentence.
"""

import functools
import itertools
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from equipoise import __version__
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import (
    DiskFullError,
    remove_abandoned,
    write_atomically,
)
from equipoise.storage.records import (
    AtLeastOne,
    Count,
    Counts,
    MaybeNumbers,
    Name,
    Names,
    Text,
    read_json,
)

RECORD, SPLIT, MODEL, SOFTMAX = "run.json", "split.json", "model.safetensors", "softmax.safetensors"
FINISHED = "model.json"
"""Written last of all: a folder with it is a finished run."""
EXTRACTOR = "extractor.safetensors"
SCORES, BEFORE_SCORES, HELD_OUT, GALLERY = "scores.json", "before_scores.json", "held_out.npz", "gallery.json"
METRICS, LABELS, REPORT = "metrics.jsonl", "labels.npz", "report.html"
REMEDY = "train again"
LARGEST_RECORD, LARGEST_FILE = 2**26, 2**28
"""Bytes of a ``run.json`` and of any other JSON that are read at most; a foreign file must not fill the memory."""


class BackboneRecord(Struct, frozen=True):
    """Of ``run.json``: the network that images go through."""

    name: Name
    channels: Literal[1, 3]
    size: tuple[Annotated[int, Meta(ge=1, le=4096)], Annotated[int, Meta(ge=1, le=4096)]]
    frozen: bool = False


class InputRecord(Struct, frozen=True, omit_defaults=True):
    """Of ``run.json``: how samples become what the network takes."""

    kind: Literal["table", "images", "features"]
    encoder: dict[str, Any] | None = None
    backbone: BackboneRecord | None = None


class CalibrationRecord(Struct, frozen=True):
    """Of ``run.json``: what the probabilities were calibrated on."""

    source: Literal["held_out", "held_back", "nothing"]
    samples: AtLeastOne
    folds: Count
    level: Annotated[float, Meta(ge=0.001, le=0.999)] | None = None
    never_ruled_out: Names = []


class RunRecord(Struct, frozen=True, kw_only=True):
    """``run.json``: everything needed to repeat a run; of an unfinished one only the options need be there.

    Args:
        options: what the command was told; :class:`~equipoise.app.runs.TrainOptions` checks them.
        training: what makes two trainings the same, written by the training itself.
        class_uncertainty, margins: one a class, of an attribute's ones; None for a method without them.
    """

    options: dict[str, Any]
    versions: dict[str, Any] = {}
    command: Text = ""
    training: dict[str, Any] | UnsetType = UNSET
    classes: Names = []
    attributes: Names = []
    train_counts: Counts = []
    class_uncertainty: MaybeNumbers | None = None
    margins: MaybeNumbers | None = None
    notes: list[Text] = []
    seconds: Annotated[float, Meta(ge=0)] | None = None
    calibration: CalibrationRecord | None = None
    input: InputRecord | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Of the training, as far as it was begun."""
        found = self.training.get("settings") if isinstance(self.training, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def target(self) -> str | None:
        """The column that the run was told to predict."""
        target = self.options.get("target")
        return target if isinstance(target, str) else None


class GalleryItem(Struct, frozen=True, omit_defaults=True):
    """Of ``gallery.json``: a sample that a person wants to see."""

    row: int
    name: Text
    true: Text
    predicted: Text
    probability: float
    uncertainty: float
    thumbnail: str = ""  # base64 of a JPEG
    columns: dict[str, Text] = {}


class Gallery(Struct, frozen=True):
    """``gallery.json``: the most uncertain samples, and the confidently wrong ones."""

    kind: Literal["table", "images"] = "table"
    uncertain: list[GalleryItem] = []
    wrong: list[GalleryItem] = []


def new_folder(data: str) -> Path:
    """Return ``runs/NAME``, with a number behind it where that is taken.

    Args:
        data: a path, whose last part without its suffix is NAME.

    >>> new_folder("there/patients.csv").as_posix()
    'runs/patients'
    """
    name = Path(data).name.split(".")[0] or "data"
    candidates = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def open_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> RunRecord:
    """Return the start of ``run.json``: of a new run, or of the one to go on with."""
    if folder.is_dir():
        remove_abandoned(folder)  # of an attempt that was killed while it wrote
    known = check_folder(folder, options, resume=resume)
    return RunRecord(options=options, versions=versions()) if known is None else known


def check_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> RunRecord | None:
    """Return the record of the run to go on with, None for a new one; refuse a folder that can be neither."""
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
    known = read_run_record(folder)
    before = known.options
    for name, value in options.items():
        if before.get(name) != value:
            raise InvalidStateError(
                f"{folder} was started with {name} = {before.get(name)!r}, and now it is {value!r}; give it as it was, "
                "or choose another folder with --out."
            )
    return known


def read_run_record(folder: Path) -> RunRecord:
    """Read ``run.json``."""
    if not (folder / RECORD).is_file():
        raise InvalidInputError(f"{folder} holds no run; give a folder that `equipoise train` has written.")
    return read_json(folder / RECORD, RunRecord, remedy="train again into another folder", most_bytes=LARGEST_RECORD)


def finished_record(folder: Path) -> RunRecord:
    """Read ``run.json`` of a run that has its model."""
    record = read_run_record(folder)
    if not (folder / FINISHED).is_file():
        raise InvalidInputError(
            f"the run in {folder} is not finished; resume with `equipoise train --resume --out {folder}`."
        )
    return record


def write_json(path: Path, content: Any) -> None:
    """Write a record or plain values into the run's folder, which is made where it is missing; whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(msgspec.to_builtins(content), indent=1, allow_nan=False).encode())
    except DiskFullError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path.parent} cannot hold a run ({error}); choose a folder to write in.") from error


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of what figures depend on."""
    names = ("torch", "numpy", "scikit-learn", "imbalanced-learn")
    return {"equipoise": __version__, "python": platform.python_version()} | {name: version(name) for name in names}


def is_main() -> bool:
    """Whether this process writes the run's folder and speaks for all that train it together; a single one does."""
    return not are_several() or os.environ.get("RANK", "0") == "0"


def are_several() -> bool:
    """Whether torchrun or ``accelerate launch`` started several processes; both set these two variables."""
    return "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
