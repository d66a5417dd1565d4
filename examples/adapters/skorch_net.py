"""
skorch
======

Run it with ``pip install skorch && python examples/adapters/skorch_net.py``.

Two parts: the loss as criterion, and a callback that calls the curriculum after every epoch. skorch computes
``criterion_(module_(X), y)`` and optimises the parameters of both, so the module is the backbone, x -> features.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from torch import nn

from equipoise.data.imbalance import step
from equipoise.losses import UncertaintyMarginLoss
from equipoise.training import Curriculum


class UncertaintyNet(NeuralNetClassifier):
    """A classifier whose criterion holds the class vectors, so that it turns features into logits as well."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities (rows, classes)."""
        features = self.forward(X)
        self.criterion_.eval()
        with torch.no_grad():
            return self.criterion_.logits(features.to(self.device)).softmax(-1).cpu().numpy()


class CurriculumCallback(Callback):
    """Run the curriculum: softmax stage, class level, sample level.

    Args:
        held_out: samples and labels that are never trained on, for the correction at the end of the class stage; None
            skips it.
    """

    def __init__(self, held_out: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        self.held_out = held_out

    def on_train_begin(self, net: UncertaintyNet, **_: object) -> None:
        self.curriculum_ = Curriculum(net.max_epochs)
        self.curriculum_.start(net.criterion_)

    def on_epoch_end(self, net: UncertaintyNet, dataset_train: Dataset, **_: object) -> None:
        held_out = None if self.held_out is None else net.get_iterator(net.get_dataset(*self.held_out))
        loader = net.get_iterator(dataset_train)
        record = self.curriculum_.end_epoch(net.module_, net.criterion_, loader, held_out=held_out)
        net.history.record("stage", record["stage"])
        net.history.record("strength", record["strength"])


def make_net(columns: int, classes: int, *, epochs: int, callback: CurriculumCallback) -> UncertaintyNet:
    """Return two hidden layers with dropout under the loss; any backbone that gives 256 features would do."""
    backbone = nn.Sequential(nn.Linear(columns, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU())
    return UncertaintyNet(
        backbone,
        criterion=UncertaintyMarginLoss,
        criterion__in_features=256,
        criterion__classes=classes,
        criterion__dropout=0.5,
        criterion__sample_level="expected",
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        batch_size=32,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks=[("curriculum", callback)],
        verbose=0,
    )


def main(epochs: int = 15) -> tuple[UncertaintyNet, np.ndarray]:
    """Fit imbalanced digits; return the net and its recall of each digit in a balanced test set."""
    torch.manual_seed(0)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=0)
    kept = step(y, rng=0)
    x, x_held, y, y_held = train_test_split(x[kept], y[kept], test_size=0.1, stratify=y[kept], random_state=0)
    net = make_net(64, 10, epochs=epochs, callback=CurriculumCallback(held_out=(x_held, y_held))).fit(x, y)
    return net, recall_score(y_test, net.predict(x_test), average=None)


if __name__ == "__main__":
    net, recall = main()
    for record in net.history:
        print(f"epoch {record['epoch']:2}: {record['stage']:8} strength {record['strength']:.2f}")
    for digit, found in enumerate(recall):
        print(f"digit {digit}: margin {net.criterion_.margins[digit]:.2f}, {found:.0%} found")
