"""Features of the image files that a table's column names, from a frozen network."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.pictures import Pictures
from equipoise.data.images.check import check_files
from equipoise.data.images.file_table import FileTable
from equipoise.data.images.folder import usual_side
from equipoise.data.images.images_on_disk import Images
from equipoise.data.samples import Progress
from equipoise.models.backbones import has_weights
from equipoise.models.feature_extraction import extract_features
from equipoise.models.image_network import ImageBackbone, image_backbone

PACKAGED = "efficientnet_lite0"


class PictureFeatures:
    """Compute features of image files, once per file and cached on disk like those of an image folder.

    Args:
        network: name of the network in ``BACKBONES``.
        extractor: the network itself; None builds it with its pretrained weights when the first image is read.
        cache: as in :func:`~equipoise.models.extract_features`.
        progress: callback (done, total) after each batch.

    >>> import tempfile
    >>> from PIL import Image
    >>> from equipoise.models import EfficientNetLite, ImageInput
    >>> small = ImageBackbone(ImageInput(3), EfficientNetLite(stages=(1, 2), enlarge=None)).eval()
    >>> reader = PictureFeatures("small", extractor=small, cache=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (48, 40)).save(f"{folder}/a.png")
    ...     found = reader.read([f"{folder}/a.png", None, f"{folder}/b.png"])
    >>> reader.extractor.out_features
    40
    >>> found.features.shape, found.side, found.unread  # NaN in the second and third row
    ((3, 40), 40, {2: 'no such file'})
    """

    def __init__(
        self,
        network: str = PACKAGED,
        *,
        extractor: ImageBackbone | None = None,
        cache: Literal[False] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.network, self.cache, self.progress = network, cache, progress
        self._built = extractor

    @property
    def extractor(self) -> ImageBackbone:
        """The network."""
        if self._built is None:
            self._built = image_backbone(self.network, pretrained=True, frozen=True).eval()
        return self._built

    def read(self, files: Sequence[str | None], *, side: int | None = None) -> Pictures:
        """Return the features of image files.

        Args:
            files: paths, one per row; None where a row has no image.
            side: side of the square that images are resized to; None chooses it from their sizes.
        """
        table, sides, reasons = _looked_at({file for file in files if file is not None})
        side = usual_side(sides) if side is None else side
        features = np.full((len(files), self.extractor.out_features), np.nan, dtype=np.float32)
        if table is not None:
            images = Images.of_table(table, size=(side, side), channels=3)
            found = extract_features(images, self.extractor, cache=self.cache, progress=self.progress)
            places = {table.name(row): row for row in range(len(table))}
            rows = [row for row, file in enumerate(files) if file in places]
            features[rows] = found[[places[str(files[row])] for row in rows]]
        unread = {row: reasons[file] for row, file in enumerate(files) if file in reasons}
        return Pictures(features, unread, side)


def installed_pictures(progress: Progress | None = None) -> PictureFeatures | None:
    """Return a reader of pictures if a package of pretrained weights is installed, otherwise None."""
    return PictureFeatures(progress=progress) if has_weights(PACKAGED) else None


def _looked_at(files: set[str]) -> tuple[FileTable | None, NDArray[np.int64], dict[str, str]]:
    """Return the files that are images, their shorter sides, and why the others cannot be read."""
    there = sorted(file for file in files if os.path.isfile(file))
    reasons = dict.fromkeys(files.difference(there), "no such file")
    if not there:
        return None, np.zeros(0, dtype=np.int64), reasons
    table = FileTable.of("", there)
    verified = check_files(table)
    good = np.flatnonzero(verified.reasons == "")
    reasons |= {there[row]: str(verified.reasons[row]) for row in np.flatnonzero(verified.reasons != "")}
    known = replace(table, digests=verified.digests).take(good) if len(good) else None
    return known, verified.shapes[good].min(axis=1), reasons
