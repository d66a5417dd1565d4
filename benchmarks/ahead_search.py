"""What would put the default ahead? Options compared on training data alone, many small networks at once.

    python benchmarks/ahead_search.py --out benchmarks/results/ahead_search.json

Rows that no final score is taken on: MNIST's training images, TREC's training questions, the 70 % of HAM10000's
lesions, CIFAR-10's training images, and the rows of tables that keel.py leaves to choices. A case's networks (seeds
times members) are trained together; a finished (case, option) is kept in the file and never run twice.

How strong should margins be? HAM10000, CIFAR-10 and SMS had not been tried when this criterion was written down. Over
all cases with a sample level, by the mean of four networks: the strength with the highest balanced accuracy replaces
the default, unless its macro F1 is significantly lower than the default's (Wilcoxon over cases, p < .05). Tables
without a sample level are judged in the same way, on their own.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import ahead
import keel
import numpy as np
import torch
from mixing import IMBALANCE, of_each_class
from packed_search import Spec, Training, chunks, outputs, standardised
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold, train_test_split

from equipoise.data.splits import hold_out
from equipoise.estimators.training_options import MIXED_NUMBERS
from equipoise.paper.tables.table_samples import Source
from equipoise.training.margin_strength import class_shift

Rows = tuple[np.ndarray, np.ndarray]
HERE = Path(__file__).resolve().parent
SEEDS, MEMBERS, SCORED = 3, 4, 3_000
CIFAR_IMAGES = 6_000

SPECS: dict[str, Spec] = {
    "logit adjustment": Spec(head="linear"),
    "VS": Spec(head="linear", tau=1.25, gamma=0.15),
    "LDAM-DRW": Spec(head="cosine", tau=0.0, ldam=True),
    "logit adjustment, our head": Spec(),
    "ours": Spec(staged=True),
    "ours, a tenth held back": Spec(staged=True, held=0.1),
    "ours, mixing": Spec(staged=True, mixing=0.5),
    "mixing from the start": Spec(mixing=0.5),
    "logit adjustment, our head, a tenth held back": Spec(held=0.1),
    "ours, mixing, shared batches": Spec(staged=True, mixing=0.5, shared=True),
    "ours, shared batches": Spec(staged=True, shared=True),
    "ours, mixing, VS's scale": Spec(staged=True, mixing=0.5, gamma=0.15),
    "ours, VS's scale": Spec(staged=True, gamma=0.15),
    "ours, mixing, width 64": Spec(staged=True, mixing=0.5, width=64),
    "ours, width 64": Spec(staged=True, width=64),
    "ours, mixing, folds": Spec(staged=True, mixing=0.5, folds=4),
    "ours, folds": Spec(staged=True, folds=4),
    "mixing from the start, hidden": Spec(mixing=0.5, layer=1),
    "mixing from the start, power 0.75": Spec(mixing=0.75),
    "mixing from the start, whole margins": Spec(mixing=0.5, whole=True),
    "mixing from the start, tau 1.25": Spec(mixing=0.5, tau=1.25),
    "mixing from the start, tau 1.5": Spec(mixing=0.5, tau=1.5),
    "mixing from the start, whole margins, tau 1.25": Spec(mixing=0.5, whole=True, tau=1.25),
    "logit adjustment, our head, tau 1.25": Spec(tau=1.25),
    "logit adjustment, tau 1.25": Spec(head="linear", tau=1.25),
    "logit adjustment, our head, drawn by the square root": Spec(drawn=0.5),
    "logit adjustment, our head, drawn by frequency^0.25": Spec(drawn=0.25),
    "logit adjustment, our head, drawn by frequency^0.75": Spec(drawn=0.75),
    "our head, classes drawn equally often": Spec(drawn=0.0),
    "cosine": Spec(head="cosine", scale=10.0, staged=True),
    "cosine, mixing": Spec(head="cosine", scale=10.0, staged=True, mixing=0.5),
}


def thinned(read: Callable[[], Rows], imbalance: str, seed: int, most: int, scored: int) -> tuple[Rows, Rows]:
    """Rows of each class, made imbalanced, and other rows to score on."""
    x, y = read()
    rng = np.random.default_rng(1000 + seed)
    rows = rng.permutation(len(y))
    fit = of_each_class(x, y, rows[scored:], most)
    kept = IMBALANCE[imbalance](fit[1], rng=rng)
    return (fit[0][kept], fit[1][kept]), (x[rows[:scored]], y[rows[:scored]])


def drawn(read: Callable[[], Rows], seed: int) -> tuple[Rows, Rows]:
    return keel.held_out(*read(), 1000 + seed, ahead.ROWS)


@cache
def ham() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    samples = Source(ahead.data_folder()).packaged_features("ham10000").samples
    train = hold_out(samples.y, 0.3, seed=0, groups=samples.groups)[0]
    y = np.unique(samples.y, return_inverse=True)[1]
    return np.asarray(samples.x[train]), y[train], samples.groups[train]


def lesions(seed: int) -> tuple[Rows, Rows]:
    x, y, groups = ham()
    fit, scored = hold_out(y, 0.3, seed=1000 + seed, groups=groups)
    fit = train_test_split(fit, train_size=ahead.ROWS, stratify=y[fit], random_state=seed)[0]
    return (x[fit], y[fit]), (x[scored], y[scored])


@cache
def cifar_features() -> Rows:
    """Features of some of CIFAR-10's training images, as many of each class."""
    images, y = ahead.cifar10_images("train")
    rows = train_test_split(np.arange(len(y)), train_size=CIFAR_IMAGES, stratify=y, random_state=0)[0]
    return ahead.lite0(images[rows]), y[rows]


