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
from functools import partial
from typing import Any, Literal

from sklearn.base import clone

from equipoise.app.compare import resamplers
from equipoise.app.compare.classifiers import support_vectors, table_method
from equipoise.app.compare.method import Hyperparameters, Method, grid_of
from equipoise.app.compare.networks import (
    FitOptions,
    class_balanced_network,
    network,
    post_hoc_network,
    resampled_network,
)
from equipoise.app.compare.resamplers import Draw, Maker
from equipoise.errors import InvalidInputError
from equipoise.estimators.training_options import PRESETS
from equipoise.registry_names import loss_names
from equipoise.wording import EQUIPOISE

GRID = 4
"""Settings that a method with a hyperparameter may be tuned over."""


def check_installed(names: Iterable[str]) -> None:
    """Raise an error for methods whose package is not installed; skip names that are not in ``METHODS``."""
    for name in names:
        if name in METHODS and not METHODS[name].installed:
            package = METHODS[name].package
            raise InvalidInputError(f"{name!r} needs {package}, which is not installed; run: pip install {package}")


def own_method(name: str, estimator: Any) -> Method:
    """Return a method that fits copies of an estimator, or of its class's instance, each with the seed of its fit.

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


def _resampling(
    label: str, make: Maker, grid: tuple[Hyperparameters, ...] = ({},), *, draw: Draw | None = None
) -> Method:
    """Return a resampler's method; it takes several labels per sample if it has a way to ``draw`` their rows."""
    build = partial(resampled_network, make, draw)
    return Method(label, "resampling", build, grid, several_labels=draw is not None)


def _machine(label: str, kernel: Literal["linear", "rbf"], *costs: float) -> Method:
    return Method(label, "svm", partial(support_vectors, kernel), grid_of("C", *costs), several_labels=False)


def _margin(label: str, name: str, *others: float) -> Method:
    """Phase in a margin after a softmax stage, as its counterpart does, which differs only in the margins."""
    return Method(label, "margin", network(name, MARGINS[name], strength="head", kind=None), grid_of("margin", *others))


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
    "blend": table_method("blend"),
    "boosting": table_method("boosting"),
    "boosting_prior_shift": table_method("boosting", "prior_shift"),
    "boosting_balanced": table_method("boosting", "balanced"),
    "random_forest": table_method("random_forest"),
    "random_forest_prior_shift": table_method("random_forest", "prior_shift"),
    "random_forest_balanced": table_method("random_forest", "balanced"),
    "extra_trees": table_method("extra_trees"),
    "extra_trees_prior_shift": table_method("extra_trees", "prior_shift"),
    "extra_trees_balanced": table_method("extra_trees", "balanced"),
    "balanced_random_forest": table_method("balanced_random_forest"),
    "lightgbm": table_method("lightgbm"),
    "lightgbm_prior_shift": table_method("lightgbm", "prior_shift"),
    "lightgbm_balanced": table_method("lightgbm", "balanced"),
    "xgboost": table_method("xgboost"),
    "xgboost_prior_shift": table_method("xgboost", "prior_shift"),
    "xgboost_balanced": table_method("xgboost", "balanced"),
    "catboost": table_method("catboost"),
    "catboost_prior_shift": table_method("catboost", "prior_shift"),
    "catboost_balanced": table_method("catboost", "balanced"),
    "easy_ensemble": table_method("easy_ensemble"),
    "logistic_regression": table_method("logistic_regression"),
    "logistic_regression_balanced": table_method("logistic_regression", "balanced"),
    "logit_adjustment": Method("logit adjustment", "loss", network("logit_adjustment"), grid_of("tau", 0.5, 1.3, 1.6)),
    "logit_adjustment_our_head": Method(
        "logit adjustment, our head",
        "loss",
        network("logit_adjustment", {"normalize": True}),
        grid_of("tau", 0.5, 1.3, 1.6),
        variant=True,
    ),
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
        grid_of("tau", 0.5, 1.3, 1.6),
        remedy="threshold",
        model="cross-entropy",
    ),
    "cosen": Method("CoSen", "loss", network("cosen"), grid_of("sigma", 0.25, 0.5, 2.0)),
    "ldam_drw": Method("LDAM-DRW", "loss", network("ldam_drw"), grid_of("margin", 0.2, 0.35, 0.8)),
    "weighted": Method("class weights", "loss", network("weighted")),
    "class_balanced": Method("class-balanced", "loss", class_balanced_network, grid_of("beta", 0.9, 0.99, 0.999)),
    "focal": Method("focal", "loss", network("focal"), grid_of("gamma", 0.5, 1.0, 5.0)),
    "random_over": _resampling(
        "random over-sampling",
        resamplers.random_over,
        grid_of("shrinkage", 0.1, 0.5, 1.0),
        draw=resamplers.repeat_rows,
    ),
    "smote": _resampling("SMOTE", resamplers.smote, grid_of("k_neighbors", 3, 10, 20)),
    "svm_linear": _machine("cost-sensitive SVM, linear", "linear", 0.001, 0.01, 0.1),
    "random_under": _resampling("random under-sampling", resamplers.random_under, draw=resamplers.thin_rows),
    "adasyn": _resampling("ADASYN", resamplers.adasyn, grid_of("n_neighbors", 3, 10, 20)),
    "neighbourhood_cleaning": _resampling(
        "neighbourhood cleaning", resamplers.neighbourhood_cleaning, grid_of("n_neighbors", 5, 7, 9)
    ),
    "svm_rbf": _machine("cost-sensitive SVM, RBF", "rbf", 0.1, 10.0, 100.0),
    "cluster_centroids": _resampling("cluster centroids", resamplers.cluster_centroids),
    "near_miss": _resampling(
        "NearMiss", resamplers.near_miss, ({}, {"version": 2}, {"version": 3}, {"n_neighbors": 10})
    ),
    "instance_hardness": _resampling("instance hardness", resamplers.instance_hardness),
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
