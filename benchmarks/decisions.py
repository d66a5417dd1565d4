"""Do promised recalls hold on test rows, and what do decisions by costs cost there?

    EQUIPOISE_DATA=... python benchmarks/decisions.py --out benchmarks/results/decisions.json

Three quarters of a table's rows are fitted to, the others tested, in many splits. The same base model, a logistic
regression or gradient boosting in a pipeline, is behind ``BalancedClassifier`` and behind scikit-learn's
``TunedThresholdClassifierCV``. The default blend has no such rival: of it, promises and ranges are checked. Finished
splits are kept, and the same command continues.
"""

import argparse
import json
import os
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from keel import read_frame
from scipy.stats import betabinom
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from equipoise import BalancedClassifier
from equipoise.decisions import Costs, RecallAtLeast
from equipoise.decisions.binomial_bounds import allowed_misses

FIRST_TABLES = ("bank", "sms_spam", "page-blocks0", "phoneme", "abalone19")
"""Those whose figures are shown one by one."""
TABLES = (
    *FIRST_TABLES,
    *("contraceptive", "marketing", "satimage", "splice", "german", "tic-tac-toe", "titanic", "car-good", "flare-F"),
    *("poker-8-9_vs_5", "segment0", "vowel0", "winequality-red-4"),
)
"""Bank marketing, SMS spam and all tables of keel.py whose rarest class, which is to be found, has at least 20 rows."""
CASES = tuple(
    (name, model)
    for name in TABLES
    for model in ("logistic", "boosting")
    if model == "logistic" or name not in ("bank", "sms_spam")
)
BLEND = "default blend"
BLENDS = tuple((name, BLEND) for name in TABLES if name != "bank")
"""The default on the same tables and splits; a fit to bank marketing takes too long."""
FIRST, SPLITS, TEST = 3000, 8, 0.25
"""Splits 0 to 139, 1000 to 1008 and 2000 to 2015 were looked at while decisions were designed; these are new."""
MARGIN = 0.02
"""Share of the cost by which it may be higher and still count as no higher.

Fixed before the first of the new splits: a table's costs are divided by the cost of its cheapest constant answer, so
that tables count alike, and averaged over its splits and models. Our cost is called no higher than that of tuned
thresholds if the 95 % interval of the mean difference ends below this share of their mean cost. The tables are the
units: splits of one table share rows, tables share none.

Fixed as well: the ranges reported for as many cases as are tested are called kept if they hold the test cost in at
least 95 % of all splits, less two binomial standard errors.
"""
FLOORS = (0.8, 0.9)
MISS = 20.0
Row = dict[str, Any]


def rows_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return columns, and 1 for the rarer of two classes."""
    if name == "sms_spam":
        table = pd.read_csv(Path(os.environ["EQUIPOISE_DATA"]) / "text" / "sms_spam.csv")
        return table[["text"]], (table["label"] == "spam").to_numpy().astype(int)
    x, y = read_frame(name)
    x.columns = [str(column) for column in x.columns]
    return x, (y == np.bincount(y).argmin()).astype(int)


def base_model(name: str, model: str) -> Any:
    """Return a pipeline that takes the columns as they are, with a logistic regression or boosting at its end."""
    if name == "sms_spam":
        first = ColumnTransformer([("text", TfidfVectorizer(min_df=2), "text")])
        return make_pipeline(first, LogisticRegression(C=10, max_iter=1000))
    words = make_column_selector(dtype_exclude="number")
    numbers = make_column_selector(dtype_include="number")
    first = ColumnTransformer(
        [
            ("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
            ("numbers", StandardScaler(), numbers),
        ]
    )
    boosting = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    return make_pipeline(first, boosting if model == "boosting" else LogisticRegression(max_iter=2000))


def cost_of(y: np.ndarray, named: np.ndarray) -> float:
    """Return what answers cost in 1,000 cases."""
    return float(1000 * np.where(y == 1, MISS, 1.0)[y != named].sum() / len(y))


def negative_cost(y: np.ndarray, named: np.ndarray) -> float:
    """Return what scikit-learn is to maximise."""
    return -cost_of(y, named)


def split_result(name: str, model: str, x: pd.DataFrame, y: np.ndarray, seed: int) -> Row:
    """Fit to one part, and measure on the other."""
    fit, test = train_test_split(np.arange(len(y)), test_size=TEST, stratify=y, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = () if model == BLEND else (base_model(name, model),)
        clf = BalancedClassifier(*base, random_state=seed).fit(x.iloc[fit], y[fit])
    found: Row = {"recalls": [], "positives": [int(y[fit].sum()), int(y[test].sum())], "tested": len(test)}
    if model != BLEND:
        found["tuned_cost"] = _tuned_cost(base_model(name, model), x, y, fit, test, seed)
    found["constant_cost"] = min(cost_of(y[test], np.full(len(test), answer)) for answer in (0, 1))
    for floor in FLOORS:
        found["recalls"].append(_recall(clf, x.iloc[test], y[test], floor, int(y[fit].sum())))
    costs = clf.choose(Costs(miss={1: MISS}))
    assert costs.expected is not None
    named = clf.predict(x.iloc[test], decision=costs.rule)
    expected, following = costs.expected.cost, costs.expected.cost_of_next(len(test))
    return found | {
        "cost": cost_of(y[test], named),
        "expected": [expected.value, expected.low, expected.high],
        "next": [following.low, following.high],
    }


def _tuned_cost(model: Any, x: pd.DataFrame, y: np.ndarray, fit: np.ndarray, test: np.ndarray, seed: int) -> float:
    """Return what the answers of scikit-learn's tuned threshold cost on the test rows."""
    tuned = TunedThresholdClassifierCV(model, scoring=make_scorer(negative_cost), cv=5, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cost_of(y[test], tuned.fit(x.iloc[fit], y[fit]).predict(x.iloc[test]))


def _recall(clf: BalancedClassifier, x: pd.DataFrame, y: np.ndarray, floor: float, samples: int) -> Row:
    """Return what is promised and found, and how often so much would be found if test rows were drawn as the others."""
    rule = RecallAtLeast({1: floor})
    chosen = clf.choose(rule)
    (promise,) = chosen.promises
    named = clf.predict(x, decision=rule)
    tested = int(y.sum())
    misses = max(allowed_misses(samples, floor, 0.05), 0)
    most = int(np.floor(tested * (1 - promise.promised) + 1e-9))
    chance = float(betabinom.cdf(most, tested, misses + 1, samples - misses))
    found = float(named[y == 1].mean())
    share = float((named[y == 0] == 1).sum() / len(y))
    assert chosen.expected is not None
    alarms = chosen.expected.classes[1].false_alarms
    return {
        "asked": floor,
        "promised": promise.promised,
        "found": found,
        "chance": chance,
        "false_alarms": 1000 * share,
        "expected": [alarms.value, alarms.low, alarms.high],
    }


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/decisions.json"))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--blend", action="store_true", help="the default blend, not the two base models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {"splits": {}}
    names = ("equipoise", "scikit-learn", "numpy", "scipy", "torch")
    found |= {"versions": {name: version(name) for name in names}, "miss": MISS, "test_share": TEST}
    data = {name: rows_of(name) for name, _ in CASES}
    for seed in range(FIRST, FIRST + options.splits):
        for name, model in BLENDS if options.blend else CASES:
            if (key := f"{name} | {model} | {seed}") not in found["splits"]:
                found["splits"][key] = split_result(name, model, *data[name], seed)
                options.out.write_text(json.dumps(found, indent=1) + "\n")
                print(key, flush=True)


if __name__ == "__main__":
    main()
