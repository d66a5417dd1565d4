"""Means over windows of an image at any place and size, by a table of sums."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]


class AreaTable:
    """Sums over all rectangles from an image's corner, so that the mean over any window takes four look-ups.

    Areas outside the image are black. Between pixels the sums are interpolated, which is exact for pixels that are
    squares of one colour.
    """

    def __init__(self, pixels: Pixels) -> None:
        channels, self.height, self.width = pixels.shape
        self.sums = np.zeros((channels, self.height + 1, self.width + 1))
        np.cumsum(pixels, axis=1, dtype=np.float64, out=self.sums[:, 1:, 1:])
        np.cumsum(self.sums[:, 1:, 1:], axis=2, out=self.sums[:, 1:, 1:])

    def level(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the whole image at another size, (channels, height, width)."""
        rows = _between(self.sums, np.linspace(0, self.height, height + 1), axis=1)
        cells = _between(rows, np.linspace(0, self.width, width + 1), axis=2)
        area = self.height / height * self.width / width
        found: NDArray[np.float32] = (np.diff(np.diff(cells, axis=1), axis=2) / area).astype(np.float32)
        return found

    def windows(self, boxes: Floats, side: int) -> NDArray[np.float32]:
        """Return each box as a square of ``side`` pixels, (boxes, channels, side, side)."""
        shares = np.linspace(0, 1, side + 1)
        extent = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-3)  # a box without area shows one point
        across = boxes[:, 0, None] + shares * extent[:, 0, None]  # (boxes, side + 1)
        down = boxes[:, 1, None] + shares * extent[:, 1, None]
        left, right, x = _neighbours(across, self.width)
        above, below, y = _neighbours(down, self.height)
        x, y = x[:, None, :], y[:, :, None]
        upper = self._at(above, left) * (1 - x) + self._at(above, right) * x
        lower = self._at(below, left) * (1 - x) + self._at(below, right) * x
        cells = np.diff(np.diff(upper * (1 - y) + lower * y, axis=2), axis=3)  # (channels, boxes, side, side)
        area = extent.prod(axis=1)[:, None, None] / side**2
        found: NDArray[np.float32] = (cells / area).swapaxes(0, 1).astype(np.float32)
        return found

    def _at(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """(channels, boxes, rows, columns)."""
        found: Floats = self.sums[:, rows[:, :, None], columns[:, None, :]]
        return found


def _neighbours(places: Floats, end: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return the whole numbers before and after each position in the image, and the fraction between them."""
    within = places.clip(0, end)
    before = np.minimum(within.astype(np.intp), end - 1)
    return before, before + 1, within - before


def _between(sums: Floats, places: Floats, axis: int) -> Floats:
    before, after, way = _neighbours(places, sums.shape[axis] - 1)
    way = way.reshape([-1 if place == axis else 1 for place in range(sums.ndim)])
    found: Floats = sums.take(before, axis) * (1 - way) + sums.take(after, axis) * way
    return found
