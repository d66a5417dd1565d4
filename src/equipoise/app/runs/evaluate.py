"""Evaluation of a finished run on other labelled data."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs.answer_table import Abstained
from equipoise.app.runs.trained_run import ESTIMATE, RunModel
from equipoise.app.runs.unlabelled_data import check_images
from equipoise.calibration.conformal import unanswered_rows
from equipoise.data import Samples, open_data
from equipoise.data.labels import label_indices
from equipoise.decisions import Chosen, DecisionRule, abstained_shares
from equipoise.decisions.binomial_bounds import CONFIDENCE
from equipoise.decisions.policy import Promise
from equipoise.decisions.yardstick import PER
from equipoise.errors import InvalidInputError
from equipoise.evaluation import Scores
from equipoise.evaluation.skill import Skill, skill, with_bootstrap
from equipoise.storage.archives import is_archive
from equipoise.tensor_checks import check_finite

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate_run`.

    Args:
        skill: skill of the predictions against guessing, by class.
        prior: the class prior used, by class; None if none was given.
        sets: quality of the sets of possible classes, as plain values; None if not requested.
        decision: the rule that answered, and its expected results; None for the default.
        cost: of 1,000 of these samples, by the rule's costs; None without costs.
        outcome: what the rule gave here beside what it promised, a sentence each; empty for the default.
    """

    scores: Scores
    skill: Skill
    prior: dict[str, float] | None
    sets: dict[str, Any] | None
    decision: Chosen | None
    cost: float | None
    outcome: tuple[str, ...]


def evaluate_run(
    model: RunModel,
    source: str,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    watcher: RunWatcher | None = None,
    prior: str | None = None,
    abstain: float | None = None,
    rule: DecisionRule | None = None,
) -> Evaluation:
    """Score a run on data that it has not seen; for a set with an official test part, on that part.

    Args:
        target: the label column; None takes that of the run.
        labels: a table of ``file,label``, for images that are not sorted into folders.
        prior: as for ``RunModel.read_prior``, or ``estimate``, from the samples without their labels.
        abstain: allowed error rate per class of the sets of possible classes.
        rule: the rule that answers; None is the run's own.
    """
    told: RunWatcher = watcher or RunWatcher()
    asked = None if abstain is None else Abstained(model, abstain)
    shares = None if prior in (None, ESTIMATE) else model.read_prior(str(prior))
    model = model.deciding(rule, shares)
    samples = _read(model, source, target, labels, told)
    places = _label_places(model, samples, source)
    counts: Any = model.learnt("train_counts") or [1] * len(model.classes)
    whole = model.predictions(samples.x, shares)
    check_finite(whole.finite)
    probabilities, predicted = whole.probabilities, whole.predicted
    if prior == ESTIMATE:
        shares = model.estimate_prior(probabilities)
        model = model.deciding(rule, shares)
        probabilities, predicted = model.decided(whole.logits, shares)
    found, chosen = model.scores(probabilities, predicted, places, counts), model.chosen
    judged = skill(places, predicted, len(model.classes), probabilities=probabilities)
    return Evaluation(
        scores=found,
        skill=with_bootstrap(judged, found.intervals),
        prior=None if shares is None else model.named_shares(shares),
        sets=None if asked is None else _set_scores(asked, asked.add(whole.logits, predicted), places),
        decision=chosen,
        cost=None if chosen is None else chosen.cost_of(places, predicted),
        outcome=() if chosen is None else tuple(outcome(chosen, places, predicted)),
    )


def _label_places(model: RunModel, samples: Samples, source: str) -> NDArray[np.int64]:
    """Return the labels as class indices, or as 0 and 1; refuse others than the run predicts."""
    several, classes = model.multilabel, model.classes
    if samples.multilabel != several or (several and samples.y.shape[1] != len(classes)):
        raise InvalidInputError(
            f"the run predicts {', '.join(classes[:5])} with {'0/1 each' if several else 'one class'}; {source} has "
            "other labels: name the target columns as in training."
        )
    labels = samples.y if several else samples.y.astype(str)
    return label_indices(labels, classes, multilabel=several, whose="the data have")


