"""Predictions for any amount of data, written as they come: CSV, Parquet or JSON lines."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.app.defused import defused_table, printable_json
from equipoise.app.run_folder import HELD_OUT
from equipoise.app.runs.inputs import TableInput
from equipoise.app.runs.output import check_free
from equipoise.app.runs.prediction_sets import Abstained, set_columns
from equipoise.app.runs.rules import UNDECIDED, rule_column, rule_of
from equipoise.app.runs.trained import Answered, RunModel
from equipoise.app.runs.unlabelled import Part, open_parts
from equipoise.errors import InvalidInputError
from equipoise.storage.files import load_arrays, raise_if_full, remove_abandoned, written_beside

FIGURES, DECIMALS = 7, 9  # a float32 has no more

Write = Callable[[pd.DataFrame], None]
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
    with open_parts(model, source) as parts, _output(out, force=force) as file, _writer(kind, file, raw) as write:
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


def write_rows(frame: pd.DataFrame, out: Path, *, kind: str, force: bool = False, raw: bool = False) -> None:
    """A whole table into a file, written whole or not at all.

    Args:
        kind, force, raw: as for :func:`predict_to`.
    """
    with _output(out, force=force) as file, _writer(kind, file, raw) as write:
        write(frame)


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


@contextmanager
def _output(out: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """Standard output, or a file beside the wanted one that gets its name once it is whole."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_free(out, force)
    try:
        remove_abandoned(out.parent, out.name)
        with written_beside(out) as file:
            yield file
            check_free(out, force)  # it may have come into being meanwhile
    except OSError as error:
        raise_if_full(error, out, 0)
        raise InvalidInputError(f"{out} cannot be written ({error.strerror or error}); choose another file.") from error


def _writer(kind: str, file: BinaryIO, raw: bool) -> AbstractContextManager[Write]:
    return _csv(file, raw=raw) if kind == "csv" else WRITERS[kind](file)


@contextmanager
def _csv(file: BinaryIO, *, raw: bool) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        rows = frame if raw else defused_table(frame)
        rows.to_csv(text, index=False, header=first, float_format=f"%.{FIGURES}g", lineterminator="\n")
        first = False

    try:
        yield write
    finally:
        text.detach()


@contextmanager
def _jsonl(file: BinaryIO) -> Iterator[Write]:
    def write(frame: pd.DataFrame) -> None:
        text = frame.to_json(orient="records", lines=True, force_ascii=False, double_precision=DECIMALS)
        file.write(printable_json(text).encode("utf-8"))

    yield write


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Write]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InvalidInputError("Parquet needs pyarrow; install it by `pip install 'equipoise[parquet]'`.") from None
    writer: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


WRITERS: dict[str, Callable[[BinaryIO], AbstractContextManager[Write]]] = {
    "jsonl": _jsonl,
    "parquet": _parquet,
}
