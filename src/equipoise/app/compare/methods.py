"""Every method by name, as a scikit-learn estimator: losses, the paper's variants, resamplers, trees, support vectors.

A neural method is :class:`~equipoise.UncertaintyBalancedClassifier` under another loss, with the same network, epochs,
batches and optimiser; a resampler is an imbalanced-learn pipeline in front of it, and changes only the rows which that
network is trained on. Classifiers for tables come with their library's defaults, plain, with balanced class weights, or
plain with a prior shift. What is scored is ``predict``, which users get. Hyperparameters are those their authors
published, of margin heads those in the paper's table; ``grid`` holds the settings that
:func:`~equipoise.app.compare.single_fit.fit_tuned` may choose from, as many for every method that has any, the
published one first. The paper's method has none: it is compared with its defaults.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal

from sklearn.base import clone

from equipoise.app.compare.classifiers import (
    TABLE_MODELS,
    Form,
    support_vectors,
    table_classifier,
)
from equipoise.app.compare.networks import (
    Build,
    FitOptions,
    Hyperparameters,
    class_balanced_network,
    network,
    post_hoc_network,
    resampled_network,
)
from equipoise.errors import InvalidInputError
from equipoise.estimators.training_options import PRESETS
from equipoise.family_names import loss_names
from equipoise.wording import EQUIPOISE

Family = Literal["baseline", "uncertainty", "loss", "margin", "resampling", "svm", "table", "own"]
Remedy = Literal["none", "threshold", "training"]
GRID = 4
"""Settings that a method with a hyperparameter may be tuned over."""
FORMS: dict[Form, tuple[str, Remedy]] = {
    "plain": ("", "none"),
    "balanced": (", balanced", "training"),
    "prior_shift": (", prior shift", "threshold"),
}
"""Form -> suffix of the model's label, and the kind of remedy."""


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

    >>> METHODS["focal"].family, METHODS["focal"].grid
    ('loss', ({}, {'gamma': 0.5}, {'gamma': 1.0}, {'gamma': 5.0}))
    >>> METHODS["smote"].build(0, {"k_neighbors": 3}, FitOptions())["network"].method
    'cross_entropy'
    >>> METHODS["smote"].several_labels, METHODS["smote"].network_only
    (False, False)
    >>> METHODS["boosting_prior_shift"].said, METHODS["boosting_prior_shift"].has_network
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
    def said(self) -> str:
        """Its name within a sentence."""
        moved = " with a moved threshold" if self.remedy == "threshold" else ""
        return self.label if self.remedy == "training" else f"plain {self.model}{moved}"

    @property
    def installed(self) -> bool:
        """True if the package that it needs is installed."""
        return self.package is None or find_spec(self.package) is not None

    @property
    def identity(self) -> str:
        """Its identity in a file of results: its description, or the version of its package."""
        return self.description or (f"{self.package} {version(self.package)}" if self.package else "")


def check_installed(names: Iterable[str]) -> None:
    """Raise an error for methods whose package is not installed; skip names that are not in ``METHODS``."""
    for name in names:
        if name in METHODS and not METHODS[name].installed:
            package = METHODS[name].package
            raise InvalidInputError(f"{name!r} needs {package}, which is not installed; run: pip install {package}")


def own_method(name: str, estimator: Any) -> Method:
    """Return a method that fits copies of a scikit-learn estimator, each with the seed of its fit.

    Args:
        name: of the method.
        estimator: the estimator, or its class, which is called without arguments.

    >>> from sklearn.linear_model import LogisticRegression
    >>> mine = own_method("mine", LogisticRegression(C=0.1))
    >>> mine.build(3, {}, FitOptions()), mine.description
    (LogisticRegression(C=0.1, random_state=3), 'LogisticRegression(C=0.1)')
    """
    if isinstance(estimator, type):
        try:
            estimator = estimator()
        except TypeError as error:
            raise InvalidInputError(
                f"{name!r} is a class that cannot be called without arguments ({error}); pass an instance."
            ) from error
    if not all(hasattr(estimator, needed) for needed in ("fit", "predict", "get_params")):
        raise InvalidInputError(f"{name!r} must be a scikit-learn estimator, got {type(estimator).__name__}.")
    description = re.sub(r" at 0x[0-9a-f]+", "", repr(estimator))
    return Method(name, "own", partial(_copied, estimator), description=description)


