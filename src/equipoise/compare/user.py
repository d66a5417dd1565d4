"""``compare``: every method on a user's own data, ranked, with a recommendation in plain words."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.compare.budget import Plan, choose
from equipoise.compare.cells import Cell, CellStore
from equipoise.compare.folds import FoldRun, Prepare, samples_checksum
from equipoise.compare.methods import METHODS
from equipoise.compare.network import FitOptions
from equipoise.compare.ranking import Ranking, rank
from equipoise.compare.recommendation import recommend
from equipoise.compare.running import Progress, run_cells
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.runs.inputs import FeaturesInput, make_input
from equipoise.runs.options import TrainOptions

CASE = "data"
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if not method.variant)
"""What is compared when nobody says, most wanted first."""
MOST_FOLDS = 5
SHARE_FOR_TRYING = 0.25
"""Of the budget, for one fit of each method: how long they take is measured, not guessed."""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Args:
        recommendation: a few sentences for a person.
        left_out: methods that were not compared, and why.
        notes: what was chosen or had to be changed, a sentence each.
        records: one a fit, as in the file.
        folds: None for the official test part.
    """

    ranking: Ranking
    recommendation: str
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    records: list[dict[str, Any]]
    seeds: int
    folds: int | None
    seconds: float


def compare(
    samples: Samples,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = 5,
    folds: int | None = None,
    budget_seconds: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
    tune: bool = False,
    metric: str = "balanced_accuracy",
    options: FitOptions | None = None,
    prepare: Prepare | None = None,
) -> Comparison:
    """Fit every method with the same network on the same folds, and rank them.

    Args:
        methods: names of ``METHODS``; None takes all but the research variants, in that dict's order as far as the
            budget goes.
        seeds: each shuffles the folds anew and starts from other weights.
        folds: None takes the official test part where there is one, else 5, or as many as the rarest class has
            samples, but 3 at least. Rows of one group are never divided.
        budget_seconds: no new fit is started after it. A quarter goes into trying each method once; then the methods
            that fit are run, with fewer seeds where even four methods would not fit.
        out: a file that keeps every fit; the same call goes on where a killed one stopped.
        progress: told of each finished fit.
        jobs: processes.
        tune: choose each method's knob on a fifth of the training rows, 4 settings at the most for each.
        metric: a name of the scores, see :func:`equipoise.compare.ranking.score_of`.
        options: of the network; the same for all.
        prepare: makes the network's input from training rows; None suits tables and images trained from scratch.
    """
    started = time.monotonic()
    names = _checked_methods(methods)
    if seeds < 1 or (budget_seconds is not None and not budget_seconds > 0):
        raise InvalidInputError(f"seeds must be 1 or more and the budget above 0, got {seeds} and {budget_seconds}.")
    prepare = prepare or partial(make_input, options=TrainOptions(data="the data"))
    samples = _with_features(samples, prepare)
    folds, notes = _chosen_folds(samples, folds)
    run = FoldRun(samples, folds, options or FitOptions(), tune, prepare)
    number = folds or 1
    settings = {name: value for name, value in asdict(run.options).items() if name != "backbone"}
    settings |= {"folds": folds, "tune": tune}
    with CellStore(out, data={CASE: samples_checksum(samples)}, settings=settings) as store:
        plan = Plan(names, seeds, {})
        until = None
        if budget_seconds is not None:
            until = started + budget_seconds
            tried = _cells(names, 1, 1)
            trying = started + SHARE_FOR_TRYING * budget_seconds
            run_cells(tried, store, run, progress=progress, until=trying)  # here: other processes take time to start
            seconds = {cell.method: float(store[cell]["seconds"]) for cell in tried if cell in store}
            left = until - time.monotonic()
            plan = choose(names, seconds, seeds=seeds, folds=number, jobs=jobs, left=left)
        cells = _cells(plan.methods, plan.seeds, number)
        run_cells(cells, store, run, progress=progress, jobs=jobs, until=until)
        records, unfinished = _finished(store, plan, number)
    if plan.seeds < seeds:
        notes += (f"{plan.seeds} instead of {seeds} seeds, to keep within the budget.",)
    test_to_train = 0.0 if folds is None else 1 / (folds - 1)
    ranking = rank(records, metric=metric, test_to_train=test_to_train)
    return Comparison(
        ranking=ranking,
        recommendation=recommend(ranking, {name: method.label for name, method in METHODS.items()}),
        left_out={**plan.left_out, **unfinished},
        notes=notes + tuple(dict.fromkeys(note for record in records for note in record.get("notes", ()))),
        records=records,
        seeds=plan.seeds,
        folds=folds,
        seconds=time.monotonic() - started,
    )


def _checked_methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    names = DEFAULT_METHODS if methods is None else tuple(dict.fromkeys(methods))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise InvalidInputError(f"methods must be some of {', '.join(METHODS)}, got {got}.")
    return names


def _with_features(samples: Samples, prepare: Prepare) -> Samples:
    """Features of a frozen backbone are extracted once: they learn nothing from the rows."""
    if isinstance(samples.x, np.ndarray) and samples.x.ndim == 2:
        return samples
    made: Any = prepare(samples.x)
    return replace(samples, x=made.rows(samples.x)) if isinstance(made, FeaturesInput) else samples


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
    what = "samples" if samples.groups is None else "groups"
    notes = []
    if folds is None and chosen < MOST_FOLDS:
        notes.append(
            f"{chosen} folds instead of {MOST_FOLDS}, as class {classes[counts.argmin()]} has {fewest} {what}."
        )
    if fewest < chosen:
        few = int((counts < chosen).sum())
        notes.append(f"{few} of the classes have fewer {what} than there are folds; some test parts miss them.")
    return chosen, tuple(notes)


def _cells(names: Iterable[str], seeds: int, folds: int) -> list[Cell]:
    """Method by method, so that a budget that runs out leaves whole methods."""
    return [Cell(CASE, name, seed, fold) for name in names for seed in range(seeds) for fold in range(folds)]


def _finished(store: CellStore, plan: Plan, folds: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Records of the methods that are complete, and the others with a reason."""
    records, unfinished = [], {}
    for name in plan.methods:
        cells = _cells([name], plan.seeds, folds)
        done = [store[cell] for cell in cells if cell in store]
        if len(done) == len(cells):
            records += done
        else:
            unfinished[name] = f"the time was up after {len(done)} of {len(cells)} fits"
    return records, unfinished
