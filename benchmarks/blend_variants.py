"""Which parts of the blend earn their place? The same members, put together in other ways.

    python benchmarks/blend_variants.py --out benchmarks/results/blend_variants.json

The tables of tables.py but bank marketing, one of three folds of a split with another seed than theirs. Members are
fitted once for each fold; every variant uses their out-of-fold predictions, and is scored on the rows held out.
"""

import argparse
import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from tables import TABLES, score, table_of
from torch import Tensor

from equipoise import BalancedClassifier
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import Scaling, fit_scaling
from equipoise.estimators.blending import blend_weights, count_margins
from equipoise.estimators.cross_fitted import CrossFittedMembers
from equipoise.estimators.families import FAMILIES
from equipoise.training.margin_strength import sure_shift
from equipoise.uncertainty.class_level import ClassMoments
from equipoise.uncertainty.margins import log_steps

SEED, FOLDS, USED = 100, 3, 1
NAMES = list(FAMILIES)
VARIANTS: dict[str, dict[str, Any]] = {
    "as built": {},
    "equal weights": {"weights": "equal"},
    "weights by class-balanced log loss": {"weights": "balanced"},
    "mean of logarithms": {"mean": "log"},
    "distortions not undone": {"undo": "none"},
    "temperature and offsets for every model": {"undo": "offsets"},
    "margins from counts alone": {"margins": "counts"},
    "margins from uncertainty alone": {"margins": "uncertainty"},
    "margins not strengthened": {"strengthen": False},
    "no margins": {"margins": "none"},
    "not calibrated at the end": {"calibrate": False},
    **{f"without the {name.replace('_', ' ')}": {"families": [n for n in NAMES if n != name]} for name in NAMES},
    **{f"{name.replace('_', ' ')} alone": {"families": [name]} for name in NAMES},
}


def recorded(x: Any, y: Any, seed: int) -> tuple[BalancedClassifier, Any]:
    """Return the default blend, and its out-of-fold probabilities by each classifier."""
    kept, out_of_fold = [], CrossFittedMembers.out_of_fold

    def keeping(self: CrossFittedMembers, *given: Any) -> Any:
        kept.append(out_of_fold(self, *given))
        return kept[-1]

    with patch.object(CrossFittedMembers, "out_of_fold", keeping):
        return BalancedClassifier(random_state=seed).fit(x, y), kept[0]


def soft(p: Tensor) -> Tensor:
    return (0.9999 * p + 1e-4 / p.shape[-1]).log()


def variant(
    out: Tensor,
    new: Tensor,
    y: Tensor,
    *,
    families: list[str] | None = None,
    weights: str = "log loss",
    mean: str = "probabilities",
    undo: str | None = None,
    margins: str = "both",
    strengthen: bool = True,
    calibrate: bool = True,
) -> tuple[Any, Any]:
    """Return probabilities and decisions for the held-out rows, from outputs (models, rows, classes)."""
    chosen = [NAMES.index(name) for name in families or NAMES]
    out, new = out[chosen], new[chosen]
    even = torch.ones(out.shape[-1])
    known = (torch.bincount(y, minlength=out.shape[-1]) > 0).double()  # of a class without rows nothing is learnt
    scalings = [fit_scaling(soft(each), y, known, method=undo) for each in out]
    pairs = [(each, other, scaling) for each, other, scaling in zip(out, new, scalings, strict=True)]
    out = torch.stack([scaling(soft(each), even).softmax(-1) for each, _, scaling in pairs])
    new = torch.stack([scaling(soft(other), even).softmax(-1) for _, other, scaling in pairs])
    share = torch.full((len(out),), 1 / len(out), dtype=torch.float64)
    if weights != "equal":
        each = (1 / torch.bincount(y).double())[y] if weights == "balanced" else None
        share = blend_weights(out, y, None if each is None else each * len(y) / each.sum())
    if mean == "log":
        out, new = (torch.einsum("f,f...->...", share, soft(part)).softmax(-1) for part in (out, new))
    else:
        out, new = (torch.einsum("f,f...->...", share, part) for part in (out, new))
    counts = torch.bincount(y, minlength=out.shape[-1]).double()
    uncertainty = ClassMoments.of(torch.stack((out, out))).uncertainty()
    steps = {
        "both": count_margins(uncertainty, counts),
        "uncertainty": log_steps(uncertainty),
        "counts": (counts.max() / counts.clamp_min(0.5)).log(),
        "none": torch.zeros(out.shape[-1], dtype=torch.float64),
    }[margins]
    if strengthen:
        steps = (1 + sure_shift(out.clamp_min(1e-12).log() + steps, y, steps)) * steps
    prior = counts / counts.sum()
    aimed = prior.clamp_min(1e-12) * steps.exp()
    made = Calibrated(prior, aimed / aimed.sum(), Scaling.identity(tuple(prior.shape)))
    if calibrate:
        made = made.fit_on(out.clamp_min(1e-12).log() + steps, y)
    logits = new.clamp_min(1e-12).log() + steps
    return made.probabilities(logits).numpy(), made.decided(logits).numpy()


def cell(name: str, fold: int) -> dict[str, dict[str, float]]:
    """Scores of every variant on a fold."""
    _, x, y = table_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, others = list(StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(x, y))[fold]
        seen, places = np.unique(y[rows], return_inverse=True)
        fitted, (used, out, _) = recorded(x[rows], places, fold)
        new = fitted._fitted.outputs(fitted._rows(x[others])).mean(1)
        found = {}
        for label, options in VARIANTS.items():
            p, decided = variant(out, new, torch.from_numpy(places[used]), **options)
            whole = np.zeros((len(others), int(y.max()) + 1))
            whole[:, seen] = p
            found[label] = score(y[others], seen[decided], whole, int(np.bincount(y).argmin()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/blend_variants.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    found["versions"] = {name: version(name) for name in ("equipoise", "scikit-learn", "torch", "numpy")}
    for fold in range(USED):
        for name in TABLES[:-1]:
            if (key := f"{name} | {fold}") not in found["cells"]:
                found["cells"][key] = cell(name, fold)
                options.out.write_text(json.dumps(found, indent=1) + "\n")
                print(key, flush=True)


if __name__ == "__main__":
    main()
