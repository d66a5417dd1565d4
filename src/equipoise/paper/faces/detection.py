"""Face detection: an image pyramid, three networks that each discard and correct boxes, and five landmarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import MIN_FACE
from equipoise.paper.faces.area_table import AreaTable, Floats, Pixels
from equipoise.paper.faces.mtcnn import MTCNN, ONet, RNet, prepared

THRESHOLDS = (0.6, 0.7, 0.7)  # probability that a box needs to pass each network
LENIENT = (0.4, 0.4, 0.3)  # for images that are known to show a face
CELL, STEP = 12, 2  # side and step of P-Net's windows
FACTOR = 0.709  # from one scale to the next: half the area
AT_ONCE = 512  # windows per network call
LEAST_PIXELS = 20
# Border, as a share of height and width, factor on the smallest face, and quarter turns: first the image as it is, then
# with its edge continued, since a face that fills its image lacks the surroundings that the first network needs; then
# turned, for photographs that lie on their side or upside down.
ATTEMPTS = ((0.0, 1.0, 0), (0.5, 0.5, 0), (0.0, 1.0, 1), (0.0, 1.0, 3), (0.0, 1.0, 2))


@dataclass(frozen=True)
class Faces:
    """Faces of one image, in its pixels, with the origin at the first one's outer corner.

    boxes: (faces, 4), left, top, right and bottom.
    probabilities: (faces,), the surest first.
    landmarks: (faces, 5, 2), x and y of the eyes, nose and corners of the mouth; of each pair, first the one that lies
        on the left when the face is upright.
    """

    boxes: Floats
    probabilities: Floats
    landmarks: Floats

    def __len__(self) -> int:
        return len(self.boxes)


NO_FACES = Faces(np.empty((0, 4)), np.empty(0), np.empty((0, 5, 2)))


def find_faces(
    images: Sequence[Pixels], networks: MTCNN, *, min_face: float = MIN_FACE, lenient: bool = False
) -> list[tuple[Faces, int]]:
    """Find the faces of each image, and the attempt, from 1, at which they were found; the last if none was.

    Args:
        images: uint8, (channels, height, width) each, grey or colour.
        networks: of :func:`~equipoise.paper.faces.mtcnn.load_mtcnn`.
        min_face: smallest face to look for, as a share of the shorter side; never below 20 pixels.
        lenient: search once more with lower thresholds where nothing is found, for images known to show a face.

    Returns:
        one pair each: ``boxes`` (faces, 4), ``probabilities`` (faces,) and ``landmarks`` (faces, 5, 2) in its pixels,
        and the attempt.
    """
    if not 0 < min_face <= 1:
        raise InvalidInputError(f"min_face must be a share of the shorter side, from 0 to 1, got {min_face:g}.")
    searches = [(attempt, limits) for limits in (THRESHOLDS, LENIENT)[: 1 + lenient] for attempt in ATTEMPTS]
    found: list[tuple[Faces, int]] = [(NO_FACES, len(searches))] * len(images)
    left = list(range(len(images)))
    for number, ((border, smaller, turns), limits) in enumerate(searches, start=1):
        views = [_view(images[place], min_face * smaller, border, turns) for place in left]
        smallest = [view.smallest for view in views]
        results = detect([view.pixels for view in views], networks, min_face=smallest, thresholds=limits)
        for place, view, faces in zip(left, views, results, strict=True):
            own = view.in_image(faces)
            if len(own):
                found[place] = own, number
        left = [place for place in left if not len(found[place][0])]
    return found


@dataclass(frozen=True)
class _View:
    """An image as it is searched: turned, scaled down if faces stay large enough, with a border."""

    pixels: Pixels
    smallest: float
    factor: int
    offset: tuple[int, int]  # width of the border: across, down
    extent: tuple[int, int]  # width and height of the turned image
    turns: int  # quarter turns anticlockwise

    def in_image(self, faces: Faces) -> Faces:
        """Return faces in the image's own pixels, without those centred in the border."""
        shift = np.array(self.offset)
        boxes = (faces.boxes - np.tile(shift, 2)) * self.factor
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = ((middle >= 0) & (middle <= self.extent)).all(axis=1)
        landmarks = self._turned_back((faces.landmarks[inside] - shift) * self.factor)
        corners = self._turned_back(boxes[inside].reshape(-1, 2, 2))
        upright = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return Faces(upright, faces.probabilities[inside], landmarks)

    def _turned_back(self, points: Floats) -> Floats:
        """Return points (..., 2) of the turned image in the original one."""
        x, y = points[..., 0], points[..., 1]
        width, height = self.extent
        places = {0: (x, y), 1: (height - y, x), 2: (width - x, height - y), 3: (y, width - x)}
        found: Floats = np.stack(places[self.turns], axis=-1)
        return found


