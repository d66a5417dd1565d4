"""The class mix where a run is used: named, read from a file, or estimated from the samples themselves."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.runs.trained import RunModel
from equipoise.app.runs.unlabelled import STANDARD_INPUT, open_parts
from equipoise.calibration import estimate_prior
from equipoise.errors import InvalidInputError
from equipoise.storage.files import read_plain
from equipoise.storage.limits import parse_json

Mix = NDArray[np.float64]
ESTIMATE = "estimate"
LARGEST_FILE = 2**26
MOST_NUMBERS = 2**23
"""Probabilities that a class mix is estimated from; of more samples, so many drawn at random."""


def class_mix(text: str, model: RunModel) -> Mix:
    """Shares in the order of the classes, (classes,) or (attributes, 2).

    Args:
        text: ``natural``, the training samples' mix; ``balanced``; ``a=0.2,b=0.8``, of any scale; or a ``.json`` file
            with such an object. For several labels the share of each attribute's ones.
    """
    prior = model.calibrated.prior.numpy()
    if text == "natural":
        return prior
    if text == "balanced":
        return np.full(prior.shape, 1 / prior.shape[-1])
    given = _from_file(Path(text)) if text.lower().endswith(".json") else _pairs(text)
    shares = _ordered(given, model)
    if model.multilabel and not bool((shares <= 1).all()):
        raise InvalidInputError("the share of an attribute's ones must lie between 0 and 1; check --prior.")
    return model.calibrated.checked(shares)


def estimated_mix(model: RunModel, source: str, *, seed: int = 0) -> Mix:
    """The class mix of samples without labels, by EM; the source is read once for this alone."""
    if source == STANDARD_INPUT:
        raise InvalidInputError(
            "--prior estimate reads the data twice, and standard input can be read only once; give a file."
        )
    size = len(model.classes)
    kept: NDArray[np.float32] = np.zeros((0, size), dtype=np.float32)
    most, seen = max(1, MOST_NUMBERS // size), 0
    generator = np.random.default_rng(seed)
    with open_parts(model, source) as parts:
        for part in parts:
            if len(part.names) == len(part.broken):
                continue
            found = model.answer(part.x).probabilities
            free = min(len(found), most - len(kept))
            kept = np.concatenate((kept, found[:free])) if free else kept
            seen, rest = seen + free, found[free:]
            # each of the rows seen so far is kept with the same probability
            places = generator.integers(0, seen + 1 + np.arange(len(rest)))
            kept[places[places < most]] = rest[places < most]
            seen += len(rest)
    return mix_of(model, kept)


def mix_of(model: RunModel, probabilities: NDArray[np.float32]) -> Mix:
    """From probabilities at the training samples' mix, as ``RunModel.predict_proba`` gives them."""
    if len(probabilities) == 0:
        raise InvalidInputError("there is no sample to estimate the class mix from; give data with some.")
    given = probabilities.astype(np.float64)
    if model.multilabel:
        given = np.stack((1 - given, given), axis=-1)
    given /= given.sum(-1, keepdims=True)
    return estimate_prior(given, old=model.calibrated.prior.numpy(), smoothing=1)


def named_shares(model: RunModel, mix: Mix) -> dict[str, float]:
    """By class; of the ones of each attribute."""
    own = mix[:, 1] if mix.ndim == 2 else mix
    return dict(zip(model.classes, own.tolist(), strict=True))


def _pairs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in text.split(","):
        name, equals, share = entry.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            equals = ""
        if not equals or name.strip() in found:
            raise InvalidInputError(
                f"--prior must be natural, balanced, estimate, a .json file, or one name=share for each class with "
                f"commas between, got {text!r}."
            )
        found[name.strip()] = number
    return found


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_plain(path, most_bytes=LARGEST_FILE))
    except OSError as error:
        raise InvalidInputError(f"the class mix {path} cannot be read ({error.strerror}); check the path.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the class mix {path} is no JSON ({error}); write an object of shares.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"the class mix {path} must hold an object of shares by class.")
    return found


def _ordered(given: Mapping[str, Any], model: RunModel) -> Mix:
    missing = [name for name in model.classes if name not in given]
    unknown = [name for name in given if name not in model.classes]
    if missing or unknown:
        wrong = f"lacks {missing[0]!r}" if missing else f"names {unknown[0]!r}"
        raise InvalidInputError(
            f"--prior must give each of the run's classes a share, and it {wrong}; the classes are "
            f"{', '.join(model.classes[:10])}{', …' if len(model.classes) > 10 else ''}."
        )
    shares = [given[name] for name in model.classes]
    if not all(type(share) in (int, float) and 0 <= share <= sys.float_info.max for share in shares):
        raise InvalidInputError("the shares of --prior must be numbers, none negative and none beyond all measure.")
    return np.array(shares, dtype=np.float64)
