"""Learning from imbalanced data: Bayesian uncertainty decides how much room each class and sample gets."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.estimator import UncertaintyBalancedClassifier

__version__ = "0.1.0.dev0"
__all__ = ["UncertaintyBalancedClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """The estimator on first use: importing equipoise stays fast."""
    if name == "UncertaintyBalancedClassifier":
        from equipoise.estimator import UncertaintyBalancedClassifier

        return UncertaintyBalancedClassifier
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
