"""``equipoise rebalance``: balanced decisions from an external model's predictions."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.app.decision_options import read_prior
from equipoise.app.output_files import write_rows
from equipoise.app.run_folder import BlendPart, CalibrationRecord, RunRecord, check_unused
from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.answer_table import Abstained, PredictedCounts, answered, write_answers
from equipoise.app.runs.decision_file import HUMAN, Decision
from equipoise.app.runs.given_predictions import (
    LabelledPredictions,
    asked_columns,
    iterate_predictions,
    read_labelled,
    read_probabilities,
    row_names,
)
from equipoise.app.runs.trained_run import ESTIMATE, Predictions, Prior
from equipoise.app.runs.unlabelled_data import ROWS_AT_ONCE, STANDARD_INPUT, held_standard_input
from equipoise.app.stored_arrays import HeldOut, Trust
from equipoise.app.stored_run import StoredRun
from equipoise.calibration import estimate_prior
from equipoise.calibration.conformal import LEVEL
from equipoise.data.splits import stratified_folds
from equipoise.data.summary import class_groups
from equipoise.decisions import DecisionRule
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.evaluation import Scores, scores
from equipoise.storage.run_files import ANSWERS, DECISION, REPORT

FOLDS, FOLDS_OF_MANY, MANY = 10, 4, 20_000
"""Folds of the labelled rows, each answered by a correction fitted on the others; fewer suffice for many rows."""
Floats = NDArray[np.float64]
LACKING = "{broken:,} of {samples:,} rows lack a probability and have no class; a human should look."


@dataclass(frozen=True)
class Rebalanced:
    """A decision, its folder, and what it changes.

    The scores are those of the given predictions and of the answers, each by a correction that has not seen its row;
    ``run`` is all of it as the report shows it.
    """

    folder: Path
    decision: Decision
    before: Scores
    after: Scores
    run: StoredRun


@dataclass(frozen=True)
class CrossFitted:
    """Answers to the labelled rows, each by a correction fitted on the others."""

    probabilities: Floats
    predicted: NDArray[np.int64]
    uncertainty: Floats
    sets: NDArray[np.bool_]
    folds: int

    @classmethod
    def of(
        cls, p: Floats, target: NDArray[np.int64], *, rule: DecisionRule | None = None, seed: int = 0
    ) -> "CrossFitted":
        """Fit on all folds but one in turn; p (rows, classes), target (rows,)."""
        folds = stratified_folds(target, FOLDS if len(target) < MANY else FOLDS_OF_MANY, seed=seed, allow_missing=True)
        found = cls(np.empty(p.shape), np.empty_like(target), np.empty(len(p)), np.empty(p.shape, bool), len(folds))
        for others, own in folds:
            part = BalancedClassifier.from_predictions(p[others], target[others], random_state=seed)
            found.probabilities[own] = part.predict_proba(p[own])
            found.predicted[own] = part.predict(p[own], decision=rule)
            found.uncertainty[own], found.sets[own] = part.uncertainty(p[own]), part.prediction_sets(p[own], LEVEL)
        return found


def rebalance(
    source: str | Path,
    folder: str | Path,
    *,
    target: str | None = None,
    columns: str | None = None,
    human: float = HUMAN,
    rule: DecisionRule | None = None,
    raw: bool = False,
    watcher: RunWatcher | None = None,
) -> Rebalanced:
    """Fit a decision on predictions with true labels, and store it with the corrected answers and a report.

    Args:
        source: a CSV or Parquet file with a probability for each class and the true label, for rows that the model
            was not trained on.
        folder: new or empty.
        target, columns: as for :func:`equipoise.app.runs.given_predictions.read_labelled`.
        human: share of the answers, the most uncertain, to flag for human review.
        rule: the rule that answers, which names classes as the labels do; None is the default.
        raw: write names to CSV unchanged.
        watcher: receives notes on the chosen columns and on rows left out.
    """
    folder, told = Path(folder), watcher or RunWatcher()
    check_unused(folder)
    given = read_labelled(source, target=target, columns=columns)
    told.note(*given.notes)
    p, y = given.probabilities, given.target
    if rule is not None:
        rule.check(given.classes, several=False)
    crossed = CrossFitted.of(p, y, rule=None if rule is None else rule.by_place(given.classes))
    fitted = BalancedClassifier.from_predictions(p, y, random_state=0)
    decision = Decision.of(fitted, given.classes, given.columns, crossed.uncertainty, rule)
    as_given = p / p.sum(1, keepdims=True)
    before, after = _scores(as_given, p.argmax(1), given), _scores(crossed.probabilities, crossed.predicted, given)
    options = {name: value for name, value in (("target", target), ("columns", columns)) if value is not None}
    run = _stored(folder, decision, given, crossed, before, after, source=str(source), options=options)
    from equipoise.app.report.rebalance_page import write_rebalanced  # draws, and --apply need not wait for matplotlib

    write_rebalanced(run, folder / REPORT)
    write_rows(_labelled_answers(decision, given, crossed, human), folder / ANSWERS, kind="csv", raw=raw)
    decision.save(folder / DECISION)  # last: a folder with it is whole
    return Rebalanced(folder, decision, before, after, run)


def _scores(p: Floats, predicted: NDArray[np.int64], given: LabelledPredictions) -> Scores:
    size = len(given.classes)
    counts = np.bincount(given.target, minlength=size)
    found = scores(given.target, predicted, probabilities=p, classes=range(size), train_counts=counts, intervals=True)
    return replace(found, classes=given.classes)


def _labelled_answers(
    decision: Decision, given: LabelledPredictions, crossed: CrossFitted, human: float
) -> pd.DataFrame:
    every: Any = np.ones(len(given.target), dtype=np.bool_)
    p, uncertainty = cast(Any, crossed.probabilities), cast(Any, crossed.uncertainty)  # in double precision
    found = Predictions(p, crossed.predicted, uncertainty, torch.empty(0))
    threshold = decision.human_threshold(human)
    return answered(decision, given.names, every, found, threshold=threshold, possible=crossed.sets, dtype=np.float64)


def _stored(
    folder: Path,
    decision: Decision,
    given: LabelledPredictions,
    crossed: CrossFitted,
    before: Scores,
    after: Scores,
    *,
    source: str,
    options: dict[str, str],
) -> StoredRun:
    """Return what the sections of a run's page show."""
    counts = np.bincount(given.target, minlength=len(given.classes))
    thresholds, prior = decision.calibrated.thresholds, decision.calibrated.prior.numpy()
    assert thresholds is not None
    never = [given.classes[place] for place in np.flatnonzero(thresholds.never_ruled_out(LEVEL)).tolist()]
    calibration = CalibrationRecord("held_out", len(given.target), crossed.folds, LEVEL, never)
    p = given.probabilities
    held = HeldOut(
        crossed.probabilities,
        given.target,
        crossed.predicted,
        crossed.uncertainty,
        np.arange(len(p)),
        before=p.argmax(1),
        trust=Trust(p / p.sum(1, keepdims=True), crossed.sets, prior),
    )
    return StoredRun(
        folder=folder,
        record=RunRecord(
            options=options,
            classes=list(given.classes),
            blend=[BlendPart("model", 1.0, 1)],
            calibration=calibration,
            decision=None if decision.chosen is None else decision.chosen.to_json(),
        ),
        classes=given.classes,
        multilabel=False,
        counts=counts,
        groups=tuple(class_groups(counts)),
        support=counts,
        scores=after.as_dict(),
        before=before.as_dict(),
        uncertainty=decision.blend.uncertainty.numpy(),
        margins=decision.blend.margins.numpy(),
        held_out=held,
        predictions=source,
    )


