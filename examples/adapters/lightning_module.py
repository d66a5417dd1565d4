"""
Lightning
=========

Run it with ``pip install lightning && python examples/adapters/lightning_module.py``.

Two parts: the loss in the module, and a callback that calls the curriculum after every epoch. Margins, strength and
correction are buffers of the loss, and Lightning's checkpoints include the callback's state, so a resumed fit continues
in its stage.
"""

import lightning
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from equipoise.data.imbalance import step
from equipoise.losses import UncertaintyMarginLoss
from equipoise.training import Curriculum


class Classifier(lightning.LightningModule):
    """A backbone, x -> features (batch, D), under the paper's loss."""

    def __init__(self, backbone: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.loss = UncertaintyMarginLoss(features, classes, dropout=0.5, sample_level="expected")

    def forward(self, x: Tensor) -> Tensor:
        return self.loss.logits(self.backbone(x))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y = batch
        loss = self.loss(self.backbone(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class CurriculumCallback(lightning.Callback):
    """Run the curriculum: softmax stage, class level, sample level.

    Args:
        curriculum: with as many epochs as the trainer has.
        held_out: batches that are never trained on, for the correction at the end of the class stage; None skips it.
    """

    def __init__(self, curriculum: Curriculum, held_out: DataLoader | None = None) -> None:
        self.curriculum, self.held_out = curriculum, held_out
        self.seen: list[tuple[str, float]] = []  # stage and strength of each epoch

    def on_train_start(self, _: lightning.Trainer, pl_module: Classifier) -> None:
        self.curriculum.start(pl_module.loss)

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: Classifier) -> None:
        record = self.curriculum.end_epoch(
            pl_module.backbone, pl_module.loss, trainer.train_dataloader, held_out=self.held_out
        )
        self.seen.append((record["stage"], record["strength"]))

    def state_dict(self) -> dict[str, Tensor]:
        return self.curriculum.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        self.curriculum.load_state_dict(state_dict)


def make_module() -> Classifier:
    """Return a module of two hidden layers with dropout; any backbone that gives 256 features would do."""
    backbone = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU())
    return Classifier(backbone, features=256, classes=10)


def digits() -> list[tuple[Tensor, Tensor]]:
    """Return imbalanced digits to train on, some to hold out, and balanced ones to test on."""
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x / 16, y, test_size=0.4, stratify=y, random_state=0)
    kept = step(y, rng=0)
    x, x_held, y, y_held = train_test_split(x[kept], y[kept], test_size=0.1, stratify=y[kept], random_state=0)
    pairs = ((x, y), (x_held, y_held), (x_test, y_test))
    return [(torch.as_tensor(each, dtype=torch.float32), torch.as_tensor(labels)) for each, labels in pairs]


def make_trainer(callback: CurriculumCallback, *, epochs: int) -> lightning.Trainer:
    """Return a silent trainer on a CPU, for this example; not part of the recipe."""
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main(epochs: int = 15) -> tuple[Classifier, CurriculumCallback, Tensor]:
    """Fit imbalanced digits; return the module, the callback, and the recall of each digit in a balanced test set."""
    torch.manual_seed(0)
    train, held_out, (x_test, y_test) = digits()
    module = make_module()
    callback = CurriculumCallback(Curriculum(epochs), DataLoader(TensorDataset(*held_out), batch_size=256))
    make_trainer(callback, epochs=epochs).fit(module, DataLoader(TensorDataset(*train), batch_size=32, shuffle=True))
    with torch.no_grad():
        right = module.eval()(x_test).argmax(-1) == y_test
    return module, callback, torch.stack([right[y_test == digit].double().mean() for digit in range(10)])


if __name__ == "__main__":
    module, callback, recall = main()
    for epoch, (stage, strength) in enumerate(callback.seen, 1):
        print(f"epoch {epoch:2}: {stage:8} strength {strength:.2f}")
    for digit, found in enumerate(recall):
        print(f"digit {digit}: margin {module.loss.margins[digit]:.2f}, {found:.0%} found")
