"""
Your own training loop
======================

This is an ordinary PyTorch loop with two additions: the loss, and a curriculum that you call after every epoch. After a
stage of ordinary training (softmax), the curriculum measures how uncertain the network is about each class and sets the
margins and their strength. A tenth of the samples is held out until the last stage, the sample stage: on these samples
the curriculum finds out what the margins missed, and corrects the predictions.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from equipoise.data.imbalance import step
from equipoise.losses import UncertaintyMarginLoss
from equipoise.training import Curriculum

COMMON, RARE, INK = "#4477aa", "#cc6677", "#333333"
SHADE = {"softmax": "#f4f4f4", "class": "#e3eee6", "sample": "#cfe3d5"}
EPOCHS, BATCH = 30, 32


def samples() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return imbalanced digits to train on and balanced ones to test on."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x / 16, y, test_size=0.4, stratify=y, random_state=0)
    kept = step(y_train, rng=0)
    pairs = (
        (x_train[kept], torch.float32),
        (y_train[kept], torch.int64),
        (x_test, torch.float32),
        (y_test, torch.int64),
    )
    x_train, y_train, x_test, y_test = (torch.as_tensor(values, dtype=kind) for values, kind in pairs)
    return x_train, y_train, x_test, y_test


def train(x: Tensor, y: Tensor, after_epoch) -> None:
    """Train, and call ``after_epoch(record, model, loss)`` after each epoch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU())
    loss = UncertaintyMarginLoss(in_features=256, classes=10, dropout=0.5, sample_level="expected")
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=1e-3, weight_decay=0.5)
    everything = TensorDataset(x, y)
    # every tenth sample of a class is held out; classes with fewer than ten keep all
    held = torch.cat([(y == label).nonzero().flatten()[9::10] for label in range(10)])
    kept = [row for row in range(len(y)) if row not in set(held.tolist())]
    held_out = DataLoader(Subset(everything, held.tolist()), batch_size=256)
    most, all_of_them = (DataLoader(rows, BATCH, shuffle=True) for rows in (Subset(everything, kept), everything))

    curriculum = Curriculum(EPOCHS)
    curriculum.start(loss)
    for epoch in range(EPOCHS):
        loader = most if curriculum.stage(epoch) != "sample" else all_of_them
        model.train()
        loss.train()
        for features, labels in loader:
            optimizer.zero_grad()
            loss(model(features), labels).backward()
            optimizer.step()
        record = curriculum.end_epoch(model, loss, loader, held_out=held_out)
        after_epoch(record, model.eval(), loss.eval())


# %%
# Train, and after every epoch measure recall on a test set that the loop never trains on.

x, y, x_test, y_test = samples()
counts = y.bincount()
rare = counts < counts.max() / 2
seen: list[tuple[str, float, float, float]] = []  # stage, recall of the rare, of the common, strength


def look(record: dict, model: nn.Module, loss: UncertaintyMarginLoss) -> None:
    """Note the recall of the rare and of the common digits."""
    with torch.no_grad():
        right = (loss.logits(model(x_test)).argmax(-1) == y_test).double()
    recall = torch.stack([right[y_test == label].mean() for label in range(10)])
    seen.append((record["stage"], float(recall[rare].mean()), float(recall[~rare].mean()), record["strength"]))


train(x, y, look)
stages, recall_rare, recall_common, strength = zip(*seen, strict=True)
found = {name: recall_rare[EPOCHS - 1 - stages[::-1].index(name)] for name in SHADE}
print("recall of the rare digits at the end of each stage:", ", ".join(f"{name} {found[name]:.0%}" for name in found))

# %%
# The network begins to find the rare digits once the margins take effect.

figure, (upper, lower) = plt.subplots(2, 1, figsize=(8.5, 5), sharex=True, height_ratios=[3, 1], layout="constrained")
number = range(1, EPOCHS + 1)
upper.plot(number, recall_common, color=COMMON, linewidth=2, label="common digits")
upper.plot(number, recall_rare, color=RARE, linewidth=2, label="rare digits")
lower.step(number, strength, where="mid", color=INK)
for name, shade in SHADE.items():
    first, last = stages.index(name) + 0.5, EPOCHS - stages[::-1].index(name) + 0.5
    for axes in (upper, lower):
        axes.axvspan(first, last, color=shade, linewidth=0, zorder=0)
    upper.text((first + last) / 2, 0.55, f"{name} stage", ha="center")
upper.set(ylabel="recall", ylim=(0, 1.02))
upper.legend(loc="lower right")
lower.set(ylabel="strength", xlabel="epoch", xlim=(0.5, EPOCHS + 0.5))
for axes in (upper, lower):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
