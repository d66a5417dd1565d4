"""The class prior where a model is used, as given by ``--prior``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.app.runs.decision_option import pairs
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.decisions.by_class import ByClass
from equipoise.decisions.situation import prior_of
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
        given = pairs(text, "--prior", otherwise="natural, balanced, estimate, a .json file, or ")
    return prior_of(ByClass(given, "--prior"), classes, prior, name="--prior")
