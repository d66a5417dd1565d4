"""Every method by name, as a scikit-learn estimator: losses, the paper's variants, resamplers, support vectors.

A neural method is :class:`~equipoise.UncertaintyBalancedClassifier` under another loss, with the same network, epochs,
batches and optimiser; a resampler is an imbalanced-learn pipeline in front of it, and changes only the rows which that
network is trained on. What is scored is ``predict``, which users get. Hyperparameters are those their authors
published, of margin heads those in the paper's table; ``grid`` holds the settings that
:func:`~equipoise.app.compare.single_fit.fit_tuned` may choose from, as many for every method that has any, the
published one first. The paper's method has none: it is compared with its defaults.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import torch
from imblearn.pipeline import Pipeline
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import Tensor, nn

from equipoise.app.compare.resamplers import Resampler
from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.errors import InvalidInputError
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.losses import LOSSES, ClassVectorLoss, LogitLoss, LossBuilder, effective_number_weights
from equipoise.training import Settings
from equipoise.training.settings import Length, choose_batch_size, choose_length, choose_width
from equipoise.uncertainty.class_level import UncertaintyKind
from equipoise.wording import EQUIPOISE

Family = Literal["baseline", "uncertainty", "loss", "margin", "resampling", "svm", "own"]
Hyperparameters = Mapping[str, Any]
GRID = 4
"""Settings that a method with a hyperparameter may be tuned over."""


@dataclass(frozen=True)
class FitOptions:
    """What all methods have in common: arguments of the estimator, by its names and with its defaults, and two more.

    Args:
        epochs, batch_size, width: None is chosen from the number of training samples.
        learning_rate, weight_decay, dropout, passes, kind, m_max: as in the estimator.
        backbone: makes a network x -> features; called once a fit, so that each seed starts from other weights.
            None takes the estimator's: standardised columns, two hidden layers.
        samples: how many the sizes are chosen from; None is those of the fit. A resampler's network gets that of the
            rows before resampling, so that every method has the same epochs, batches and width.

    >>> options = FitOptions(epochs=5, width=64)
    >>> options.sized(1000).batch_size, options.length(1000).epochs, options.network("focal", seed=0).width
    (32, 5, 64)
    """

    epochs: int | None = None
    batch_size: int | None = None
    width: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.5
    dropout: float = 0.5
    passes: int = 10
    kind: UncertaintyKind = "unresolved"
    m_max: float = 3.0
    backbone: Callable[[], nn.Module] | None = None
    samples: int | None = None

    def sized(self, samples: int) -> "FitOptions":
        """Return the options with sizes for so many training samples, unless they have been chosen."""
        return replace(
            self,
            batch_size=choose_batch_size(samples) if self.batch_size is None else self.batch_size,
            width=choose_width(samples) if self.width is None else self.width,
            samples=samples if self.samples is None else self.samples,
        )

    def length(self, samples: int) -> Length:
        """Return how many epochs, and batches in each, so many training samples get."""
        sized = self.sized(samples)
        return choose_length(sized.samples or samples, sized.batch_size or 1, self.epochs)

    def recorded(self) -> dict[str, Any]:
        """Return what results depend on, as plain values; the backbone is described by whoever made it.

        >>> FitOptions(epochs=5).recorded()["epochs"]
        5
        """
        plain = asdict(replace(self, backbone=None))
        return {name: value for name, value in plain.items() if name not in ("backbone", "samples")}

    def network(self, method: str | LossBuilder, seed: int, **own: Any) -> "ComparedNetwork":
        """Build the estimator under a loss, given by name or as a function, with further arguments of its own."""
        backbone = None
        if self.backbone is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                backbone = self.backbone()
        model = ComparedNetwork(method, backbone=backbone, random_state=seed, **self.recorded() | own)
        model.samples = self.samples
        return model


@dataclass(eq=False, repr=False)
class ComparedNetwork(UncertaintyBalancedClassifier):
    """The estimator, with what only a comparison sets.

    ``samples`` are those that sizes follow from; ``tau`` moves decisions from the training samples' class prior π to
    π^(1 − τ), as post-hoc logit adjustment does (Menon et al. 2021).
    """

    samples: int | None = None
    tau: float | None = None

    def _settings(self, samples: int, seed: int) -> Settings:
        return super()._settings(self.samples or samples, seed)

    def _decision_prior(self, target_prior: ArrayLike | None) -> ArrayLike | None:
        if target_prior is not None or self.tau is None:
            return super()._decision_prior(target_prior)
        moved = self.prior_.clip(SMALLEST_SHARE) ** (1 - self.tau)
        found: NDArray[np.float64] = moved / moved.sum(-1, keepdims=True)
        return found


class Build(Protocol):
    """A function that makes an estimator with ``fit`` and ``predict``; ``predict_proba`` is used where there is one."""

    def __call__(self, seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> Any:
        """Return an estimator that has not been fitted."""
        ...


@dataclass(frozen=True)
class Method:
    """A method of a comparison.

    Args:
        label: its name in a table.
        family: what kind of remedy it is; ``"own"`` for an estimator of one's own.
        build: makes the estimator for a seed, a setting of the grid and the options that all methods share.
        grid: hyperparameters for tuning, the published ones, ``{}``, first; only that where there are none.
        variant: of the paper's method or of a margin head, for research; ``compare`` leaves these out unless asked.
        description: what a file of results tells it by from another method of the same name.

    >>> METHODS["focal"].family, METHODS["focal"].grid
    ('loss', ({}, {'gamma': 0.5}, {'gamma': 1.0}, {'gamma': 5.0}))
    >>> METHODS["smote"].build(0, {"k_neighbors": 3}, FitOptions())["network"].method
    'cross_entropy'
    >>> METHODS["smote"].one_label, METHODS["smote"].network_only
    (True, False)
    """

    label: str
    family: Family
    build: Build
    grid: tuple[Hyperparameters, ...] = ({},)
    variant: bool = False
    description: str = ""

    @property
    def network_only(self) -> bool:
        """Whether the network alone decides its cost; other methods take additional time."""
        return self.family not in ("resampling", "svm", "own")

    @property
    def one_label(self) -> bool:
        """Whether it handles only one label per sample."""
        return self.family in ("resampling", "svm")


def own_method(name: str, estimator: Any) -> Method:
    """Return a method that fits copies of a scikit-learn estimator, each with the seed of its fit.

    >>> from sklearn.linear_model import LogisticRegression
    >>> mine = own_method("mine", LogisticRegression(C=0.1))
    >>> mine.build(3, {}, FitOptions()), mine.description
    (LogisticRegression(C=0.1, random_state=3), 'LogisticRegression(C=0.1)')
    """
    if not all(hasattr(estimator, needed) for needed in ("fit", "predict", "get_params")):
        raise InvalidInputError(f"{name!r} must be a scikit-learn estimator, got {type(estimator).__name__}.")
    description = re.sub(r" at 0x[0-9a-f]+", "", repr(estimator))
    return Method(name, "own", partial(_copied, estimator), description=description)


def _copied(estimator: Any, seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> Any:  # noqa: ARG001
    model = clone(estimator)
    seeds = {name: seed for name in model.get_params() if name.rpartition("__")[2] == "random_state"}
    return model.set_params(**seeds, **hyperparameters)


def network(name: str, loss: Mapping[str, Any] | None = None, **own: Any) -> Build:
    """Return what builds the network under a loss of ``LOSSES``.

    Args:
        name: of the loss.
        loss: options of the loss, beside the hyperparameters, which are options of its criterion where it has one.
        own: arguments of the estimator.

    >>> network("focal", dropout=0.1)(seed=0, hyperparameters={}, options=FitOptions(epochs=3))
    ComparedNetwork(dropout=0.1, epochs=3, method='focal', random_state=0)
    """
    return partial(_network, name, dict(loss or {}), own)


def _network(
    name: str,
    loss: dict[str, Any],
    own: dict[str, Any],
    seed: int,
    hyperparameters: Hyperparameters,
    options: FitOptions,
) -> ComparedNetwork:
    builder, changed = LOSSES[name], loss | dict(hyperparameters)
    criterion = getattr(builder, "keywords", {}).get("criterion")
    if criterion and changed:
        changed = {"criterion": partial(criterion, **changed)}
    return options.network(partial(builder, **changed) if changed else name, seed, **own)


def _class_balanced(seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> ComparedNetwork:
    """Build the network under cross-entropy weighed by the effective number of samples, at another β."""
    return options.network(partial(_effective, **hyperparameters) if hyperparameters else "class_balanced", seed)


def _effective(in_features: int, classes: int, *, beta: float, class_counts: Tensor, **others: Any) -> ClassVectorLoss:
    weight = effective_number_weights(class_counts.float(), beta)
    return LogitLoss(in_features, classes, class_weight=weight, **others)


def _post_hoc(seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> ComparedNetwork:
    """Build the network under cross-entropy, decided at other class priors; τ = 1 is ``probabilities="balanced"``."""
    model = options.network("cross_entropy", seed, probabilities="balanced")
    model.tau = hyperparameters.get("tau")
    return model


def _resampled(name: str, seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> Pipeline:
    """Build a resampler in front of the network under cross-entropy."""
    sampler = Resampler(name, random_state=seed, hyperparameters=dict(hyperparameters))
    return Pipeline([("resample", sampler), ("network", options.network("cross_entropy", seed))])


def _support_vectors(
    kernel: Literal["linear", "rbf"],
    seed: int,
    hyperparameters: Hyperparameters,
    options: FitOptions,  # noqa: ARG001
) -> Any:
    """Build a support vector machine whose errors cost inversely to the class's share, on standardised columns.

    The linear one is liblinear's in the primal, which is scikit-learn's own choice for more rows than columns: 20,000
    rows of 512 columns take 2 s with two and 19 s with ten classes, and the dual 42 s without settling.
    """
    if kernel == "linear":
        machine: Any = LinearSVC(class_weight="balanced", dual="auto", random_state=seed, **hyperparameters)
    else:
        machine = SVC(class_weight="balanced", cache_size=500, random_state=seed, **hyperparameters)
    return make_pipeline(FunctionTransformer(flat_columns), StandardScaler(), machine)


def flat_columns(x: Any) -> NDArray[Any]:
    """Return samples of any shape, also images on disk, as one row of columns each."""
    return np.asarray(x).reshape(len(x), -1)


def _grid(name: str, *values: Any) -> tuple[Hyperparameters, ...]:
    return ({}, *({name: value} for value in values))


def _resampling(label: str, name: str, grid: tuple[Hyperparameters, ...] = ({},)) -> Method:
    return Method(label, "resampling", partial(_resampled, name), grid)


def _margin(label: str, name: str, *others: float) -> Method:
    """Let a margin rise after a softmax stage, as its twin's does, which differs in nothing but the margins."""
    return Method(label, "margin", network(name, MARGINS[name], strength="head", kind=None), _grid("margin", *others))


