"""Predictions for any amount of data, written as they come: CSV, Parquet or JSON lines."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.app.output import open_rows
from equipoise.app.run_folder import HELD_OUT
from equipoise.app.runs.inputs import TableInput
from equipoise.app.runs.trained import Answered, RunModel
from equipoise.app.runs.unlabelled import Part, open_parts
from equipoise.calibration.conformal import unanswered_rows
from equipoise.decisions.abstention import AbstainedShares, shares_of_counts
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.files import load_arrays

Rule = Literal["balanced", "natural", "method", "prior"]
MEANING: dict[Rule, str] = {
    "balanced": "most probable if all classes were equally common",
    "natural": "most probable if classes are as common as in training",
    "method": "most probable at the class mix that the method aims at",
    "prior": "most probable at the class mix given",
}
UNDECIDED = "none: the network gave no finite probabilities"
CLOSE = 1e-6
"""Shares of a class mix that are equal but for rounding."""


def rule_of(model: RunModel, prior: NDArray[np.float64] | None) -> Rule:
    """The rule of a run's decisions, at a class mix as :meth:`RunModel.answer` takes it."""
    if prior is not None:
        return "prior"
    aimed = model.calibrated.aimed.numpy()
    if np.allclose(aimed, model.calibrated.balanced(), rtol=CLOSE, atol=0):
        return "balanced"
    return "natural" if np.allclose(aimed, model.calibrated.prior.numpy(), rtol=CLOSE, atol=CLOSE) else "method"


def rule_column(
    rule: Rule, probabilities: NDArray[np.float32], found: NDArray[np.int64], answered: NDArray[np.bool_]
) -> Any:
    """One text a row: the rule, and why where the class is not the most probable one of the row's probabilities.

    Args:
        probabilities: (rows, classes), or of each attribute being 1, (rows, attributes).
        found: the class's place, (rows,), or 0 and 1, (rows, attributes).
        answered: whether the row was decided at all; others have no rule.
    """
    if found.ndim == 2:
        likeliest = ((probabilities > 0.5) == (found == 1)) | (probabilities == 0.5)
        plain = likeliest.all(1)
    else:
        plain = np.take_along_axis(probabilities, found[:, None], 1)[:, 0] >= probabilities.max(1)
    texts = np.where(plain, rule, f"{rule}: {MEANING[rule]}").astype(object)
    column = pd.array(texts, dtype="string")
    column[~answered] = pd.NA
    return column


BETWEEN = "|"


@dataclass
class Abstained:
    """Counts, by the class that would have been predicted, of what is left unanswered.

    Args:
        level: share of each class's samples whose set is to hold their class.
        samples, sent: of each class, or of the samples predicted to have each attribute.
        total, rows: samples in all, and those left unanswered.
    """

    model: RunModel
    level: float
    samples: NDArray[np.int64]
    sent: NDArray[np.int64]
    total: int = 0
    rows: int = 0

    @classmethod
    def start(cls, model: RunModel, abstain: float) -> "Abstained":
        """Before the first sample; a run without calibrated sets, or a share that is none, is refused here."""
        if not 0 < abstain < 1:
            raise InvalidInputError(f"--abstain is a share above 0 and below 1, such as 0.1, got {abstain}.")
        if model.calibrated.thresholds is None:
            raise InvalidInputError("this run keeps no sets of classes, which --abstain needs; train it again.")
        size = len(model.classes)
        return cls(model, 1 - abstain, np.zeros(size, np.int64), np.zeros(size, np.int64))

    def add(
        self, logits: Tensor, told: NDArray[np.int64], prior: NDArray[np.float64] | None = None
    ) -> NDArray[np.bool_]:
        """Which classes remain possible, shaped as the logits.

        Args:
            told: what is predicted, which always remains possible.
            prior: the class mix at which it is.
        """
        possible = self.model.calibrated.sets(logits, self.level, prior)
        out = unanswered_rows(possible)
        if self.model.multilabel:
            self.samples += told.sum(0)
            self.sent += told[out].sum(0)
        else:
            self.samples += np.bincount(told, minlength=len(self.samples))
            self.sent += np.bincount(told[out], minlength=len(self.samples))
        self.total, self.rows = self.total + len(out), self.rows + int(out.sum())
        return possible

    def add_unread(self, count: int) -> None:
        """Samples that could not be read: unanswered, and of no class."""
        self.total, self.rows = self.total + count, self.rows + count

    @property
    def shares(self) -> AbstainedShares | None:
        """What is left unanswered of each class; None without a sample."""
        return shares_of_counts(self.samples, self.sent, self.rows / self.total) if self.total else None

    def sentences(self) -> Iterator[str]:
        """Which classes are left unanswered far more often than the rest, and which can never be ruled out."""
        shares, classes = self.shares, self.model.classes
        if shares is None:
            return
        yield f"{self.rows:,} of {self.total:,} samples ({shares.overall:.1%}) have more than one class left."
        away = [f"{classes[place]} ({shares.each[place]:.0%})" for place in shares.abstained_away]
        if away:
            names = listed(away, most=8, quoted=False)
            yield f"left unanswered far more often than the rest, of what would be called so: {names}."
        always = never_ruled_out(self.model, self.level)
        if always:
            yield (
                f"calibrated on too few samples to be ruled out at {self.level:.4g}, and so possible everywhere: "
                f"{listed(always, most=8, quoted=False)}{self._remedy()}."
            )

    def _remedy(self) -> str:
        """From which share on every class could be ruled out: 1/(n + 1) for n calibration samples."""
        assert self.model.calibrated.thresholds is not None
        fewest = int(self.model.calibrated.thresholds.counts.min())
        share = math.ceil(100 / (fewest + 1)) / 100
        return f"; with --abstain {share:g} or more none would be" if fewest else "; hold out more of them"


