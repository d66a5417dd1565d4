"""The one network of every neural contestant: the estimator's, under any head, trained alike."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from equipoise.app.compare.margins import LateMargins, MarginWatcher
from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError
from equipoise.losses import ClassVectorLoss
from equipoise.models import MLP, Standardize
from equipoise.tensors import new_tensor
from equipoise.training import ArrayData, Curriculum, Network, Settings, feature_length, train
from equipoise.training.callbacks import Record, Watcher
from equipoise.training.settings import choose_batch_size, choose_length, choose_width, rows_at_once, suitable_threads
from equipoise.uncertainty.classes import UncertaintyKind

Array = NDArray[Any]
HeadBuilder = Callable[..., ClassVectorLoss]
LIVE = ("backbone", "watcher")
"""Options that are not plain values."""


class CannotRunError(InvalidInputError):
    """A method that these data do not allow; a table says so in its row and goes on."""


@dataclass(frozen=True)
class FitOptions:
    """What all contestants have in common; None is chosen from the number of training samples, as the estimator does.

    Args:
        epochs: how often all samples are visited; None takes as many optimiser steps as their number needs.
        batch_size, width: of training and of the hidden layers.
        learning_rate, weight_decay: of AdamW, whose rate decays to 0 along a cosine.
        dropout: share dropped between the hidden layers and in front of the class vectors.
        passes: stochastic passes for the class uncertainty, N of the paper.
        kind: of class uncertainty, for the methods that leave it open.
        m_max: margin of the most uncertain class.
        backbone: makes a network x -> features; called once a fit, so that each seed starts from other weights.
            None takes the estimator's: standardised columns, two hidden layers.
        watcher: told of every step; it may raise to end the fit. Results do not depend on it.

    >>> FitOptions(epochs=5).settings(samples=1000, seed=0).batch_size
    32
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
    watcher: Watcher | None = None

    def settings(self, samples: int, seed: int) -> Settings:
        """Of training on so many ``samples`` with this ``seed``."""
        batch_size = choose_batch_size(samples) if self.batch_size is None else self.batch_size
        length = choose_length(samples, batch_size, self.epochs)
        return Settings(
            epochs=length.epochs,
            epoch_batches=length.epoch_batches,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
            passes=self.passes,
        )

    def recorded(self) -> dict[str, Any]:
        """What results depend on, as plain values; the backbone is described by whoever made it.

        >>> FitOptions(epochs=5).recorded()["epochs"]
        5
        """
        return {
            name: value
            for name, value in asdict(replace(self, backbone=None, watcher=None)).items()
            if name not in LIVE
        }

    def width_for(self, samples: int) -> int:
        """Units of each hidden layer, for training on so many ``samples``.

        >>> FitOptions().width_for(500), FitOptions(width=32).width_for(500)
        (256, 32)
        """
        return choose_width(samples) if self.width is None else self.width


@dataclass(frozen=True)
class Predicted:
    """What a method says of the test rows.

    Args:
        labels: (rows,), or 0/1 of shape (rows, attributes).
        probabilities: (rows, classes), with attributes that of a 1; None for methods without them.
        classes: the labels in the order of the columns of ``probabilities``.
        notes: what had to be changed for these data, a sentence each.

    >>> said = Predicted(np.array([10, 20]), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([10, 20]))
    >>> said.classes[said.probabilities.argmax(1)]
    array([10, 20])
    """

    labels: Array
    probabilities: Array | None
    classes: Array
    notes: tuple[str, ...] = ()


def train_network(
    x: Any,
    target: Tensor,
    classes: int,
    head: HeadBuilder,
    *,
    seed: int,
    options: FitOptions,
    samples: int | None = None,
    curriculum: Callable[[int], Curriculum] | None = None,
    late: LateMargins | None = None,
) -> Network:
    """A trained network, bit for bit the estimator's where the estimator has that head.

    Args:
        target: class numbers (rows,), or 0/1 of shape (rows, attributes).
        samples: what sizes are chosen from; None is the number of rows. A resampler's network gets that of the rows
            before resampling, so that every method has the same epochs, batches and width.
        curriculum: makes the stages for so many epochs.
        late: margins that are set by hand after the softmax stage, for heads which no curriculum drives.
    """
    counted = len(target) if samples is None else samples
    drawn = int(check_random_state(seed).randint(2**31 - 1))  # as the estimator does
    settings = options.settings(counted, drawn)
    counts = class_counts(target, classes)
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(drawn)
        backbone = _backbone(x, counted, options)
        loss = head(
            feature_length(backbone, new_tensor(x[:2])),
            classes,
            multilabel=target.ndim > 1,
            dropout=options.dropout,
            class_counts=counts,
        )
        network, data = Network(backbone, loss), ArrayData(x, target, None)
        margins = None if late is None else MarginWatcher(network, data, settings, late)
        watchers = _Watchers(tuple(each for each in (margins, options.watcher) if each is not None))
        parameters = sum(parameter.numel() for parameter in network.parameters())
        with suitable_threads(parameters, settings.batch_size):
            stages = None if curriculum is None else curriculum(settings.epochs)
            train(network, data, settings, curriculum=stages, watcher=watchers)
    return network.eval().cpu()


@dataclass(frozen=True)
class _Watchers:
    """Several watchers in turn."""

    each: tuple[Watcher, ...]

    def step(self, epoch: int, stage: str, steps: int) -> None:
        for watcher in self.each:
            watcher.step(epoch, stage, steps)

    def epoch(self, record: Record) -> None:
        for watcher in self.each:
            watcher.epoch(record)


def network_logits(network: Network, x: Any) -> Tensor:
    """Logits of the deterministic pass, (rows, classes) or (rows, attributes, 2)."""
    step = rows_at_once(int(np.prod(x.shape[1:])) + int(np.prod(network.head.class_shape)))
    with torch.no_grad():
        return torch.cat([network(new_tensor(x[start : start + step])) for start in range(0, len(x), step)])


def predicted(logits: Tensor, classes: Array, notes: tuple[str, ...] = ()) -> Predicted:
    """Labels and probabilities from logits."""
    probabilities, best = logits.double().softmax(-1).numpy(), logits.argmax(-1).numpy()
    if logits.ndim == 3:
        return Predicted(best, probabilities[..., 1], classes, notes)
    return Predicted(classes[best], probabilities, classes, notes)


def _backbone(x: Any, samples: int, options: FitOptions) -> nn.Module:
    if options.backbone is not None:
        return options.backbone()
    if x.ndim != 2:
        raise InvalidInputError(f"samples of shape {tuple(x.shape[1:])} need a backbone; pass one with the options.")
    width = options.width_for(samples)
    first = Standardize(x.shape[1]).fit(x)
    return nn.Sequential(first, MLP(x.shape[1], (width, width), dropout=options.dropout))