def _set_scores(asked: Abstained, possible: NDArray[np.bool_], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Return by class how often its set contains it, and how often the set has several; None without samples.

    With attributes, over the samples that have each.
    """
    classes = asked.model.classes
    held = np.take_along_axis(possible, labels[..., None], -1)[..., 0]
    shares = abstained_shares(labels, unanswered_rows(possible), len(classes))
    found = {}
    for place, name in enumerate(classes):
        own = held[labels[:, place] == 1, place] if asked.model.multilabel else held[labels == place]
        found[name] = {
            "coverage": float(own.mean()) if len(own) else None,
            "abstained": None if np.isnan(shares.each[place]) else shares.each[place],
            "verdict": shares.verdicts[place],
        }
    return {
        "level": asked.level,
        "abstained": shares.overall,
        "mean_size": float(possible.sum(-1).mean()),  # possible classes per sample, or values per attribute
        "never_ruled_out": asked.never_ruled_out(),
        "classes": found,
    }


def _read(model: RunModel, source: str, target: str | None, labels: str | Path | None, told: RunWatcher) -> Samples:
    table, path = model.input.encoder is not None, Path(source)
    arrays = path.suffix.lower() == ".npz"  # their labels have a name of their own
    images = path.is_dir() or (path.is_file() and is_archive(path))
    if path.exists() and not arrays and images == table:  # before a reader rejects options
        raise InvalidInputError(_other_kind(source, table))
    if target is None and not arrays and (table or labels is not None):
        target = model.record.target
    shape: dict[str, Any] = {}
    if not table and not arrays:
        channels, height, width = model.input.image_shape
        shape = {"size": (height, width)} | ({"channels": channels} if path.exists() else {})
    samples = open_data(source, target=target, labels=labels, progress=told.progress, **shape)
    told.note(*samples.notes)
    if samples.x.ndim != (2 if table else 4):
        raise InvalidInputError(_other_kind(source, table))
    if not table:
        check_images(model, samples.x, source)
    if samples.partition is not None and "test" in samples.partition:
        samples = samples.part("test")
        told.note(f"the official test part, {len(samples)} samples, is scored.")
    return samples


def _other_kind(source: str, table: bool) -> str:
    if table:
        return f"the run was trained on a table, and {source} holds images; give a table."
    return f"the run was trained on images, and {source} is a table; give images."


def outcome(chosen: Chosen, labels: NDArray[np.int64], predicted: NDArray[np.int64]) -> Iterator[str]:
    """Yield sentences on what the answers found and missed, and whether the rule's promises held.

    Args:
        labels, predicted: places, (rows,), or 0 and 1, (rows, attributes).

    >>> from equipoise.decisions import Evidence, Natural, Situation
    >>> prior = np.array([0.5, 0.5])
    >>> rule = Natural().choose(Situation(("ok", "fraud"), prior, prior, Evidence.of([[0.9, 0.1]], [0])))
    >>> next(outcome(rule, np.array([1, 1, 0, 0, 0]), np.array([1, 0, 1, 0, 0])))
    "on these samples it finds 1 of 2 of class 'fraud' (50 %), with 200 false alarms per 1,000 cases."
    """
    several = labels.ndim == 2
    names = [str(name) for name in chosen.classes]
    counts = labels.sum(0) if several else np.bincount(labels, minlength=len(names))

    def rows(name: str) -> tuple[Rows, Rows]:
        place = names.index(name)
        if several:
            return labels[:, place] == 1, predicted[:, place] == 1
        return labels == place, predicted == place

    for name in chosen.rule.reported_classes(chosen.classes, counts.tolist(), several=several):
        own, called = rows(name)
        hits, trials = int((own & called).sum()), int(own.sum())
        alarms = f"{PER * float((called & ~own).mean()):,.3g} false alarms per 1,000 cases"
        found = f"it finds {hits:,} of {trials:,} of class {name!r} ({100 * hits / max(trials, 1):.0f} %)"
        yield f"on these samples {found if trials else f'none is of class {name!r}'}, with {alarms}."
    for promise in chosen.promises:
        own, called = rows(promise.name)
        yield from _kept(promise, own & called, own if promise.what == "recall" else called)
    cost = chosen.cost_of(labels, predicted)
    if cost is not None:
        yield f"these samples cost {cost:,.1f} per 1,000 cases{_beside(chosen, cost, len(labels))}."


def _beside(chosen: Chosen, cost: float, cases: int) -> str:
    """Compare a cost with its prediction interval for this many cases."""
    ahead = None if chosen.expected is None else chosen.expected.cost_of_next(cases)
    if ahead is None:
        return ""
    span = f"the {ahead.low:,.1f} to {ahead.high:,.1f} expected of {cases:,} cases"
    if ahead.low <= cost <= ahead.high:
        return f", within {span}"
    than = "more" if cost > ahead.high else "less"
    return f", {than} than {span}: these samples differ from those the rule was chosen on"


def _kept(promise: Promise, right: Rows, among: Rows) -> Iterator[str]:
    """Yield a sentence that compares a promise with the result; nothing without rows."""
    hits, trials = int(right.sum()), int(among.sum())
    if trials == 0 or promise.promised == 0:
        return
    of = f"{100 * promise.promised:.3g} % {promise.what} of class {promise.name!r}"
    chance = float(binom.cdf(hits, trials, promise.promised))
    if hits >= promise.promised * trials:
        yield f"the {of} promised is kept here."
    elif chance >= 1 - CONFIDENCE:
        yield f"that is below the {of} promised, but by no more than chance explains in {trials:,} cases."
    else:
        yield (
            f"that is below the {of} promised, and by more than chance explains: these samples differ from those "
            "the rule was chosen on; choose it again on samples like these."
        )
