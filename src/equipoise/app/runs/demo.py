"""``equipoise demo``: scikit-learn's digits, with half of the classes reduced to a tenth."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from equipoise.app.runs.choose_split import GivenSamples
from equipoise.app.runs.run_options import RunOptions
from equipoise.app.runs.train import RunResult, train_run
from equipoise.data.imbalance import step
from equipoise.data.samples import Samples
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.wording import EQUIPOISE

SIDE, LARGEST = 8, 16
"""Side of a digit in pixels, and the value of a black one."""


def demo_samples(seed: int = 0) -> GivenSamples:
    """Return imbalanced digits to train on and balanced ones to test on, as tables of 64 pixels."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    kept = step(y_train, rng=seed)
    names = [f"pixel {row},{column}" for row in range(1, SIDE + 1) for column in range(1, SIDE + 1)]
    pictures = (255 - x_test * (255 / LARGEST)).astype(np.uint8).reshape(-1, 1, SIDE, SIDE)
    pictures = pictures.repeat(8, axis=2).repeat(8, axis=3)  # enlarged eight times, or a browser blurs them
    train = Samples(pd.DataFrame(x_train[kept], columns=names), y_train[kept])
    return GivenSamples(train, Samples(pd.DataFrame(x_test, columns=names), y_test), pictures)


def run_demo(
    folder: Path, *, seed: int = 0, announce: Callable[[str], None] = lambda _: None
) -> tuple[RunResult, NDArray[np.float64], NDArray[np.intp]]:
    """Train softmax and equipoise on the same imbalanced digits, and score both on a balanced test set.

    Returns:
        The run of equipoise, the recall of softmax, and the training samples of each class.
    """
    given = demo_samples(seed)
    announce("softmax")
    softmax = UncertaintyBalancedClassifier("cross_entropy", random_state=seed)
    softmax.fit(given.train.x.to_numpy(), given.train.y)
    recall = recall_score(given.test.y, softmax.predict(given.test.x.to_numpy()), average=None)
    announce(EQUIPOISE)
    options = RunOptions("demo", model="network", seed=seed)
    result = train_run(options, folder, command=f"equipoise demo --seed {seed}", given=given)
    return result, np.asarray(recall), np.bincount(given.train.y)
