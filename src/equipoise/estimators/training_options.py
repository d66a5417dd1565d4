"""Training options, each declared once: estimator argument, command-line flag, configuration key, and check."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from equipoise.options import option
from equipoise.registry_names import MarginForm, MarginRule, MarginSource, Placement, Precision, SampleLevel, loss_names

PRESETS: dict[str, dict[str, Any]] = {
    "paper_as_printed": {
        "method": "uncertainty_margin",
        "form": "angular",
        "placement": "target",
        "normalize": False,
        "sample_level": "printed",
        "kind": "own",
        "rule": "paper",
        "margins": "uncertainty",
        "strength": 1.0,
        "held_back": 0.0,
    }
}
"""Methods that are a loss of ``LOSSES`` and fixed options beside it. The paper to the letter: the true angle, free
norms, whole margins at full strength, and in the last stage the true logit times the probability of a mistake."""


MIXED_NUMBERS = 64
"""Samples with at least this many numbers are mixed by default."""


def default_sample_level(numbers: int, *, mixable: bool) -> SampleLevel:
    """Return the default sample level.

    Args:
        numbers: how many numbers a sample has.
        mixable: whether partners can be drawn: samples have one label each, and all rows are in memory or on disk.

    >>> default_sample_level(784, mixable=True), default_sample_level(8, mixable=True)
    ('mixing', 'none')
    """
    return "mixing" if numbers >= MIXED_NUMBERS and mixable else "none"


def loss_and_preset_names() -> list[str]:
    """Return the names of losses and of presets."""
    return [*loss_names(), *PRESETS]


def _one_of(names: Any) -> Callable[[], Collection[str]]:
    return lambda: get_args(names)


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingOptions:
    """Training options, shared by the estimator and ``equipoise train``.

    To add one, add a field here, and a line where the estimator uses it; fields of ``Settings`` are passed on by name.
    """

    method: str = option(
        "uncertainty_margin",
        "Name of the loss; 'cross_entropy' is ordinary training.",
        detail="One of ``equipoise.losses.LOSSES``; the default is Equipoise. ``'paper_as_printed'`` follows the paper "
        "to the letter, whatever the other options say. The estimator also takes a function that builds a loss in the "
        "same way.",
        choices=loss_and_preset_names,
    )
    epochs: int | None = option(
        None,
        "Passes over the training samples; default: chosen from their number.",
        detail="None trains for 2,000 to 6,000 optimiser steps, more for large data, divided into 30 epochs; an epoch "
        "may then be several passes over the data, or part of one. If you ask for a few passes over large data, they "
        "are divided into about 6 epochs. If every stage has a length, None is their sum; with ``epochs`` and a "
        "stage's length, an epoch is one whole pass. A warning says if the margins get too few steps.",
        least=1,
        whole=True,
    )
    batch_size: int | None = option(
        None,
        "Samples per batch; default: chosen from their number.",
        detail='``history_["chosen"]`` holds the chosen value.',
        least=1,
        whole=True,
    )
    learning_rate: float = option(
        1e-3, "Initial learning rate; it decays to 0.", detail="Along a cosine, by AdamW.", least=0
    )
    dropout: float = option(
        0.5,
        "Dropout rate; the uncertainty comes from dropout.",
        detail="Applied between the hidden layers and before the class vectors.",
        least=0,
        below=1,
    )
    members: int | None = option(
        None,
        "Networks trained side by side, whose logits are averaged; default: depends on the method.",
        detail="None is 4 for the default method on fewer than 2,000 rows of numbers or features, and 1 for more rows, "
        "other methods, a ``backbone``, the angular form and sample levels from dropout.",
        least=1,
        whole=True,
    )
    margins: MarginSource = option(
        "counts",
        "Source of the margins: counts, uncertainty, corrected (counts by uncertainty) or out_of_fold.",
        detail="``'corrected'`` corrects the counts by uncertainty, beyond its standard error. "
        "``'out_of_fold'`` trains with margins by counts, then shifts each class's logit by what it lacks in the "
        "out-of-fold predictions of three further networks, which takes four times as long.",
        choices=_one_of(MarginSource),
    )
    sample_level: SampleLevel | None = option(
        None,
        "Sample-level uncertainty: none, expected, complement, printed or mixing; default: by the number of features.",
        detail="``'mixing'`` trains on samples between two classes, see :mod:`equipoise.training.mixing`; the others "
        "are those of ``UncertaintyMarginLoss``. None mixes samples with at least 64 features (encoded columns, "
        "pixels × channels, embedding dimensions) and one label each. With fewer features, where a row between two "
        "classes may look like a third, and for tables read in parts, None is ``'none'``.",
        choices=_one_of(SampleLevel),
    )
    form: MarginForm = option(
        "additive",
        "Margins lower logits (additive) or, as in the paper, widen angles (angular).",
        choices=_one_of(MarginForm),
    )
    placement: Placement = option(
        "all",
        "Margins on all classes (all, the paper's constraint) or on the true class only (target, its loss).",
        choices=_one_of(Placement),
    )
    normalize: bool = option(True, "Normalise class vectors; the paper does not.")
    m_max: float = option(3.0, "Largest margin.", above=1)
    rule: MarginRule = option(
        "log",
        "Rule from uncertainty to margins: log, or paper for whole numbers.",
        detail="See ``margins_from_uncertainty``.",
        choices=_one_of(MarginRule),
    )
    passes: int = option(10, "Stochastic forward passes for the uncertainty.", least=2, whole=True)
    softmax_epochs: int | None = option(
        None, "Epochs of the softmax stage; default: none with margins by counts, else a sixth.", least=1, whole=True
    )
    class_epochs: int | None = option(
        None, "Epochs of the class stage; default: half, or two thirds without a softmax stage.", least=1, whole=True
    )
    sample_epochs: int | None = option(
        None,
        "Epochs of the sample stage; default: a third.",
        detail="The paper's last 10.",
        least=1,
        whole=True,
    )
    precision: Precision = option(
        "no",
        "Mixed precision on a GPU: no, bf16 or fp16.",
        detail="The head stays in float32.",
        choices=_one_of(Precision),
        flags=("--mixed-precision",),
    )


def training_values(options: TrainingOptions) -> dict[str, Any]:
    """Return the values of all training options by name."""
    return {each.name: getattr(options, each.name) for each in fields(TrainingOptions)}


def positional(name: str) -> Any:
    """Return a field of :class:`TrainingOptions` for a subclass that takes it as a positional argument."""
    inherited = next(each for each in fields(TrainingOptions) if each.name == name)
    return field(default=inherited.default, metadata=inherited.metadata, kw_only=False)
