"""``equipoise demo``: scikit-learn's digits with nine tenths of half of the classes dropped."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from equipoise.data.imbalance import step
from equipoise.estimator import UncertaintyBalancedClassifier
from equipoise.training.measure import rare_classes

METHODS = {"softmax": "cross_entropy", "equipoise": "uncertainty_margin"}


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows, one entry a class."""

    names: list[str]
    counts: NDArray[np.intp]  # training samples
    rare: NDArray[np.bool_]
    recall: dict[str, NDArray[np.float64]]  # method -> recall a class
    uncertainty: NDArray[np.float64]
    margins: NDArray[np.float64]


def run_demo(*, seed: int = 0, announce: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Train softmax and equipoise on the same imbalanced digits, and score both on an untouched balanced test set."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    kept = step(y_train, rng=seed)
    x_train, y_train = x_train[kept], y_train[kept]
    counts = np.bincount(y_train)
    recall = {}
    for name, method in METHODS.items():
        announce(name)
        model = UncertaintyBalancedClassifier(method, random_state=seed).fit(x_train, y_train)
        recall[name] = recall_score(y_test, model.predict(x_test), average=None)
    return DemoResult(
        names=[str(label) for label in model.classes_],
        counts=counts,
        rare=rare_classes(torch.as_tensor(counts)).numpy(),
        recall=recall,
        uncertainty=model.class_uncertainty_,
        margins=model.margins_,
    )