@cache
def table(name: str) -> Rows:
    return keel.training_rows(*keel.read(name))


@cache
def digits() -> Rows:
    return ahead.digits()[0]


def table_thinned(name: str, imbalance: str, seed: int) -> tuple[Rows, Rows]:
    (x, y), scored = keel.held_out(*table(name), 1000 + seed)
    rng = np.random.default_rng(1000 + seed)
    x, y = of_each_class(x, y, rng.permutation(len(y)), ahead.MOST_OF_TABLE)
    kept = IMBALANCE[imbalance](y, rng=rng)
    return (x[kept], y[kept]), scored


CASES: dict[str, Callable[[int], tuple[Rows, Rows]]] = {
    **{name: partial(drawn, partial(table, name)) for name in ahead.TABLES},
    **{name: partial(drawn, partial(table, name)) for name in ahead.MORE_TABLES},
    **{f"{name}, step 1:10": partial(table_thinned, name, "step 1:10") for name in ahead.THINNED_TABLES},
    **{
        f"MNIST, {name}": partial(thinned, lambda: ahead.mnist()[0], name, most=ahead.MOST, scored=SCORED)
        for name in IMBALANCE
    },
    "digits, exponential 1:100": partial(thinned, digits, "exponential 1:100", most=ahead.MOST, scored=400),
    "TREC, embeddings": partial(drawn, lambda: ahead.trec()[0]),
    "SMS, embeddings": partial(drawn, lambda: ahead.sms()[0]),
    "HAM10000, features": lesions,
    **{
        f"CIFAR-10 features, {name}": partial(thinned, cifar_features, name, most=ahead.MOST, scored=SCORED)
        for name in IMBALANCE
    },
}
"""From a seed to rows to fit and rows to score on."""


@cache
def rows_of(case: str, seeds: int) -> list[tuple[Rows, Rows]]:
    return [CASES[case](seed) for seed in range(seeds)]


def fold_rows(y: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes smaller than the folds
        return [part for part, _ in StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y)]


