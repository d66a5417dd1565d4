"""Predictions for any amount of data, streamed to CSV, Parquet or JSON lines."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.app.runs.answer_table import Abstained, PredictedCounts, answered, write_answers
from equipoise.app.runs.trained_run import Prior, RunModel
from equipoise.app.runs.unlabelled_data import Part, open_parts
from equipoise.app.stored_arrays import held_out_uncertainty
from equipoise.errors import InvalidInputError


def predict_to(
    model: RunModel,
    source: str,
    out: Path | None,
    *,
    threshold: float,
    tell: Callable[[str], None],
    prior: Prior | None = None,
    abstain: float | None = None,
    **how: Any,
) -> PredictedCounts:
    """Predict all samples of the source, a part at a time.

    Args:
        out, how: as for :func:`equipoise.app.output_files.open_rows`.
        threshold: samples more uncertain than this are for human review.
        tell: receives sentences on unreadable samples and on classes left unanswered too often.
        prior: the class prior where the samples come from, as ``RunModel.read_prior`` gives it; None takes that of the
            training samples for the probabilities, and the one that the method aims at for the class.
        abstain: allowed error rate per class of the sets of possible classes.
    """
    unread: Counter[str] = Counter()
    unanswered = None if abstain is None else Abstained(model, abstain)

    def tables(parts: Iterator[Part]) -> Iterator[tuple[pd.DataFrame, int]]:
        for part in _from_the_first_good(parts, source):
            for place, reason in part.broken.items():
                tell(f"no prediction for {part.names[place]}: {reason}.")
            rows = predictions(model, part, threshold, prior=prior, unanswered=unanswered, unread=unread)
            yield rows, len(part.broken)

    with open_parts(model, source) as parts:
        return write_answers(tables(parts), out, tell=tell, unanswered=unanswered, unread=unread, **how)


def _from_the_first_good(parts: Iterator[Part], source: str) -> Iterator[Part]:
    """Pass the parts on; raise an error before anything is written if not one sample is readable."""
    waiting: list[Part] = []
    for part in parts:
        waiting.append(part)
        if len(part.broken) < len(part.names) or len(part.names) == 0:
            break
    else:
        if waiting:
            first = waiting[0]
            raise InvalidInputError(
                f"none of the {sum(len(part.names) for part in waiting)} images in {source} can be read, the first, "
                f"{first.names[0]}: {first.broken[0]}; check the files."
            )
    yield from waiting
    yield from parts


def predictions(
    model: RunModel,
    part: Part,
    threshold: float,
    *,
    prior: Prior | None,
    unanswered: Abstained | None,
    unread: Counter[str],
) -> pd.DataFrame:
    """Return one row per sample: name, class, rule, probabilities, uncertainty, and whether a human should look at it.

    So should somebody at every sample with something unreadable: a value of a table, which counts as missing, or an
    image, which then has no class. ``unanswered`` and ``unread`` count what this part adds.
    """
    known = np.ones(len(part.names), dtype=np.bool_)
    known[list(part.broken)] = False
    doubtful, found = np.zeros(len(known), dtype=np.bool_), None
    if known.any():
        inputs, lost = model.input.encoded(part.x)
        found = model.predict_rows(inputs, prior)
        for name, rows in lost.items():
            doubtful |= rows
            unread[name] += int(rows.sum())
    by_file = len(part.names) > 0 and isinstance(part.names[0], str)
    names = {"file" if by_file else "row": list(part.names)} | dict(part.ids)
    return answered(
        model, names, known, found, threshold=threshold, doubtful=doubtful, prior=prior, unanswered=unanswered
    )


def human_threshold(folder: Path, share: float) -> float:
    """Return the uncertainty exceeded by this share of the held-out samples, which represent future ones."""
    if not 0 <= share <= 1:
        raise InvalidInputError(f"--human must be a share from 0 to 1, got {share}.")
    if share in (0, 1):
        return np.inf if share == 0 else -np.inf
    known = held_out_uncertainty(folder, remedy="pass --human 0, or train again")
    return float(np.quantile(known, 1 - share, method="inverted_cdf"))
