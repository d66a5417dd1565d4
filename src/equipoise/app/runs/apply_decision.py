"""``equipoise rebalance --apply``: answers for new predictions by a previously fitted decision."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.app.runs.answer_table import Abstained, PredictedCounts, answered, write_answers
from equipoise.app.runs.decision_file import HUMAN, Decision
from equipoise.app.runs.decision_option import read_prior
from equipoise.app.runs.prediction_table import iterate_predictions, read_probabilities, row_names
from equipoise.app.runs.probability_columns import asked_columns
from equipoise.app.runs.trained_run import ESTIMATE, Prior
from equipoise.app.runs.unlabelled_data import ROWS_AT_ONCE, STANDARD_INPUT, held_standard_input
from equipoise.calibration import estimate_prior
from equipoise.errors import InvalidInputError

Floats = NDArray[np.float64]
LACKING = "{broken:,} of {samples:,} rows lack a probability and have no class; a human should look."


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
            :func:`equipoise.app.runs.probability_columns.asked_columns`.
        human: share of the labelled rows, the most uncertain, at whose level rows are flagged for human review.
        prior: the class prior where the predictions come from, as for
            :func:`equipoise.app.runs.decision_option.read_prior`, or ``estimate``.
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
                f"{where} has no column {name!r}, in which the decision finds the probability of "
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
