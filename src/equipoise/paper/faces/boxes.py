"""Boxes (n, 4) of left, top, right and bottom: corrected, made square, and rid of those that show the same."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Against = Literal["union", "smaller"]


def corrected(boxes: Floats, corrections: Floats) -> Floats:
    """Each side moved by a share of the box's width or height."""
    extent = boxes[:, 2:] - boxes[:, :2]
    return boxes + corrections * np.tile(extent, 2)


def squared(boxes: Floats) -> Floats:
    """The shorter side lengthened to the longer one, about the same centre."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def overlaps_removed(boxes: Floats, scores: Floats, *, most: float, against: Against = "union") -> NDArray[np.intp]:
    """Places of the boxes that stay, the highest score first: one goes when a better one that stays covers too much of
    it (non-maximum suppression).

    Args:
        most: the share that two boxes may have in common.
        against: what it is a share of: the area of both together, or that of the smaller one.
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    waiting = np.argsort(-scores, kind="stable")  # of equal scores the first, so that results repeat
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
