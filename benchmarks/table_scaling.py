"""How do fit time and average precision grow with the rows of a table, beside LightGBM? How fast is prediction?

    OMP_NUM_THREADS=1 python benchmarks/table_scaling.py --out benchmarks/results/table_scaling.json

A synthetic table of 30 columns, 10 of them informative, 1 % positive, 0.1 % of the labels random; scored on 200,000
other rows. Times are CPU seconds on one thread, and every ratio is of one run. A finished size is kept.
"""

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, log_loss
from threadpoolctl import threadpool_limits

from equipoise import BalancedClassifier

SIZES = (10_000, 100_000, 1_000_000)
SCORED = 200_000
COLUMNS = 30
PREDICTED = 20_000
"""Rows that prediction is timed on."""
TRADES: dict[str, dict[str, Any]] = {
    "default": {},
    "3 members": {"members": 3},
    "2 members": {"members": 2},
    "boosting": {"estimator": "boosting"},
    "network": {"estimator": "network"},
    "forest": {"estimator": "forest"},
}
"""What members and classifiers cost and give, at the smallest size."""


def table(rows: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Rows to fit and rows to score, from one distribution."""
    x, y = make_classification(
        rows + SCORED, COLUMNS, n_informative=10, n_redundant=5, n_clusters_per_class=4, weights=[0.99], flip_y=0.001,
        class_sep=1.0, random_state=seed,
    )  # fmt: skip
    return x[:rows], y[:rows], x[rows:], y[rows:]


def measure(model: Any, rows: int) -> dict[str, float]:
    """Fit and score a classifier; CPU seconds."""
    x, y, new, labels = table(rows)
    start = time.process_time()
    model.fit(x, y)
    fitted = time.process_time()
    model.predict_proba(new[:PREDICTED])
    predicted = time.process_time()
    p = model.predict_proba(new)[:, 1]
    return {
        "fit_seconds": round(fitted - start, 2),
        "rows_a_second": round(PREDICTED / max(predicted - fitted, 1e-9)),
        "average_precision": round(float(average_precision_score(labels, p)), 4),
        "log_loss": round(float(log_loss(labels, p)), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/table_scaling.json"))
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")], default=list(SIZES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {"sizes": {}, "trades": {}}
    names = ("equipoise", "scikit-learn", "lightgbm", "torch", "numpy")
    found["versions"] = {name: version(name) for name in names}
    lightgbm = LGBMClassifier(class_weight="balanced", n_jobs=1, verbose=-1, random_state=0)
    with threadpool_limits(1):
        for rows in options.sizes:
            cell = found["sizes"].setdefault(str(rows), {})
            for name, model in (("lightgbm_balanced", lightgbm), ("equipoise", BalancedClassifier(random_state=0))):
                if name not in cell:
                    cell[name] = measure(model, rows)
                    print(rows, name, cell[name], flush=True)
                    options.out.write_text(json.dumps(found, indent=1) + "\n")
        for name, chosen in TRADES.items():
            if name not in found["trades"]:
                found["trades"][name] = measure(BalancedClassifier(random_state=0, **chosen), SIZES[0])
                print(name, found["trades"][name], flush=True)
                options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
