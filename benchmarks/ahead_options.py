"""Which options should the default have on small tables? The estimator itself, on training rows alone.

    python benchmarks/ahead_options.py --seeds 5

Rows as in ahead_search.py, and the training rows of further tables of keel.py. Each fit is scored by what it predicts
and by its probabilities at the training prior. A finished cell is kept in the file and never run twice.

The criterion was fixed when the first of the tables had been run with one seed. The option with the highest balanced
accuracy over the tables replaces the default, if its difference to the default has a positive mean, if its log loss is
not significantly higher (Wilcoxon over tables, p < .05), and if it makes the code no more complicated. The same held
for margins of the counts while mixing, now the default: the cells of "ours" and "ours, whole margins" compare them with
margins by the prior of mixed samples, which this version no longer has.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ahead
import ahead_search
import numpy as np
import torch
from ahead_page import AVERAGED, RIVAL

from equipoise import UncertaintyBalancedClassifier
from equipoise.calibration.reliability import calibration_at_prior
from equipoise.calibration.scaling import Scaling

HERE = Path(__file__).resolve().parent
OUT = HERE / "results" / "ahead_options.json"
FURTHER = ("german", "tic-tac-toe", "titanic", "flare-F", "glass", "ecoli", "abalone19", "poker-8-9_vs_5")
"""Tables that ahead.py does not use."""
PLAIN = "without calibration"
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: ahead.METHODS[name] for name in (RIVAL, AVERAGED)},
    "ours, a tenth held back": {"held_back": 0.1},
    "ours, nothing held back": {"held_back": 0.0},
}


def cases() -> dict[str, Callable[[int], Any]]:
    """The tables without a sample level, and further ones."""
    own = {name: ahead_search.CASES[name] for name in ahead.UNMIXED}
    return own | {name: partial(ahead_search.drawn, partial(ahead_search.table, name)) for name in FURTHER}


SIZES = {"epochs": ahead.EPOCHS, "width": ahead.WIDTH, "batch_size": ahead.BATCH}
"""Options of the network and its training, as in ahead.py; without them the estimator chooses, and trains longer."""


def run(case: Callable[[int], Any], options: dict[str, Any], seed: int) -> dict[str, float]:
    """Scores of one fit: of its predictions with and without calibration, and of its probabilities."""
    (x, y), (x_scored, y_scored) = case(seed)
    model = UncertaintyBalancedClassifier(random_state=seed, **options).fit(x, y)
    found = judged(model, x_scored, y_scored)
    known = model.calibrated_
    model.calibrated_ = replace(known, scaling=Scaling.identity(tuple(known.prior.shape)))
    plain = {f"{name} {PLAIN}": value for name, value in judged(model, x_scored, y_scored).items()}
    return found | plain | {"rows": len(y)}


def judged(model: UncertaintyBalancedClassifier, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of predictions, and of probabilities at the training prior."""
    p, known = model.predict_proba(x), np.isin(y, model.classes_)
    true, prior = np.searchsorted(model.classes_, y[known]), model.prior_
    measured = calibration_at_prior(p[known], true, p[known].argmax(1), old=prior, new=prior)
    return ahead.kept_scores(y, model.predict(x)) | {"log_loss": measured.log_loss, "ece": measured.ece}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chosen-length", action="store_true", help="let the estimator choose length and width")
    parser.add_argument("--only", nargs="*", help="parts of the names of cases to run")
    parser.add_argument("--options", nargs="*", help="names of the options to run")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    record = json.loads(asked.out.read_text()) if asked.out.exists() else {"cells": {}}
    part, sizes = ("chosen length", {}) if asked.chosen_length else ("options", SIZES)
    for seed in range(asked.seeds):
        pairs = [(each, name) for name in asked.options or OPTIONS for each in cases().items()]
        for (case, rows), name in pairs:
            key = f"{part} | {case} | {name} | {seed}"
            if key in record["cells"] or (asked.only and not any(each in case for each in asked.only)):
                continue
            record["cells"][key] = run(rows, sizes | OPTIONS[name], seed)
            print(f"{key}: {record['cells'][key]}", file=sys.stderr, flush=True)
            asked.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
