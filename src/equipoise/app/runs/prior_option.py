"""The class prior where a model is used, as given by ``--prior``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions.by_class import ByClass
from equipoise.decisions.situation import prior_of
from equipoise.errors import InvalidInputError
from equipoise.storage.records import read_json


def read_prior(text: str, classes: Sequence[str], calibrated: Calibrated) -> NDArray[np.float64]:
    """Return a class prior in the order of the classes, (classes,) or (attributes, 2).

    Args:
        text: ``natural``, as in training; ``balanced``; ``a=0.2,b=0.8``; or a ``.json`` file with such an object.
            Classes that are not named share the rest as in training. With several labels, the share of each attribute's
            ones.
        classes: names of the classes, or of the attributes.
        calibrated: its class prior is ``natural``.
    """
    prior = calibrated.prior.numpy()
    if text == "natural":
        return prior
    if text == "balanced":
        return np.full(prior.shape, 1 / prior.shape[-1])
    if text.lower().endswith(".json"):
        remedy = "write an object of shares by class"
        given: dict[str, float] = read_json(Path(text), dict[str, float], remedy=remedy, most_bytes=2**26)
    else:
        given = _pairs(text)
    return prior_of(ByClass(given, "--prior"), classes, prior, name="--prior")


def _pairs(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = entry.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            number = None
        if number is None or "=" not in entry or name.strip() in found:
            raise InvalidInputError(
                f"--prior must be natural, balanced, estimate, a .json file, or name=share with "
                f"commas between, got {text!r}."
            )
        found[name.strip()] = number
    return found
