"""A run's folder: the records of its files, and how it is created, written and read.

A folder to read may be untrusted: files are data only, nothing in them is executed, and what does not fit is refused
in one sentence.
"""

import itertools
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import remove_abandoned, write_atomically, writing_into
from equipoise.storage.records import AtLeastOne, Count, Counts, MaybeNumbers, Name, Names, Text, read_json
from equipoise.storage.run_files import FINISHED, MEMBERS, RECORD, REPORT
from equipoise.storage.versions import versions

REMEDY = "train again"
LARGEST_RECORD, LARGEST_FILE = 2**26, 2**28
"""Largest size of ``run.json`` and of any other JSON, so that an untrusted file cannot fill the memory."""


class BackboneRecord(Struct, frozen=True, omit_defaults=True):
    """The backbone for images, in ``run.json``; ``config`` is that of a model of transformers."""

    name: Name
    channels: Literal[1, 3]
    size: tuple[Annotated[int, Meta(ge=1, le=4096)], Annotated[int, Meta(ge=1, le=4096)]]
    frozen: bool = False
    config: dict[str, Any] | None = None


class InputRecord(Struct, frozen=True, omit_defaults=True):
    """How samples are preprocessed, in ``run.json``."""

    kind: Literal["table", "images", "features"]
    encoder: dict[str, Any] | None = None
    backbone: BackboneRecord | None = None


class CalibrationRecord(Struct, frozen=True):
    """The samples that probabilities were calibrated on, in ``run.json``."""

    source: Literal["held_out", "held_back", "out_of_fold", "nothing"]
    samples: AtLeastOne
    folds: Count
    level: Annotated[float, Meta(ge=0.001, le=0.999)] | None = None
    never_ruled_out: Names = []


class BlendPart(Struct, frozen=True):
    """A classifier of a blend and its weight, in ``run.json``."""

    name: Name
    weight: Annotated[float, Meta(ge=0, le=1)]
    members: AtLeastOne


class RunRecord(Struct, frozen=True, kw_only=True):
    """``run.json``: everything needed to repeat a run; an unfinished one needs only the options.

    Args:
        options: the command's options; :class:`~equipoise.app.runs.RunOptions` checks them.
        training: the identity of the training, written by the training itself.
        class_uncertainty, margins: one per class, of an attribute's ones; None for a method without them.
        blend: the classifiers of a blend; None for a network.
        decision: the rule that answers, with its thresholds, see :class:`~equipoise.decisions.Chosen`; None for the
            default.
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
    blend: list[BlendPart] | None = None
    notes: list[Text] = []
    seconds: Annotated[float, Meta(ge=0)] | None = None
    calibration: CalibrationRecord | None = None
    decision: dict[str, Any] | None = None
    input: InputRecord | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Training settings; empty before training has started."""
        found = self.training.get("settings") if isinstance(self.training, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def target(self) -> str | None:
        """The column that the run predicts."""
        target = self.options.get("target")
        return target if isinstance(target, str) else None


class GalleryItem(Struct, frozen=True, omit_defaults=True):
    """A sample worth looking at, in ``gallery.json``."""

    row: int
    name: Text
    true: Text
    predicted: Text
    probability: float
    uncertainty: float
    thumbnail: str = ""  # base64 of a JPEG
    columns: dict[str, Text] = {}
    texts: dict[str, Text] = {}  # of columns of free text


class SpeakingWords(Struct, frozen=True):
    """Words of a column of free text that speak for a class, the strongest first."""

    column: Text
    label: Text
    words: list[Text]


class Gallery(Struct, frozen=True):
    """``gallery.json``: the most uncertain samples, the confidently wrong ones, and words that speak for classes."""

    kind: Literal["table", "images"] = "table"
    uncertain: list[GalleryItem] = []
    wrong: list[GalleryItem] = []
    words: list[SpeakingWords] = []


def new_folder(data: str) -> Path:
    """Return ``runs/NAME``, with a number appended if that exists.

    Args:
        data: a path, whose last part without its suffix is NAME.

    >>> new_folder("there/patients.csv").as_posix()
    'runs/patients'
    """
    name = Path(data).name.split(".")[0] or "data"
    candidates = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def open_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> RunRecord:
    """Return the record to start with: a new one, or that of the run to resume."""
    if folder.is_dir():
        for part in (folder, folder / MEMBERS):
            remove_abandoned(part)  # left by an attempt that was killed while writing
    known = check_folder(folder, options, resume=resume)
    return RunRecord(options=options, versions=versions()) if known is None else known


def check_folder(folder: Path, options: dict[str, Any], *, resume: bool) -> RunRecord | None:
    """Return the record of the run to resume, or None for a new run; refuse a folder that can be neither."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / RECORD).is_file():
        raise InvalidInputError(f"{folder} exists and is not a run; choose another folder with --out.")
    if (folder / FINISHED).exists():
        rest = "choose another folder with --out"
        if not (folder / REPORT).exists():
            rest = f"write its report with `equipoise report {folder}`"
        raise InvalidInputError(f"{folder} holds a finished run; {rest}.")
    if not resume:
        raise InvalidInputError(f"{folder} holds an unfinished run; pass --resume to continue, or another --out.")
    known = read_run_record(folder)
    for name, value in options.items():
        before = known.options.get(name)
        if before != value:
            raise InvalidStateError(
                f"{folder} was started with {name} = {before!r}, and now it is {value!r}; use the same "
                "value, or choose another folder with --out."
            )
    return known


def check_unused(folder: Path) -> None:
    """Raise an error for a folder that is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InvalidInputError(f"{folder} exists and is not empty; choose another folder with --out.")


def read_run_record(folder: Path) -> RunRecord:
    """Read ``run.json``."""
    if not (folder / RECORD).is_file():
        raise InvalidInputError(f"{folder} is not a run; give a folder that `equipoise train` has written.")
    return read_json(folder / RECORD, RunRecord, remedy="train again into another folder", most_bytes=LARGEST_RECORD)


def finished_record(folder: Path) -> RunRecord:
    """Read ``run.json`` of a finished run, which has its model."""
    record = read_run_record(folder)
    if not (folder / FINISHED).is_file():
        raise InvalidInputError(
            f"the run in {folder} is not finished; resume with `equipoise train --resume --out {folder}`."
        )
    return record


def write_json(path: Path, content: Any) -> None:
    """Write a record or plain values into the run's folder, creating it if missing; atomically."""
    with writing_into(path.parent, "a run"):
        write_atomically(path, json.dumps(msgspec.to_builtins(content), indent=1, allow_nan=False).encode())


def is_main() -> bool:
    """Return whether this process writes the run's folder and reports progress; of several, only the first does."""
    return not are_several() or os.environ.get("RANK", "0") == "0"


def are_several() -> bool:
    """Return whether torchrun or ``accelerate launch`` started several processes; both set these two variables."""
    return "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_restarted() -> bool:
    """Return whether ``torchrun --max-restarts`` started this process again after one of its group ended."""
    return are_several() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
