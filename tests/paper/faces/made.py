"""Networks that take a bright square on dark ground for a face, and images with such squares."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.mtcnn import FILES, MTCNN, ONet, PNet, RNet, weights_folder

THRESHOLDS = (0.5, 0.1, 0.4)  # of the difference between inside and edge, as pooling leaves it
LANDMARKS = np.array([[0.35, 0.4], [0.65, 0.4], [0.5, 0.55], [0.38, 0.7], [0.62, 0.7]])  # shares of the window
SHARPNESS = 6.0


def _plain(network):
    """All weights 0, and rectifiers that let everything through: the network is linear but for its pooling."""
    for name, parameter in network.named_parameters():
        parameter.data.fill_(1.0 if name.startswith("prelu") else 0.0)
    return network.eval().requires_grad_(False)


def _ring(side):
    """+1 in all inside, -1 in all along the edge."""
    grid = torch.full((side, side), -1.0)
    inner = torch.ones(side - 2, side - 2)
    grid[1:-1, 1:-1] = inner
    return torch.where(grid > 0, grid / inner.numel(), grid / (side**2 - inner.numel()))


def _copying(convolution, side):
    """Channel 0 is passed on: the mean of the middle."""
    convolution.weight[0, 0, :side, :side] = 1 / side**2


def _answer(layer, threshold):
    """The two outputs from unit 0, which is up to 2 for a bright square and 0 on even ground."""
    layer.weight.view(layer.weight.shape[0], -1)[1, 0] = SHARPNESS
    layer.bias[1] = -SHARPNESS * threshold


def made_mtcnn():
    pnet, rnet, onet = (_plain(network) for network in (PNet(), RNet(), ONet()))
    pnet.conv1.weight[0] = 1 / 27
    for place in range(9):  # each of nine channels is one place of 3×3, so that the last sees 5×5 of them
        pnet.conv2.weight[place, 0, place // 3, place % 3] = 1.0
    ring = _ring(5)
    for row in range(5):
        for column in range(5):
            y, x = min(row, 2), min(column, 2)
            pnet.conv3.weight[0, (row - y) * 3 + column - x, y, x] = ring[row, column]
    _answer(pnet.conv4_1, THRESHOLDS[0])
    later = ((rnet, rnet.dense4, rnet.dense5_1), (onet, onet.dense5, onet.dense6_1))
    for (network, dense, answer), threshold in zip(later, THRESHOLDS[1:], strict=True):
        network.conv1.weight[0] = -1 / 27  # dark is high, so that pooling widens the ground, not the square
        network.conv2.weight[0, 0, 1, 1] = 1.0
        network.conv3.weight[0, 0, 1, 1] = 1.0
        channels = dense.weight.shape[1] // 9
        dense.weight[0, ::channels] = -_ring(3).flatten()
        _answer(answer, threshold)
    onet.conv4.weight[0, 0] = 0.25
    onet.dense6_3.bias.copy_(torch.from_numpy(LANDMARKS.T.ravel()))
    return MTCNN(pnet, rnet, onet)


def save(networks, folder: Path) -> Path:
    """The three files, as facenet-pytorch has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for network, name in zip((networks.pnet, networks.rnet, networks.onet), FILES, strict=True):
        torch.save(network.state_dict(), folder / name)
    return folder


def squares(height, width, *places, channels=1):
    """An image (channels, height, width) of dark ground with bright squares at (left, top, side)."""
    image = np.zeros((channels, height, width), dtype=np.uint8)
    for left, top, side in places:
        image[:, top : top + side, left : left + side] = 255
    return image


def published() -> Path:
    """The folder of the published weights, or a skipped test."""
    beside = Path(os.environ.get("EQUIPOISE_DATA") or "data") / "mtcnn"
    try:
        return weights_folder(beside if beside.is_dir() and not os.environ.get("EQUIPOISE_MTCNN") else None)
    except InvalidInputError:
        pytest.skip("needs MTCNN's weights: EQUIPOISE_MTCNN, EQUIPOISE_DATA/mtcnn or an installed facenet-pytorch")


def orl() -> Path:
    """The unpacked ORL faces, or a skipped test."""
    from equipoise.storage.archives import unpack

    archives = sorted((Path(os.environ.get("EQUIPOISE_DATA") or "data") / "orl").glob("*.tar.xz"))
    if not archives:
        pytest.skip("needs the ORL faces in EQUIPOISE_DATA/orl")
    return unpack(archives[0])
