"""Where to look for faces in images of any size and cut: as they are, then with a border and for smaller faces."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.detection import Faces, detect
from equipoise.paper.faces.mtcnn import MTCNN, ONet

MIN_FACE = 0.1
LEAST_PIXELS = 20


@dataclass(frozen=True)
class Attempt:
    """One way to look at an image.

    border: what is laid around it, as a share of its height and width; its edge continued.
    smaller: by how much the smallest face is taken smaller.
    """

    border: float = 0.0
    smaller: float = 1.0


# A face that fills its image, as in a tight crop, has no surroundings, without which the first network sees none.
ATTEMPTS = (Attempt(), Attempt(border=0.5, smaller=0.5))


def find_faces(
    images: Sequence[NDArray[np.uint8]], networks: MTCNN, *, min_face: float = MIN_FACE
) -> list[tuple[Faces, int]]:
    """Faces of each image, and the attempt, from 1, at which they were found; the last where none was.

    Args:
        images: uint8, (channels, height, width) each, grey or colour.
        networks: of :func:`~equipoise.paper.faces.mtcnn.load_mtcnn`.
        min_face: the smallest face that is looked for, as a share of the shorter side; never below 20 pixels.

    Returns:
        a pair an image: ``boxes`` (faces, 4), ``probabilities`` (faces,) and ``landmarks`` (faces, 5, 2) in its pixels,
        and the attempt.
    """
    if not 0 < min_face <= 1:
        raise InvalidInputError(f"min_face is a share of the image's shorter side, from 0 to 1; got {min_face:g}.")
    found: list[tuple[Faces, int]] = [(Faces.none(), len(ATTEMPTS))] * len(images)
    open_places = list(range(len(images)))
    for number, attempt in enumerate(ATTEMPTS, start=1):
        views = [_view(images[place], min_face * attempt.smaller, attempt.border) for place in open_places]
        results = detect([view.pixels for view in views], networks, min_face=[view.smallest for view in views])
        for place, view, faces in zip(open_places, views, results, strict=True):
            own = view.in_image(faces)
            if len(own):
                found[place] = own, number
        open_places = [place for place in open_places if not len(found[place][0])]
    return found


@dataclass(frozen=True)
class _View:
    """An image as it is looked at: made smaller where faces stay large enough, with a border."""

    pixels: NDArray[np.uint8]
    smallest: float
    factor: int
    offset: tuple[int, int]  # width of the border: across, down
    extent: tuple[int, int]  # width and height of the image

    def in_image(self, faces: Faces) -> Faces:
        """Faces in the image's own pixels, without those whose middle lies in the border."""
        shift = np.array(self.offset)
        boxes = (faces.boxes - np.tile(shift, 2)) * self.factor
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = ((middle >= 0) & (middle <= self.extent)).all(axis=1)
        landmarks = (faces.landmarks - shift) * self.factor
        return Faces(boxes[inside], faces.probabilities[inside], landmarks[inside])


def _view(image: NDArray[np.uint8], min_face: float, border: float) -> _View:
    height, width = image.shape[1:]
    smallest = max(min_face * min(height, width), LEAST_PIXELS)
    factor = max(1, int(smallest // ONet.side))  # the last network looks at 48 pixels, so more would be lost on it
    pixels = _shrunk(image, factor)
    down, across = (round(border * side) for side in pixels.shape[1:])
    if border:
        pixels = np.pad(pixels, ((0, 0), (down, down), (across, across)), mode="edge")
    return _View(pixels, smallest / factor, factor, (across, down), (width, height))


def _shrunk(image: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """The mean of each square of so many pixels; those left over at the far edges are dropped."""
    if factor == 1:
        return image
    channels, height, width = image.shape
    rows, columns = height // factor, width // factor
    squares = image[:, : rows * factor, : columns * factor].reshape(channels, rows, factor, columns, factor)
    mean: NDArray[np.uint8] = squares.mean(axis=(2, 4), dtype=np.float32).round().astype(np.uint8)
    return mean