def _view(image: Pixels, min_face: float, border: float, turns: int = 0) -> _View:
    image = np.rot90(image, turns, axes=(1, 2))
    height, width = image.shape[1:]
    smallest = max(min_face * min(height, width), LEAST_PIXELS)
    factor = max(1, int(smallest // ONet.side))  # the last network sees 48 pixels, so more would be wasted
    pixels = _shrunk(image, factor)
    down, across = (round(border * side) for side in pixels.shape[1:])
    if border:
        pixels = np.pad(pixels, ((0, 0), (down, down), (across, across)), mode="edge")
    return _View(pixels, smallest / factor, factor, (across, down), (width, height), turns)


def _shrunk(image: Pixels, factor: int) -> Pixels:
    """Return the mean of each square of this many pixels; leftovers at the far edges are dropped."""
    if factor == 1:
        return image
    channels, height, width = image.shape
    rows, columns = height // factor, width // factor
    squares = image[:, : rows * factor, : columns * factor].reshape(channels, rows, factor, columns, factor)
    mean: Pixels = squares.mean(axis=(2, 4), dtype=np.float32).round().astype(np.uint8)
    return mean


def corrected(boxes: Floats, corrections: Floats) -> Floats:
    """Shift each side by a share of the box's width or height."""
    extent = boxes[:, 2:] - boxes[:, :2]
    return boxes + corrections * np.tile(extent, 2)


def squared(boxes: Floats) -> Floats:
    """Extend the shorter side to the longer one, about the same centre."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def overlaps_removed(
    boxes: Floats, scores: Floats, *, most: float, against: Literal["union", "smaller"] = "union"
) -> NDArray[np.intp]:
    """Return the indices of the boxes that stay, the highest score first (non-maximum suppression).

    Two may share up to ``most`` of their area, relative to both together or to the smaller one.
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    waiting = np.argsort(-scores, kind="stable")  # among equal scores the first, for reproducibility
    kept = []
    while len(waiting):
        best, waiting = waiting[0], waiting[1:]
        kept.append(best)
        start = np.maximum(boxes[best, :2], boxes[waiting, :2])
        end = np.minimum(boxes[best, 2:], boxes[waiting, 2:])
        common = (end - start).clip(min=0).prod(axis=1)
        smaller = np.minimum(areas[best], areas[waiting])
        whole = areas[best] + areas[waiting] - common if against == "union" else smaller
        waiting = waiting[common <= most * whole]
    return np.array(kept, dtype=np.intp)


def scales(height: int, width: int, *, min_face: float) -> list[float]:
    """Return the pyramid's scales, from that where the smallest face is 12 pixels wide to that of the image."""
    found = []
    scale = CELL / min_face
    while min(height, width) * scale >= CELL:
        found.append(scale)
        scale *= FACTOR
    return found


def detect(
    images: Sequence[Pixels],
    networks: MTCNN,
    *,
    min_face: Sequence[float],
    thresholds: tuple[float, float, float] = THRESHOLDS,
) -> list[Faces]:
    """Detect the faces of every image, at least ``min_face`` pixels large.

    Images of equal size share each network call.
    """
    if not images:
        return []
    tables = [AreaTable(image) for image in images]
    boxes = _proposals(tables, networks, min_face, thresholds[0])
    boxes = _refined(tables, networks.rnet, boxes, thresholds[1])
    return _with_landmarks(tables, networks.onet, boxes, thresholds[2])


def _proposals(tables: list[AreaTable], networks: MTCNN, min_face: Sequence[float], threshold: float) -> list[Floats]:
    """Run P-Net over the pyramids; return square boxes of each image."""
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
    """Return windows (n, 9) that P-Net takes for faces: box in image pixels, probability, corrections.

    ``pixel`` is the height and width of a pixel of this scale.
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
    """Run the network on the boxes of each image; windows of all images are processed together."""
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