def apply_decision(
    decision: Decision,
    source: str,
    out: Path | None,
    *,
    tell: Callable[[str], None],
    columns: str | None = None,
    human: float = HUMAN,
    prior: str | None = None,
    abstain: float | None = None,
    **how: Any,
) -> PredictedCounts:
    """Decide new predictions, a part at a time; a row with missing probabilities gets no class.

    Args:
        source: a CSV or Parquet file, or ``-`` for standard input; columns in any order, others are ignored.
        out, how: as for :func:`equipoise.app.output_files.open_rows`.
        tell: receives sentences on rows without a class and on classes left unanswered too often.
        columns: other column names than the decision has, as for
            :func:`equipoise.app.runs.given_predictions.asked_columns`.
        human: share of the labelled rows, the most uncertain, at whose level rows are flagged for human review.
        prior: the class prior where the predictions come from, as for
            :func:`equipoise.app.decision_options.read_prior`, or ``estimate``.
        abstain: the allowed error rate of each class; adds sets of classes.
    """
    if decision.chosen is not None and prior is not None:
        raise InvalidInputError("the decision's rule was chosen for a class prior of its own; leave --prior out.")
    shares = _shares(decision, source, columns, prior)
    threshold = decision.human_threshold(human)
    unanswered = None if abstain is None else Abstained(decision, abstain)
    opened = held_standard_input() if source == STANDARD_INPUT else nullcontext(Path(source).expanduser())
    with opened as file:
        frames = iterate_predictions(file, rows=ROWS_AT_ONCE)
        tables = (_answers(decision, frame, str(source), columns, threshold, shares, unanswered) for frame in frames)
        return write_answers(tables, out, tell=tell, unanswered=unanswered, unread={}, lacking=LACKING, **how)


def _shares(decision: Decision, source: str, columns: str | None, prior: str | None) -> Prior | None:
    if prior is None:
        return None
    if prior != ESTIMATE:
        return read_prior(prior, decision.classes, decision.calibrated)
    if source == STANDARD_INPUT:
        raise InvalidInputError(
            "--prior estimate reads the data twice, and standard input can be read only once; give a file."
        )
    found = []
    for frame in iterate_predictions(source, rows=ROWS_AT_ONCE):
        p = _probabilities(decision, frame, str(source), columns)
        logits = decision.logits(p[~np.isnan(p).any(1)])
        found.append(decision.calibrated.probabilities(logits).numpy())
    return estimate_prior(np.concatenate(found), old=decision.calibrated.prior.numpy(), smoothing=1)


def _probabilities(decision: Decision, frame: pd.DataFrame, where: str, columns: str | None) -> Floats:
    header = list(frame.columns)
    wanted: list[str | None] = list(decision.columns)
    if columns is not None:
        wanted = asked_columns(columns, header, decision.classes, where)
    for name in wanted:
        if name is not None and name not in header:
            raise InvalidInputError(
                f"{where} has no column {name!r}, from which the decision reads the probability of "
                f"{decision.classes[wanted.index(name)]!r}; rename the column, or name it with --columns."
            )
    return read_probabilities(frame, wanted, where)


def _answers(
    decision: Decision,
    frame: pd.DataFrame,
    where: str,
    columns: str | None,
    threshold: float,
    prior: Prior | None,
    unanswered: Abstained | None,
) -> tuple[pd.DataFrame, int]:
    """Return the answers to a part, and the number of its rows without one."""
    given = _probabilities(decision, frame, where, columns)
    known, found = np.asarray(~np.isnan(given).any(1)), None
    if known.any():
        found = decision.predictions(given[known], prior)
    names = row_names(frame, decision.columns)
    more: dict[str, Any] = {"prior": prior, "unanswered": unanswered, "dtype": np.float64}
    rows = answered(decision, names, known, found, threshold=threshold, **more)
    return rows, int((~known).sum())