def never_ruled_out(model: RunModel, level: float) -> list[str]:
    """Classes, or attributes one of whose answers, had fewer calibration samples than the level needs."""
    assert model.calibrated.thresholds is not None
    return [model.classes[place] for place in np.flatnonzero(model.calibrated.thresholds.never_ruled_out(level))]


def set_columns(model: RunModel, possible: NDArray[np.bool_]) -> dict[str, Any]:
    """``set``, the possible classes with | between, and whether those are more than one.

    For several labels ``set_NAME`` for each attribute, of 0 and 1, and whether any of them is not settled.
    """
    if not model.multilabel:
        return {"set": _joined(possible, model.classes), "abstain": unanswered_rows(possible)}
    columns = {f"set_{name}": _joined(possible[:, place], ("0", "1")) for place, name in enumerate(model.classes)}
    return columns | {"abstain": unanswered_rows(possible)}


def _joined(possible: NDArray[np.bool_], names: tuple[str, ...]) -> Any:
    kinds, which = np.unique(possible, axis=0, return_inverse=True)
    texts = [BETWEEN.join(name for name, has in zip(names, kind, strict=True) if has) for kind in kinds.tolist()]
    return pd.array([texts[place] for place in which.ravel().tolist()], dtype="string")


Tell = Callable[[str], None]


@dataclass(frozen=True)
class Predicted:
    """How many samples there were, how many of them could not be read, and how many a human should look at.

    Args:
        abstained: how many have more than one class that remains possible, or could not be read; None where that was
            not asked for.
        unread_values: by column of a table, how many values could not be read and count as missing.
    """

    samples: int
    broken: int
    human: int
    abstained: int | None
    unread_values: dict[str, int]


def predict_to(
    model: RunModel,
    source: str,
    out: Path | None,
    *,
    kind: str,
    threshold: float,
    tell: Tell,
    force: bool = False,
    prior: NDArray[np.float64] | None = None,
    abstain: float | None = None,
    raw: bool = False,
) -> Predicted:
    """Predict for all of the source, a part at a time.

    Args:
        out: the file, written whole or not at all; None is standard output.
        kind: ``csv``, ``parquet`` or ``jsonl``.
        threshold: samples that are more uncertain are for a human.
        tell: told, in a sentence each, of samples that cannot be read, and of classes left unanswered too often.
        force: an existing file may be replaced.
        prior: the class mix where the samples come from, as ``class_mix`` gives it; None is that of the training
            samples for the probabilities, and for the class the one which the method aims at.
        abstain: the share of each class whose set of possible classes may lack it.
        raw: CSV has every name as it is, also where a spreadsheet would take it for a formula.
    """
    samples = broken = human = 0
    unread: Counter[str] = Counter()
    unanswered = None if abstain is None else Abstained.start(model, abstain)
    with open_parts(model, source) as parts, open_rows(out, kind=kind, force=force, raw=raw) as write:
        for part in _from_the_first_good(parts, source):
            for place, reason in part.broken.items():
                tell(f"no prediction for {part.names[place]}: {reason}.")
            rows = predictions(model, part, threshold, prior=prior, unanswered=unanswered, unread=unread)
            write(rows)
            samples, broken = samples + len(rows), broken + len(part.broken)
            human += int(rows["human"].sum())
    for sentence in unanswered.sentences() if unanswered is not None else ():
        tell(sentence)
    return Predicted(samples, broken, human, None if unanswered is None else unanswered.rows, dict(unread))


