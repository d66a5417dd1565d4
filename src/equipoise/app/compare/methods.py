"""Every contestant by name: the losses, the paper's method in its variants, resamplers, support vector machines.

Each neural one has the same network, epochs, batches and optimiser; a resampler changes only the rows which that
network is trained on. Hyper-parameters are those their authors published, of margin heads those in the paper's table;
``grid`` holds the settings that :func:`~equipoise.app.compare.tuning.fit_tuned` may choose from, as many for every
method that has any, the published one first. The paper's method has none: it is compared with its defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from equipoise.app.compare.fits import (
    FitMethod,
    Knob,
    by_name,
    class_balanced,
    neural,
    on_logits,
    post_hoc,
    printed,
    resampled,
    support_vectors,
    uncertainty,
)
from equipoise.app.compare.margins import LateMargins
from equipoise.app.compare.network import FitOptions
from equipoise.losses import L_SOFTMAX_STRENGTH, LOSSES
from equipoise.losses.criteria import focal, logit_adjustment, vector_scaling
from equipoise.wording import EQUIPOISE

Family = Literal["baseline", "uncertainty", "loss", "margin", "resampling", "svm"]
GRID = 4
"""Settings that a method with a knob may be tuned over."""
FIXED_MARGIN = {"am_softmax": 0.35, "arcface": 0.4, "l_softmax": 4.0, "sphereface": 4.0}
FEATURE_NORM = 30.0
"""The column m, and n of the first two, in the paper's table of margin losses."""
COSINE_MARGINS = {"am_softmax": (0.1, 0.2, 0.5), "arcface": (0.1, 0.3, 0.7)}
"""Other margins to be tuned over."""


@dataclass(frozen=True)
class Method:
    """A contestant.

    Args:
        label: its name in a table.
        family: what kind of remedy it is.
        fit: trains and predicts.
        grid: settings for tuning, the published one, ``{}``, first; without a knob only that.
        variant: of the paper's method or of a margin head, for research; ``compare`` leaves these out unless asked.

    >>> METHODS["focal"].family, METHODS["focal"].grid
    ('loss', ({}, {'gamma': 0.5}, {'gamma': 1.0}, {'gamma': 5.0}))
    """

    label: str
    family: Family
    fit: FitMethod
    grid: tuple[Knob, ...] = ({},)
    variant: bool = False


def _cosine(label: str, name: Literal["am_softmax", "arcface"], *, uncertain: bool) -> Method:
    """A margin on the true cosine or angle: the paper's own, or from 0 to that by uncertainty."""
    own = FIXED_MARGIN[name]
    fit = neural(lambda _: partial(LOSSES[name], scale=FEATURE_NORM), late=_late(0.0, own, uncertain=uncertain))
    return _margin_head(label, fit, uncertain=uncertain, others=COSINE_MARGINS[name])


def _angle(label: str, name: Literal["l_softmax", "sphereface"], *, uncertain: bool) -> Method:
    """A factor on the true angle: the paper's own, or from 1 to that by uncertainty."""
    own = FIXED_MARGIN[name]
    fit = neural(lambda _: LOSSES[name], late=_late(1.0, own, uncertain=uncertain, strength=L_SOFTMAX_STRENGTH))
    return _margin_head(label, fit, uncertain=uncertain, others=(2.0, 3.0, 5.0))


def _late(
    least: float, own: float, *, uncertain: bool, strength: float = 1.0
) -> Callable[[FitOptions, Knob], LateMargins]:
    """Both of a pair have the softmax stage, then a margin that rises: they differ in nothing but the margins."""

    def late(options: FitOptions, knob: Knob) -> LateMargins:
        most = float(knob.get("margin", own))
        return LateMargins(least if uncertain else most, most, options.kind, strength=strength, rising=True)

    return late


def _margin_head(label: str, fit: FitMethod, *, uncertain: bool, others: tuple[float, ...]) -> Method:
    if uncertain:
        return Method(f"{label}, margins by uncertainty", "margin", fit, variant=True)
    return Method(label, "margin", fit, _grid("margin", *others))


def _grid(name: str, *values: Any) -> tuple[Knob, ...]:
    return ({}, *({name: value} for value in values))


