"""Faces in images: a pyramid of scales, three networks that each discard and correct boxes, five landmarks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.paper.faces.boxes import corrected, overlaps_removed, squared
from equipoise.paper.faces.mtcnn import MTCNN, ONet, RNet, prepared
from equipoise.paper.faces.windows import AreaTable

Floats = NDArray[np.float64]

THRESHOLDS = (0.6, 0.7, 0.7)
CELL, STEP = 12, 2  # side and step of P-Net's windows
FACTOR = 0.709  # from one scale to the next: half the area
AT_ONCE = 512  # windows in a network


@dataclass(frozen=True)
class Faces:
    """Faces of one image, in its pixels, the origin at the outer corner of the first one.

    boxes: (faces, 4), left, top, right and bottom.
    probabilities: (faces,), the surest first.
    landmarks: (faces, 5, 2), x and y of the eyes, nose and corners of the mouth, each pair from the image's left.
    """

    boxes: Floats
    probabilities: Floats
    landmarks: Floats

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def none(cls) -> "Faces":
        """Of an image without any."""
        return cls(np.empty((0, 4)), np.empty(0), np.empty((0, 5, 2)))


def scales(height: int, width: int, *, min_face: float) -> list[float]:
    """Of the pyramid: the first makes the smallest face 12 pixels wide, the last leaves the image about 12."""
    found = []
    scale = CELL / min_face
    while min(height, width) * scale >= CELL:
        found.append(scale)
        scale *= FACTOR
    return found


def detect(
    images: Sequence[NDArray[np.uint8]],
    networks: MTCNN,
    *,
    min_face: Sequence[float],
    thresholds: tuple[float, float, float] = THRESHOLDS,
) -> list[Faces]:
    """Faces of every image; those of equal size share each pass of a network.

    Args:
        images: (channels, height, width) each, grey or colour.
        min_face: the width in pixels below which no face is looked for, one an image.
        thresholds: the probability that a box needs to pass each of the networks.
    """
    if not images:
        return []
    tables = [AreaTable(image) for image in images]
    boxes = _proposals(tables, networks, min_face, thresholds[0])
    boxes = _refined(tables, networks.rnet, boxes, thresholds[1])
    return _with_landmarks(tables, networks.onet, boxes, thresholds[2])


def _proposals(tables: list[AreaTable], networks: MTCNN, min_face: Sequence[float], threshold: float) -> list[Floats]:
    """P-Net over the pyramids: square boxes of each image."""
    groups: dict[tuple[tuple[int, ...], float], list[int]] = {}
    for place, (table, smallest) in enumerate(zip(tables, min_face, strict=True)):
        groups.setdefault((table.sums.shape, smallest), []).append(place)
    found: list[Floats] = [np.empty((0, 9))] * len(tables)
    for (_, smallest), places in groups.items():
        height, width = tables[places[0]].height, tables[places[0]].width
        for scale in scales(height, width, min_face=smallest):
            size = max(CELL, round(height * scale)), max(CELL, round(width * scale))
            level = torch.from_numpy(np.stack([tables[place].level(*size) for place in places]))
            with torch.inference_mode():
                probabilities, corrections = (x.double().numpy() for x in networks.pnet(prepared(level)))
            for place, probability, correction in zip(places, probabilities, corrections, strict=True):
                cells = _cells(probability, correction, (height / size[0], width / size[1]), threshold)
                cells = cells[overlaps_removed(cells[:, :4], cells[:, 4], most=0.5)]
                found[place] = np.concatenate([found[place], cells])
    kept = [cells[overlaps_removed(cells[:, :4], cells[:, 4], most=0.7)] for cells in found]
    return [squared(corrected(cells[:, :4], cells[:, 5:])) for cells in kept]


def _cells(probability: Floats, corrections: Floats, pixel: tuple[float, float], threshold: float) -> Floats:
    """Windows (n, 9) that P-Net takes for faces: box in pixels of the image, probability, corrections.

    Args:
        pixel: height and width of a pixel of this scale, in pixels of the image.
    """
    rows, columns = np.nonzero(probability >= threshold)
    corner = np.stack([columns, rows], axis=1) * STEP
    boxes = np.concatenate([corner, corner + CELL], axis=1) * np.tile(pixel[::-1], 2)
    return np.concatenate([boxes, probability[rows, columns, None], corrections[:, rows, columns].T], axis=1)


def _refined(tables: list[AreaTable], network: RNet, boxes: list[Floats], threshold: float) -> list[Floats]:
    found = []
    for own, (probability, corrections) in zip(boxes, _through(network, tables, boxes), strict=True):
        sure = np.flatnonzero(probability > threshold)
        kept = sure[overlaps_removed(own[sure], probability[sure], most=0.7)]
        found.append(squared(corrected(own[kept], corrections[kept])))
    return found


def _with_landmarks(tables: list[AreaTable], network: ONet, boxes: list[Floats], threshold: float) -> list[Faces]:
    found = []
    for own, (probability, corrections, landmarks) in zip(boxes, _through(network, tables, boxes), strict=True):
        final = corrected(own, corrections)
        sure = np.flatnonzero(probability > threshold)
        kept = sure[overlaps_removed(final[sure], probability[sure], most=0.7, against="smaller")]
        corner, extent = own[kept, None, :2], own[kept, None, 2:] - own[kept, None, :2]
        found.append(Faces(final[kept], probability[kept], corner + landmarks[kept] * extent))
    return found


def _through(network: RNet | ONet, tables: list[AreaTable], boxes: list[Floats]) -> list[list[Floats]]:
    """What the network gives for the boxes of each image; windows of all images go through together."""
    windows = [
        np.broadcast_to(window := table.windows(own, network.side), (len(own), 3, *window.shape[2:]))
        for table, own in zip(tables, boxes, strict=True)
    ]
    pixels = prepared(torch.from_numpy(np.concatenate(windows)))
    with torch.inference_mode():
        parts = [network(part) for part in pixels.split(AT_ONCE)]
    outputs = [torch.cat(output).double().numpy() for output in zip(*parts, strict=True)]
    ends = np.cumsum([len(own) for own in boxes])[:-1]
    split = [np.split(output, ends) for output in outputs]
    return [list(own) for own in zip(*split, strict=True)]
