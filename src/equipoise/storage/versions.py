"""Versions of the packages that results depend on."""

import functools
import platform
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from equipoise import __version__

PACKAGES = ("torch", "numpy", "scikit-learn", "imbalanced-learn")
DISTRIBUTIONS = {"sklearn": "scikit-learn", "imblearn": "imbalanced-learn"}
"""Packages that are installed under another name than they are imported by; others are searched for."""


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of those that results depend on."""
    return {"equipoise": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}


@functools.cache
def package_version(package: str) -> str:
    """Return an installed package with its version, or its name alone where no distribution provides it.

    Args:
        package: the name that it is imported by. ``xgboost``, for one, comes with ``xgboost`` or with ``xgboost-cpu``.
    """
    name = DISTRIBUTIONS.get(package, package.replace("_", "-"))
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        found = packages_distributions().get(package)
        return f"{found[0]} {version(found[0])}" if found else package
