"""SE-ResNet-50 (Hu et al. 2018) in plain torch, with timm's parameter names (``seresnet50``)."""

from torch import Tensor, nn

from equipoise.models.resnet import Bottleneck, ResNet

REDUCTION = 16


class SqueezeExcite(nn.Module):
    """Each channel scaled by a number between 0 and 1 that depends on the averages of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // REDUCTION, 1)  # 1×1 convolutions, as in the files of weights
        self.relu = nn.ReLU(inplace=True)
        self.fc2 = nn.Conv2d(channels // REDUCTION, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        average = x.mean((-2, -1), keepdim=True)
        scale: Tensor = self.fc2(self.relu(self.fc1(average))).sigmoid()
        return x * scale


def se_resnet50() -> ResNet:
    """2,048 features; 26,039,024 parameters, 28.09 M with the 1000-way classifier.

    The stride is in the 3×3 convolution, as in ResNet-50 and timm's ``seresnet50``. timm's ``legacy_seresnet50`` has
    it in the 1×1 and other names: its weights are refused, not bent to fit.

    >>> network = se_resnet50()
    >>> network.out_features, sum(p.numel() for p in network.parameters())
    (2048, 26039024)
    """
    network = ResNet(Bottleneck, (3, 4, 6, 3))
    for block in network.modules():
        if isinstance(block, Bottleneck):
            block.se = SqueezeExcite(block.conv3.out_channels)
    return network
