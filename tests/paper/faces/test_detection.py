"""Detection with made networks, whose faces are bright squares, and with the published ones where they are at hand."""

import numpy as np
import pytest
from matplotlib import cbook
from PIL import Image

from equipoise.errors import InvalidInputError
from equipoise.paper.faces import find_faces, load_mtcnn
from equipoise.paper.faces.detection import (
    FACTOR,
    AreaTable,
    Faces,
    _cells,
    _proposals,
    _refined,
    _shrunk,
    _view,
    _with_landmarks,
    detect,
    scales,
    squared,
)
from tests.marks import mostly_slow
from tests.paper.faces.made import LANDMARKS, made_mtcnn, orl, published, squares


@pytest.fixture(scope="module")
def networks():
    return made_mtcnn()


def found(networks, *images, min_face=20.0):
    return detect(images, networks, min_face=[min_face] * len(images))


def centres(faces):
    return (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2


def test_the_pyramid_goes_from_the_smallest_face_to_the_whole_image():
    steps = scales(200, 90, min_face=20)
    assert steps[0] == 0.6
    np.testing.assert_allclose(np.diff(np.log(steps)), np.log(FACTOR))
    assert 12 <= 90 * steps[-1] < 12 / FACTOR
    assert scales(15, 90, min_face=20) == []


@pytest.mark.parametrize(("left", "top", "side"), [(40, 30, 24), (11, 47, 24), (60, 20, 40)])
def test_a_square_is_found_where_it_is_with_its_landmarks(networks, left, top, side):
    (faces,) = found(networks, squares(100, 120, (left, top, side)))
    assert len(faces) == 1
    middle = np.array([left, top]) + side / 2
    assert np.abs(centres(faces)[0] - middle).max() < side / 7  # half a step of the window
    assert 1.2 * side < faces.boxes[0, 2] - faces.boxes[0, 0] < 2.4 * side
    window, extent = faces.boxes[0, :2], faces.boxes[0, 2:] - faces.boxes[0, :2]
    np.testing.assert_allclose(faces.landmarks[0], window + LANDMARKS * extent, rtol=1e-5)
    assert 0.7 < faces.probabilities[0] < 1


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_places_in_a_turned_view_are_places_in_the_image(turns):
    image = np.zeros((1, 30, 50), dtype=np.uint8)
    image[0, 7, 41] = 255  # the pixel from (41, 7) to (42, 8)
    view = _view(image, 1.0, 0.5, turns)
    row, column = np.argwhere(view.pixels[0] == 255)[0]
    box = np.array([[column, row, column + 1, row + 1]], dtype=float)
    landmarks = np.array([[[column + 0.25, row + 0.25]] * 5])
    faces = view.in_image(Faces(box, np.ones(1), landmarks))
    np.testing.assert_allclose(faces.boxes, [[41, 7, 42, 8]])
    corner = {0: (41.25, 7.25), 1: (41.75, 7.25), 2: (41.75, 7.75), 3: (41.25, 7.75)}[turns]
    np.testing.assert_allclose(faces.landmarks[0, 0], corner)


def test_cells_are_boxes_in_pixels_of_the_image():
    probability = np.zeros((3, 4))
    probability[1, 2] = 0.9
    (cell,) = _cells(probability, np.arange(48.0).reshape(4, 3, 4), (2.0, 3.0), 0.6)
    np.testing.assert_allclose(cell, [4 * 3, 2 * 2, 16 * 3, 14 * 2, 0.9, 6, 18, 30, 42])


def test_corrections_of_the_last_network_move_the_box_and_not_the_landmarks(networks):
    image = squares(100, 120, (40, 30, 24))
    (before,) = found(networks, image)
    other = made_mtcnn()
    other.onet.dense6_2.bias[2] = 0.25  # the right edge, a quarter further
    (after,) = found(other, image)
    width = before.boxes[0, 2] - before.boxes[0, 0]
    np.testing.assert_allclose(after.boxes - before.boxes, [[0, 0, 0.25 * width, 0]], atol=1e-4)
    np.testing.assert_allclose(after.landmarks, before.landmarks)


def test_the_second_network_corrects_what_it_keeps_and_makes_it_square():
    other = made_mtcnn()
    other.rnet.dense5_2.bias.copy_(other.rnet.dense5_2.bias.new_tensor([0.1, 0.2, 0.0, 0.4]))
    table = AreaTable(squares(200, 200, (80, 80, 48)))
    boxes = np.array([[60.0, 60.0, 144.0, 144.0], [0.0, 0.0, 50.0, 50.0], [62.0, 62.0, 146.0, 146.0]])
    (kept,) = _refined([table], other.rnet, [boxes], 0.7)
    assert len(kept) == 1  # the second shows nothing, the third the same as the first
    expected = squared(np.array([[60 + 8.4, 60 + 16.8, 144.0, 144 + 33.6]]))
    assert min(np.abs(kept - expected).max(), np.abs(kept - expected - 2).max()) < 1e-4


def test_the_first_network_corrects_what_it_proposes(networks):
    tables = [AreaTable(squares(200, 200, (80, 80, 48)))]
    (before,) = _proposals(tables, networks, [20.0], 0.6)
    other = made_mtcnn()
    other.pnet.conv4_2.bias.copy_(other.pnet.conv4_2.bias.new_tensor([0.05, 0.1, 0.05, 0.1]))
    (after,) = _proposals(tables, other, [20.0], 0.6)
    assert len(before) > 1
    assert len(_proposals([AreaTable(squares(200, 200))], networks, [20.0], 0.6)[0]) == 0
    width = before[:, 2:] - before[:, :2]
    np.testing.assert_allclose(after - before, np.tile([0.05, 0.1], 2) * np.tile(width, 2), atol=1e-4)


def test_the_third_network_keeps_what_it_is_sure_of(networks):
    table = AreaTable(squares(200, 200, (80, 80, 48)))
    boxes = np.array([[0.0, 0.0, 50.0, 50.0], [60.0, 60.0, 148.0, 148.0]])
    (faces,) = _with_landmarks([table], networks.onet, [boxes], 0.7)
    np.testing.assert_allclose(faces.boxes, boxes[1:], atol=1e-4)


def test_a_view_gives_back_places_of_the_image():
    view = _view(np.zeros((3, 600, 900), dtype=np.uint8), 0.2, 0.5)
    assert view.pixels.shape == (3, 600, 900)  # half as large, and the border half as wide again on each side
    assert (view.factor, view.smallest) == (2, 60.0)
    boxes = np.array([[225.0, 150.0, 325.0, 250.0], [0.0, 150.0, 100.0, 250.0], [325.0, 500.0, 425.0, 600.0]])
    faces = view.in_image(Faces(boxes, np.array([0.9, 0.8, 0.7]), boxes.reshape(3, 2, 2)[:, [0, 1, 0, 1, 0]]))
    np.testing.assert_allclose(faces.boxes, [[0, 0, 200, 200]])  # the others lie in the border
    np.testing.assert_allclose(faces.landmarks, [[[0, 0], [200, 200], [0, 0], [200, 200], [0, 0]]])
    assert faces.probabilities.tolist() == [0.9]


def test_several_squares_are_several_faces_and_none_is_none(networks):
    two, none = found(networks, squares(160, 160, (20, 20, 24), (100, 90, 30)), squares(160, 160))
    assert len(two) == 2
    assert sorted(centres(two).round(-1).tolist()) == [[30, 30], [110, 100]]
    assert list(two.probabilities) == sorted(two.probabilities, reverse=True)
    assert (len(none), none.landmarks.shape) == (0, (0, 5, 2))


def test_images_of_any_size_together_are_as_alone(networks):
    images = [
        squares(100, 120, (40, 30, 24)),
        squares(90, 80, (20, 22, 24)),
        squares(100, 120, (11, 47, 30), channels=3),
        squares(100, 120),
        squares(100, 120, (60, 20, 40)),
        squares(9, 9),
    ]
    together = found(networks, *images)
    for image, own in zip(images, together, strict=True):
        (alone,) = found(networks, image)
        np.testing.assert_allclose(own.boxes, alone.boxes, atol=1e-4)
        np.testing.assert_allclose(own.landmarks, alone.landmarks, atol=1e-4)
        np.testing.assert_allclose(own.probabilities, alone.probabilities, atol=1e-5)
    assert [len(own) > 0 for own in together] == [True, True, True, False, True, False]
    assert found(networks) == []


def test_grey_is_colour_with_three_equal_channels(networks):
    image = squares(100, 120, (40, 30, 24))
    grey, colour = found(networks, image, np.repeat(image, 3, axis=0))
    np.testing.assert_allclose(grey.boxes, colour.boxes)


def test_faces_below_the_smallest_are_not_looked_for(networks):
    image = squares(200, 200, (80, 80, 24))
    assert [len(found(networks, image, min_face=smallest)[0]) for smallest in (20.0, 100.0)] == [1, 0]


def test_a_face_that_fills_the_image_is_found_with_a_border(networks):
    bright = squares(60, 60, (3, 3, 54))
    (faces, attempt), (_, first) = find_faces([bright, squares(100, 120, (40, 30, 24))], networks)
    assert (attempt, first) == (2, 1)
    assert np.abs(centres(faces)[0] - 30).max() < 8
    window, extent = faces.boxes[0, :2], faces.boxes[0, 2:] - faces.boxes[0, :2]
    np.testing.assert_allclose(faces.landmarks[0], window + LANDMARKS * extent, rtol=1e-5)
    assert faces.boxes[0, 0] < 0
    assert faces.boxes[0, 2] > 60


def test_a_small_face_in_a_large_image_is_found_at_the_second_attempt(networks):
    image = squares(1300, 1200, (500, 700, 30))
    ((faces, attempt),) = find_faces([image], networks)
    assert (attempt, len(faces)) == (2, 1)
    assert np.abs(centres(faces)[0] - (515, 715)).max() < 10
    ((_, attempt),) = find_faces([image], networks, min_face=0.05)
    assert attempt == 1


def test_large_images_are_made_smaller_and_boxes_come_back_in_their_pixels(networks):
    small = squares(300, 400, (160, 100, 36))
    large = np.repeat(np.repeat(small, 5, axis=1), 5, axis=2)
    ((own, _),) = find_faces([small], networks, min_face=0.2)
    ((times_five, _),) = find_faces([large], networks, min_face=0.2)
    assert len(own) == 1
    np.testing.assert_allclose(times_five.boxes, own.boxes * 5, atol=5)
    np.testing.assert_allclose(times_five.landmarks, own.landmarks * 5, atol=5)


def test_shrinking_takes_means_of_whole_squares():
    image = np.random.default_rng(0).integers(0, 256, (3, 8, 11), dtype=np.uint8)
    found = _shrunk(image, 3)
    assert found.shape == (3, 2, 3)
    assert found[1, 1, 2] == round(image[1, 3:6, 6:9].astype(float).mean())


def test_a_share_out_of_range_is_refused(networks):
    with pytest.raises(InvalidInputError, match="from 0 to 1, got 20"):
        find_faces([squares(100, 100)], networks, min_face=20)


@pytest.fixture(scope="module")
def faces_of_orl():
    networks, root = load_mtcnn(published()), orl()
    files = sorted(root.rglob("*.pgm"))[::10]
    images = [np.asarray(Image.open(file))[None] for file in files]
    return networks, images, find_faces(images, networks)


def test_published_networks_find_the_faces_of_orl_with_landmarks_in_order(faces_of_orl):
    _, images, results = faces_of_orl
    assert len(images) == 40
    assert all(len(faces) == 1 for faces, _ in results)
    for faces, _ in results:
        left, right, nose, mouth_left, mouth_right = faces.landmarks[0]
        assert left[0] < nose[0] + 4 < right[0] + 8
        assert left[0] + 8 < right[0]
        assert mouth_left[0] + 8 < mouth_right[0]
        assert max(left[1], right[1]) < nose[1] < min(mouth_left[1], mouth_right[1])


def test_published_networks_find_the_mirrored_face_in_the_mirrored_image(faces_of_orl):
    networks, images, results = faces_of_orl
    mirrored = find_faces([np.ascontiguousarray(image[:, :, ::-1]) for image in images[:20]], networks)
    shifts, apart = [], []
    for image, (own, _), (other, _) in zip(images, results, mirrored, strict=False):
        back = other.landmarks[0][[1, 0, 2, 4, 3]] * (-1, 1) + (image.shape[2], 0)
        width = own.boxes[0, 2] - own.boxes[0, 0]
        shifts.append((own.landmarks[0] - back)[:, 0].mean() / 2 / width)
        apart.append(np.hypot(*(own.landmarks[0] - back).T).mean() / width)
    assert abs(np.mean(shifts)) < 0.01  # half a pixel of 60: the origin is where it is said to be
    assert np.median(apart) < 0.04


def test_published_networks_together_are_as_alone(faces_of_orl):
    networks, images, results = faces_of_orl
    for image, (own, _) in zip(images[:6], results, strict=False):
        ((alone, _),) = find_faces([image], networks)
        np.testing.assert_allclose(own.landmarks, alone.landmarks, atol=1e-2)
        np.testing.assert_allclose(own.boxes, alone.boxes, atol=1e-2)


@pytest.mark.parametrize(
    ("turns", "most"), mostly_slow([(2, 9), (1, 11), (3, 11)])
)  # upside down, some look like upright faces
def test_published_networks_find_faces_of_turned_photographs_upright(faces_of_orl, turns, most):
    networks, images, results = faces_of_orl
    turned = find_faces([np.ascontiguousarray(np.rot90(image, turns, axes=(1, 2))) for image in images[:12]], networks)
    upright = 0
    for image, (own, _), (faces, _) in zip(images, results, turned, strict=False):
        width, height = image.shape[2], image.shape[1]
        x, y = own.landmarks[0].T
        places = {1: (y, width - x), 2: (width - x, height - y), 3: (height - y, x)}[turns]
        if len(faces):
            size = own.boxes[0, 2] - own.boxes[0, 0]
            upright += np.hypot(*(faces.landmarks[0] - np.stack(places, axis=1)).T).mean() < 0.1 * size
    assert upright >= most


def test_published_networks_find_a_face_that_is_cut_closely(faces_of_orl):
    networks, images, results = faces_of_orl
    cut = find_faces([image[:, 10:-10, 10:-10] for image in images[:20]], networks)
    assert sum(len(faces) > 0 for faces, _ in cut) >= 19
    apart = [
        np.hypot(*(faces.landmarks[0] + 10 - own.landmarks[0]).T).mean() / (own.boxes[0, 2] - own.boxes[0, 0])
        for (faces, _), (own, _) in zip(cut, results, strict=False)
        if len(faces)
    ]
    assert np.median(apart) < 0.03


def test_published_networks_find_a_portrait_at_any_size():
    networks = load_mtcnn(published())
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        portrait = Image.open(file).convert("RGB")
    eyes = np.array([[223.0, 193.0], [311.0, 187.0]])  # in its 512 × 600 pixels
    for width, (across, down) in ((512, (0, 0)), (256, (300, 40)), (1000, (900, 1000))):
        scale = width / 512
        scene = Image.new("RGB", (int(512 * scale) + 2 * across, int(600 * scale) + 2 * down), (120, 110, 100))
        scene.paste(portrait.resize((width, int(600 * scale))), (across, down))
        ((faces, _),) = find_faces([np.asarray(scene).transpose(2, 0, 1)], networks)
        assert len(faces) == 1
        np.testing.assert_allclose(faces.landmarks[0, :2], eyes * scale + (across, down), atol=8 * scale)
