"""ResNet-32, and the long tail of the tables that it is known from."""

import numpy as np
import torch

from equipoise.data.imbalance import exponential
from equipoise.models import build_backbone, resnet32


def test_a_block_starts_as_its_shortcut_and_each_stage_halves_the_image():
    network = build_backbone("resnet32").eval()
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    first = network.relu(network.bn1(network.conv1(x)))
    torch.testing.assert_close(network.layer1(first), first)  # the last norm of a block starts at 0
    assert network.layer3(network.layer2(first)).shape == (2, 64, 8, 8)
    assert network(x).shape == (2, network.out_features)
    weighted = [module for module in resnet32().modules() if isinstance(module, torch.nn.Conv2d)]
    assert sum(module.kernel_size == (3, 3) for module in weighted) == 31  # and the classifier is the 32nd layer


def test_a_tail_in_order_makes_the_first_class_the_largest():
    y = np.repeat(np.arange(10), 100)
    kept = np.bincount(y[exponential(y, 10, rng=3, in_order=True)])
    assert kept.tolist() == [round(100 * 10 ** (-place / 9)) for place in range(10)]
