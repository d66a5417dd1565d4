"""Names of losses, backbones and choices, known before torch is: a misspelt one is refused at once."""

import ast
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal

from equipoise.errors import InvalidInputError, did_you_mean

Precision = Literal["no", "fp16", "bf16"]
MarginForm = Literal["angular", "additive"]
Placement = Literal["target", "all"]
SampleLevel = Literal["none", "expected", "complement", "printed", "mixing"]
MarginRule = Literal["log", "paper"]
MarginSource = Literal["uncertainty", "counts", "corrected", "out_of_fold"]
TIMM, HUGGING_FACE = "timm:", "hf:"
"""Prefixes of the names of timm's networks, and of the names or folders of vision models of transformers."""


def loss_names() -> Collection[str]:
    """Return the names in ``LOSSES``."""
    return family_names("equipoise.losses.registry", "LOSSES")


def backbone_names() -> Collection[str]:
    """Return the names in ``BACKBONES``."""
    return family_names("equipoise.models.backbones", "BACKBONES")


def model_names() -> Collection[str]:
    """Return the names in ``FAMILIES``."""
    return family_names("equipoise.estimators.families", "FAMILIES")


def column_kind_names() -> Collection[str]:
    """Return the names in ``COLUMN_KINDS``."""
    return family_names("equipoise.data.columns.column_kinds", "COLUMN_KINDS")


def method_names() -> Collection[str]:
    """Return the names in ``METHODS``, which has every loss."""
    return list(dict.fromkeys([*family_names("equipoise.app.compare.methods", "METHODS"), *loss_names()]))


def family_names(module: str, family: str) -> Collection[str]:
    """Return the keys of the dict ``family`` in a module without importing it.

    If the module is already imported, its dict is read directly, including entries that users added. A dict that is not
    written as a literal has to be imported.
    """
    found: Collection[str] | None = getattr(sys.modules.get(module), family, None)
    if found is None:
        found = _written_names(module, family)
    return getattr(import_module(module), family) if found is None else found


def check_methods(chosen: Sequence[str], known: Collection[str]) -> None:
    """Raise an error for unknown names and for an empty list."""
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        got = ", ".join(map(repr, unknown)) or "none"
        hint = did_you_mean(unknown[0], known) if unknown else "."
        raise InvalidInputError(f"methods must be some of {', '.join(known)}, got {got}{hint}")


def _written_names(module: str, family: str) -> list[str] | None:
    source = Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    for statement in ast.parse(source.read_bytes()).body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys)) if name == family:
                names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                return names if len(names) == len(keys) else None
    return None