METHODS: dict[str, Method] = {
    "cross_entropy": Method("cross-entropy", "baseline", neural(by_name("cross_entropy"))),
    "uncertainty_margin": Method(EQUIPOISE, "uncertainty", uncertainty("additive", "expected")),
    "logit_adjustment": Method(
        "logit adjustment",
        "loss",
        neural(on_logits("logit_adjustment", logit_adjustment)),
        _grid("tau", 0.5, 1.3, 1.6),
    ),
    "balanced_softmax": Method("balanced softmax", "loss", neural(by_name("balanced_softmax"))),
    "vs": Method(
        "VS",
        "loss",
        neural(on_logits("vs", vector_scaling)),
        ({}, {"gamma": 0.05, "tau": 1.0}, {"gamma": 0.15, "tau": 1.5}, {"gamma": 0.3, "tau": 1.0}),
    ),
    "logit_adjustment_post_hoc": Method("logit adjustment, post hoc", "loss", post_hoc, _grid("tau", 0.5, 1.3, 1.6)),
    "ldam_drw": Method("LDAM-DRW", "loss", neural(by_name("ldam_drw")), _grid("margin", 0.2, 0.35, 0.8)),
    "weighted": Method("class weights", "loss", neural(by_name("weighted"))),
    "class_balanced": Method(
        "class-balanced",
        "loss",
        neural(lambda knob: partial(class_balanced, **knob) if knob else LOSSES["class_balanced"]),
        _grid("beta", 0.9, 0.99, 0.999),
    ),
    "focal": Method("focal", "loss", neural(on_logits("focal", focal)), _grid("gamma", 0.5, 1.0, 5.0)),
    "random_over": Method(
        "random over-sampling", "resampling", resampled("random_over"), _grid("shrinkage", 0.1, 0.5, 1.0)
    ),
    "smote": Method("SMOTE", "resampling", resampled("smote"), _grid("k_neighbors", 3, 10, 20)),
    "svm_linear": Method("cost-sensitive SVM, linear", "svm", support_vectors("linear"), _grid("C", 0.001, 0.01, 0.1)),
    "random_under": Method("random under-sampling", "resampling", resampled("random_under")),
    "adasyn": Method("ADASYN", "resampling", resampled("adasyn"), _grid("n_neighbors", 3, 10, 20)),
    "neighbourhood_cleaning": Method(
        "neighbourhood cleaning", "resampling", resampled("neighbourhood_cleaning"), _grid("n_neighbors", 5, 7, 9)
    ),
    "svm_rbf": Method("cost-sensitive SVM, RBF", "svm", support_vectors("rbf"), _grid("C", 0.1, 10.0, 100.0)),
    "cluster_centroids": Method("cluster centroids", "resampling", resampled("cluster_centroids")),
    "near_miss": Method(
        "NearMiss",
        "resampling",
        resampled("near_miss"),
        ({}, {"version": 2}, {"version": 3}, {"n_neighbors": 10}),
    ),
    "instance_hardness": Method("instance hardness", "resampling", resampled("instance_hardness")),
    "am_softmax": _cosine("AM-Softmax", "am_softmax", uncertain=False),
    "arcface": _cosine("ArcFace", "arcface", uncertain=False),
    "l_softmax": _angle("L-Softmax", "l_softmax", uncertain=False),
    "sphereface": _angle("SphereFace", "sphereface", uncertain=False),
    "am_softmax_uncertainty": _cosine("AM-Softmax", "am_softmax", uncertain=True),
    "arcface_uncertainty": _cosine("ArcFace", "arcface", uncertain=True),
    "l_softmax_uncertainty": _angle("L-Softmax", "l_softmax", uncertain=True),
    "sphereface_uncertainty": _angle("SphereFace", "sphereface", uncertain=True),
    "uncertainty_class_level": Method(
        f"{EQUIPOISE}, class level only", "uncertainty", uncertainty("additive", "none"), variant=True
    ),
    "uncertainty_uncorrected": Method(
        f"{EQUIPOISE}, uncorrected",
        "uncertainty",
        uncertainty("additive", "expected", held_back=0.0),
        variant=True,
    ),
    "uncertainty_angular": Method(
        f"{EQUIPOISE}, angular form", "uncertainty", uncertainty("angular", "expected"), variant=True
    ),
    "uncertainty_angular_complement": Method(
        f"{EQUIPOISE}, angular form, complement", "uncertainty", uncertainty("angular", "complement"), variant=True
    ),
    "uncertainty_angular_class_level": Method(
        f"{EQUIPOISE}, angular form, class level only", "uncertainty", uncertainty("angular", "none"), variant=True
    ),
    "paper_as_printed": Method(f"{EQUIPOISE}, paper as printed", "uncertainty", printed, variant=True),
}
"""Every contestant, in the order in which ``compare`` tries them: the baseline, the paper's method, then what has most
often come near it, then the rest, what is slow last. A new one is one line here."""
