"""The paper's network for extracted features: two hidden layers of 512 units with dropout."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.layers import Dropout


class MLP(nn.Module):
    """(batch, in_features) -> (batch, out_features), dropout between the hidden layers.

    The dropout behind the last layer belongs to the head (``UncertaintyMarginLoss(dropout=...)``), which knows its
    closed form.

    Args:
        in_features: columns of the input; what has more dimensions is flattened.
        hidden: units of each layer; the last is ``out_features``.
        dropout: share dropped between two layers.

    >>> network = MLP(10, (32, 16))
    >>> network(torch.zeros(4, 10)).shape, network.out_features, network.dtype
    (torch.Size([4, 16]), 16, torch.float32)
    """

    def __init__(self, in_features: int, hidden: Sequence[int] = (512, 512), *, dropout: float = 0.5) -> None:
        super().__init__()
        if not hidden or min(in_features, *hidden) < 1:
            raise InvalidInputError(f"an MLP needs layers of at least one unit, got {in_features} -> {list(hidden)}.")
        layers: list[nn.Module] = []
        for position, (before, after) in enumerate(zip((in_features, *hidden), hidden, strict=False)):
            layers += [Dropout(dropout)] if position else []
            layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.in_features, self.out_features = in_features, hidden[-1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, to which the input is cast."""
        return next(self.parameters()).dtype

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x.to(self.dtype).flatten(1))
        return features
