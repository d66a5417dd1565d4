"""Learning from imbalanced data: Bayesian uncertainty decides how much margin each class and sample gets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.data.encoder import TableEncoder
    from equipoise.estimators.balanced import BalancedClassifier
    from equipoise.estimators.network import UncertaintyBalancedClassifier

__version__ = "0.1.0"
__all__ = ["BalancedClassifier", "TableEncoder", "UncertaintyBalancedClassifier", "__version__"]

HOMES = {
    "BalancedClassifier": "equipoise.estimators.balanced",
    "TableEncoder": "equipoise.data.encoder",
    "UncertaintyBalancedClassifier": "equipoise.estimators.network",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import equipoise`` stays fast."""
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
