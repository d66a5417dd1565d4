"""``compare``: every method on a user's own data, ranked, with a recommendation in plain words."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
from equipoise.training.identity import checksum

CASE = "data"
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if not method.variant)
"""What is compared when nobody says, most wanted first."""
MOST_FOLDS = 5
SHARE_FOR_TRYING = 0.25
"""Of the budget, for one fit of each method: how long they take is measured, not guessed."""
FIRST = DEFAULT_METHODS[:2]
"""The baseline and the paper's method: whatever the budget, these are compared."""


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Args:
        ranking: the methods, best first.
        recommendation: a few sentences for a person.
        left_out: methods that were not compared, and why.
        notes: what was chosen or had to be changed, a sentence each.
        records: one a fit, as in the file.
        seeds: how many there were.
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
        samples: a table or images with their labels, see ``open_data``.
        methods: names of ``METHODS``; None takes all but the research variants, in that dict's order as far as the
            budget goes.
        seeds: each shuffles the folds anew and starts from other weights.
        folds: None takes the official test part where there is one, else 5, or as many as the rarest class has
            samples, but 3 at least. Rows of one group are never divided.
        budget_seconds: no new fit is started after it, but for the first of cross-entropy and of the paper's method. A
            quarter goes into trying each method once. Then the methods that fit have their turns, one fit each for
            every seed and fold, with fewer of these where even four methods would not fit.
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
    samples, backbone = _with_features(samples, prepare)
    folds, notes = _chosen_folds(samples, folds)
    run = FoldRun(samples, folds, options or FitOptions(), tune, prepare)
    number = folds or 1
    settings = {name: value for name, value in asdict(run.options).items() if name != "backbone"}
    settings |= {"folds": folds, "tune": tune, "backbone": backbone}
    with CellStore(out, data={CASE: samples_checksum(samples)}, settings=settings) as store:
        plan, until = Plan(names, seeds * number, {}), None
        if budget_seconds is not None:
            until = started + budget_seconds
            seconds = _try_each(names, store, run, progress, started + SHARE_FOR_TRYING * budget_seconds)
            left = until - time.monotonic()
            plan = choose(names, seconds, seeds=seeds, folds=number, jobs=jobs, left=left)
        cells = _cells(plan.methods, plan.rounds, number)
        run_cells(cells, store, run, progress=progress, jobs=jobs, until=until)
        records, rounds = _whole_rounds(store, plan, number)
    if rounds < seeds * number:
        notes += (_rounds_note(rounds, seeds, number),)
    test_to_train = 0.0 if folds is None else 1 / (folds - 1)
    ranking = rank(records, metric=metric, test_to_train=test_to_train)
    return Comparison(
        ranking=ranking,
        recommendation=recommend(ranking, {name: method.label for name, method in METHODS.items()}),
        left_out=plan.left_out,
        notes=notes + tuple(dict.fromkeys(note for record in records for note in record.get("notes", ()))),
        records=records,
        seeds=-(-rounds // number),
        folds=folds,
        rounds=rounds,
        seconds=time.monotonic() - started,
    )


def _checked_methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    names = DEFAULT_METHODS if methods is None else tuple(dict.fromkeys(methods))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise InvalidInputError(f"methods must be some of {', '.join(METHODS)}, got {got}.")
    return tuple(sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


def _with_features(samples: Samples, prepare: Prepare) -> tuple[Samples, str | None]:
    """Features of a frozen backbone are extracted once: they learn nothing from the rows.

    A backbone that is trained is told from others, and from itself with other weights, by the weights it begins with.
    """
    if isinstance(samples.x, np.ndarray) and samples.x.ndim == 2:
        return samples, None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: Any = prepare(samples.x)
    if isinstance(made, FeaturesInput):
        return replace(samples, x=made.rows(samples.x)), None
    if made.backbone is None:
        return samples, None
    return samples, checksum(tensor for _, tensor in sorted(made.backbone.state_dict().items()))


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


def _cells(names: Iterable[str], rounds: int, folds: int) -> list[Cell]:
    """Round by round, so that a budget that runs out has been spent on all methods alike."""
    methods = list(names)
    return [Cell(CASE, name, *divmod(number, folds)) for number in range(rounds) for name in methods]


def _try_each(
    names: Sequence[str], store: CellStore, run: FoldRun, progress: Progress | None, until: float
) -> dict[str, float]:
    """Seconds of one fit of each method, as far as the time goes; of the first two in any case."""
    cells = _cells(names, 1, 1)
    first = [cell for cell in cells if cell.method in FIRST] or cells[:1]
    run_cells(first, store, run, progress=progress)  # in this process: others take time to start
    run_cells(cells, store, run, progress=progress, until=until)
    return {cell.method: float(store[cell]["seconds"]) for cell in cells if cell in store}


def _whole_rounds(store: CellStore, plan: Plan, folds: int) -> tuple[list[dict[str, Any]], int]:
    """Records of the rounds in which every method has had its turn, and how many these are."""
    records, rounds = [], 0
    for number in range(plan.rounds):
        cells = [Cell(CASE, name, *divmod(number, folds)) for name in plan.methods]
        if all(cell in store for cell in cells):
            records += [store[cell] for cell in cells]
            rounds += 1
    return records, rounds


def _rounds_note(rounds: int, seeds: int, folds: int) -> str:
    if rounds % folds == 0:
        return f"{rounds // folds} instead of {seeds} seeds, to keep within the budget."
    return f"{rounds} instead of {seeds * folds} fits of each method (seeds × folds), to keep within the budget."
