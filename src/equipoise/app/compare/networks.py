"""Networks of a comparison: the estimator under one loss or another, and resamplers in front of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from imblearn.pipeline import Pipeline
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from equipoise.app.compare.method import Build, Hyperparameters
from equipoise.app.compare.resamplers import Draw, Maker, Resampler
from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.estimators.calibrated_classifier import Prior
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.losses import LOSSES, ClassVectorLoss, LogitLoss, effective_number_weights
from equipoise.losses.registry import LossBuilder, fixed_options
from equipoise.training import Settings
from equipoise.training.settings import Length, choose_batch_size, choose_length, choose_width
from equipoise.uncertainty.class_level import UncertaintyKind


@dataclass(frozen=True)
class FitOptions:
    """Options shared by all methods: arguments of the estimator, with its names and defaults, and two more.

    Args:
        epochs, batch_size, width: None is chosen from the number of training samples.
        learning_rate, weight_decay, dropout, passes, kind, m_max: as in the estimator.
        backbone: makes a network x -> features; called once per fit, so that each seed starts from other weights.
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
    learning_rate: float = UncertaintyBalancedClassifier.learning_rate
    weight_decay: float = UncertaintyBalancedClassifier.weight_decay
    dropout: float = UncertaintyBalancedClassifier.dropout
    passes: int = UncertaintyBalancedClassifier.passes
    kind: UncertaintyKind | None = UncertaintyBalancedClassifier.kind
    m_max: float = UncertaintyBalancedClassifier.m_max
    backbone: Callable[[], nn.Module] | None = None
    samples: int | None = None

    def sized(self, samples: int) -> "FitOptions":
        """Return the options with sizes for this many training samples, unless already chosen."""
        return replace(
            self,
            batch_size=choose_batch_size(samples) if self.batch_size is None else self.batch_size,
            width=choose_width(samples) if self.width is None else self.width,
            samples=samples if self.samples is None else self.samples,
        )

    def length(self, samples: int) -> Length:
        """Return the number of epochs, and of batches in each, for this many training samples."""
        sized = self.sized(samples)
        return choose_length(sized.samples or samples, sized.batch_size or 1, self.epochs)

    def recorded(self) -> dict[str, Any]:
        """Return what results depend on, as plain values; the backbone's maker describes it.

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
    """The estimator, with options that only a comparison sets.

    ``samples`` are those that sizes follow from; ``tau`` moves decisions from the training samples' class prior π to
    π^(1 − τ), as post-hoc logit adjustment does (Menon et al. 2021). Every method has one network.
    """

    members: int | None = 1
    samples: int | None = None
    tau: float | None = None

    def _settings(self, samples: int, seed: int) -> Settings:
        found = super()._settings(self.samples or samples, seed)
        if self.samples in (None, samples) or found.epoch_batches is not None:
            return found
        batches = math.ceil(self.samples / found.batch_size)  # a pass over the rows before resampling
        return replace(found, epoch_batches=batches)

    def _decision_prior(self, target_prior: Prior | None) -> ArrayLike | None:
        if target_prior is not None or self.tau is None:
            return super()._decision_prior(target_prior)
        moved = self.prior_.clip(SMALLEST_SHARE) ** (1 - self.tau)
        found: NDArray[np.float64] = moved / moved.sum(-1, keepdims=True)
        return found


def network(name: str, loss: Mapping[str, Any] | None = None, **own: Any) -> Build:
    """Return a builder of the network with a loss of ``LOSSES``.

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
    builder, changed = LOSSES[name], dict(hyperparameters)
    criterion = fixed_options(builder).get("criterion")
    if criterion and changed:
        changed = {"criterion": partial(criterion, **changed)}
    changed = loss | changed
    return options.network(partial(builder, **changed) if changed else name, seed, **own)


def class_balanced_network(seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> ComparedNetwork:
    """Build the network with cross-entropy weighted by the effective number of samples, at another β."""
    return options.network(partial(_effective, **hyperparameters) if hyperparameters else "class_balanced", seed)


def _effective(in_features: int, classes: int, *, beta: float, class_counts: Tensor, **others: Any) -> ClassVectorLoss:
    weight = effective_number_weights(class_counts.float(), beta)
    return LogitLoss(in_features, classes, class_weight=weight, **others)


def post_hoc_network(seed: int, hyperparameters: Hyperparameters, options: FitOptions) -> ComparedNetwork:
    """Build the network with cross-entropy and answers at another class prior; τ = 1 is a balanced one."""
    model = options.network("cross_entropy", seed, probabilities="balanced")
    model.tau = hyperparameters.get("tau")
    return model


def resampled_network(
    make: Maker, draw: Draw | None, seed: int, hyperparameters: Hyperparameters, options: FitOptions
) -> Pipeline:
    """Build a resampler in front of the network with cross-entropy."""
    sampler = Resampler(make, draw=draw, random_state=seed, hyperparameters=dict(hyperparameters))
    return Pipeline([("resample", sampler), ("network", options.network("cross_entropy", seed))])
