"""``equipoise train``: data in, a folder with a scored model and all that a report shows out."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from equipoise.app.output import RunWatcher
from equipoise.app.run_folder import (
    BEFORE_SCORES,
    GALLERY,
    RECORD,
    REPORT,
    SCORES,
    SOFTMAX,
    SPLIT,
    CalibrationRecord,
    are_several,
    is_main,
    open_folder,
    read_run_record,
    write_json,
)
from equipoise.app.runs.held_out import Tested, answer_held_out, score
from equipoise.app.runs.inputs import RunInput, make_input
from equipoise.app.runs.notable_samples import gallery, judge_labels
from equipoise.app.runs.split import Division, GivenSamples, Targets, divide
from equipoise.app.runs.train_options import TrainOptions
from equipoise.app.runs.trained import RunModel
from equipoise.app.stored_run import HeldOut, JudgedLabels
from equipoise.data.splits import save_split
from equipoise.data.summary import ClassSummary, summarize
from equipoise.errors import EquipoiseError, ShortTrainingWarning
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.estimators.training_options import training_values
from equipoise.evaluation import Scores


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        folder: where it is kept.
        classes: their names, or the attributes', in the order of what follows.
        scores: on what was held out.
        before: scores of the softmax stage's network; None for a method without stages.
        class_uncertainty, margins: one a class, of an attribute's ones; None for a method without them.
        model: the fitted estimator.
        report: the page that shows it all.
        seconds: from the reading of the data to the scores, over all attempts.
    """

    folder: Path
    classes: list[str]
    scores: Scores
    before: Scores | None
    class_uncertainty: list[float | None] | None
    margins: list[float | None] | None
    model: UncertaintyBalancedClassifier
    report: Path
    seconds: float


def train_run(
    options: TrainOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    verbose: int = 0,
    watcher: RunWatcher | None = None,
    command: str = "",
    given: GivenSamples | None = None,
) -> RunResult:
    """Read the data, split, train, score on what was held out; everything is kept in the folder.

    Of several processes that train together each gets the result, and the first one alone writes and tells the watcher.

    Args:
        options: which data, and how to train.
        folder: new, or of an unfinished run of the same options when ``resume`` is set.
        resume: go on with an unfinished run there.
        verbose: 1 shows a progress bar on a terminal.
        watcher: told of every step and note, a progress bar for example.
        command: what the user typed, for the record.
        given: samples to use instead of reading ``options.data``.
    """
    started, told = time.perf_counter(), NoteTaker(watcher if watcher and is_main() else RunWatcher())
    folder = Path(folder)
    record = open_folder(folder, options.as_dict(), resume=resume)
    wait_for_all()  # a later process would find what an earlier one has begun, and refuse the folder
    division = divide(options, told, given)
    train, test = division.train, division.test
    told.summary(summarize(train.y, names=train.attributes or None), train=len(train), test=len(test))
    prepared = make_input(train.x, options, progress=told.progress)
    for sentence in prepared.notes:
        told.note(sentence)
    if is_main():
        write_json(folder / RECORD, structs.replace(record, command=record.command or command))
        save_split(division.split, folder / SPLIT, samples=division.total)
    rows, tested = division.rows(prepared)  # both before training: what is wrong with either is said at once
    begun = time.perf_counter()
    with _noted(told):
        estimator = _classifier(options, prepared, folder, verbose).fit(rows, train.y)
    fitted = time.perf_counter() - begun
    model = RunModel.of(prepared, estimator, train.attributes)
    targets = division.targets(model.classes)
    counts = targets.counts(len(model.classes))
    answered, found, before = _tested(model, division, targets.test, counts, tested, folder, options.seed)
    estimator.calibrated_, held = answered.model.calibrated, answered.held
    if answered.calibration.note is not None:
        told.note(answered.calibration.note)
    learnt = _learnt(model, estimator, train.attributes, counts) | {
        "calibration": CalibrationRecord(**answered.calibration.as_dict(model.classes))
    }
    seconds = round(all_seconds(time.perf_counter() - started, fitted, estimator.history_["epochs"]), 3)
    if is_main():
        judged = _judged(model, division, targets, rows, tested, folder / SOFTMAX, told)
        _keep(folder, learnt | {"notes": told.notes, "seconds": seconds}, prepared, found, before, held)
        write_json(folder / GALLERY, gallery(model, test.x, held, pictures=given.pictures if given else None))
        if judged is not None:
            judged.save(folder)
        estimator.save(folder)  # last of all: a folder with a model is a finished run
    return RunResult(
        folder,
        list(model.classes),
        found,
        before,
        learnt["class_uncertainty"],
        learnt["margins"],
        estimator,
        _report(folder),
        seconds,
    )


