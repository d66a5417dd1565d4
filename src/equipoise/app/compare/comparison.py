"""``compare``: every method on a user's own data, ranked, with a recommendation in plain words."""

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.app.compare.advice import recommend
from equipoise.app.compare.deadline import Clock, Deadline, OutOfTimeError, Pace, Reading
from equipoise.app.compare.decision_scores import rule_for_samples
from equipoise.app.compare.fit_store import ResultStore
from equipoise.app.compare.leaderboard import Ranking, mean_score, rank
from equipoise.app.compare.method import Method
from equipoise.app.compare.methods import METHODS, check_installed, own_method
from equipoise.app.compare.networks import FitOptions
from equipoise.app.compare.runner import Progress
from equipoise.app.compare.single_fit import FoldFitter, Prepare, unsuited
from equipoise.app.compare.time_budget import CASE, Reached, run_rounds
from equipoise.app.runs.preprocessing import make_input
from equipoise.app.runs.run_options import RunOptions
from equipoise.data.leaks import leak_notes
from equipoise.data.samples import Samples
from equipoise.decisions import DecisionRule
from equipoise.decisions.yardstick import Yardstick
from equipoise.errors import InvalidInputError
from equipoise.evaluation.metrics import SCORE_NAMES
from equipoise.registry_names import check_methods
from equipoise.training.resumable_run import checksum
from equipoise.wording import counted, plural

MOST_FOLDS = 5
FIRST = ("boosting", "boosting_prior_shift", "cross_entropy", "blend", "uncertainty_margin")
"""Run first if the budget allows: plain methods, boosting with a moved threshold, our blend, the paper's method."""
SHOWN = {
    name: SCORE_NAMES[name]
    for name in (
        *("balanced_accuracy", "macro_average_precision", "auc", "matthews"),
        *("log_loss", "g_mean", "f1", "calibration.ece"),
    )
}
"""Scores that a table of methods shows, by the name that :func:`~equipoise.app.compare.leaderboard.score_of` takes."""

COUNTED = {
    "expected_cost": ("cost", "the cost per 1,000 cases"),
    "false_alarms": ("alarms", "the false alarms per 1,000 cases"),
    "missed": ("missed", "the missed cases per 1,000"),
    "mistakes": ("wrong", "the mistakes per 1,000 cases"),
}
"""Names of what a rule's yardstick counts, as a narrow column's head and in a sentence."""


