"""Small batches and ready losses that the tests of this folder share."""

import torch
from torch import Tensor

from equipoise.losses import LOSSES, ClassVectorLoss

FEATURES, CLASSES, ATTRIBUTES, ROWS = 6, 5, 3, 8
COUNTS = torch.tensor([80.0, 30.0, 10.0, 4.0, 1.0])
PAIR_COUNTS = torch.tensor([[90.0, 10.0], [50.0, 50.0], [99.0, 1.0]])
MARGINS = torch.tensor([1.0, 1.4, 2.0, 2.7, 3.0])
PAIR_MARGINS = torch.tensor([[1.0, 3.0], [1.5, 2.0], [2.5, 1.0]])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def f64(values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def batch(
    *, rows: int = ROWS, multilabel: bool = False, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Features and a target; every class is there if the rows suffice."""
    features = torch.randn(rows, FEATURES, generator=seeded(seed), dtype=torch.float64).to(dtype)
    if multilabel:
        return features, torch.randint(0, 2, (rows, ATTRIBUTES), generator=seeded(seed + 1))
    return features, torch.arange(rows) % CLASSES


def prepared(loss: ClassVectorLoss, dtype: torch.dtype = torch.float64, seed: int = 7) -> ClassVectorLoss:
    """In eval mode, with class vectors (and biases) that do not depend on the global generator."""
    loss = loss.to(dtype).eval()
    with torch.no_grad():
        loss.weight.copy_(torch.randn(loss.weight.shape, generator=seeded(seed)))
        if loss.bias is not None:
            loss.bias.copy_(torch.randn(loss.bias.shape, generator=seeded(seed + 1)))
    return loss


def build(name: str, *, multilabel: bool = False, dtype: torch.dtype = torch.float64, **options) -> ClassVectorLoss:
    """A loss out of LOSSES that has a margin where it can have one."""
    options.setdefault("class_counts", PAIR_COUNTS if multilabel else COUNTS)
    loss = LOSSES[name](FEATURES, ATTRIBUTES if multilabel else CLASSES, multilabel=multilabel, **options)
    loss = prepared(loss, dtype)
    if name == "uncertainty_margin":
        loss.margins, loss.strength = PAIR_MARGINS if multilabel else MARGINS, 0.5
    return loss
