"""``compare``: every method on a user's own data, ranked, with a recommendation in plain words."""

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.app.compare.deadline import Clock, Deadline, OutOfTimeError
from equipoise.app.compare.leaderboard import Ranking, rank, recommend
from equipoise.app.compare.methods import METHODS, FitOptions, Method, own_method
from equipoise.app.compare.results import Fit, ResultStore
from equipoise.app.compare.runner import Progress, run_fits
from equipoise.app.compare.single_fit import FoldRun, Prepare
from equipoise.app.compare.time_budget import Plan, Schedule
from equipoise.app.runs.inputs import make_input
from equipoise.app.runs.run_options import TrainOptions
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.family_names import check_methods
from equipoise.training.resume import checksum
from equipoise.wording import counted, duration, plural

CASE = "data"
MOST_FOLDS = 5
FIRST = ("cross_entropy", "uncertainty_margin")
"""The baseline and the paper's method: where the budget allows, these are compared."""
Reading = Callable[[int, int], None]
"""Told how many images are done, of how many."""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Args:
        ranking: the methods, best first.
        recommendation: a few sentences for a person.
        left_out: methods that were not compared, and why.
        notes: what was chosen or had to be changed, a sentence each.
        records: one a fit, as in the file.
        seeds: how many were asked for.
        folds: None for the official test part.
        rounds: pairs of a seed and a fold on which every method of the ranking was run.
        seconds: from the first fit to the last, on the clock.
    """

    ranking: Ranking
    recommendation: str
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    records: list[dict[str, Any]]
    seeds: int
    folds: int | None
    rounds: int
    seconds: float


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
    metric: str = "balanced_accuracy",
    options: FitOptions | None = None,
    prepare: Prepare | None = None,
    started: float | None = None,
    clock: Clock = time.monotonic,
) -> Comparison:
    """Fit every method with the same network on the same folds, and rank them.

    Args:
        samples: a table or images with their labels, see ``open_data``.
        methods: names of ``METHODS``; None takes all but the research variants, as far as the budget goes. A mapping
            from a name to a scikit-learn estimator adds one of your own, to None takes the method of that name:
            ``{"forest": RandomForestClassifier(), "cross_entropy": None}``.
        seeds: each shuffles the folds anew and starts from other weights.
        folds: None takes the official test part where there is one, else 5, or as many as the rarest class has
            samples, but 3 at least. Rows of one group are never divided.
        budget_seconds: a limit on the clock, at which a fit that is still running is aborted. How long fits take is
            measured first; none is started that does not fit. As many methods as possible, the cheapest first beside
            cross-entropy and Equipoise, get the three fits that an interval needs, then more.
        out: a file that keeps every fit; the same call goes on where a killed one stopped.
        progress: called with each finished fit.
        reading: told how many images of how many have been through a frozen backbone.
        note: told in a sentence, before the first fit, what fits into the budget.
        jobs: processes.
        tune: choose each method's hyperparameters on a fifth of the training rows, 4 settings at the most for each.
        metric: a name of the scores, see :func:`equipoise.app.compare.leaderboard.score_of`.
        options: of the network; the same for all.
        prepare: makes the network's input from training rows; None suits tables and images trained from scratch.
        started: when the budget began to run, by the clock; None is now.
        clock: seconds, by which the budget is kept.
    """
    began = clock()
    chosen = _chosen_methods(methods, jobs)
    names = tuple(chosen)
    if seeds < 1 or (budget_seconds is not None and not budget_seconds > 0):
        raise InvalidInputError(f"seeds must be 1 or more and the budget above 0, got {seeds} and {budget_seconds}.")
    start = began if started is None else started
    limit = None if budget_seconds is None else Deadline(start, budget_seconds, clock)
    prepare = prepare or partial(make_input, options=TrainOptions(data="the data"))
    samples, backbone = with_features(samples, prepare, limit, reading)
    folds, notes = _chosen_folds(samples, folds)
    run = FoldRun(samples, folds, options or FitOptions(), tune, prepare, limit, chosen)
    rounds = seeds * (folds or 1)
    more, left_out = "give more seeds", dict[str, str]()
    settings = run.options.recorded() | {"folds": folds, "tune": tune, "backbone": backbone}
    own = {f"method {name}": method.description for name, method in chosen.items() if method.description}
    with ResultStore(out, data={CASE: samples.checksum()} | own, settings=settings) as store:
        fit = partial(_fit, folds=folds or 1)
        if limit is None:
            reached = Plan(names, rounds)
            run_fits(_fits(reached, fit), store, run, progress=progress, jobs=jobs)
        else:
            alone = tuple(name for name in names if run.method(name).family in ("svm", "own"))
            schedule = Schedule(names, store, limit, first=FIRST, alone=alone, fit=fit, rounds=rounds, jobs=jobs)
            schedule.estimate(run)
            if note is not None:
                note(schedule.sentence())
            with suppress(OutOfTimeError):
                run_fits(schedule, store, run, progress=progress, jobs=jobs, clock=clock, counts=schedule.counts)
            reached, left_out = schedule.reached(), schedule.left_out()
            if left_out or reached.rounds < rounds:
                more = f"give more minutes: {schedule.needed()}"
        records = [store[one] for one in _fits(reached, fit) if one in store]
    if not records:
        raise OutOfTimeError(f"the budget ended before the first fit was finished; {more}.")
    if reached.rounds < rounds:
        notes += (f"{reached.rounds} of {counted(rounds, 'fit')} of each method fitted into the budget.",)
    ranking = rank(records, metric=metric, test_to_train=0.0 if folds is None else 1 / (folds - 1))
    return Comparison(
        ranking=ranking,
        recommendation=recommend(ranking, {name: run.method(name).label for name in names}, more=more),
        left_out=left_out,
        notes=notes + tuple(dict.fromkeys(note for record in records for note in record.get("notes", ()))),
        records=records,
        seeds=seeds,
        folds=folds,
        rounds=reached.rounds,
        seconds=clock() - began,
    )


def default_methods() -> tuple[str, ...]:
    """Return what is compared when nobody says, most wanted first."""
    return tuple(name for name, method in METHODS.items() if not method.variant)


def _chosen_methods(methods: Sequence[str] | Mapping[str, Any] | None, jobs: int) -> dict[str, Method]:
    """Return the methods by name, the baseline and the paper's method first."""
    given = dict.fromkeys(default_methods() if methods is None else methods)
    given |= methods if isinstance(methods, Mapping) else {}
    own = {name: estimator for name, estimator in given.items() if estimator is not None}
    if len(own) < len(given) or not own:
        check_methods([name for name in given if name not in own], METHODS)
    for name in own:
        if name in METHODS:
            raise InvalidInputError(f"there is a method {name!r} already; call yours by another name.")
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


