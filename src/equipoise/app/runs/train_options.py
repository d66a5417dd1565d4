"""What a training command can be told, typed or read from a file: TOML, or the ``run.json`` of another run."""

import difflib
import sys
import types
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from equipoise.app.run_folder import LARGEST_RECORD
from equipoise.errors import InvalidInputError
from equipoise.names import TIMM, Precision, backbone_names, loss_names
from equipoise.storage.files import read_plain
from equipoise.storage.limits import parse_json

LARGEST_SEED = 2**32 - 1
OUT = "out"
"""The one key beside the options: the run's folder."""
MOST = 10**300
LONGEST_TOML, MOST_DOTS = 2**16, 100
"""Letters of a file of options, and dots in a line of it: a key's parts take memory by the square of their number."""
NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class TrainOptions:
    """Everything ``equipoise train`` can be told; None is chosen from the data.

    Args:
        data: a table (CSV, Parquet, npz), an image folder, an archive of one, or the name of a known set.
        target: the column of a table that holds the label; several, with commas between, are 0/1 labels.
        labels: a table of ``file,label`` for a folder of images that are not sorted into classes.
        group: the column whose equal values must stay on one side of the split, a patient or a person.
        test: data to score on; None holds out ``test_share`` of the samples, or takes the official test part.
        test_labels: as ``labels``, for the images of ``test``; None takes ``labels``.
        test_share: in (0, 1).
        method: a name of ``equipoise.losses.LOSSES``.
        backbone: for images, a name of ``equipoise.models.BACKBONES`` or ``timm:NAME``.
        weights: a file of pretrained weights for it.
        freeze: use the backbone as it is and train two layers on its features; None does so for VGG16 with weights.
        size: the side of the square that images are brought to.
        epochs: how often all samples are visited; None takes as many optimiser steps as their number needs.
        batch_size: samples of a step; None chooses from their number.
        learning_rate: of AdamW, decaying to 0 along a cosine.
        dropout: share dropped between the hidden layers and in front of the class vectors.
        precision: ``bf16`` or ``fp16`` for mixed precision on a GPU.
        augment: vary images at random while training: crop and colour, and a flip of colour images.
        seed: of the split, the weights and the order of the samples.

    >>> TrainOptions("patients.csv", target="died", seed=1).as_dict()["method"]
    'uncertainty_margin'
    """

    data: str
    target: str | None = None
    labels: str | None = None
    group: str | None = None
    test: str | None = None
    test_labels: str | None = None
    test_share: float = 0.2
    method: str = "uncertainty_margin"
    backbone: str | None = None
    weights: str | None = None
    freeze: bool | None = None
    size: int | None = None
    augment: bool = True
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-3
    dropout: float = 0.5
    precision: str = "no"
    seed: int = 0

    def __post_init__(self) -> None:
        """What would only be found after the data are read, or never."""
        if not 0 < self.test_share < 1:
            raise InvalidInputError(f"--test-share must lie between 0 and 1, got {self.test_share}.")
        for name, least in (("epochs", 1), ("batch_size", 1), ("size", 8)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidInputError(f"--{name.replace('_', '-')} must be at least {least}, got {value}.")
        if self.method not in loss_names():
            raise InvalidInputError(f"--method must be one of {', '.join(loss_names())}, got {self.method!r}.")
        if self.backbone is not None and not self.backbone.startswith(TIMM) and self.backbone not in backbone_names():
            names = ", ".join(backbone_names())
            raise InvalidInputError(f"--backbone must be one of {names} or {TIMM}NAME, got {self.backbone!r}.")
        if self.precision not in get_args(Precision):
            raise InvalidInputError(f"--precision must be {', '.join(get_args(Precision))}, got {self.precision!r}.")
        if self.test_labels is not None and self.test is None:
            raise InvalidInputError("--test-labels is of the images of --test; give both, or leave it out.")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InvalidInputError(f"--seed must lie between 0 and {LARGEST_SEED}, got {self.seed}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``run.json``."""
        return asdict(self)


def read_config(path: Path) -> dict[str, Any]:
    """Options by name, each of its right type; dashes in names count as underscores."""
    content, known = _content(path), {field.name for field in fields(TrainOptions)}
    if isinstance(content.get("options"), dict) and path.suffix.lower() == ".json":  # a run's own record
        content = content["options"]
    else:
        known |= {OUT}  # a run's record names no folder, and one of a stranger must not
    types_of = get_type_hints(TrainOptions) | {OUT: str}
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}."
            raise InvalidInputError(f"{path} has an unknown option {key!r}; {hint}")
        found[name] = _checked(value, types_of[name], f"{path}: {key}")
    return found


def _content(path: Path) -> dict[str, Any]:
    try:
        text = read_plain(path, most_bytes=LARGEST_RECORD).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InvalidInputError(f"the options in {path} cannot be read ({reason}); check the path.") from error
    try:
        content = parse_json(text) if path.suffix.lower() == ".json" else _toml(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidInputError(f"{path} is no valid TOML or JSON ({reason}); correct it.") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} must hold options by name; write an object in braces.")
    return content


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if len(text) > LONGEST_TOML:
        raise ValueError(f"it has {len(text):,} letters, more than the {LONGEST_TOML:,} that are read")
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MOST_DOTS} dots")
    return tomllib.loads(text)


def _checked(value: Any, kind: Any, where: str) -> Any:
    """The value, if it is of its option's type; a whole number is a number too."""
    several = get_origin(kind) in (Union, types.UnionType)
    allowed = get_args(kind) if several else (kind,)
    if value is None and types.NoneType in allowed:
        return None
    wanted = next(one for one in allowed if one is not types.NoneType)
    if isinstance(value, int) and abs(value) >= MOST:  # past what a float holds, and what Python prints
        raise InvalidInputError(f"{where} is a number of more than 300 digits; write a smaller one.")
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        nested = isinstance(value, dict | list)  # may hold what Python cannot print
        found = f"a {'table' if isinstance(value, dict) else 'list'}" if nested else repr(value)
        raise InvalidInputError(f"{where} must be {NAMES[wanted]}, got {found}.")
    return value
