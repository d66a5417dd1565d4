"""Messages and questions with rare classes: n-grams, embeddings and logistic regression against the default blend.

    EQUIPOISE_DATA=… python benchmarks/text.py
    EQUIPOISE_DATA=… python benchmarks/text.py --choosing   # the blend with and without the vote, on another split

Five stratified splits of each set, 30 % of the rows held out; and the official test part of TREC, which nothing was
chosen by. Every method sees the same rows. A finished fit is kept in the file and never run twice.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline, make_union
from threadpoolctl import threadpool_limits

from equipoise import BalancedClassifier, TableEncoder
from equipoise.app.compare.classifiers import PriorShift
from equipoise.data.columns.sentence_encoder import DEFAULT, load_encoder, longest_text
from equipoise.data.columns.text_features import CHARACTERS, WORDS
from equipoise.estimators.families import default_families
from equipoise.evaluation import scores

SEEDS, HELD_OUT = range(5), 0.3
SETS = {
    "SMS spam": ("sms_spam.csv", "label"),
    "TREC": ("trec_train.csv", "coarse"),
    "TREC, fine classes": ("trec_train.csv", "fine"),
}
FEWEST = 4
"""Rows of a class; rarer ones are left out, which a stratified split could not divide."""
OFFICIAL, OFFICIAL_FILE = "TREC, official test", "trec_test.csv"
PACKAGES = ("equipoise", "scikit-learn", "torch", "numpy", "pandas", "sentence-transformers")


def words() -> Any:
    return TfidfVectorizer()


def n_grams() -> Any:
    return make_union(*(TfidfVectorizer(sublinear_tf=True, min_df=2, **each) for each in (WORDS, CHARACTERS)))


class Embeddings(BaseEstimator):  # type: ignore[misc]
    """Texts as embeddings of the default encoder."""

    def fit(self, texts: Any, y: Any = None) -> "Embeddings":  # noqa: ARG002
        self.tokens_ = longest_text(len(texts))
        return self

    def transform(self, texts: Any) -> Any:
        return load_encoder(DEFAULT).embed(list(texts), tokens=self.tokens_)


class OnText(BaseEstimator):  # type: ignore[misc]
    """A pipeline on texts, fitted to a frame with one column of them."""

    def __init__(self, vectorizer: Callable[[], Any], strength: float, form: str) -> None:
        self.vectorizer, self.strength, self.form = vectorizer, strength, form

    def fit(self, X: Any, y: Any) -> "OnText":
        weight = "balanced" if self.form == "balanced" else None
        plain = make_pipeline(
            self.vectorizer(), LogisticRegression(C=self.strength, class_weight=weight, max_iter=1000)
        )
        self.model_ = (PriorShift(plain) if self.form == "prior shift" else plain).fit(X["text"].to_numpy(), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X["text"].to_numpy())

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(X["text"].to_numpy())


FORMS = ("plain", "balanced", "prior shift")
METHODS: dict[str, Callable[[int], Any]] = {
    **{f"words, {form}": lambda _, form=form: OnText(words, 1.0, form) for form in FORMS},
    **{f"n-grams, {form}": lambda _, form=form: OnText(n_grams, 10.0, form) for form in FORMS},
    **{f"embeddings, {form}": lambda _, form=form: OnText(Embeddings, 10.0, form) for form in FORMS},
    "BalancedClassifier, n-grams": lambda seed: BalancedClassifier(
        random_state=seed, encoder=TableEncoder(text_encoder="none")
    ),
    "BalancedClassifier": lambda seed: BalancedClassifier(
        random_state=seed, encoder=TableEncoder(text_encoder=DEFAULT)
    ),
}

CHOOSING = 100
"""Seed of the split on which the vote of the text's own models was chosen; no table of results has it."""


def without_vote(encoder: str) -> Callable[[int], Any]:
    """Return the default blend without the vote; ``text_encoder`` is that of its encoder."""

    class Unvoted(BalancedClassifier):
        def fit(self, X: Any, y: Any, *args: Any, **more: Any) -> Any:
            self.estimator = list(default_families(len(np.unique(y))))
            return super().fit(X, y, *args, **more)

    return lambda seed: Unvoted(random_state=seed, encoder=TableEncoder(text_encoder=encoder))


COMPARED = {
    "n-grams, without vote": without_vote("none"),
    "n-grams, with vote": METHODS["BalancedClassifier, n-grams"],
    "n-grams and embeddings, without vote": without_vote(DEFAULT),
    "n-grams and embeddings, with vote": METHODS["BalancedClassifier"],
}


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Texts to train on and to test on, each as a frame with one column, and their labels."""
    folder = Path(os.environ["EQUIPOISE_DATA"]) / "text"
    if name == OFFICIAL:
        parts = [pd.read_csv(folder / file) for file in (SETS["TREC"][0], OFFICIAL_FILE)]
        return *(part[["text"]] for part in parts), *(part["coarse"].to_numpy() for part in parts)
    file, label = SETS[name]
    table = pd.read_csv(folder / file)
    table = table[table[label].map(table[label].value_counts()) >= FEWEST]
    x, y = table[["text"]], table[label].to_numpy()
    return tuple(train_test_split(x, y, test_size=HELD_OUT, random_state=seed, stratify=y))


def fit(name: str, method: str, seed: int) -> dict[str, float]:
    """Scores on the rows held out."""
    x, others, y, truth = split(name, seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = (METHODS | COMPARED)[method](seed).fit(x, y)
    seconds = time.process_time() - started
    found = scores(truth, model.predict(others), probabilities=model.predict_proba(others), classes=model.classes_)
    each = np.asarray(found.average_precision.each)
    rare = int(np.unique(y, return_counts=True)[1].argmin())
    return {
        "balanced_accuracy": found.balanced_accuracy,
        "macro_average_precision": float(each.mean()),
        "rare_average_precision": float(each[rare]),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/text.json"))
    parser.add_argument("--sets", help="Names with semicolons between; default all.")
    parser.add_argument("--methods", help="Likewise.")
    parser.add_argument("--choosing", action="store_true", help="Compare the blend with and without the vote.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {"fits": {}}
    found["versions"] = {name: version(name) for name in PACKAGES}
    wanted = [(name, method, seed) for seed in SEEDS for name in SETS for method in METHODS]
    wanted += [(OFFICIAL, method, 0) for method in METHODS]
    if options.choosing:
        wanted = [(name, method, CHOOSING) for name in SETS for method in COMPARED]
    fits = found.setdefault("choosing", {}) if options.choosing else found["fits"]
    if options.sets:
        wanted = [each for each in wanted if each[0] in options.sets.split(";")]
    if options.methods:
        wanted = [each for each in wanted if each[1] in options.methods.split(";")]
    with threadpool_limits(1):
        for name, method, seed in wanted:
            key = f"{name} | {method} | {seed}"
            if key in fits:
                continue
            fits[key] = fit(name, method, seed)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
            print(key, fits[key], flush=True)


if __name__ == "__main__":
    main()
