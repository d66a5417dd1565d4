"""One fit on a user's own data: split, columns to numbers, train, score."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from equipoise.app.compare.deadline import Deadline
from equipoise.app.compare.network import FitOptions, Predicted
from equipoise.app.compare.results import Fit
from equipoise.app.compare.tuning import Tuned, fit_tuned
from equipoise.app.runs.inputs import RunInput
from equipoise.data.samples import Samples
from equipoise.data.splits import grouped_folds, official, stratified_folds
from equipoise.evaluation import Scores, scores

Rows = NDArray[np.intp]
Prepare = Callable[[Any], RunInput]


@dataclass(frozen=True)
class FoldRun:
    """Runs the fits of one data set; it holds the samples, and may be sent to another process.

    Args:
        folds: how many; None tests on the official test part.
        tune: choose each method's knob on a share of the training rows.
        prepare: makes, from training rows, what turns rows into the network's input.
        deadline: ends a fit that is still running; None lets each take its time.
    """

    samples: Samples
    folds: int | None
    options: FitOptions
    tune: bool
    prepare: Prepare
    deadline: Deadline | None = None

    def __call__(self, fit: Fit) -> dict[str, Any]:
        """The record of one fit."""
        train_rows, test_rows = self.split(fit.seed)[fit.fold]
        train = partial(self.fit, fit.method, train_rows, test_rows, seed=fit.seed)
        tuned = train() if self.deadline is None else self.deadline.call(train)
        y = self.samples.y
        found = self._scores(y[train_rows], y[test_rows], tuned.predicted)
        return {
            "scores": summary(found),
            "knob": dict(tuned.knob),
            "tried": list(tuned.tried),
            "notes": list(tuned.predicted.notes),
            "rows": {"train": len(train_rows), "test": len(test_rows)},
        }

    def fit(self, method: str, train_rows: Rows, test_rows: Rows, *, seed: int) -> Tuned:
        """Train a method on some rows and predict others."""
        train = self.samples.take(train_rows)
        x_train, x_test, options = self._inputs(train.x, self.samples.take(test_rows).x)
        return fit_tuned(
            method,
            x_train,
            train.y,
            x_test,
            seed=seed,
            options=options if self.deadline is None else replace(options, watcher=self.deadline),
            tune=self.tune,
            groups=train.groups,
        )

    def split(self, seed: int) -> list[tuple[Rows, Rows]]:
        """Training and test rows of each fold: the same for every method."""
        samples = self.samples
        if self.folds is None:
            parts = official(samples)
            nothing = np.empty(0, np.intp)
            learnt = np.concatenate([parts.get("train", nothing), parts.get("val", nothing)])
            return [(np.sort(learnt), parts["test"])]
        if samples.groups is not None:
            return grouped_folds(samples.y, samples.groups, self.folds, seed=seed, allow_missing=True)
        return stratified_folds(samples.y, self.folds, seed=seed, allow_missing=True)

    def _inputs(self, x_train: Any, x_test: Any) -> tuple[Any, Any, FitOptions]:
        if isinstance(x_train, np.ndarray) and x_train.ndim == 2 and x_train.dtype.kind == "f":
            return x_train, x_test, self.options  # numbers already
        made = self.prepare(x_train)
        options = self.options
        if made.backbone is not None and options.backbone is None:
            options = replace(options, backbone=lambda: self._new_backbone(x_train))
        return made.rows(x_train), made.rows(x_test), options

    def _new_backbone(self, x_train: Any) -> nn.Module:
        """Made anew, so that its first weights come from the fit's seed."""
        backbone = self.prepare(x_train).backbone
        assert backbone is not None
        return backbone

    def _scores(self, y_train: NDArray[Any], y_test: NDArray[Any], said: Predicted) -> Scores:
        if y_train.ndim == 2:
            return scores(y_test, said.labels, probabilities=said.probabilities, train_counts=y_train.sum(0))
        classes = np.unique(self.samples.y)
        counts = np.array([int((y_train == name).sum()) for name in classes])
        columns = None
        if said.probabilities is not None:  # a class without a training row has no column yet
            columns = np.zeros((len(said.labels), len(classes)))
            columns[:, np.searchsorted(classes, said.classes)] = said.probabilities
        return scores(y_test, said.labels, probabilities=columns, classes=classes, train_counts=counts)


def summary(found: Scores) -> dict[str, Any]:
    """What a table is made of: every score without its confusion matrix, and of the classes their recall and BCA."""
    plain = found.as_dict()
    kept: dict[str, Any] = {name: plain[name] for name in ("accuracy", "balanced_accuracy", "recall_product")}
    for name in ("precision", "recall", "f1", "g_mean", "iba", "bca"):
        kept[name] = {part: plain[name][part] for part in ("mean", "deviation")}
    for name in ("recall", "bca"):
        kept[name]["each"] = plain[name]["each"]
    kept["group_recall"] = plain["group_recall"]
    if plain["calibration"] is not None:
        kept["calibration"] = {
            name: value for name, value in plain["calibration"].items() if isinstance(value, int | float)
        }
    return kept
