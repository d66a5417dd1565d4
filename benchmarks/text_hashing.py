"""Above 20,000 texts, is a hashed vocabulary better than n-grams learnt from 20,000 of them?

    EQUIPOISE_DATA=… OMP_NUM_THREADS=1 python benchmarks/text_hashing.py     # writes results/text_hashing.json

Two sets of 40,000 made texts and 4,000 to score on. *Questions*: two TREC questions of one class in a row, other
questions in the texts to score on. *Rare words*: common words that say nothing, and one word that its class alone has,
of 3,000 such words per class: most are in a handful of texts, as names and codes are. Each way of counting runs in a
process of its own, which gives CPU seconds and peak memory; a logistic regression on the counts, with a prior shift,
gives the scores.
"""

import argparse
import json
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import label_binarize
from threadpoolctl import threadpool_limits

from equipoise.data.columns.text_features import CHARACTERS, STRENGTH, WORDS, TextFeatures

FITTED, SCORED = 40_000, 4_000
OWN, COMMON, LENGTH = 3_000, 2_000, 8
"""Words that one class alone has, words of all classes, and words of a text, in the set with rare words."""
PACKAGES = ("equipoise", "scikit-learn", "numpy", "scipy")
Texts = tuple[list[str], np.ndarray]


def questions(rng: np.random.Generator) -> Texts:
    """Pairs of questions of a class, as frequent as in TREC."""
    table = pd.read_csv(Path(os.environ["EQUIPOISE_DATA"]) / "text" / "trec_train.csv")
    texts, y = table["text"].to_numpy(), np.unique(table["coarse"], return_inverse=True)[1]
    labels = rng.choice(y, FITTED + SCORED)
    held = rng.random(len(y)) < 0.3  # the questions of the texts to score on
    pools = {(label, new): np.flatnonzero((y == label) & (held == new)) for label in np.unique(y) for new in (0, 1)}
    picked = [rng.choice(pools[label, int(row >= FITTED)], 2) for row, label in enumerate(labels)]
    return [" ".join(texts[pair]) for pair in picked], labels


def rare_words(rng: np.random.Generator) -> Texts:
    """Common words by Zipf's law and one of the class's own; ten classes whose sizes fall as 1/rank."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    made = ["".join(rng.choice(letters, rng.integers(4, 9))) for _ in range(COMMON + 10 * OWN)]
    share, often = 1 / np.arange(1, 11), 1 / np.arange(1, COMMON + 1)
    labels = rng.choice(10, FITTED + SCORED, p=share / share.sum())
    common = rng.choice(COMMON, (len(labels), LENGTH), p=often / often.sum())
    own = COMMON + OWN * labels + rng.integers(0, OWN, len(labels))
    return [" ".join(made[word] for word in (*row, word)) for row, word in zip(common, own, strict=True)], labels


SETS: dict[str, Callable[[np.random.Generator], Texts]] = {"questions": questions, "rare words": rare_words}


class Learnt:
    """The most frequent n-grams of 20,000 texts, alone or, as the library has it, with all other words hashed."""

    def __init__(self, *, hashed: bool) -> None:
        self.hashed = hashed

    def fit(self, texts: list[str]) -> Any:
        features = TextFeatures.fit(texts)
        assert features is not None
        self.features = features._with_buckets(texts) if self.hashed else features
        return self.features.counts(texts)

    def transform(self, texts: list[str]) -> Any:
        return self.features.counts(texts)


class Hashed:
    """The same n-grams of all texts, hashed into so many columns of either kind."""

    def __init__(self, columns: int) -> None:
        self.parts = [
            make_pipeline(
                HashingVectorizer(n_features=columns, alternate_sign=False, norm=None, dtype=np.float32, **options),
                TfidfTransformer(sublinear_tf=True),
            )
            for options in (WORDS, CHARACTERS)
        ]

    def fit(self, texts: list[str]) -> Any:
        return csr_matrix(hstack([part.fit_transform(texts) for part in self.parts]))

    def transform(self, texts: list[str]) -> Any:
        return csr_matrix(hstack([part.transform(texts) for part in self.parts]))


WAYS: dict[str, Callable[[], Any]] = {
    "n-grams of 20,000 texts": lambda: Learnt(hashed=False),
    "n-grams of 20,000 texts, other words hashed": lambda: Learnt(hashed=True),
    "hashed, 2 × 2^15": lambda: Hashed(2**15),
    "hashed, 2 × 2^18": lambda: Hashed(2**18),
}


def measured(name: str, way: str) -> dict[str, float]:
    """Seconds and memory of counting, and scores of a logistic regression."""
    texts, y = SETS[name](np.random.default_rng(0))
    new, truth = texts[FITTED:], y[FITTED:]
    texts, y = texts[:FITTED], y[:FITTED]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    made = WAYS[way]()
    counts = made.fit(texts)
    fitted = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    new_counts = made.transform(new)
    read = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=STRENGTH, solver="newton-cg").fit(counts, y)
    p = model.predict_proba(new_counts)
    shifted = model.classes_[(p / np.bincount(y)).argmax(1)]
    return {
        "fit_seconds": round(fitted - start, 1),
        "milliseconds_per_new_text": round(1000 * (read - fitted) / len(new), 3),
        "megabytes": round(memory / 1024),
        "columns": int(counts.shape[1]),
        "balanced_accuracy": float(balanced_accuracy_score(truth, shifted)),
        "average_precision": float(average_precision_score(label_binarize(truth, classes=model.classes_), p)),
        "regression_seconds": round(time.process_time() - read, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "text_hashing.json")
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    found["versions"] = {name: version(name) for name in PACKAGES}
    found["texts"] = FITTED
    spawn = multiprocessing.get_context("spawn")
    for name in SETS:
        for way in WAYS:
            key = f"{name} | {way}"
            if key in found["cells"]:
                continue
            with threadpool_limits(1), spawn.Pool(1) as pool:
                found["cells"][key] = pool.apply(measured, (name, way))
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(key, found["cells"][key], flush=True)


if __name__ == "__main__":
    main()
