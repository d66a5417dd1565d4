"""One fit: an estimator trained on some rows, tuned if requested, and scored on others."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from equipoise.app.compare.deadline import Deadline, OutOfTimeError
from equipoise.app.compare.decision_scores import decision_scores
from equipoise.app.compare.fit_store import CannotRunError, Fit
from equipoise.app.compare.method import Hyperparameters, Method
from equipoise.app.compare.methods import METHODS, check_installed
from equipoise.app.compare.networks import FitOptions
from equipoise.app.runs.preprocessing import RunInput
from equipoise.data.labels import label_places
from equipoise.data.samples import Samples
from equipoise.data.splits import hold_out, official, stratified_folds
from equipoise.decisions import DecisionRule
from equipoise.evaluation import scores
from equipoise.registry_names import check_methods

Array = NDArray[Any]
Rows = NDArray[np.intp]
Prepare = Callable[..., RunInput]
"""(rows, labels, groups) -> what turns rows into the network's input; labels and groups may be left out."""
VALIDATED = 0.2
"""Share of the training rows that hyperparameters are tuned on."""
MOST_PIXELS = 4096
"""Most values of an image that a method without a network takes as columns: 3 × 32 × 32 and 1 × 64 × 64 fit."""
EACH = ("recall", "bca")
"""Scores that a record stores for every class."""


@dataclass(frozen=True)
class FitOutcome:
    """The predictions of a method for the test rows.

    Args:
        labels: (rows,), or 0/1 of shape (rows, attributes).
        probabilities: (rows, classes), with attributes that of a 1; None for methods without them.
        classes: the labels in the order of the columns of ``probabilities``.
        notes: what had to be changed for these data, a sentence each.
        hyperparameters: the setting that was taken; ``{}`` is the published one.
        tried: balanced accuracy of each setting on the validation rows, in the order of the grid, None where it could
            not run; empty without tuning.
    """

    labels: Array
    probabilities: Array | None
    classes: Array
    notes: tuple[str, ...] = ()
    hyperparameters: Hyperparameters = field(default_factory=dict)
    tried: tuple[float | None, ...] = ()

    def record(
        self, y_train: Array, y_test: Array, classes: Array, decision: DecisionRule | None = None
    ) -> dict[str, Any]:
        """Score the predictions, and return the result as plain values.

        Args:
            y_train, y_test: labels of both parts, (rows,) or 0/1 of shape (rows, attributes).
            classes: all labels, also one that no training row has.
            decision: a rule that decides by the probabilities; None leaves the method's own answers.

        Raises:
            CannotRunError: if there is a rule, and the method gives no probabilities to decide by.
        """
        probabilities, known = self.probabilities, dict[str, Any]()
        if y_train.ndim == 2:
            known["train_counts"] = y_train.sum(0)
        else:
            known |= {"classes": classes, "train_counts": [int((y_train == name).sum()) for name in classes]}
            if probabilities is not None:  # a class without a training row has no column yet
                columns = np.zeros((len(self.labels), len(classes)))
                columns[:, label_places(self.classes, classes)] = probabilities
                probabilities = columns
        found = scores(y_test, self.labels, probabilities=probabilities, **known).as_dict()
        kept_scores = {name: kept for name, value in found.items() if (kept := _summary(name, value)) is not None}
        if decision is not None:
            kept_scores |= decision_scores(decision, y_train, y_test, probabilities, classes)
        return {
            "scores": kept_scores,
            "hyperparameters": dict(self.hyperparameters),
            "tried": list(self.tried),
            "notes": list(self.notes),
            "rows": {"train": len(y_train), "test": len(y_test)},
        }


def _summary(name: str, value: Any) -> Any:
    """Return the stored form of a score: a number, or for scores by class their mean and deviation."""
    if isinstance(value, Mapping):
        kept = {part: each for part, each in value.items() if not isinstance(each, list) or name in EACH}
        return {part: _summary(name, each) if isinstance(each, Mapping) else each for part, each in kept.items()}
    return None if isinstance(value, list | bool) or name == "samples" else value


def fit_tuned(
    method: str | Method,
    x_train: Any,
    y_train: Array,
    x_test: Any,
    *,
    seed: int,
    options: FitOptions,
    tune: bool = False,
    groups: ArrayLike | None = None,
) -> FitOutcome:
    """Fit a method and predict ``x_test``.

    Args:
        method: a name of ``METHODS``, or a method.
        x_train, x_test: rows as the network takes them, (samples, columns) for its tables, float32.
        y_train: labels, (samples,), or 0/1 of shape (samples, attributes).
        seed, options: of the fit.
        tune: choose among the method's grid by balanced accuracy on a fifth of the training rows; a tie goes to the
            setting that stands first, the published one. Without it the published setting is taken.
        groups: of the training rows, (samples,), kept on one side of the validation split.
    """
    if isinstance(method, str):
        check_methods([method], METHODS)
        check_installed([method])
    chosen = METHODS[method] if isinstance(method, str) else method
    # all rows decide the sizes, so that a setting is tried with the batches it is later used with, for as many steps
    fit = partial(fit_method, chosen, seed=seed, options=options.sized(len(y_train)))
    tried: list[float | None] = []
    if tune and len(chosen.grid) > 1:
        rows, held = hold_out(y_train, VALIDATED, seed=seed, groups=groups)
        for hyperparameters in chosen.grid if len(held) else ():
            try:
                parts = x_train.take(rows, axis=0), y_train[rows], x_train.take(held, axis=0)
                said = fit(*parts, hyperparameters=hyperparameters)
                tried.append(scores(y_train[held], said.labels).balanced_accuracy)
            except CannotRunError:
                tried.append(None)
    best = int(np.argmax([-1.0 if score is None else score for score in tried])) if any(tried) else 0
    return replace(fit(x_train, y_train, x_test, hyperparameters=chosen.grid[best]), tried=tuple(tried))


