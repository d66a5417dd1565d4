"""Running a table: every fit once, stored in a file, in any number of processes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.app.compare import METHODS, Fit, ResultStore, fit_tuned, run_fits
from equipoise.app.compare.runner import Progress as FitProgress
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError
from equipoise.paper.tables.table_cases import TABLES, Case
from equipoise.paper.tables.table_samples import Source
from equipoise.registry_names import check_methods


@dataclass(frozen=True)
class TableFitter:
    """Runs the fits of a table; it holds the data, and can be sent to another process."""

    cases: Mapping[str, Case]
    tune: bool

    def __call__(self, fit: Fit) -> dict[str, Any]:
        """Return the record of one fit: last epoch, with a test part that no choice has seen."""
        case = self.cases[fit.case]
        train, test = case.split(fit.seed, fit.fold)
        x, y, groups = case.material.samples.x, case.material.samples.y, case.material.samples.groups
        said = fit_tuned(
            fit.method,
            _rows(x, train),
            y[train],
            _rows(x, test),
            seed=fit.seed,
            options=case.options,
            tune=self.tune,
            groups=None if groups is None else groups[train],
        )
        return said.record(y[train], y[test], np.unique(y))


def _rows(x: Any, rows: Any) -> Any:
    taken = x[rows]
    return taken if taken.dtype == np.uint8 else np.asarray(taken, dtype=np.float32)


@dataclass(frozen=True)
class TableResult:
    """A table as far as it is finished: rows that were not requested come from earlier runs."""

    name: str
    cases: Mapping[str, Case]
    records: list[dict[str, Any]]
    header: Mapping[str, Any]
    seeds: int
    tune: bool
    hours: float
    smoke: bool = False


def run_table(
    name: str,
    data: Path | None,
    folder: Path,
    *,
    seeds: int = 5,
    jobs: int = 1,
    tune: bool = False,
    smoke: bool = False,
    methods: tuple[str, ...] | None = None,
    reading: Progress | None = None,
    progress: FitProgress | None = None,
) -> TableResult:
    """Run the unfinished fits of a table; ``folder/NAME.jsonl`` stores every fit, and the result has all of them.

    Each seed draws its own imbalance, split and initial weights. To ``tune`` is to choose among 4 settings on a fifth
    of the training rows; ``methods`` are the only rows to run; ``reading`` is told of images that passed the backbone.
    """
    if name not in TABLES:
        raise InvalidInputError(f"table must be one of {', '.join(TABLES)}, got {name!r}.")
    if methods:
        check_methods(methods, METHODS)
    cases = TABLES[name].cases(Source(data, smoke, reading))
    if smoke:  # a few samples and epochs: not comparable with the paper's
        cases = {key: replace(case, paper={}, paper_bca={}) for key, case in cases.items()}
    known = {  # the backbone is made by its table's code
        key: f"{case.material.checksum} {json.dumps(case.options.recorded(), sort_keys=True)}"
        for key, case in cases.items()
    }
    wanted = {key: [own for own in case.methods if methods is None or own in methods] for key, case in cases.items()}
    if not any(wanted.values()):
        raise InvalidInputError(f"none of {', '.join(methods or ())} is a row of the table {name}; see its page.")
    path = folder / f"{name}{'-tuned' if tune else ''}{'-smoke' if smoke else ''}.jsonl"
    with ResultStore(path, data=known, settings={"smoke": smoke, "tune": tune}) as store:
        run_fits(_fits(cases, wanted, range(seeds)), store, TableFitter(cases, tune), progress=progress, jobs=jobs)
        while all(fit in store for fit in _fits(cases, wanted, [seeds])):  # show further stored seeds as well
            seeds += 1
        every = {key: case.methods for key, case in cases.items()}
        records = [store[fit] for fit in _fits(cases, every, range(seeds)) if fit in store]
        header = store.header
    hours = sum(float(record["seconds"]) for record in records) / 3600
    return TableResult(name, cases, records, header, seeds, tune, hours, smoke)


def _fits(cases: Mapping[str, Case], methods: Mapping[str, Sequence[str]], seeds: Iterable[int]) -> list[Fit]:
    return [
        Fit(key, method, seed, fold)
        for seed in seeds
        for key, case in cases.items()
        for method in methods[key]
        for fold in range(case.folds)
    ]
