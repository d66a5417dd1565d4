"""ResNets (He et al. 2016), named as in torchvision, and SE-ResNet-50 (Hu et al. 2018), as in timm."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError

HALVED = 32  # pixels of the image's side per position of the last layers


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        nn.init.zeros_(self.bn2.weight)  # a block starts as its shortcut (Goyal et al. 2017)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out + shortcut)
        return activated


class Bottleneck(nn.Module):
    """1×1, 3×3 (which takes the stride), 1×1, and a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        nn.init.zeros_(self.bn3.weight)
        self.se: nn.Module = nn.Identity()  # where SE-ResNet has its squeeze and excitation
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.se(self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out))))))
        shortcut = x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.relu(out + shortcut)
        return activated


def _shortcut(channels: int, out: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    """Images (batch, 3, height, width) -> features after global pooling, (batch, out_features).

    Args:
        block: ``BasicBlock``, two 3×3 convolutions, or ``Bottleneck``, 1×1, 3×3 and 1×1.
        depths: blocks of each of the four stages.
    """

    in_channels = 3

    def __init__(self, block: type[BasicBlock] | type[Bottleneck], depths: Sequence[int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(block, 64, 64, depths[0], stride=1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, depths[1], stride=2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, depths[2], stride=2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, depths[3], stride=2)
        self.out_features = 512 * block.expansion
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # trains faster on a CPU

    def forward(self, x: Tensor) -> Tensor:
        if self.bn1.training and len(x) == 1 and max(x.shape[-2:]) <= HALVED:
            raise InvalidInputError(
                "batch_size must be 2 or more for a network with batch normalisation: one image of "
                f"{x.shape[-2]} × {x.shape[-1]} pixels leaves one value per channel, which has no variance."
            )
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((-2, -1))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], channels: int, width: int, depth: int, *, stride: int
) -> nn.Sequential:
    first = block(channels, width, stride)
    return nn.Sequential(first, *(block(width * block.expansion, width, 1) for _ in range(depth - 1)))


def resnet18() -> ResNet:
    """Build ResNet-18: 512 features; 11,176,512 parameters, 11.69 M with the 1000-way classifier.

    >>> network = resnet18().eval()
    >>> network(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in network.parameters())
    (torch.Size([2, 512]), 11176512)
    """
    return ResNet(BasicBlock, (2, 2, 2, 2))


def resnet50() -> ResNet:
    """Build ResNet-50: 2,048 features; 23,508,032 parameters, 25.56 M with the 1000-way classifier.

    >>> network = resnet50()
    >>> network.out_features, sum(p.numel() for p in network.parameters())
    (2048, 23508032)
    """
    return ResNet(Bottleneck, (3, 4, 6, 3))


class SmallResNet(nn.Module):
    """Images of about 32×32 pixels (batch, 3, height, width) -> features after global pooling, (batch, 64).

    Its shortcuts are 1×1 convolutions where the width changes; the original pads with zeros.

    Args:
        depth: blocks of each of the three stages; 5 is ResNet-32.
    """

    in_channels = 3
    out_features = 64

    def __init__(self, depth: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _stage(BasicBlock, 16, 16, depth, stride=1)
        self.layer2 = _stage(BasicBlock, 16, 32, depth, stride=2)
        self.layer3 = _stage(BasicBlock, 32, 64, depth, stride=2)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return x.mean((-2, -1))


def resnet32() -> SmallResNet:
    """Build ResNet-32, the network of the long-tailed CIFAR tables: 64 features; 466,256 parameters.

    >>> import torch
    >>> network = resnet32().eval()
    >>> network(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in network.parameters())
    (torch.Size([2, 64]), 466256)
    """
    return SmallResNet()


REDUCTION = 16


class SqueezeExcite(nn.Module):
    """Scales each channel by a number in (0, 1) that depends on all channels' averages."""

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
    """Build SE-ResNet-50: 2,048 features; 26,039,024 parameters, 28.09 M with the 1000-way classifier.

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
