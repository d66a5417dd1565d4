"""From the options of :class:`~equipoise.UncertaintyBalancedClassifier` to recipe, curriculum and settings."""

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.images import Images
from equipoise.data.samples import rows_of
from equipoise.data.splits import hold_out
from equipoise.errors import InvalidInputError
from equipoise.estimators.calibrated_classifier import check_rule
from equipoise.estimators.training_options import PRESETS, default_sample_level
from equipoise.losses.registry import fixed_options, loss_builder
from equipoise.options import check_options
from equipoise.training import ArrayData, Curriculum, Recipe, Settings
from equipoise.training.epoch_order import random_order
from equipoise.training.margin_strength import BY_COUNTS
from equipoise.training.settings import (
    MOST_HELD_BACK,
    Length,
    choose_batch_size,
    choose_length,
    choose_members,
    choose_width,
)

if TYPE_CHECKING:
    from equipoise.estimators.network import UncertaintyBalancedClassifier

STAGES = {"softmax": "softmax_epochs", "class_level": "class_epochs", "sample_level": "sample_epochs"}
"""The curriculum's name of each stage, and the option with its number of epochs."""
HELD_BACK = 0.1
"""Share of the samples that calibrates the probabilities by default."""


def effective_option(options: "UncertaintyBalancedClassifier", name: str) -> Any:
    """Return the value of an option in force: the preset method's, otherwise the user's."""
    preset = PRESETS.get(options.method, {}) if isinstance(options.method, str) else {}
    return preset.get(name, getattr(options, name))


def _loss_option(options: "UncertaintyBalancedClassifier", name: str) -> Any:
    """Return the value of a loss's option in force: that fixed by its entry in ``LOSSES``, otherwise the above."""
    fixed = fixed_options(loss_builder(effective_option(options, "method")))
    return fixed.get(name, effective_option(options, name))


def check_parameters(options: "UncertaintyBalancedClassifier") -> None:
    """Raise an error for invalid or conflicting options before any work is done."""
    check_options(options)
    if options.run_dir is not None and options.random_state is None:
        raise InvalidInputError("run_dir resumes a fit only with the same seed; set random_state as well.")
    if options.backbone is not None and (options.members or 1) > 1:
        raise InvalidInputError(
            f"members={options.members} needs the network for tables; leave out either members or the backbone."
        )
    _epochs(options)
    if options.decision is not None:
        check_rule(options.decision)
    if options.decision is not None and options.decision.needs_evidence and not has_unseen(options):
        raise InvalidInputError(
            f"decision={options.decision!r} needs samples that no epoch sees; set calibration='validation', "
            "without early_stopping or strength='feedback'."
        )
    asked = {
        "early_stopping": options.early_stopping,
        "strength": options.strength == "feedback",
        "calibration": options.calibration == "validation",
    }
    for name in filter(asked.get, asked):
        if options.validation_fraction == 0:
            raise InvalidInputError(
                f"{name}={getattr(options, name)!r} needs held-out samples; set validation_fraction above 0."
            )


def has_unseen(options: "UncertaintyBalancedClassifier") -> bool:
    """Return whether some samples are held out of all epochs and of every choice about the network."""
    return options.calibration == "validation" and not (options.early_stopping or options.strength == "feedback")


