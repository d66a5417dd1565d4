"""The LeNet-like network for MNIST."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.models.layers import enlarged

SIDE = 28


class LeNet(nn.Module):
    """Grey images (batch, 1, height, width) -> 500 features: two 5×5 convolutions with pooling, one dense layer.

    What is known: the paper takes "the same settings" for MNIST as Khan et al., "Cost-Sensitive Learning of Deep
    Feature Representations from Imbalanced Data" (TNNLS 2017), and prints no layer of them. What was chosen: the LeNet
    that came with Caffe and its MNIST recipe, the usual one of those years: 20 and 50 filters, 2×2 max-pooling after
    each, 500 rectified units; 426,070 parameters, 431,080 with a 10-way classifier.

    Smaller images than 28×28 are enlarged to it by their short side, of larger ones the 4×4 grid before the dense layer
    is an average.

    >>> LeNet()(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in LeNet().parameters())
    (torch.Size([2, 500]), 426070)
    """

    in_channels, out_features = 1, 500
    ends_in_full_layer = True

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(self.in_channels, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, self.out_features)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # trains faster on a CPU

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.conv1(enlarged(x, SIDE)), 2)  # no rectifier between convolutions, as in Caffe's
        x = F.max_pool2d(self.conv2(x), 2)
        if x.shape[-2:] != (4, 4):
            x = F.adaptive_avg_pool2d(x, 4)
        return F.relu(self.fc1(x.flatten(1)))
