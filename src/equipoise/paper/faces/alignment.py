"""Alignment: a face shifted, rotated and scaled so that its landmarks lie where recognition networks expect them."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import SIDE, Choice
from equipoise.paper.faces.detection import Faces

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
# Eyes, nose and corners of the mouth in ArcFace's 112×112 template, where whole numbers are pixel centres.
TEMPLATE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
MOST_SAMPLES = 8  # along a side of a pixel of the result
MIRRORED = [1, 0, 2, 4, 3]  # the landmarks of a mirrored face
SAME_FACE = 0.15  # largest mean distance of two estimates of a face's landmarks, as a share of its box


def template(side: int = SIDE) -> Floats:
    """Return the landmarks' positions (5, 2) in an aligned face of this side, with the origin at the outer corner."""
    found: Floats = (TEMPLATE + 0.5) * (side / SIDE)
    return found


def similarity(points: Floats, target: Floats) -> Floats:
    """Return the rotation, scale and shift (2, 3) that bring points (n, 2) nearest to their targets, never mirrored.

    By least squares: Umeyama, "Least-squares estimation of transformation parameters between two point patterns", 1991.
    """
    centre, aim = points.mean(axis=0), target.mean(axis=0)
    spread = ((points - centre) ** 2).sum()
    if not np.isfinite(points).all() or spread <= 1e-12:
        raise InvalidInputError("landmarks must be finite and differ from each other; these coincide.")
    left, stretch, right = np.linalg.svd((target - aim).T @ (points - centre))
    signs = np.array([1.0, np.sign(np.linalg.det(left) * np.linalg.det(right))])  # -1 undoes a mirroring
    turn = left * signs @ right
    scale = (stretch * signs).sum() / spread
    linear = scale * turn
    return np.column_stack([linear, aim - linear @ centre])


def moved(points: Floats, transform: Floats) -> Floats:
    """Apply a transform (2, 3) to points (n, 2)."""
    found: Floats = points @ transform[:, :2].T + transform[:, 2]
    return found


def residual(landmarks: Floats) -> float:
    """Return how far landmarks (5, 2) lie from the template after alignment: root mean square, in pixels of 112×112.

    A frontal face has 1 to 3, a profile far more.
    """
    ideal = template()
    return float(np.sqrt(((moved(landmarks, similarity(landmarks, ideal)) - ideal) ** 2).sum(axis=1).mean()))


def aligned(pixels: Pixels, landmarks: Floats, *, side: int = SIDE) -> Pixels:
    """Crop the face of an image by its landmarks, (channels, side, side); areas outside the image are black.

    A face larger than the result is averaged over the pixels that fall into each output pixel, not just sampled.

    Args:
        pixels: uint8, (channels, height, width).
        landmarks: x and y of the eyes, the nose and the corners of the mouth, (5, 2), in pixels; of each pair, the one
            on the image's left first.
        side: of the result, in pixels.

    >>> image = np.zeros((1, 300, 300), dtype=np.uint8)
    >>> landmarks = template(224) + 40  # a face twice as large as wanted
    >>> x, y = landmarks[2].astype(int)
    >>> image[:, y - 4 : y + 4, x - 4 : x + 4] = 255  # its nose
    >>> face = aligned(image, landmarks)
    >>> face.shape, np.argwhere(face[0] == 255).mean(0).round().tolist()  # row and column of the nose
    ((1, 112, 112), [72.0, 56.0])
    """
    transform = similarity(landmarks, template(side))
    scale = float(np.hypot(transform[0, 0], transform[1, 0]))  # pixels of the result for one of the image
    samples = int(np.clip(np.round(1 / scale), 1, MOST_SAMPLES))
    steps = (np.arange(side * samples) + 0.5) / samples
    turn = np.linalg.inv(transform[:, :2])
    back: Floats = np.column_stack([turn, -turn @ transform[:, 2]])  # from the result to the image
    part, corner = _needed(pixels, back, side)
    if part.size == 0:
        return np.zeros((len(pixels), side, side), dtype=np.uint8)
    across, down = ((back[:, column, None] * steps).T for column in (0, 1))  # (side · samples, 2)
    places = across[None] + (down + back[:, 2] - corner)[:, None]  # rows, columns, x and y
    relative = torch.from_numpy((2 * places / part.shape[:0:-1] - 1).astype(np.float32))[None]
    image = torch.from_numpy(part.astype(np.float32))[None]
    sampled = F.grid_sample(image, relative, padding_mode="zeros", align_corners=False)
    mean = F.avg_pool2d(sampled, samples)[0]
    return mean.round().clamp(0, 255).to(torch.uint8).numpy()


def _needed(pixels: Pixels, back: Floats, side: int) -> tuple[Pixels, Floats]:
    """Return the part of the image that the result shows, with a pixel around it, and its corner: photos are large."""
    height, width = pixels.shape[1:]
    corners = moved(side * np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), back)
    left, top = np.maximum(np.floor(corners.min(axis=0)) - 1, 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0)) + 1, (width, height)).astype(int)
    part = pixels[:, top : max(bottom, top), left : max(right, left)]
    return part, np.array([left, top], dtype=np.float64)


def steadied(landmarks: Floats, box: Floats, mirrored: Faces, width: int) -> Floats:
    """Return the mean of a face's landmarks (5, 2) and of those found in the mirrored image, which halves their noise.

    Args:
        landmarks, box: of the face, in an image of this ``width``.
        mirrored: the faces of the mirrored image; if none of them is this one, the landmarks stay as they are.
    """
    if not len(mirrored):
        return landmarks
    back = mirrored.landmarks[:, MIRRORED] * (-1, 1) + (width, 0)  # (faces, 5, 2)
    distance = np.hypot(*np.moveaxis(back - landmarks, -1, 0)).mean(axis=1)
    nearest = int(distance.argmin())
    if distance[nearest] > SAME_FACE * (box[2] - box[0]):
        return landmarks
    mean: Floats = (landmarks + back[nearest]) / 2
    return mean


def chosen(faces: Faces, height: int, width: int, *, by: Choice = "centre") -> int:
    """Choose the main face of an image: the ``"largest"`` box, or the best by ``"centre"``.

    That is the largest area minus twice the squared distance from the image's centre, so that a smaller face in the
    middle wins over a larger one at the side.
    """
    worth = (faces.boxes[:, 2:] - faces.boxes[:, :2]).prod(axis=1)
    if by == "centre":
        middle = (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2
        worth = worth - 2 * ((middle - (width / 2, height / 2)) ** 2).sum(axis=1)
    return int(worth.argmax())
