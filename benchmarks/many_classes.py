"""What boosting costs and gives with many classes: the default's classifiers with it, without it, and with few rounds.

    EQUIPOISE_DATA=… OMP_NUM_THREADS=1 python benchmarks/many_classes.py

The fine classes of TREC's questions (n-grams reduced to 50 numbers, their official test part), all or the largest 30,
and synthetic clouds of 200 classes whose sizes fall as 1/rank^0.7. A finished fit is kept in the file and
never run twice.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import balanced_accuracy_score
from threadpoolctl import threadpool_limits

from equipoise import BalancedClassifier

ROWS, NEW, COLUMNS, TREES = 3000, 6000, 20, 2000
OTHERS = ["network", "forest", "extra_trees"]
PACKAGES = ("equipoise", "scikit-learn", "torch", "numpy")


class Split(NamedTuple):
    """Rows to fit to, and rows to score by."""

    x: NDArray[np.float64]
    y: NDArray[Any]
    new_x: NDArray[np.float64]
    new_y: NDArray[Any]


def trec(classes: int) -> Split:
    folder = Path(os.environ["EQUIPOISE_DATA"]) / "text"
    train, test = (pd.read_csv(folder / f"trec_{part}.csv") for part in ("train", "test"))
    largest = train["fine"].value_counts().index[:classes]
    train, test = (part[part["fine"].isin(largest)] for part in (train, test))
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    few = TruncatedSVD(50, random_state=0)
    x = few.fit_transform(words.fit_transform(train["text"]))
    return Split(x, train["fine"].to_numpy(), few.transform(words.transform(test["text"])), test["fine"].to_numpy())


def clouds(classes: int) -> Split:
    rng = np.random.default_rng(classes)
    share = np.arange(1, classes + 1) ** -0.7
    y = np.concatenate((np.arange(classes), rng.choice(classes, ROWS - classes, p=share / share.sum())))
    new_y = rng.integers(0, classes, NEW)
    centre = 1.2 * rng.normal(size=(classes, COLUMNS))
    return Split(
        centre[y] + rng.normal(size=(ROWS, COLUMNS)), y, centre[new_y] + rng.normal(size=(NEW, COLUMNS)), new_y
    )


SETS: dict[str, Callable[[], Split]] = {
    "TREC, fine classes": lambda: trec(50),
    "TREC, largest fine classes": lambda: trec(30),
    "synthetic clouds": lambda: clouds(200),
}


def few_rounds(classes: int) -> Any:
    """Return boosting with about as many trees in all as the default has at its most classes."""
    rounds = max(5, TREES // classes)
    return HistGradientBoostingClassifier(
        max_iter=rounds, learning_rate=0.3, max_leaf_nodes=16, early_stopping=False, random_state=0
    )


VARIANTS: dict[str, Callable[[int], list[Any]]] = {
    "without boosting": lambda _: [*OTHERS],
    "boosting of few rounds": lambda classes: [*OTHERS, few_rounds(classes)],
    "with boosting": lambda _: [*OTHERS, "boosting"],
}


def result(split: Split, estimators: list[Any]) -> dict[str, float]:
    """Fit, and return the CPU seconds and the scores."""
    model = BalancedClassifier(estimators, random_state=0)
    start = time.process_time()
    model.fit(split.x, split.y)
    seconds = time.process_time() - start
    p = model.predict_proba(split.new_x)
    place = {label: number for number, label in enumerate(model.classes_.tolist())}
    known = [(row, place[label]) for row, label in enumerate(split.new_y.tolist()) if label in place]
    rows, truth = np.array(known).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # answers of classes that the test part lacks
        balanced = balanced_accuracy_score(split.new_y, model.predict(split.new_x))
    return {
        "seconds": seconds,
        "balanced_accuracy": float(balanced),
        "log_loss": float(-np.log(p[rows, truth].clip(1e-15)).mean()),
        "weight": float(model.weights_[3]) if len(estimators) > 3 else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_classes.json"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    found = json.loads(out.read_text()) if out.exists() else {"cells": {}}
    found["versions"] = {name: version(name) for name in PACKAGES}
    for name, make in SETS.items():
        split = make()
        classes = len(np.unique(split.y))
        found.setdefault("sets", {})[name] = {"rows": len(split.x), "classes": classes}
        for variant, estimators in VARIANTS.items():
            key = f"{name} | {variant}"
            if key in found["cells"]:
                continue
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # classes that lie in one fold
                found["cells"][key] = result(split, estimators(classes))
            out.write_text(json.dumps(found, indent=1) + "\n")
            print(key, found["cells"][key], flush=True)


if __name__ == "__main__":
    main()
