"""Training of the estimator's network, and of networks by fold, which correct it by their logits of unseen rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.calibration.scaling import Scaling, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.data.splits import stratified_folds
from equipoise.errors import InvalidInputError
from equipoise.estimators.options_to_settings import curriculum_for
from equipoise.training import ArrayData, Bar, Curriculum, Network, Recipe, Settings, train
from equipoise.training.margin_strength import class_shift
from equipoise.training.settings import rows_at_once, suitable_threads
from equipoise.training.watchers import Record

if TYPE_CHECKING:
    from equipoise.estimators.network import UncertaintyBalancedClassifier

FOLDS = 3
"""Networks trained for the logits, each on all rows but a fold; fewer where there are fewer rows."""

Fit = Callable[[ArrayData, Path | None], Network]
"""Trains a network on some rows, and stores it in a folder if there is one."""


class Trained(NamedTuple):
    """A trained network, and what it was trained by."""

    network: Network
    curriculum: Curriculum | None
    settings: Settings
    epochs: list[Record]


def train_network(
    estimator: "UncertaintyBalancedClassifier",
    data: ArrayData,
    recipe: Recipe,
    seed: int,
    part: ArrayData,
    folder: Path | None,
    held_out: ArrayData | None = None,
    warm: NDArray[Any] | None = None,
) -> Trained:
    """Train a new network on a ``part`` of the data, from the last fit's weights if it had the classes ``warm``."""
    settings = estimator._settings(len(part), seed)
    curriculum = None
    if recipe.uncertain or estimator.strength == "head":
        curriculum = curriculum_for(estimator, settings.epochs, mixing=recipe.sample_level == "mixing")
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):  # leave the caller's random state untouched
        torch.manual_seed(seed)
        counts = class_counts(part.y, recipe.classes, part.weight)
        network = recipe.new_network(data.x, counts, estimator.backbone, data.weight)
        if warm is not None and hasattr(estimator, "network_"):
            _take_weights(network, estimator, warm)
        bar = Bar(settings.epochs, shown=bool(estimator.verbose))
        parameters = sum(parameter.numel() for parameter in network.parameters())
        with bar, suitable_threads(parameters, settings.batch_size):
            epochs = train(
                network, part, settings, curriculum=curriculum, validation=held_out, folder=folder, watcher=bar
            )
    return Trained(network, curriculum, settings, epochs)


def _take_weights(network: Network, estimator: "UncertaintyBalancedClassifier", classes: NDArray[Any]) -> None:
    """Load the last fit's weights, for ``warm_start``."""
    same = classes.tolist() == estimator.classes_.tolist()
    before, now = (dict(each.named_parameters()) for each in (estimator.network_, network))
    if not same or {k: v.shape for k, v in before.items()} != {k: v.shape for k, v in now.items()}:
        raise InvalidInputError("warm_start needs the last fit's classes, columns and width; set warm_start=False.")
    network.load_state_dict(before, strict=False)


def class_correction(data: ArrayData, fit: Fit, *, seed: int, folder: Path | None) -> tuple[Tensor, Scaling | None]:
    """Return the shift of each class's logit, (classes,) or (attributes, 2), and the scaling of the shifted logits.

    Args:
        data, fit, seed, folder: as in :func:`out_of_fold_logits`.
    """
    rows, logits = out_of_fold_logits(data, fit, seed=seed, folder=folder)
    target, weight = data.y[rows], None if data.weight is None else data.weight[rows]
    shift = class_shift(logits, target, sample_weight=weight)
    counts = class_counts(target, logits.shape[-1], weight)
    return shift, fit_scaling(logits + shift, target, counts, sharpen=False, sample_weight=weight)


def out_of_fold_logits(data: ArrayData, fit: Fit, *, seed: int, folder: Path | None) -> tuple[Tensor, Tensor]:
    """Return rows (n,), and for each the logits (n, ...) of the network that was trained without it.

    A row whose class has no other row outside of its fold is left out.

    Args:
        data: the training rows.
        fit: trains a network on some of them.
        seed: of the folds.
        folder: gets a folder per fold, from which an interrupted fit resumes; None stores nothing.
    """
    folds = stratified_folds(data.y.numpy(), min(FOLDS, len(data)), seed=seed, allow_missing=True)
    rows, logits = [], []
    for number, (trained_on, rest) in enumerate(folds):
        part = data.subset(torch.from_numpy(trained_on))
        held = torch.from_numpy(rest)
        if data.y.ndim == 1:
            held = held[torch.isin(data.y[held], part.y)]
        if len(held) == 0:
            continue
        network = fit(part, None if folder is None else folder / f"fold-{number + 1}")
        rows.append(held)
        logits.append(torch.cat(list(_in_batches(network, data.subset(held)))))
    return torch.cat(rows), torch.cat(logits)


@torch.no_grad()
def _in_batches(network: Network, data: ArrayData) -> Iterator[Tensor]:
    step = rows_at_once(data[0][0].numel())
    network.eval()
    for start in range(0, len(data), step):
        x = data.__getitems__(range(start, min(start + step, len(data))))[0]
        yield network(x).double()
