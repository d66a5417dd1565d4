"""``equipoise demo``: scikit-learn's digits with nine tenths of half of the classes dropped."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from equipoise.data.imbalance import step
from equipoise.data.samples import Samples
from equipoise.data.summary import rare_classes
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.wording import EQUIPOISE

SIDE, LARGEST = 8, 16
"""Pixels a side of a digit, and the value of a black one."""


@dataclass(frozen=True)
class DemoSamples:
    """Imbalanced digits to train on, and untouched, balanced ones to test on, with their pictures."""

    train: Samples
    test: Samples
    pictures: NDArray[np.uint8]


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows, one entry a class."""

    names: list[str]
    counts: NDArray[np.intp]  # training samples
    rare: NDArray[np.bool_]
    recall: dict[str, NDArray[np.float64]]  # method -> recall a class
    uncertainty: NDArray[np.float64]
    margins: NDArray[np.float64]


def demo_samples(seed: int = 0) -> DemoSamples:
    """Digits as a table of 64 pixels; the pictures are of the test samples."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    kept = step(y_train, rng=seed)
    names = [f"pixel {row},{column}" for row in range(1, SIDE + 1) for column in range(1, SIDE + 1)]
    pictures = (255 - x_test * (255 / LARGEST)).astype(np.uint8).reshape(-1, 1, SIDE, SIDE)
    pictures = pictures.repeat(8, axis=2).repeat(8, axis=3)  # eight times the size, or a browser blurs them
    train = Samples(pd.DataFrame(x_train[kept], columns=names), y_train[kept])
    return DemoSamples(train, Samples(pd.DataFrame(x_test, columns=names), y_test), pictures)


def fit_softmax(samples: DemoSamples, *, seed: int) -> NDArray[np.float64]:
    """Recall a class of a plain softmax classifier."""
    model = UncertaintyBalancedClassifier("cross_entropy", random_state=seed)
    model.fit(samples.train.x.to_numpy(), samples.train.y)
    predicted = model.predict(samples.test.x.to_numpy())
    return np.asarray(recall_score(samples.test.y, predicted, average=None))


def run_demo(
    fit: Callable[[DemoSamples], tuple[UncertaintyBalancedClassifier, NDArray[np.float64]]],
    *,
    seed: int = 0,
    announce: Callable[[str], None] = lambda _: None,
) -> DemoResult:
    """Train softmax and Equipoise on the same imbalanced digits, and score both on an untouched balanced test set.

    Args:
        fit: trains Equipoise, and gives the model and its recall a class.
    """
    samples = demo_samples(seed)
    counts = np.bincount(samples.train.y)
    announce("softmax")
    softmax = fit_softmax(samples, seed=seed)
    announce(EQUIPOISE)
    model, recall = fit(samples)
    return DemoResult(
        names=[str(label) for label in model.classes_],
        counts=counts,
        rare=rare_classes(counts),
        recall={"softmax": softmax, EQUIPOISE: recall},
        uncertainty=model.class_uncertainty_,
        margins=model.margins_,
    )
