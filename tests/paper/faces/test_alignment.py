"""The similarity transform against scipy's and by hand, and pixels that land where they should."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.alignment import TEMPLATE, aligned, chosen, moved, residual, similarity, steadied, template
from equipoise.paper.faces.detection import NO_FACES, Faces


def made(angle, scale, shift):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.column_stack([scale * turn, shift])


@given(st.floats(-3.1, 3.1), st.floats(0.05, 20), st.floats(-500, 500), st.floats(-500, 500))
def test_a_similarity_is_found_again(angle, scale, x, y):
    truth = made(angle, scale, (x, y))
    np.testing.assert_allclose(similarity(TEMPLATE, moved(TEMPLATE, truth)), truth, atol=1e-7 * (1 + scale))


@pytest.mark.parametrize("mirrored", [1, -1])
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_fitted_as_a_general_optimiser_fits_it(seed, mirrored):
    rng = np.random.default_rng(seed)
    points = moved(TEMPLATE * (mirrored, 1), made(0.4, 0.7, (30, -5))) + rng.normal(0, 6, (5, 2))

    def distances(parameters):
        a, b, x, y = parameters
        return (moved(points, np.array([[a, -b, x], [b, a, y]])) - TEMPLATE).ravel()

    a, b, x, y = least_squares(distances, [1.0, 0.0, 0.0, 0.0]).x
    np.testing.assert_allclose(similarity(points, TEMPLATE), [[a, -b, x], [b, a, y]], atol=1e-4)


def test_a_mirrored_face_is_turned_and_never_mirrored():
    mirrored = TEMPLATE * (-1, 1) + (112, 0)
    found = similarity(mirrored, TEMPLATE)
    assert np.linalg.det(found[:, :2]) > 0
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    flipped = similarity(points, points * (-1, 1))
    assert np.linalg.det(flipped[:, :2]) > 0


@pytest.mark.parametrize("points", [np.full((5, 2), 3.0), np.full((5, 2), np.nan)])
def test_points_in_one_place_are_refused(points):
    with pytest.raises(InvalidInputError, match="finite and differ"):
        similarity(points, TEMPLATE)


def test_the_template_has_the_eyes_level_and_scales():
    assert template()[0, 0] < template()[1, 0]
    assert abs(template()[0, 1] - template()[1, 1]) < 0.5
    np.testing.assert_allclose(template(224), 2 * template())
    np.testing.assert_allclose(template() - 0.5, TEMPLATE)


def test_the_residual_counts_pixels_of_the_template():
    assert residual(moved(template(), made(1.0, 3.0, (5, 5)))) == pytest.approx(0, abs=1e-9)
    nudged = template().copy()
    nudged[2, 0] += 10
    fitted = moved(nudged, similarity(nudged, template()))
    expected = np.sqrt(np.mean([np.sum((a - b) ** 2) for a, b in zip(fitted, template(), strict=True)]))
    assert residual(nudged) == pytest.approx(expected)
    assert 2 < residual(nudged) < 10 / np.sqrt(5)


def test_a_face_already_in_place_stays_as_it_is():
    image = np.random.default_rng(0).integers(0, 256, (3, 112, 112), dtype=np.uint8)
    found = aligned(image, template())
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - image).max() <= 1


def test_a_shift_by_whole_pixels_is_exact_and_what_is_outside_is_black():
    image = np.random.default_rng(0).integers(1, 256, (1, 112, 112), dtype=np.uint8)
    found = aligned(image, template() + np.array([30, -20]))
    assert np.abs(found[:, 21:, :82].astype(int) - image[:, 1:92, 30:]).max() <= 1
    assert not found[:, :19].any()
    assert not found[:, :, 83:].any()
    assert not aligned(image, template() + 500).any()


@pytest.mark.parametrize("angle", [0.0, 0.5, -2.0])
@pytest.mark.parametrize("scale", [0.6, 1.0, 4.0, 12.0])
def test_spots_on_the_landmarks_come_to_lie_on_the_template(angle, scale):
    landmarks = moved(template(), made(angle, scale, (0, 0)))
    room = 12 * scale + 5
    landmarks += room - landmarks.min(axis=0)
    side = int(landmarks.max() + room)
    rows, columns = np.mgrid[:side, :side] + 0.5
    for point, aim in zip(landmarks, template(), strict=True):
        spread = 2.5 * scale
        spot = np.exp(-((columns - point[0]) ** 2 + (rows - point[1]) ** 2) / (2 * spread**2))
        found = aligned((255 * spot).round().astype(np.uint8)[None], landmarks)[0].astype(float)
        y, x = np.mgrid[:112, :112] + 0.5
        centre = np.array([(found * x).sum(), (found * y).sum()]) / found.sum()
        np.testing.assert_allclose(centre, aim, atol=0.12)


def test_a_large_face_is_averaged_and_not_picked_from():
    board = (np.indices((448, 448)).sum(axis=0) % 2 * 255).astype(np.uint8)[None]
    found = aligned(board, template() * 4 + 0.5)  # single samples would fall on the middle of pixels
    assert np.abs(found[:, 1:-1, 1:-1].astype(float) - 127.5).max() < 3


def test_another_side_shows_the_same():
    smooth = torch.nn.functional.interpolate(torch.rand(1, 1, 6, 6) * 255, size=150, mode="bicubic").clamp(0, 255)
    image = smooth[0].to(torch.uint8).numpy()
    landmarks = template() + np.array([10, 15])
    half, full = aligned(image, landmarks, side=56), aligned(image, landmarks)
    expected = full.reshape(1, 56, 2, 56, 2).mean(axis=(2, 4))
    assert np.abs(half - expected).max() < 3


def test_of_several_faces_the_centre_or_the_largest():
    boxes = np.array([[0.0, 0.0, 40.0, 40.0], [80.0, 80.0, 115.0, 115.0], [90.0, 90.0, 100.0, 100.0]])
    faces = Faces(boxes, np.array([0.9, 0.8, 0.99]), np.zeros((3, 5, 2)))
    assert chosen(faces, 200, 200) == 1
    assert chosen(faces, 200, 200, by="largest") == 0


def test_landmarks_are_averaged_with_those_of_the_mirrored_image():
    own, box = template() + 20, np.array([10.0, 10.0, 150.0, 150.0])
    moved_by = np.array([3.0, -1.0])
    seen = ((own + moved_by) * (-1, 1) + (200, 0))[[1, 0, 2, 4, 3]]  # as a mirrored image of width 200 shows it
    far = seen + 100
    faces = Faces(np.zeros((2, 4)), np.ones(2), np.stack([far, seen]))
    np.testing.assert_allclose(steadied(own, box, faces, 200), own + moved_by / 2)
    np.testing.assert_array_equal(steadied(own, box, Faces(box[None], np.ones(1), far[None]), 200), own)
    np.testing.assert_array_equal(steadied(own, box, NO_FACES, 200), own)