def fit_method(
    method: Method,
    x_train: Any,
    y_train: Array,
    x_test: Any,
    *,
    seed: int,
    options: FitOptions,
    hyperparameters: Hyperparameters,
) -> FitOutcome:
    """Build a method's estimator, fit it to some rows and predict others.

    Raises:
        CannotRunError: if the data do not allow the method.
    """
    why = unsuited(method, x_train.shape, several_labels=y_train.ndim > 1)
    if why is not None:
        raise CannotRunError(f"{method.label} cannot run on these data: {why}.")
    model = method.build(seed, hyperparameters, options)
    try:
        notes = _fit(model, x_train, y_train, method.label)
        labels = np.asarray(model.predict(x_test))
        probabilities = model.predict_proba(x_test) if hasattr(model, "predict_proba") else None
    except OutOfTimeError:
        raise
    except Exception as error:  # other packages raise what they like
        if method.has_network:
            raise
        reason = (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")
        raise CannotRunError(f"{method.label} failed ({type(error).__name__}: {reason}).") from error
    if isinstance(probabilities, list):  # scikit-learn's, one matrix per attribute
        whole = all(each.shape[1] == 2 for each in probabilities)
        probabilities = np.stack([each[:, 1] for each in probabilities], axis=1) if whole else None
    classes = np.unique(y_train) if y_train.ndim == 1 else np.arange(y_train.shape[1])
    if y_train.ndim == 1 and not np.isin(labels, classes).all():
        unknown = labels[~np.isin(labels, classes)].tolist()[0]
        raise CannotRunError(f"{method.label} failed (it predicts {unknown!r}, which is not a training label).")
    return FitOutcome(labels, probabilities, classes, notes, hyperparameters)


def unsuited(method: Method, shape: Sequence[int], *, several_labels: bool) -> str | None:
    """Return why a method does not take samples of this shape, or None if it does."""
    if several_labels and not method.several_labels:
        return "it takes one label per sample, not several"
    values = math.prod(shape[1:])
    if len(shape) > 2 and method.family == "table" and values > MOST_PIXELS:
        return f"images of {values:,} values are too large to be columns (at most {MOST_PIXELS:,})"
    return None


def _fit(model: Any, x: Any, y: Array, label: str) -> tuple[str, ...]:
    """Fit a model, and return sentences on what was changed for these data or did not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(x, y)
    unsettled = any(issubclass(each.category, ConvergenceWarning) for each in caught)
    for each in caught:
        if not issubclass(each.category, ConvergenceWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    steps = [step for _, step in getattr(model, "steps", ())]
    notes = [note for step in steps for note in getattr(step, "notes_", ())]
    return (*notes, *([f"{label} stopped before it had converged."] if unsettled else ()))


@dataclass(frozen=True)
class FoldFitter:
    """Runs the fits of one data set; it holds the samples, and may be sent to another process.

    Without ``folds`` it tests on the official test part. A ``deadline`` ends a fit that is still running; ``methods``
    are looked up here before ``METHODS``; by a ``decision`` all of them decide.
    """

    samples: Samples
    folds: int | None
    options: FitOptions
    tune: bool
    prepare: Prepare
    deadline: Deadline | None = None
    methods: Mapping[str, Method] = field(default_factory=dict)
    decision: DecisionRule | None = None

    def __call__(self, fit: Fit) -> dict[str, Any]:
        """Return the record of one fit."""
        train_rows, test_rows = self.split(fit.seed)[fit.fold]
        train = partial(self.fit, fit.method, train_rows, test_rows, seed=fit.seed)
        said = train() if self.deadline is None else self.deadline.call(train)
        y = self.samples.y
        return said.record(y[train_rows], y[test_rows], self.samples.encoded[0], self.decision)

    def method(self, name: str) -> Method:
        """Return a method by its name."""
        return self.methods[name] if name in self.methods else METHODS[name]

    def fit(self, name: str, train_rows: Rows, test_rows: Rows, *, seed: int) -> FitOutcome:
        """Train a method on some rows and predict others."""
        train = self.samples.take(train_rows)
        x_train, x_test, options = self._inputs(train, self.samples.take(test_rows).x)
        how: dict[str, Any] = {"options": options, "tune": self.tune, "groups": train.groups}
        return fit_tuned(self.method(name), x_train, train.y, x_test, seed=seed, **how)

    def split(self, seed: int) -> list[tuple[Rows, Rows]]:
        """Return training and test rows of each fold: the same for every method."""
        samples = self.samples
        if self.folds is None:
            parts = official(samples)
            learnt = [parts[part] for part in ("train", "val") if part in parts]
            return [(np.sort(np.concatenate(learnt)), parts["test"])]
        return stratified_folds(samples.encoded[1], self.folds, groups=samples.groups, seed=seed, allow_missing=True)

    def _inputs(self, train: Samples, x_test: Any) -> tuple[Any, Any, FitOptions]:
        x_train = train.x
        if isinstance(x_train, np.ndarray) and x_train.ndim == 2 and x_train.dtype.kind == "f":
            return x_train, x_test, self.options  # numbers already
        made = self.prepare(x_train, train.y, train.groups)
        options = self.options
        if made.backbone is not None and options.backbone is None:
            # built anew, so that its initial weights come from the fit's seed
            options = replace(options, backbone=lambda: cast(nn.Module, self.prepare(x_train).backbone))
        return made.training_rows(x_train), made.rows(x_test), options
