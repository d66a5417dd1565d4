"""``equipoise train``: from data to a folder with a scored model and all that a report shows."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from equipoise.app.run_folder import (
    CalibrationRecord,
    are_several,
    is_main,
    is_restarted,
    open_folder,
    read_run_record,
    write_json,
)
from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.choose_model import choose_model, fit_model, own_estimator
from equipoise.app.runs.choose_split import GivenSamples, SplitSamples, split_samples
from equipoise.app.runs.held_out import HeldOutResult, predict_held_out
from equipoise.app.runs.notable_samples import choose_samples, judge_labels
from equipoise.app.runs.preprocessing import RunInput, make_input
from equipoise.app.runs.run_options import RunOptions
from equipoise.app.runs.trained_run import RunModel
from equipoise.app.stored_arrays import JudgedLabels
from equipoise.data.leaks import leak_notes
from equipoise.data.profile import profile_sample
from equipoise.data.samples import rows_of
from equipoise.data.splits import save_split
from equipoise.data.summary import summarize
from equipoise.data.time_order import order_note
from equipoise.decisions import Chosen, DecisionRule
from equipoise.errors import EquipoiseError, EquipoiseWarning
from equipoise.estimators.calibrated_classifier import CalibratedClassifier
from equipoise.evaluation import Scores
from equipoise.storage.run_files import BEFORE_SCORES, GALLERY, RECORD, REPORT, SCORES, SOFTMAX, SPLIT


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        folder: where it is stored.
        classes: names of the classes or attributes, in the order of what follows.
        scores: on held-out samples.
        before: scores of the softmax stage's network, or of a blend that decides at the training samples' class prior;
            None for a method without stages.
        class_uncertainty, margins: one per class, of an attribute's ones; None for a method without them.
        model: the fitted estimator.
        report: the page that shows everything.
        seconds: from reading the data to the scores, over all attempts.
        decision: the rule that answers, and its expected results; None for the default.
    """

    folder: Path
    classes: list[str]
    scores: Scores
    before: Scores | None
    class_uncertainty: list[float | None] | None
    margins: list[float | None] | None
    model: CalibratedClassifier
    report: Path
    seconds: float
    decision: Chosen | None = None


def train_run(
    options: RunOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    verbose: int = 0,
    watcher: RunWatcher | None = None,
    command: str = "",
    given: GivenSamples | None = None,
) -> RunResult:
    """Read the data, split, train, and score on what was held out; everything is stored in the folder.

    If several processes train together, each gets the result, and only the first writes and notifies the watcher.

    Args:
        options: which data, and how to train.
        folder: new, or of an unfinished run of the same options if ``resume`` is set.
        resume: continue an unfinished run there, as processes that torchrun has restarted always do.
        verbose: 1 shows a progress bar on a terminal.
        watcher: notified of every step and note, a progress bar for example.
        command: what the user typed, for the record.
        given: samples to use instead of reading ``options.data``.
    """
    started, told = time.perf_counter(), watcher if watcher and is_main() else RunWatcher()
    folder, said, own = Path(folder), len(told.notes), own_estimator(options)
    record = open_folder(folder, options.as_dict(), resume=resume or is_restarted())
    wait_for_all()  # a later process would find what an earlier one began, and refuse the folder
    parts = split_samples(options, told, given)
    rule = _checked_rule(options, parts)
    prepared, name = _prepare(options, parts, told)
    if is_main():
        write_json(folder / RECORD, structs.replace(record, command=record.command or command))
        save_split(parts.split, folder / SPLIT, samples=parts.total)
    rows, tested = parts.rows(prepared)  # both before training: problems with either show at once
    begun = time.perf_counter()
    with _noted(told):
        chosen = name if own is None else own
        predictor = fit_model(chosen, options, prepared, rows, parts.train, folder=folder, verbose=verbose)
    fitted = time.perf_counter() - begun
    model = RunModel.of(prepared, predictor, parts.train.attributes)
    found = predict_held_out(model, parts, tested, softmax=folder / SOFTMAX, seed=options.seed, rule=rule)
    estimator = _decided(model, found, rule)
    seconds = all_seconds(time.perf_counter() - started, fitted, estimator.history_.get("epochs"))
    learnt = _learnt(model, parts, found, round(seconds, 3))
    if is_main():
        if found.calibration.note is not None:
            told.note(found.calibration.note)
        judged = _judged(model, parts, rows, tested, folder / SOFTMAX, told)
        samples = choose_samples(model, parts.test.x, found.held, pictures=given.pictures if given else None)
        learnt |= {"notes": told.notes[said:], "input": prepared.save(folder)}
        _write_run(folder, learnt, found, judged, samples, estimator)
    each = {name: learnt[name] for name in ("classes", "class_uncertainty", "margins", "seconds")}
    each |= {name: getattr(found, name) for name in ("scores", "before", "decision")}
    return RunResult(folder, model=estimator, report=folder / REPORT, **each)


def _prepare(options: RunOptions, parts: SplitSamples, told: RunWatcher) -> tuple[RunInput, str]:
    """Choose preprocessing and model, and report the data and the choice."""
    train = parts.train
    told.summary(summarize(train.encoded[1], names=train.class_names), train=len(train), test=len(parts.test))
    prepared = make_input(train.x, train.y, train.groups, options=options, progress=told.progress)
    name, why = choose_model(options, prepared, parts.targets)
    _tell_of_columns(told, options, parts, prepared)
    told.note(*prepared.notes, *filter(None, [why]))
    return prepared, name