def _copied(estimator: Any, seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> Any:  # noqa: ARG001
    model = clone(estimator)
    seeds = {name: seed for name in model.get_params() if name.rpartition("__")[2] == "random_state"}
    return model.set_params(**seeds, **hyperparameters)


def _grid(name: str, *values: Any) -> tuple[Hyperparameters, ...]:
    return ({}, *({name: value} for value in values))


def _resampling(label: str, name: str, grid: tuple[Hyperparameters, ...] = ({},)) -> Method:
    return Method(label, "resampling", partial(resampled_network, name), grid, several_labels=False)


def _table(name: str, form: Form = "plain") -> Method:
    """Return a classifier of ``TABLE_MODELS`` in one of its forms."""
    model = TABLE_MODELS[name]
    added, remedy = FORMS[form]
    return Method(
        f"{model.label}{added}",
        "table",
        partial(table_classifier, name, form),
        ({}, *model.grid),
        remedy="training" if model.remedy else remedy,
        model=model.label,
        package=model.package,
        several_labels=model.several_labels,
        growth=model.growth,
    )


def _machine(label: str, kernel: Literal["linear", "rbf"], *costs: float) -> Method:
    return Method(label, "svm", partial(support_vectors, kernel), _grid("C", *costs), several_labels=False)


def _margin(label: str, name: str, *others: float) -> Method:
    """Phase in a margin after a softmax stage, as its counterpart does, which differs only in the margins."""
    return Method(label, "margin", network(name, MARGINS[name], strength="head", kind=None), _grid("margin", *others))


def _uncertain_margin(label: str, name: str) -> Method:
    """Spread margins by class uncertainty, from zero to the same largest one."""
    build = network(name, MARGINS[name], strength="head", margins="uncertainty")
    return Method(f"{label}, margins by uncertainty", "margin", build, variant=True)


def _variant(label: str, **own: Any) -> Method:
    build = network(own.pop("method", "uncertainty_margin"), **own)
    return Method(f"{EQUIPOISE}, {label}", "uncertainty", build, variant=True)


MARGINS: dict[str, dict[str, float]] = {
    "am_softmax": {"margin": 0.35, "scale": 30.0},
    "arcface": {"margin": 0.4, "scale": 30.0},
    "l_softmax": {"margin": 4.0},
    "sphereface": {"margin": 4.0},
}
"""The columns m and n of the paper's table of margin losses."""
ALONE = {"margins": "uncertainty", "sample_level": "expected"}
"""Both levels from uncertainty, without class counts and without mixing."""
METHODS: dict[str, Method] = {
    "cross_entropy": Method(
        "cross-entropy", "baseline", network("cross_entropy"), remedy="none", model="cross-entropy"
    ),
    "uncertainty_margin": Method(EQUIPOISE, "uncertainty", network("uncertainty_margin")),
    "blend": _table("blend"),
    "boosting": _table("boosting"),
    "boosting_prior_shift": _table("boosting", "prior_shift"),
    "boosting_balanced": _table("boosting", "balanced"),
    "random_forest": _table("random_forest"),
    "random_forest_prior_shift": _table("random_forest", "prior_shift"),
    "random_forest_balanced": _table("random_forest", "balanced"),
    "extra_trees": _table("extra_trees"),
    "extra_trees_prior_shift": _table("extra_trees", "prior_shift"),
    "extra_trees_balanced": _table("extra_trees", "balanced"),
    "balanced_random_forest": _table("balanced_random_forest"),
    "lightgbm": _table("lightgbm"),
    "lightgbm_prior_shift": _table("lightgbm", "prior_shift"),
    "lightgbm_balanced": _table("lightgbm", "balanced"),
    "xgboost": _table("xgboost"),
    "xgboost_prior_shift": _table("xgboost", "prior_shift"),
    "xgboost_balanced": _table("xgboost", "balanced"),
    "catboost": _table("catboost"),
    "catboost_prior_shift": _table("catboost", "prior_shift"),
    "catboost_balanced": _table("catboost", "balanced"),
    "easy_ensemble": _table("easy_ensemble"),
    "logistic_regression": _table("logistic_regression"),
    "logistic_regression_balanced": _table("logistic_regression", "balanced"),
    "logit_adjustment": Method("logit adjustment", "loss", network("logit_adjustment"), _grid("tau", 0.5, 1.3, 1.6)),
    "balanced_softmax": Method("balanced softmax", "loss", network("balanced_softmax")),
    "vs": Method(
        "VS",
        "loss",
        network("vs"),
        ({}, {"gamma": 0.05, "tau": 1.0}, {"gamma": 0.15, "tau": 1.5}, {"gamma": 0.3, "tau": 1.0}),
    ),
    "logit_adjustment_post_hoc": Method(
        "logit adjustment, post hoc",
        "loss",
        post_hoc_network,
        _grid("tau", 0.5, 1.3, 1.6),
        remedy="threshold",
        model="cross-entropy",
    ),
    "ldam_drw": Method("LDAM-DRW", "loss", network("ldam_drw"), _grid("margin", 0.2, 0.35, 0.8)),
    "weighted": Method("class weights", "loss", network("weighted")),
    "class_balanced": Method("class-balanced", "loss", class_balanced_network, _grid("beta", 0.9, 0.99, 0.999)),
    "focal": Method("focal", "loss", network("focal"), _grid("gamma", 0.5, 1.0, 5.0)),
    "random_over": _resampling("random over-sampling", "random_over", _grid("shrinkage", 0.1, 0.5, 1.0)),
    "smote": _resampling("SMOTE", "smote", _grid("k_neighbors", 3, 10, 20)),
    "svm_linear": _machine("cost-sensitive SVM, linear", "linear", 0.001, 0.01, 0.1),
    "random_under": _resampling("random under-sampling", "random_under"),
    "adasyn": _resampling("ADASYN", "adasyn", _grid("n_neighbors", 3, 10, 20)),
    "neighbourhood_cleaning": _resampling(
        "neighbourhood cleaning", "neighbourhood_cleaning", _grid("n_neighbors", 5, 7, 9)
    ),
    "svm_rbf": _machine("cost-sensitive SVM, RBF", "rbf", 0.1, 10.0, 100.0),
    "cluster_centroids": _resampling("cluster centroids", "cluster_centroids"),
    "near_miss": _resampling("NearMiss", "near_miss", ({}, {"version": 2}, {"version": 3}, {"n_neighbors": 10})),
    "instance_hardness": _resampling("instance hardness", "instance_hardness"),
    "am_softmax": _margin("AM-Softmax", "am_softmax", 0.1, 0.2, 0.5),
    "arcface": _margin("ArcFace", "arcface", 0.1, 0.3, 0.7),
    "l_softmax": _margin("L-Softmax", "l_softmax", 2.0, 3.0, 5.0),
    "sphereface": _margin("SphereFace", "sphereface", 2.0, 3.0, 5.0),
    "am_softmax_uncertainty": _uncertain_margin("AM-Softmax", "am_softmax"),
    "arcface_uncertainty": _uncertain_margin("ArcFace", "arcface"),
    "l_softmax_uncertainty": _uncertain_margin("L-Softmax", "l_softmax"),
    "sphereface_uncertainty": _uncertain_margin("SphereFace", "sphereface"),
    "uncertainty_class_level": _variant("class level only", sample_level="none"),
    "uncertainty_alone": _variant("uncertainty alone", **ALONE),
    "uncertainty_uncorrected": _variant("uncertainty alone, uncorrected", **ALONE, held_back=0.0),
    "uncertainty_angular": _variant("angular form", **ALONE, form="angular"),
    "uncertainty_angular_complement": _variant(
        "angular form, complement", **ALONE | {"sample_level": "complement"}, form="angular"
    ),
    "uncertainty_angular_class_level": _variant(
        "angular form, class level only", **ALONE | {"sample_level": "none"}, form="angular"
    ),
    "paper_as_printed": _variant("paper as printed", **PRESETS["paper_as_printed"]),
}
"""Every method, in the order in which ``compare`` runs them without a budget: the baseline, the paper's method,
classifiers for tables, losses and resamplers, those that are slow last. A new one is one line here."""
METHODS |= {name: Method(name.replace("_", " "), "loss", network(name)) for name in loss_names() if name not in METHODS}