def _from_the_first_good(parts: Iterator[Part], source: str) -> Iterator[Part]:
    """The parts as they are; an error where not one sample can be read, before anything is written."""
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
    prior: NDArray[np.float64] | None = None,
    unanswered: Abstained | None = None,
    unread: Counter[str] | None = None,
) -> pd.DataFrame:
    """A row a sample: its name, class, rule, probabilities, uncertainty, and whether a human should look at it.

    A human should look at what is more uncertain than the threshold, and at every sample of which something could not
    be read: a value of a table, which counts as missing, or an image, which has no class then. A row for which the
    network gives no finite probabilities has no class either. ``unanswered`` and ``unread`` count what this part adds.
    """
    known = np.ones(len(part.names), dtype=np.bool_)
    known[list(part.broken)] = False
    probabilities = np.full((len(known), len(model.classes)), np.nan, dtype=np.float32)
    uncertainty = np.full(len(known), np.nan, dtype=np.float32)
    found = np.zeros((len(known), len(model.classes)) if model.multilabel else len(known), dtype=np.int64)
    possible = np.ones((len(known), *model.calibrated.prior.shape), dtype=np.bool_)  # of what could not be read
    decided, doubtful = known.copy(), ~known
    if known.any():
        answered, lost = _answered(model, part.x, prior)
        for name, rows in lost.items():
            doubtful |= rows
            if unread is not None:
                unread[name] += int(rows.sum())
        finite = answered.finite
        decided[known] = finite
        probabilities[decided], uncertainty[decided] = answered.probabilities[finite], answered.uncertainty[finite]
        found[decided] = answered.predicted[finite]
        if unanswered is not None and finite.any():
            possible[decided] = unanswered.add(answered.logits[torch.from_numpy(finite)], found[decided], prior)
    if unanswered is not None:
        unanswered.add_unread(int((~decided).sum()))
    by_file = not isinstance(model.input, TableInput) and len(part.names) > 0 and isinstance(part.names[0], str)
    columns: dict[str, Any] = {"file" if by_file else "row": list(part.names)}
    columns |= _answers(model, found, decided)
    rules = rule_column(rule_of(model, prior), probabilities, found, decided)
    rules[known & ~decided] = UNDECIDED
    columns["rule"] = rules
    columns |= {f"p_{name}": probabilities[:, place] for place, name in enumerate(model.classes)}
    columns |= {"uncertainty": uncertainty, "human": (uncertainty > threshold) | doubtful | ~decided}
    return pd.DataFrame(columns if unanswered is None else columns | set_columns(model, possible))


def _answered(
    model: RunModel, x: Any, prior: NDArray[np.float64] | None
) -> tuple[Answered, dict[str, NDArray[np.bool_]]]:
    """Answer a part, and say by column which rows of a table have a value that could not be read."""
    if not isinstance(model.input, TableInput):
        return model.answer(x, prior), {}
    encoded = model.input.encoder.encode(x)
    return model.answer_inputs(encoded.values, prior), encoded.unread


def _answers(model: RunModel, found: NDArray[np.int64], known: NDArray[np.bool_]) -> dict[str, Any]:
    """The class of each sample, or 0 and 1 for each attribute; nothing for samples that could not be answered."""
    if not model.multilabel:
        names = [model.classes[place] for place in found.tolist()]
        columns = {"class": pd.array(names, dtype="string")}
    else:
        columns = {f"is_{name}": pd.array(found[:, place], dtype="Int64") for place, name in enumerate(model.classes)}
    for values in columns.values():
        values[~known] = pd.NA
    return columns


def human_threshold(folder: Path, share: float) -> float:
    """The uncertainty that this share of the held-out samples exceeds; they stand for what is to come."""
    if not 0 <= share <= 1:
        raise InvalidInputError(f"--human is a share of the samples from 0 to 1, got {share}.")
    if share in (0, 1):
        return np.inf if share == 0 else -np.inf
    path, remedy = folder / HELD_OUT, "pass --human 0, or train again"
    known = load_arrays(path, remedy=remedy).get("uncertainty", np.zeros(0))
    if known.ndim != 1 or len(known) == 0 or known.dtype.kind != "f" or not np.isfinite(known).all():
        raise InvalidInputError(f"{path} holds no uncertainties of held-out samples; {remedy}.")
    return float(np.quantile(known, 1 - share, method="inverted_cdf"))