class NoteTaker(RunWatcher):
    """Passes everything on, and remembers the sentences."""

    def __init__(self, watcher: RunWatcher) -> None:
        self.watcher, self.notes = watcher, list[str]()

    def note(self, sentence: str) -> None:
        """Pass on and remember."""
        self.notes.append(sentence)
        self.watcher.note(sentence)

    def summary(self, classes: ClassSummary, *, train: int, test: int) -> None:
        """Pass on, and remember what it says beside the counts."""
        self.notes += classes.notes
        self.watcher.summary(classes, train=train, test=test)

    def progress(self, done: int, total: int) -> None:
        """Pass on."""
        self.watcher.progress(done, total)


def wait_for_all() -> None:
    """Go on when every process has come so far; one that is alone does not wait."""
    if not are_several():
        return
    from equipoise.training import Settings
    from equipoise.training.engine import make_accelerator

    make_accelerator(Settings(epochs=1, batch_size=1), None, None).wait_for_everyone()


@contextmanager
def _noted(told: RunWatcher) -> Iterator[None]:
    """Pass on a warning about too short a training as a note, when it comes."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ShortTrainingWarning):
                told.note(str(message))
            else:
                before(message, category, *where, **more)

        warnings.simplefilter("always", ShortTrainingWarning)
        warnings.showwarning = show
        yield


def _report(folder: Path) -> Path:
    from equipoise.app.report import write_report  # it draws, and predicting should not wait for matplotlib

    return write_report(folder) if is_main() else folder / REPORT


def _judged(
    model: RunModel, division: Division, targets: Targets, rows: Any, tested: Any, softmax: Path, told: RunWatcher
) -> JudgedLabels | None:
    """None, and a note, where it fails: a trained model must not be lost for it."""
    try:
        return judge_labels(model, division, targets, rows, tested, softmax)
    except (MemoryError, RuntimeError, np.linalg.LinAlgError, EquipoiseError) as error:  # RuntimeError: torch's memory
        reason = (
            "the memory is too small" if isinstance(error, MemoryError) else str(error).partition("\n")[0].rstrip(".")
        )
        told.note(f"the labels could not be judged ({reason}); `equipoise inspect` has nothing to show of this run.")
        return None


def _tested(
    model: RunModel,
    division: Division,
    labels: NDArray[np.int64],
    counts: list[int],
    tested: Any,
    folder: Path,
    seed: int,
) -> tuple[Tested, Scores, Scores | None]:
    """Answers for the test samples, and the scores of the trained and of the softmax stage's network."""
    own = division.split.test
    rows = own if len(own) else np.arange(len(division.test))
    found = answer_held_out(model, tested, labels, rows, folder / SOFTMAX, groups=division.test.groups, seed=seed)
    held, earlier = found.held, None
    if found.earlier is not None and held.before is not None:
        earlier = score(found.earlier, held.before, labels, model.classes, counts)
    return found, score(held.probabilities, held.predicted, labels, model.classes, counts), earlier


def _classifier(options: TrainOptions, prepared: RunInput, folder: Path, verbose: int) -> UncertaintyBalancedClassifier:
    return UncertaintyBalancedClassifier(
        **training_values(options),
        backbone=prepared.backbone,
        run_dir=folder,
        verbose=verbose,
        random_state=options.seed,
    )


def all_seconds(here: float, fitted: float, epochs: Any) -> float:
    """Of this attempt and of those before it: the fit took as long as its epochs, whichever attempt ran them.

    >>> all_seconds(10.0, 4.0, [{"seconds": 3.0}, {"seconds": 3.5}])
    12.5
    """
    return here - fitted + sum(float(epoch["seconds"]) for epoch in epochs)


def _learnt(
    model: RunModel, estimator: UncertaintyBalancedClassifier, attributes: tuple[str, ...], counts: list[int]
) -> dict[str, Any]:
    """What the run found about the classes, for ``run.json``."""
    return {
        "classes": list(model.classes),
        "attributes": list(attributes),
        "train_counts": counts,
        "class_uncertainty": _each_class(estimator.class_uncertainty_),
        "margins": None if estimator.class_uncertainty_ is None else _each_class(estimator.margins_),
    }


def _each_class(values: NDArray[Any] | None) -> list[float | None] | None:
    """One number a class; with attributes that of their ones."""
    if values is None:
        return None
    own = values[..., -1] if values.ndim == 2 else values
    return [float(value) if math.isfinite(value) else None for value in own]


def _keep(
    folder: Path, learnt: dict[str, Any], prepared: RunInput, found: Scores, before: Scores | None, held: HeldOut
) -> None:
    known = read_run_record(folder)  # with what the training has written
    write_json(folder / RECORD, structs.replace(known, **learnt, input=prepared.save(folder)))
    write_json(folder / SCORES, found.as_dict())
    if before is not None:
        write_json(folder / BEFORE_SCORES, before.as_dict())
    held.save(folder)