def held_out_rows(
    options: "UncertaintyBalancedClassifier", data: ArrayData, recipe: Recipe, seed: int
) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and the rows held out; rows of weight 0 are neither."""
    feedback = options.strength == "feedback" and recipe.uncertain
    needed = feedback or options.early_stopping or options.calibration == "validation"
    counted = torch.arange(len(data)) if data.weight is None else data.weight.nonzero().squeeze(-1)
    share = min(options.validation_fraction, MOST_HELD_BACK / len(data)) if needed else 0.0
    rows, held = hold_out(data.y[counted].numpy(), share, order=random_order(len(counted), seed))
    return counted[rows], counted[held]


def curriculum_for(options: "UncertaintyBalancedClassifier", epochs: int, *, mixing: bool) -> Curriculum:
    """Return the stages of a training of this many epochs, with or without mixing."""
    lengths: dict[str, Any] = dict(_stage_lengths(options))
    names = ("kind", "m_max", "rule", "margins", "strength", "held_back")
    chosen = {name: effective_option(options, name) for name in names}
    if chosen["margins"] == "out_of_fold":  # calibrated out of fold
        chosen["held_back"] = 0.0
    elif chosen["held_back"] is None:
        chosen["held_back"] = 0.0 if mixing else HELD_BACK
    return Curriculum(epochs, **lengths, **chosen, from_start=_margins_from_start(options))


def _margins_from_start(options: "UncertaintyBalancedClassifier") -> bool:
    """Return whether margins are known before training, so that it needs no softmax stage."""
    known = effective_option(options, "margins") in BY_COUNTS and effective_option(options, "strength") == "uncertainty"
    return known and _loss_option(options, "form") == "additive" and options.softmax_epochs is None


def _stage_lengths(options: "UncertaintyBalancedClassifier") -> dict[str, int]:
    """Return the number of epochs of each stage that has one, by the names of :class:`Curriculum`."""
    given = {stage: getattr(options, name) for stage, name in STAGES.items()}
    return {stage: length for stage, length in given.items() if length is not None}


def _epochs(options: "UncertaintyBalancedClassifier") -> int | None:
    """Return the sum of the stages if each has a length, otherwise the ``epochs`` of the options."""
    given = _stage_lengths(options)
    first = () if _margins_from_start(options) else ("softmax",)
    if not given.keys() >= {*first, "class_level", "sample_level"}:
        return options.epochs
    total = sum(given.values())
    if options.epochs not in (None, total):
        stages = " + ".join(STAGES[stage] for stage in given)
        raise InvalidInputError(
            f"{stages} is {total}, but epochs is {options.epochs}; leave epochs out, or set epochs={total}."
        )
    return total


def settings_for(options: "UncertaintyBalancedClassifier", samples: int, seed: int) -> Settings:
    """Return the settings of a training on this many samples, from options of the same names and from their number."""
    given = {each.name: getattr(options, each.name) for each in fields(Settings) if hasattr(options, each.name)}
    batch_size = choose_batch_size(samples) if options.batch_size is None else options.batch_size
    epochs = _epochs(options)
    length = choose_length(samples, batch_size, epochs)
    if epochs is not None and _stage_lengths(options):  # they count passes over the data, which must not be divided
        length = Length(epochs, None)
    given |= length._asdict() | {"batch_size": batch_size, "seed": seed}
    return Settings(**given | {"patience": options.patience if options.early_stopping else None})


def recipe_for(
    options: "UncertaintyBalancedClassifier", x: NDArray[Any] | Images, classes: NDArray[Any], target: Tensor
) -> Recipe:
    """Return the network to train for samples x with these classes."""
    several = target.ndim > 1
    mixable = not several and rows_of(x).blocks() is None  # a table read in parts cannot draw partners from all rows
    own = default_sample_level(math.prod(x.shape[1:]), mixable=mixable)
    found = Recipe(
        **{name: effective_option(options, name) for name in ("method", "form", "placement", "normalize")},
        sample_level=effective_option(options, "sample_level") or own,
        classes=len(classes),
        multilabel=several,
        dropout=options.dropout,
        columns=x.shape[1],
        width=choose_width(len(x)) if options.width is None else options.width,
    )
    return replace(found, members=_members(options, found, len(x)))


def _members(options: "UncertaintyBalancedClassifier", recipe: Recipe, samples: int) -> int:
    """Return how many networks are trained side by side."""
    if options.members is not None:
        return options.members
    able = _loss_option(options, "form") == "additive"
    able &= (_loss_option(options, "sample_level") or recipe.sample_level) in ("none", "mixing")
    return choose_members(samples) if recipe.uncertain and able and options.backbone is None else 1
