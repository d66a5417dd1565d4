"""Learning from imbalanced data: Bayesian uncertainty decides how much margin each class and sample gets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.data.encoder import TableEncoder
    from equipoise.decisions import Balanced, Costs, FScore, Natural, PrecisionAtLeast, RecallAtLeast, ReviewBudget
    from equipoise.estimators.balanced import BalancedClassifier
    from equipoise.estimators.network import UncertaintyBalancedClassifier

__version__ = "0.1.0"
__all__ = [
    "Balanced",
    "BalancedClassifier",
    "Costs",
    "FScore",
    "Natural",
    "PrecisionAtLeast",
    "RecallAtLeast",
    "ReviewBudget",
    "TableEncoder",
    "UncertaintyBalancedClassifier",
    "__version__",
]

HOMES = {
    "BalancedClassifier": "equipoise.estimators.balanced",
    "TableEncoder": "equipoise.data.encoder",
    "UncertaintyBalancedClassifier": "equipoise.estimators.network",
}
"""Module of each public name; all others are decision rules."""


def __dir__() -> list[str]:
    """Return the names in the module, including those that are not imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import equipoise`` stays fast."""
    if name in __all__:
        return getattr(import_module(HOMES.get(name, "equipoise.decisions")), name)
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
