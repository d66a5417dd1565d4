"""The paper's network for extracted features: two hidden layers of 512 units with dropout."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.layers import Dropout


class LinearByMember(nn.Module):
    """(batch, members·D) -> (batch, members·E): a linear layer for each member's part of the features.

    Args:
        members: how many there are.
        in_features, out_features: D and E.

    >>> LinearByMember(3, 4, 5)(torch.zeros(2, 12)).shape
    torch.Size([2, 15])
    """

    def __init__(self, members: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(members, 1, out_features))
        for parameter in (self.weight, self.bias):  # like ``nn.Linear``
            nn.init.uniform_(parameter, -(in_features**-0.5), in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        own = x.unflatten(-1, (len(self.weight), -1)).transpose(0, 1)  # (members, batch, D)
        return torch.baddbmm(self.bias, own, self.weight).transpose(0, 1).flatten(1)


class MLP(nn.Module):
    """(batch, in_features) -> (batch, out_features), dropout between the hidden layers.

    The dropout behind the last layer belongs to the head (``UncertaintyMarginLoss(dropout=...)``), which knows its
    closed form.

    Args:
        in_features: columns of the input; inputs of more dimensions are flattened.
        hidden: units of each layer; the last, times ``members``, is ``out_features``.
        dropout: share dropped between two layers.
        members: networks side by side, whose features come one after the other; they share nothing but the input.

    >>> network = MLP(10, (32, 16))
    >>> network(torch.zeros(4, 10)).shape, network.out_features, network.dtype
    (torch.Size([4, 16]), 16, torch.float32)
    >>> MLP(10, (32, 16), members=4).out_features
    64
    """

    def __init__(
        self, in_features: int, hidden: Sequence[int] = (512, 512), *, dropout: float = 0.5, members: int = 1
    ) -> None:
        super().__init__()
        if not hidden or min(in_features, members, *hidden) < 1:
            raise InvalidInputError(
                f"an MLP needs layers and members of at least one unit, got {in_features} -> {list(hidden)} and "
                f"members={members}."
            )
        layers: list[nn.Module] = [nn.Linear(in_features, members * hidden[0]), nn.ReLU(inplace=True)]
        for before, after in itertools.pairwise(hidden):
            layer = nn.Linear(before, after) if members == 1 else LinearByMember(members, before, after)
            layers += [Dropout(dropout), layer, nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.in_features, self.out_features = in_features, members * hidden[-1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, to which the input is cast."""
        return next(self.parameters()).dtype

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x.to(self.dtype).flatten(1))
        return features