def _uncertain_margin(label: str, name: str) -> Method:
    """Spread margins from none to the same largest one by class uncertainty."""
    build = network(name, MARGINS[name], strength="head")
    return Method(f"{label}, margins by uncertainty", "margin", build, variant=True)


def _variant(label: str, loss: Mapping[str, Any] | None = None, **own: Any) -> Method:
    return Method(f"{EQUIPOISE}, {label}", "uncertainty", network("uncertainty_margin", loss, **own), variant=True)


MARGINS: dict[str, dict[str, float]] = {
    "am_softmax": {"margin": 0.35, "scale": 30.0},
    "arcface": {"margin": 0.4, "scale": 30.0},
    "l_softmax": {"margin": 4.0},
    "sphereface": {"margin": 4.0},
}
"""The columns m and n of the paper's table of margin losses."""
PRINTED = {"form": "angular", "placement": "target", "normalize": False, "sample_level": "printed"}
"""The paper to the letter: the true angle, free norms, and the true logit times the probability of a mistake."""
METHODS: dict[str, Method] = {
    "cross_entropy": Method("cross-entropy", "baseline", network("cross_entropy")),
    "uncertainty_margin": Method(EQUIPOISE, "uncertainty", network("uncertainty_margin")),
    "logit_adjustment": Method("logit adjustment", "loss", network("logit_adjustment"), _grid("tau", 0.5, 1.3, 1.6)),
    "balanced_softmax": Method("balanced softmax", "loss", network("balanced_softmax")),
    "vs": Method(
        "VS",
        "loss",
        network("vs"),
        ({}, {"gamma": 0.05, "tau": 1.0}, {"gamma": 0.15, "tau": 1.5}, {"gamma": 0.3, "tau": 1.0}),
    ),
    "logit_adjustment_post_hoc": Method("logit adjustment, post hoc", "loss", _post_hoc, _grid("tau", 0.5, 1.3, 1.6)),
    "ldam_drw": Method("LDAM-DRW", "loss", network("ldam_drw"), _grid("margin", 0.2, 0.35, 0.8)),
    "weighted": Method("class weights", "loss", network("weighted")),
    "class_balanced": Method("class-balanced", "loss", _class_balanced, _grid("beta", 0.9, 0.99, 0.999)),
    "focal": Method("focal", "loss", network("focal"), _grid("gamma", 0.5, 1.0, 5.0)),
    "random_over": _resampling("random over-sampling", "random_over", _grid("shrinkage", 0.1, 0.5, 1.0)),
    "smote": _resampling("SMOTE", "smote", _grid("k_neighbors", 3, 10, 20)),
    "svm_linear": Method(
        "cost-sensitive SVM, linear", "svm", partial(_support_vectors, "linear"), _grid("C", 0.001, 0.01, 0.1)
    ),
    "random_under": _resampling("random under-sampling", "random_under"),
    "adasyn": _resampling("ADASYN", "adasyn", _grid("n_neighbors", 3, 10, 20)),
    "neighbourhood_cleaning": _resampling(
        "neighbourhood cleaning", "neighbourhood_cleaning", _grid("n_neighbors", 5, 7, 9)
    ),
    "svm_rbf": Method("cost-sensitive SVM, RBF", "svm", partial(_support_vectors, "rbf"), _grid("C", 0.1, 10.0, 100.0)),
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
    "uncertainty_uncorrected": _variant("uncorrected", held_back=0.0),
    "uncertainty_angular": _variant("angular form", form="angular"),
    "uncertainty_angular_complement": _variant("angular form, complement", form="angular", sample_level="complement"),
    "uncertainty_angular_class_level": _variant("angular form, class level only", form="angular", sample_level="none"),
    "paper_as_printed": _variant("paper as printed", PRINTED, kind="own", rule="paper", strength=1.0, held_back=0.0),
}
"""Every method, in the order in which ``compare`` tries them: the baseline, the paper's method, then what has most
often come near it, then the rest, what is slow last. A new one is one line here."""