def run(
    parts: list[tuple[Rows, Rows]], spec: Spec, members: int
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray], float]:
    """Logits of each seed's members, (members, rows, classes), for scored and for training rows; seconds."""
    classes = max(int(y.max()) for (_, y), _ in parts) + 1
    pairs = [standardised(x, others) for (x, _), (others, _) in parts]
    started = time.process_time()
    scored, fitted = dict[int, np.ndarray](), dict[int, np.ndarray]()
    for group in by_size(parts):  # usually all seeds at once
        x = torch.stack([pairs[s][0] for s in group])
        y = torch.stack([torch.from_numpy(parts[s][0][1]) for s in group])
        others = torch.stack([pairs[s][1] for s in group])
        place = np.repeat(np.arange(len(group)), members)
        rows, seeds = [], []
        for s in group:
            own = parts[s][0][1]
            each = fold_rows(own, spec.folds, s) if spec.folds else [np.arange(len(own))] * members
            rows += each[:members]
            seeds += [1000 * s + (0 if spec.shared else k) for k in range(members)]
        width, columns = spec.width, x.shape[-1]
        found, again = [], []
        for cut in chunks(len(rows), columns * width + width * width):
            net = Training(x, y, rows[cut], place[cut], spec, classes, seeds[cut]).run()
            found.append(outputs(net, others, place[cut]))
            again.append(outputs(net, x, place[cut]))
        for logits, kept in ((found, scored), (again, fitted)):
            kept |= dict(zip(group, np.concatenate(logits).reshape(len(group), members, -1, classes), strict=True))
    return scored, fitted, time.process_time() - started


def by_size(parts: list[tuple[Rows, Rows]]) -> list[list[int]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for s, ((_, y), (_, scored)) in enumerate(parts):
        groups.setdefault((len(y), len(scored)), []).append(s)
    return list(groups.values())


def judged(y: np.ndarray, logits: np.ndarray) -> dict[str, float]:
    return ahead.kept_scores(y, logits.argmax(-1))


def combined(part: tuple[Rows, Rows], scored: np.ndarray, fitted: np.ndarray, spec: Spec, seed: int) -> dict[str, Any]:
    """Scores of one seed: of the members alone (their mean), and of their means."""
    (_, y_fit), (_, y) = part
    singles = [judged(y, each) for each in scored]
    found: dict[str, Any] = {"one": {name: float(np.mean([each[name] for each in singles])) for name in singles[0]}}
    for count in (2, len(scored)):
        found[f"mean of {count}"] = judged(y, scored[:count].mean(0))
        found[f"mean probability of {count}"] = judged(y, softmax(scored[:count], -1).mean(0))
    if spec.folds:
        folds = fold_rows(y_fit, spec.folds, seed)
        out = np.full(fitted.shape[1:], np.nan)
        for logits, rows in zip(fitted, folds, strict=False):
            rest = np.setdiff1d(np.arange(len(y_fit)), rows)
            out[rest] = logits[rest]
        known = ~np.isnan(out[:, 0])
        for spread in (0.25, 0.5):
            shift = class_shift(torch.from_numpy(out[known]), torch.from_numpy(y_fit[known]), spread=spread).numpy()
            found[f"mean of {len(scored)}, shift {spread}"] = judged(y, scored.mean(0) + shift)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ahead_search.json")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--only", nargs="*", help="parts of the names of cases to run")
    parser.add_argument("--columns", type=int, default=MIXED_NUMBERS, help="fewest that are mixed")
    parser.add_argument("--specs", nargs="*", help="names of the options to run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    for name in options.specs or SPECS:
        for case in CASES:
            asked = not options.only or any(each in case for each in options.only)
            if not asked or f"{case} | {name}" in record["cells"]:
                continue
            parts = rows_of(case, options.seeds)
            if SPECS[name].mixing is not None and math.prod(parts[0][0][0].shape[1:]) < options.columns:
                continue
            scored, fitted, seconds = run(parts, SPECS[name], options.members)
            cells = [combined(part, scored[s], fitted[s], SPECS[name], s) for s, part in enumerate(parts)]
            record["cells"][f"{case} | {name}"] = {"seeds": cells, "seconds": round(seconds, 2)}
            told = {way: mean_score(cells, way) for way in cells[0]}
            print(f"{case} | {name}: {told}, {seconds:.1f} s", file=sys.stderr, flush=True)
            options.out.write_text(json.dumps(record, indent=1) + "\n")


def mean_score(cells: list[dict[str, Any]], way: str) -> float:
    return round(100 * float(np.mean([each[way]["balanced_accuracy"] for each in cells])), 1)


if __name__ == "__main__":
    main()