def _chosen_folds(samples: Samples, folds: int | None) -> tuple[int | None, tuple[str, ...]]:
    if folds is None and samples.partition is not None and "test" in samples.partition:
        return None, ("Trained on the official training part and tested on the official test part.",)
    if folds is not None and folds < 2:
        raise InvalidInputError(f"folds must be 2 or more, got {folds}.")
    if samples.multilabel:
        return folds or MOST_FOLDS, ()
    members = samples.y
    if samples.groups is not None:  # each class's groups, once
        groups = np.unique(samples.groups, return_inverse=True)[1]
        codes = np.unique(samples.y, return_inverse=True)[1]
        members = samples.y[np.unique(codes.astype(np.int64) * (groups.max() + 1) + groups, return_index=True)[1]]
    classes, counts = np.unique(members, return_counts=True)
    fewest = int(counts.min())
    chosen = folds or max(3, min(MOST_FOLDS, fewest))
    what = "sample" if samples.groups is None else "group"
    notes = []
    if folds is None and chosen < MOST_FOLDS:
        notes.append(
            f"{chosen} folds instead of {MOST_FOLDS}, as class {classes[counts.argmin()]} has {counted(fewest, what)}."
        )
    if fewest < chosen:
        few = int((counts < chosen).sum())
        those = "1 class has" if few == 1 else f"{few} classes have"
        notes.append(f"{those} fewer {plural(2, what)} than there are folds; some test parts have none of them.")
    return chosen, tuple(notes)


def _fit(name: str, number: int, *, folds: int) -> Fit:
    """Return the fit of a method in a round: the folds of the first seed, then those of the next."""
    return Fit(CASE, name, *divmod(number, folds))


def _fits(plan: Plan, fit: Callable[[str, int], Fit]) -> list[Fit]:
    """Return the fits of a plan, round by round."""
    return [fit(name, number) for number in range(plan.rounds) for name in plan.methods]


def with_features(
    samples: Samples, prepare: Prepare, limit: Deadline | None, reading: Reading | None
) -> tuple[Samples, str | None]:
    """Return the samples as features of a frozen backbone or as they are, and what tells a trained backbone apart.

    A backbone that is trained is identified by the weights it begins with.

    Args:
        limit: of the extraction, which ends as soon as it is clear that the limit will not be kept.
        reading: told how many images of how many are done.
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


class Pace:
    """Measures how fast images are done, and raises once they cannot all be done by the ``limit``."""

    def __init__(self, limit: Deadline, reading: Reading | None) -> None:
        self.limit, self.reading = limit, reading
        self.first: tuple[float, int] | None = None  # the first batch warms up
        self.needed = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Note how many images are done, of how many."""
        if self.reading is not None:
            self.reading(done, total)
        now = self.limit.clock()
        if self.first is None or self.first[1] == 0:
            self.first = now, done
        elif done > self.first[1]:
            self.needed = (now - self.first[0]) / (done - self.first[1]) * (total - done)
        if self.needed > self.limit.left:
            raise OutOfTimeError(self.sentence())

    def sentence(self) -> str:
        """Say what is short, and what to do."""
        missing = f"about {duration(self.needed)} more" if self.needed > 0 else "longer"
        return (
            f"the features of the images take {missing}, which the budget does not leave; give more minutes: features "
            "that are done are kept, and the same command goes on from there."
        )