def counted_as(yardstick: Yardstick) -> tuple[str, str]:
    """Return what a yardstick counts as a narrow column's head and in a sentence, also for a rule of the user's.

    >>> counted_as(Yardstick("saved", "late_alarms"))
    ('late alarms', 'the late alarms per 1,000 cases')
    """
    plain = yardstick.counted.replace("_", " ")
    return COUNTED.get(yardstick.counted, (plain, f"the {plain} per 1,000 cases"))


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare`.

    Args:
        ranking: the methods, best first.
        verdict: whether a remedy is needed, in one sentence.
        recommendation: the verdict and what to use, in a few sentences.
        left_out: methods that were not compared, and why.
        notes: what was chosen or had to be changed, a sentence each.
        records: one per fit, as in the file.
        methods: those that were to be compared, by name.
        seeds: how many were asked for.
        folds: None for the official test part.
        rounds: pairs of a seed and a fold on which every method of the ranking was run.
        seconds: from the first fit to the last, on the clock.
        yardstick: of the decision rule by which all methods decide; None without one.
    """

    ranking: Ranking
    verdict: str
    recommendation: str
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    records: list[dict[str, Any]]
    methods: Mapping[str, Method]
    seeds: int
    folds: int | None
    rounds: int
    seconds: float
    yardstick: Yardstick | None = None

    def means(self, method: str) -> dict[str, float | None]:
        """Return a method's mean scores by the names of ``SHOWN``, and the median CPU ``seconds`` of a fit.

        A score is None where the method gives no probabilities. With a decision rule there are the two of its
        ``yardstick`` as well.
        """
        own = [record for record in self.records if record["method"] == method]
        found = {name: mean_score(own, name) for name in SHOWN}
        found |= {name: mean_score(own, name) for name in self.yardstick or ()}
        return found | {"seconds": float(np.median([record["seconds"] for record in own]))}


def compare(
    samples: Samples,
    *,
    methods: Sequence[str] | Mapping[str, Any] | None = None,
    seeds: int = 5,
    folds: int | None = None,
    budget_seconds: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    reading: Reading | None = None,
    note: Callable[[str], None] | None = None,
    jobs: int = 1,
    tune: bool = False,
    metric: str | None = None,
    decision: DecisionRule | None = None,
    options: FitOptions | None = None,
    prepare: Prepare | None = None,
    started: float | None = None,
    clock: Clock = time.monotonic,
) -> Comparison:
    """Fit every method with the same network on the same folds, and rank them.

    Args:
        samples: a table or images with their labels, see ``open_data``.
        methods: names of ``METHODS``; or a mapping from a name to an estimator of your own or its class, or to None for
            the method of that name. None takes all but research variants, as far as data and packages allow them.
        seeds: each shuffles the folds anew and starts from other weights.
        folds: None takes the official test part where there is one, else 5, or as many as the rarest class has
            samples, but 3 at least. Rows of one group are never divided.
        budget_seconds: a limit on the clock, at which a running fit is aborted; as many methods as possible get the
            three fits that an interval needs, then more.
        out: a file that stores every fit; the same call resumes an interrupted comparison.
        progress, reading, note: called with finished fits, counts of embedded images, and what fits into the budget.
        jobs: processes.
        tune: choose each method's hyperparameters on a fifth of the training rows, 4 settings at the most for each.
        metric: a name of the scores, see :func:`equipoise.app.compare.leaderboard.score_of`; None is balanced
            accuracy, and with a decision rule what its answers are judged by.
        decision: a rule of :mod:`equipoise.decisions` by which all methods decide, with thresholds that are chosen by
            a part of the test predictions and judged by the others.
        options: of the network; the same for all.
        prepare: makes the network's input from training rows; None suits tables and images trained from scratch.
        started, clock: when the budget began to run, by default now, and the seconds that it is kept by.
    """
    began = clock()
    chosen = _chosen_methods(methods, jobs)
    if seeds < 1 or (budget_seconds is not None and not budget_seconds > 0):
        raise InvalidInputError(f"seeds must be 1 or more and the budget above 0, got {seeds} and {budget_seconds}.")
    start = began if started is None else started
    limit = None if budget_seconds is None else Deadline(start, budget_seconds, clock)
    prepare = prepare or partial(make_input, options=RunOptions(data="the data"))
    notes = leak_notes(samples)
    samples, backbone = _with_features(samples, prepare, limit, reading)
    folds = _chosen_folds(samples, folds, notes)
    if methods is None:
        chosen = _suited(chosen, samples, notes)
    rule = None if decision is None else rule_for_samples(decision, samples, folds)
    run = FoldFitter(samples, folds, options or FitOptions(), tune, prepare, limit, chosen, rule)
    with _store(run, out, backbone) as store:
        reached = run_rounds(run, store, seeds * (folds or 1), first=FIRST, jobs=jobs, progress=progress, note=note)
    return _result(run, reached, metric, notes, seeds=seeds, seconds=clock() - began)


def _with_features(
    samples: Samples, prepare: Prepare, limit: Deadline | None, reading: Reading | None
) -> tuple[Samples, str | None]:
    """Return the samples as features of a frozen backbone or unchanged, and what identifies a trained backbone.

    A backbone that is trained is identified by the weights it begins with. Extraction ends as soon as it is clear that
    the limit will not be kept.
    """
    if samples.x.ndim == 2:
        return samples, None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: Any = prepare(samples.x)
    if made.backbone is not None:
        return samples, checksum(tensor for _, tensor in sorted(made.backbone.state_dict().items()))
    if limit is None:
        made.progress = reading
        return replace(samples, x=made.rows(samples.x)), None
    pace = made.progress = Pace(limit, reading)
    try:
        return replace(samples, x=limit.call(lambda: made.rows(samples.x))), None
    except OutOfTimeError:
        raise OutOfTimeError(pace.sentence()) from None


def _store(run: FoldFitter, out: str | Path | None, backbone: str | None) -> ResultStore:
    """Return the store of results, bound to these data, options and methods."""
    settings = run.options.recorded() | {"folds": run.folds, "tune": run.tune, "backbone": backbone}
    settings |= {} if run.decision is None else {"decision": run.decision.to_json()}
    own = {f"method {name}": method.identity for name, method in run.methods.items() if method.identity}
    return ResultStore(out, data={CASE: run.samples.checksum()} | own, settings=settings)


def _result(
    run: FoldFitter, reached: Reached, metric: str | None, notes: list[str], *, seeds: int, seconds: float
) -> Comparison:
    """Rank the methods, and recommend one in words."""
    plain, moved = (
        [name for name, each in run.methods.items() if each.remedy == what] for what in ("none", "threshold")
    )
    yardstick = None if run.decision is None else run.decision.yardstick
    metric = metric or ("balanced_accuracy" if yardstick is None else yardstick.score)
    share = 0.0 if run.folds is None else 1 / (run.folds - 1)
    ranking = rank(reached.records, metric=metric, baseline=plain, test_to_train=share)
    in_text = {name: method.name_in_text for name, method in run.methods.items()}
    advice = recommend(ranking, in_text, plain=plain, moved=moved, more=reached.more)
    return Comparison(
        ranking=ranking,
        verdict=advice.verdict,
        recommendation=str(advice),
        left_out=reached.left_out,
        notes=(*notes, *reached.notes),
        records=reached.records,
        methods=run.methods,
        seeds=seeds,
        folds=run.folds,
        rounds=reached.rounds,
        seconds=seconds,
        yardstick=yardstick,
    )


def default_methods() -> tuple[str, ...]:
    """Return the methods compared by default, the most wanted first."""
    return tuple(name for name, method in METHODS.items() if not method.variant and method.installed)


def _chosen_methods(methods: Sequence[str] | Mapping[str, Any] | None, jobs: int) -> dict[str, Method]:
    """Return the methods by name, those of ``FIRST`` first."""
    given = dict.fromkeys(default_methods() if methods is None else methods)
    given |= methods if isinstance(methods, Mapping) else {}
    own = {name: estimator for name, estimator in given.items() if estimator is not None}
    if len(own) < len(given) or not own:
        check_methods([name for name in given if name not in own], METHODS)
    check_installed(name for name in given if name not in own)
    for name in own:
        if name in METHODS:
            raise InvalidInputError(f"a method {name!r} exists already; give yours another name.")
    order = sorted(given, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    chosen = {name: own_method(name, own[name]) if name in own else METHODS[name] for name in order}
    for name, method in chosen.items() if jobs > 1 else ():
        try:
            pickle.dumps(method)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidInputError(
                f"{name!r} cannot be sent to other processes ({error}); define it in a module, or use one job."
            ) from error
    return chosen


def _suited(chosen: Mapping[str, Method], samples: Samples, notes: list[str]) -> dict[str, Method]:
    """Leave out the methods that do not take such samples, with a note for each reason."""
    why = {name: unsuited(each, samples.x.shape, several_labels=samples.multilabel) for name, each in chosen.items()}
    for reason in dict.fromkeys(filter(None, why.values())):
        labels = [chosen[name].label for name, own in why.items() if own == reason]
        notes.append(f"Not compared ({reason}): {', '.join(labels)}.")
    return {name: method for name, method in chosen.items() if why[name] is None}


def _chosen_folds(samples: Samples, folds: int | None, notes: list[str]) -> int | None:
    """Return the number of folds, None for the official test part, with notes where the user may wonder."""
    if folds is None and samples.partition is not None and "test" in samples.partition:
        notes.append("Trained on the official training part and tested on the official test part.")
        return None
    if folds is not None and folds < 2:
        raise InvalidInputError(f"folds must be 2 or more, got {folds}.")
    if samples.multilabel:
        return folds or MOST_FOLDS
    (classes, codes), what = samples.encoded, "sample"
    if samples.groups is not None:  # each class's groups, once
        groups, what = np.unique(samples.groups, return_inverse=True)[1], "group"
        codes = np.unique(np.stack([codes, groups]), axis=1)[0]
    counts = np.bincount(codes)
    fewest = int(counts.min())
    chosen = folds or max(3, min(MOST_FOLDS, fewest))
    if folds is None and chosen < MOST_FOLDS:
        rarest = classes[counts.argmin()]
        notes.append(f"{chosen} folds instead of {MOST_FOLDS}, as class {rarest} has {counted(fewest, what)}.")
    if fewest < chosen:
        few = int((counts < chosen).sum())
        those = "1 class has" if few == 1 else f"{few} classes have"
        notes.append(f"{those} fewer {plural(2, what)} than there are folds; some test parts have none of them.")
    return chosen
