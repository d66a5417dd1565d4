"""A method of a comparison: how its estimator is built, and what it does about imbalance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from equipoise.storage.versions import package_version

Hyperparameters = Mapping[str, Any]
Build = Callable[..., Any]
"""(seed, hyperparameters, options) -> an unfitted estimator; its ``predict_proba`` is used where it has one."""
Family = Literal["baseline", "uncertainty", "loss", "margin", "resampling", "svm", "table", "own"]
Remedy = Literal["none", "threshold", "training"]


@dataclass(frozen=True)
class Method:
    """A method of a comparison.

    Args:
        label: its name in a table.
        family: what kind of method it is; ``"own"`` for an estimator of one's own.
        build: makes the estimator for a seed, a setting of the grid and the options that all methods share.
        grid: hyperparameters for tuning, the published ones, ``{}``, first; only that where there are none.
        variant: of the paper's method or of a margin head, for research; ``compare`` leaves these out unless asked.
        description: distinguishes it, in a file of results, from another method of the same name.
        remedy: ``"none"`` for a model that is trained and used as if classes were balanced, ``"threshold"`` for the
            same with only its decision moved to balanced classes, ``"training"`` for every other.
        model: what is trained, without the remedy; methods of the same model take the same time.
        package: what it needs beside equipoise; None where nothing more.
        several_labels: whether it takes several labels per sample.
        growth: exponent with which the time of a fit grows with the rows, for methods without a network.

    >>> from equipoise.app.compare import METHODS, FitOptions
    >>> METHODS["focal"].family, METHODS["focal"].grid
    ('loss', ({}, {'gamma': 0.5}, {'gamma': 1.0}, {'gamma': 5.0}))
    >>> METHODS["smote"].build(0, {"k_neighbors": 3}, FitOptions())["network"].method
    'cross_entropy'
    >>> METHODS["smote"].several_labels, METHODS["smote"].network_only
    (False, False)
    >>> METHODS["boosting_prior_shift"].name_in_text, METHODS["boosting_prior_shift"].has_network
    ('plain gradient boosting with a moved threshold', False)
    >>> METHODS["boosting"].installed, METHODS["boosting"].identity
    (True, '')
    """

    label: str
    family: Family
    build: Build
    grid: tuple[Hyperparameters, ...] = ({},)
    variant: bool = False
    description: str = ""
    remedy: Remedy = "training"
    model: str = ""
    package: str | None = None
    several_labels: bool = True
    growth: float = 2.0

    @property
    def has_network(self) -> bool:
        """True if it trains our network."""
        return self.family not in ("svm", "table", "own")

    @property
    def network_only(self) -> bool:
        """True if only the network determines its cost; other methods take additional time."""
        return self.has_network and self.family != "resampling"

    @property
    def name_in_text(self) -> str:
        """The method's name within a sentence."""
        moved = " with a moved threshold" if self.remedy == "threshold" else ""
        return self.label if self.remedy == "training" else f"plain {self.model}{moved}"

    @property
    def installed(self) -> bool:
        """True if the package that it needs is installed."""
        return self.package is None or find_spec(self.package) is not None

    @property
    def identity(self) -> str:
        """Its identity in a file of results: its description, or the version of its package."""
        return self.description or (package_version(self.package) if self.package else "")


def grid_of(name: str, *values: Any) -> tuple[Hyperparameters, ...]:
    """Return the grid of a hyperparameter whose published value is its default: that first, then the others.

    >>> grid_of("gamma", 0.5, 1.0)
    ({}, {'gamma': 0.5}, {'gamma': 1.0})
    """
    return ({}, *({name: value} for value in values))
