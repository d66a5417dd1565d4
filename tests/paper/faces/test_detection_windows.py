"""Windows against sums over the squares that pixels are."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from equipoise.paper.faces.area_table import AreaTable

RNG = np.random.default_rng(3)
IMAGE = RNG.integers(0, 256, (2, 7, 9), dtype=np.uint8)


def slow_mean(image, left, top, right, bottom):
    """Each pixel weighted by how much of it lies in the rectangle; nothing outside."""
    total = np.zeros(len(image))
    for row in range(image.shape[1]):
        for column in range(image.shape[2]):
            across = max(0.0, min(right, column + 1) - max(left, column))
            down = max(0.0, min(bottom, row + 1) - max(top, row))
            total += image[:, row, column] * across * down
    return total / ((right - left) * (bottom - top))


@pytest.mark.parametrize(
    "box",
    [[0.0, 0.0, 9.0, 7.0], [1.3, 2.6, 6.1, 5.9], [-3.5, -2.0, 4.5, 6.0], [5.5, 3.0, 14.0, 11.5], [2.2, 2.2, 2.9, 3.1]],
)
def test_every_cell_of_a_window_is_the_mean_of_its_area(box):
    side = 4
    found = AreaTable(IMAGE).windows(np.array([box, [0.0, 0.0, 1.0, 1.0]]), side)
    assert found.shape == (2, 2, side, side)
    assert found.dtype == np.float32
    steps = np.linspace(0, 1, side + 1)
    across, down = box[0] + steps * (box[2] - box[0]), box[1] + steps * (box[3] - box[1])
    for row in range(side):
        for column in range(side):
            expected = slow_mean(IMAGE, across[column], down[row], across[column + 1], down[row + 1])
            np.testing.assert_allclose(found[0, :, row, column], expected, rtol=1e-5, atol=1e-4)


def test_a_window_beside_the_image_is_black_and_one_without_area_is_finite():
    found = AreaTable(IMAGE).windows(np.array([[20.0, 20.0, 30.0, 30.0], [3.0, 3.0, 3.0, 3.0]]), 5)
    assert not found[0].any()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("size", [(7, 9), (3, 4), (1, 1), (14, 27)])
def test_a_level_is_one_window_over_all(size):
    found = AreaTable(IMAGE).level(*size)
    across, down = np.linspace(0, 9, size[1] + 1), np.linspace(0, 7, size[0] + 1)
    for row in range(size[0]):
        for column in range(size[1]):
            expected = slow_mean(IMAGE, across[column], down[row], across[column + 1], down[row + 1])
            np.testing.assert_allclose(found[:, row, column], expected, rtol=1e-5, atol=1e-4)


def test_whole_factors_are_torchs_average():
    image = RNG.integers(0, 256, (3, 24, 36), dtype=np.uint8)
    expected = F.avg_pool2d(torch.from_numpy(image).float(), 3).numpy()
    np.testing.assert_allclose(AreaTable(image).level(8, 12), expected, rtol=1e-5)
    np.testing.assert_array_equal(AreaTable(image).level(24, 36), image)
