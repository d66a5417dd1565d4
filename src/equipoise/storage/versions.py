"""Versions of the packages that results depend on."""

import functools
import platform
from importlib.metadata import version

from equipoise import __version__

PACKAGES = ("torch", "numpy", "scikit-learn", "imbalanced-learn")


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of those that results depend on."""
    return {"equipoise": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}
