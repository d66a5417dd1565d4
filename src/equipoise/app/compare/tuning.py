"""Choosing a method's knob on validation rows: the same budget for every method, never a test label."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.app.compare.fits import Knob
from equipoise.app.compare.methods import METHODS
from equipoise.app.compare.network import Array, CannotRunError, FitOptions, Predicted
from equipoise.data.splits import hold_out
from equipoise.errors import InvalidInputError
from equipoise.evaluation import scores
from equipoise.training.settings import choose_width


@dataclass(frozen=True)
class Tuned:
    """Predictions of the chosen setting, trained anew on all training rows.

    Args:
        predicted: of the test rows.
        knob: the setting; ``{}`` is the published one.
        tried: balanced accuracy of each setting on the validation rows, in the order of the grid, None where it could
            not run; empty without tuning.
    """

    predicted: Predicted
    knob: Knob
    tried: tuple[float | None, ...] = ()


def fit_tuned(
    name: str,
    x_train: Any,
    y_train: Array,
    x_test: Any,
    *,
    seed: int,
    options: FitOptions,
    tune: bool = False,
    share: float = 0.2,
    groups: ArrayLike | None = None,
) -> Tuned:
    """Fit a method of ``METHODS`` and predict ``x_test``.

    Args:
        name: of the method.
        x_train, x_test: rows as the network takes them, (samples, columns) for its tables, float32.
        y_train: labels, (samples,), or 0/1 of shape (samples, attributes).
        seed, options: of the fit.
        tune: choose among the method's grid by balanced accuracy on a share of the training rows; a tie goes to the
            setting that stands first, the published one. Without it the published setting is taken.
        share: of the training rows that the settings are tried on.
        groups: of the training rows, (samples,), kept on one side of the validation split.
    """
    if name not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}, got {name!r}.")
    method = METHODS[name]
    tried: tuple[float | None, ...] = ()
    knob: Knob = {}
    if tune and len(method.grid) > 1:
        tried = _try_all(name, x_train, y_train, seed=seed, options=options, share=share, groups=groups)
        if any(score is not None for score in tried):
            knob = method.grid[int(np.argmax([-1.0 if score is None else score for score in tried]))]
    return Tuned(method.fit(x_train, y_train, x_test, seed=seed, options=options, knob=knob), knob, tried)


def _try_all(
    name: str, x: Any, y: Array, *, seed: int, options: FitOptions, share: float, groups: ArrayLike | None
) -> tuple[float | None, ...]:
    """Balanced accuracy of each setting on the same validation rows."""
    rows, held = hold_out(y, share, seed=seed, groups=groups)
    if len(held) == 0:
        return ()
    # all rows decide the sizes, so that a setting is tried with the batches it is later used with, for as many steps
    sizes = options.settings(len(y), seed)
    width = choose_width(len(y)) if options.width is None else options.width
    same = replace(options, batch_size=sizes.batch_size, width=width)
    x_rows, x_held = (x.take(part, axis=0) for part in (rows, held))
    found: list[float | None] = []
    for knob in METHODS[name].grid:
        try:
            said = METHODS[name].fit(x_rows, y[rows], x_held, seed=seed, options=same, knob=knob)
        except CannotRunError:
            found.append(None)
            continue
        found.append(scores(y[held], said.labels).balanced_accuracy)
    return tuple(found)