def _decided(model: RunModel, found: HeldOutResult, rule: DecisionRule | None) -> CalibratedClassifier:
    """Return the estimator with the calibration and rule from the held-out samples."""
    estimator = model.predictor.estimator
    estimator.calibrated_ = found.calibration.model
    estimator._decide_as(rule and rule.by_place(model.classes) if model.multilabel else rule, estimator.evidence_)
    return estimator


def _learnt(model: RunModel, parts: SplitSamples, found: HeldOutResult, seconds: float) -> dict[str, Any]:
    """Return the fields of ``run.json`` that describe the trained model."""
    estimator = model.predictor.estimator
    uncertainty = estimator.class_uncertainty_
    return {
        "classes": list(model.classes),
        "attributes": list(parts.train.attributes),
        "train_counts": parts.targets.counts,
        "class_uncertainty": _each_class(uncertainty),
        "margins": None if uncertainty is None else _each_class(estimator.margins_),
        "blend": model.predictor.blend,
        "decision": None if found.decision is None else found.decision.to_json(),
        "calibration": CalibrationRecord(**found.calibration.as_dict(model.classes)),
        "seconds": seconds,
    }


def _write_run(
    folder: Path,
    learnt: dict[str, Any],
    found: HeldOutResult,
    judged: JudgedLabels | None,
    samples: Any,
    estimator: CalibratedClassifier,
) -> None:
    """Write all results, the model last: a folder with a model is a finished run. Then write the report."""
    known = read_run_record(folder)  # including what the training has written
    write_json(folder / RECORD, structs.replace(known, **learnt))
    write_json(folder / SCORES, found.scores.as_dict())
    if found.before is not None:
        write_json(folder / BEFORE_SCORES, found.before.as_dict())
    found.held.save(folder)
    write_json(folder / GALLERY, samples)
    if judged is not None:
        judged.save(folder)
    estimator.save(folder)
    from equipoise.app.report import write_report  # imports matplotlib, which predicting need not wait for

    write_report(folder)


def _tell_of_columns(told: RunWatcher, options: RunOptions, parts: SplitSamples, prepared: RunInput) -> None:
    """Show what the columns of a table hold, and note anything suspicious."""
    train, encoder = parts.train, prepared.encoder
    if encoder is None:
        return
    if rows_of(train.x).in_parts:
        frame, places = rows_of(train.x).sample
        train = replace(train, x=frame, y=train.y[places])
    told.columns(profile_sample(train.x, train.encoded[1], encoder.guesses_))
    told.note(*leak_notes(train, parts.test))
    ordered = order_note(train.x, encoder.time_columns) if options.time is None and options.test is None else None
    if ordered is not None:
        told.note(ordered)


def wait_for_all() -> None:
    """Wait until every process is here; a single process does not wait."""
    if not are_several():
        return
    from equipoise.training import Settings
    from equipoise.training.accelerate_setup import make_accelerator

    make_accelerator(Settings(epochs=1, batch_size=1), None, None).wait_for_everyone()


def _checked_rule(options: RunOptions, parts: SplitSamples) -> DecisionRule | None:
    """Return the rule that answers; refuse an unknown class before training."""
    rule, targets = options.decision(), parts.targets
    if rule is not None:
        rule.check(list(targets.classes), several=targets.several)
    return rule


@contextmanager
def _noted(told: RunWatcher) -> Iterator[None]:
    """Pass on a warning of the library as a note as soon as it comes."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, EquipoiseWarning):
                told.note(str(message))
            else:
                before(message, category, *where, **more)

        warnings.simplefilter("always", EquipoiseWarning)
        warnings.showwarning = show
        yield


def _judged(
    model: RunModel, parts: SplitSamples, rows: Any, tested: Any, softmax: Path, told: RunWatcher
) -> JudgedLabels | None:
    """Judge the labels; return None with a note if that fails, so that a trained model is not lost."""
    if rows_of(parts.train.x).in_parts:
        told.note(
            "the labels of a table that is read in parts are not judged; `equipoise inspect` has nothing to show."
        )
        return None
    try:
        return judge_labels(model, parts, rows, tested, softmax)
    except (MemoryError, RuntimeError, np.linalg.LinAlgError, EquipoiseError) as error:  # RuntimeError: torch's memory
        said = "out of memory" if isinstance(error, MemoryError) else str(error).partition("\n")[0].rstrip(".")
        told.note(f"the labels could not be judged ({said}); `equipoise inspect` has nothing to show of this run.")
        return None


def all_seconds(here: float, fitted: float, epochs: Any) -> float:
    """Return the seconds of all attempts: a fit takes as long as its epochs, whichever attempt ran them.

    A model without epochs is fitted in one attempt.

    >>> all_seconds(10.0, 4.0, [{"seconds": 3.0}, {"seconds": 3.5}])
    12.5
    """
    if epochs is None:
        return here
    return here - fitted + sum(float(epoch["seconds"]) for epoch in epochs)


def _each_class(values: NDArray[Any] | None) -> list[float | None] | None:
    """Return one number per class; with attributes that of their ones."""
    if values is None:
        return None
    own = values[..., -1] if values.ndim == 2 else values
    return [float(value) if math.isfinite(value) else None for value in own]
