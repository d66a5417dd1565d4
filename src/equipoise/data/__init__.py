"""Sources of samples: arrays, tables, image folders, the paper's data sets, and imbalance protocols."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.data.samples import Samples
    from equipoise.data.sources import open_data

__all__ = ["Samples", "open_data"]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that commands check their options before numpy is imported."""
    if name not in __all__:
        raise AttributeError(f"module 'equipoise.data' has no attribute {name!r}")
    return getattr(import_module(f"equipoise.data.{'samples' if name == 'Samples' else 'sources'}"), name)
