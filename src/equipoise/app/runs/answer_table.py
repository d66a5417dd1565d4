"""Tables of answers: class, rule, probabilities, uncertainty, sets of classes, and what they leave unanswered."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.app.output_files import open_rows
from equipoise.app.runs.decision_file import Decision
from equipoise.app.runs.trained_run import Predictions, Prior, RunModel
from equipoise.calibration.conformal import unanswered_rows
from equipoise.decisions import DECISIONS
from equipoise.decisions.abstention import shares_of_counts
from equipoise.errors import InvalidInputError, listed

MEANING = {
    "balanced": "most probable if all classes were equally common",
    "natural": "most probable if classes are as common as in training",
    "method": "most probable at the class prior that the method aims at",
    "prior": "most probable at the class prior given",
}
UNDECIDED = "none: the network gave no finite probabilities"
CLOSE = 1e-6
"""Tolerance for equal shares of a class prior."""
BETWEEN = "|"


DecidingModel = RunModel | Decision
"""Source of answers: a run's model, or a decision fitted to another model's predictions."""


@dataclass(frozen=True)
class PredictedCounts:
    """Number of samples, of unreadable ones, and of those for human review.

    Args:
        abstained: number with more than one possible class, or unreadable; None if not requested.
        unread_values: number of unreadable values by column, which count as missing.
    """

    samples: int
    broken: int
    human: int
    abstained: int | None
    unread_values: dict[str, int]


@dataclass
class Abstained:
    """The sets of possible classes at an allowed error rate, and counts of what they leave unanswered, by class."""

    model: DecidingModel
    abstain: float
    samples: NDArray[np.int64] = field(init=False)  # of each class, or predicted to have each attribute
    sent: NDArray[np.int64] = field(init=False)
    total: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        """Raise an error for an invalid share, and for a run without calibrated sets."""
        if not 0 < self.abstain < 1:
            raise InvalidInputError(f"--abstain must be above 0 and below 1, such as 0.1, got {self.abstain}.")
        if self.model.calibrated.thresholds is None:
            raise InvalidInputError(
                "this run was stored without calibrated sets, which --abstain needs; train it again."
            )
        self.samples, self.sent = np.zeros((2, len(self.model.classes)), dtype=np.int64)

    @property
    def level(self) -> float:
        """The share of each class's samples whose set should contain their class."""
        return 1 - self.abstain

    def add(self, logits: Tensor, predicted: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Count samples, and return the possible classes, shaped like the logits; the predicted one is always included.

        Args:
            predicted: class index, (rows,), or 0 and 1, (rows, attributes).
        """
        possible = self.model.calibrated.sets(logits, self.level, predicted=predicted)
        out = unanswered_rows(possible)
        self.samples += self._each_class(predicted)
        self.sent += self._each_class(predicted[out])
        self.total, self.rows = self.total + len(out), self.rows + int(out.sum())
        return possible

    def _each_class(self, predicted: NDArray[np.int64]) -> NDArray[np.int64]:
        return predicted.sum(0) if predicted.ndim == 2 else np.bincount(predicted, minlength=len(self.samples))

    def never_ruled_out(self) -> list[str]:
        """Return the classes or attributes with fewer calibration samples than the level needs."""
        assert self.model.calibrated.thresholds is not None
        always = np.flatnonzero(self.model.calibrated.thresholds.never_ruled_out(self.level))
        return [self.model.classes[place] for place in always]

    def sentences(self) -> Iterator[str]:
        """Yield sentences on classes left unanswered far more often than others, and on those never ruled out."""
        if not self.total:
            return
        shares, classes = shares_of_counts(self.samples, self.sent, self.rows / self.total), self.model.classes
        yield f"{self.rows:,} of {self.total:,} samples ({shares.overall:.1%}) have more than one class left."
        away = [f"{classes[place]} ({shares.each[place]:.0%})" for place in shares.abstained_away]
        if away:
            names = listed(away, most=8, quoted=False)
            yield f"predicted classes left unanswered far more often than the rest: {names}."
        always = self.never_ruled_out()
        if always:
            yield (
                f"too few calibration samples to be ruled out at {self.level:.4g}, so possible for every sample: "
                f"{listed(always, most=8, quoted=False)}{self._remedy()}."
            )

    def _remedy(self) -> str:
        """Return the share from which every class could be ruled out, as text: 1/(n + 1) for n calibration samples."""
        assert self.model.calibrated.thresholds is not None
        fewest = int(self.model.calibrated.thresholds.counts.min())
        share = math.ceil(100 / (fewest + 1)) / 100
        return f"; with --abstain {share:g} or more none would be" if fewest else "; hold out more of them"


def write_answers(
    tables: Iterable[tuple[pd.DataFrame, int]],
    out: Path | None,
    *,
    tell: Callable[[str], None],
    unanswered: Abstained | None,
    unread: dict[str, int],
    lacking: str = "",
    **how: Any,
) -> PredictedCounts:
    """Write tables of answers one by one, each with the number of its rows that could not be read.

    Args:
        tell: receives sentences on classes left unanswered too often.
        unanswered, unread: what the tables have counted by the end.
        lacking: a sentence on rows that could not be read, with ``{broken:,}`` of ``{samples:,}``.
        how: as for :func:`equipoise.app.output_files.open_rows`.
    """
    samples = broken = human = 0
    with open_rows(out, **how) as write:
        for rows, lost in tables:
            write(rows)
            samples, broken, human = samples + len(rows), broken + lost, human + int(rows["human"].sum())
    if broken and lacking:
        tell(lacking.format(broken=broken, samples=samples))
    for sentence in unanswered.sentences() if unanswered is not None else ():
        tell(sentence)
    return PredictedCounts(samples, broken, human, None if unanswered is None else unanswered.rows, dict(unread))


def answered(
    model: DecidingModel,
    names: dict[str, Any],
    known: NDArray[np.bool_],
    found: Predictions | None,
    *,
    threshold: float,
    doubtful: NDArray[np.bool_] | None = None,
    prior: Prior | None = None,
    unanswered: Abstained | None = None,
    possible: NDArray[np.bool_] | None = None,
    dtype: Any = np.float32,
) -> pd.DataFrame:
    """Return a table with a row per sample; one that could not be read or has no finite probabilities has no class.

    Args:
        names: columns that name the rows.
        known: rows that could be read.
        found: predictions for the known rows; None without any.
        threshold: rows more uncertain than this are for human review, as are those without a class.
        doubtful: further rows for human review.
        prior: the class prior of the predictions, if one was given.
        unanswered: counts the samples, and adds the sets of possible classes.
        possible: the sets, if they are known: (rows, classes) or (rows, attributes, 2).
        dtype: of probabilities and uncertainty.
    """
    shape, decided = (len(known), len(model.classes)), known.copy()
    probabilities, uncertainty = np.full(shape, np.nan, dtype), np.full(len(known), np.nan, dtype)
    predicted = np.zeros(shape if model.multilabel else len(known), dtype=np.int64)
    if unanswered is not None:
        possible = np.ones((len(known), *model.calibrated.prior.shape), dtype=np.bool_)  # all, for unreadable samples
    if found is not None:
        finite = found.finite
        decided[known] = finite
        probabilities[decided], uncertainty[decided] = found.probabilities[finite], found.uncertainty[finite]
        predicted[decided] = found.predicted[finite]
        if unanswered is not None and possible is not None and finite.any():
            possible[decided] = unanswered.add(found.logits[torch.from_numpy(finite)], predicted[decided])
    if unanswered is not None:  # unreadable samples are unanswered, and of no class
        lost = int((~decided).sum())
        unanswered.total, unanswered.rows = unanswered.total + lost, unanswered.rows + lost
    rules = rule_column(rule_of(model, prior), probabilities, predicted, decided)
    rules[known & ~decided] = UNDECIDED
    human = (uncertainty > threshold) | ~decided
    columns = names | _class_columns(model, predicted, decided) | {"rule": rules}
    columns |= {f"p_{name}": probabilities[:, place] for place, name in enumerate(model.classes)}
    columns |= {"uncertainty": uncertainty, "human": human if doubtful is None else human | doubtful}
    return pd.DataFrame(columns if possible is None else columns | _set_columns(model, possible))


def _class_columns(model: DecidingModel, found: NDArray[np.int64], known: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the class of each sample, or 0 and 1 for each attribute; empty without a prediction."""
    if not model.multilabel:
        names = [model.classes[place] for place in found.tolist()]
        columns = {"class": pd.array(names, dtype="string")}
    else:
        columns = {f"is_{name}": pd.array(found[:, place], dtype="Int64") for place, name in enumerate(model.classes)}
    for values in columns.values():
        values[~known] = pd.NA
    return columns


def rule_of(model: DecidingModel, prior: Prior | None) -> str:
    """Return the rule that decides classes at this prior, as :meth:`RunModel.predict` takes it."""
    chosen = model.chosen
    if chosen is not None and not chosen.policy.as_aimed:
        at_prior = "natural" if chosen.target_prior is None else "prior"
        return chosen.rule.name if chosen.policy.decided_at is None else at_prior
    if prior is not None:
        return "prior"
    aimed = model.calibrated.aimed.numpy()
    if np.allclose(aimed, model.calibrated.balanced(), rtol=CLOSE, atol=0):
        return "balanced"
    return "natural" if np.allclose(aimed, model.calibrated.prior.numpy(), rtol=CLOSE, atol=CLOSE) else "method"


def rule_column(rule: str, probabilities: NDArray[Any], found: NDArray[np.int64], decided: NDArray[np.bool_]) -> Any:
    """Return one text per row: the rule, and why if the class is not the most probable one; none if undecided.

    Args:
        probabilities: (rows, classes), or of each attribute being 1, (rows, attributes).
        found: class index, (rows,), or 0 and 1, (rows, attributes).
    """
    if found.ndim == 2:
        plain = (((probabilities > 0.5) == (found == 1)) | (probabilities == 0.5)).all(1)
    else:
        plain = np.take_along_axis(probabilities, found[:, None], 1)[:, 0] >= probabilities.max(1)
    meaning = MEANING.get(rule) or DECISIONS[rule].meaning
    column = pd.array(np.where(plain, rule, f"{rule}: {meaning}").astype(object), dtype="string")
    column[~decided] = pd.NA
    return column


def _set_columns(model: DecidingModel, possible: NDArray[np.bool_]) -> dict[str, Any]:
    """Return ``set``, possible classes separated by |, or ``set_NAME`` of 0 and 1, and whether they are several."""
    if model.multilabel:
        each = enumerate(model.classes)
        columns = {f"set_{name}": _joined(possible[:, place], ("0", "1")) for place, name in each}
    else:
        columns = {"set": _joined(possible, model.classes)}
    return columns | {"abstain": unanswered_rows(possible)}


def _joined(possible: NDArray[np.bool_], names: tuple[str, ...]) -> Any:
    kinds, which = np.unique(possible, axis=0, return_inverse=True)
    texts = [BETWEEN.join(name for name, has in zip(names, kind, strict=True) if has) for kind in kinds.tolist()]
    return pd.array([texts[place] for place in which.ravel().tolist()], dtype="string")
