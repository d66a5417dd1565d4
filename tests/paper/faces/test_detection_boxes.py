"""Boxes against slow loops over single ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.paper.faces.detection import corrected, overlaps_removed, squared


def slow_suppression(boxes, scores, most, against):
    """One pair at a time, by the definition: a box stays unless a better one that stays covers too much of it."""

    def area(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    kept = []
    for place in sorted(range(len(boxes)), key=lambda place: (-scores[place], place)):
        covered = False
        for better in kept:
            one, other = boxes[place], boxes[better]
            width = min(one[2], other[2]) - max(one[0], other[0])
            height = min(one[3], other[3]) - max(one[1], other[1])
            common = max(0.0, width) * max(0.0, height)
            whole = area(one) + area(other) - common if against == "union" else min(area(one), area(other))
            covered = covered or common > most * whole
        if not covered:
            kept.append(place)
    return kept


@given(
    st.lists(
        st.tuples(*[st.integers(0, 12)] * 2, *[st.integers(1, 8)] * 2, st.integers(0, 5)), min_size=0, max_size=25
    ),
    st.sampled_from([0.3, 0.5, 0.7]),
    st.sampled_from(["union", "smaller"]),
)
def test_suppression_is_that_of_a_slow_loop(drawn, most, against):
    boxes = np.array([[x, y, x + width, y + height] for x, y, width, height, _ in drawn], dtype=float).reshape(-1, 4)
    scores = np.array([score for *_, score in drawn], dtype=float)
    kept = overlaps_removed(boxes, scores, most=most, against=against)
    assert kept.tolist() == slow_suppression(boxes.tolist(), scores.tolist(), most, against)


def test_a_box_inside_another_is_told_by_the_smaller_area_alone():
    boxes = np.array([[0.0, 0.0, 10.0, 10.0], [2.0, 2.0, 5.0, 5.0], [20.0, 0.0, 24.0, 4.0]])
    scores = np.array([0.8, 0.9, 0.7])
    assert overlaps_removed(boxes, scores, most=0.7).tolist() == [1, 0, 2]
    assert overlaps_removed(boxes, scores, most=0.7, against="smaller").tolist() == [1, 2]


def test_corrections_are_shares_of_width_and_height():
    found = corrected(np.array([[10.0, 20.0, 30.0, 60.0]]), np.array([[0.1, -0.1, 0.5, 0.25]]))
    np.testing.assert_allclose(found, [[12.0, 16.0, 40.0, 70.0]])


@pytest.mark.parametrize("box", [[10.0, 20.0, 30.0, 60.0], [20.0, 10.0, 60.0, 30.0]])
def test_squares_keep_the_centre_and_the_longer_side(box):
    found = squared(np.array([box]))[0]
    assert found[2] - found[0] == found[3] - found[1] == 40.0
    np.testing.assert_allclose((found[:2] + found[2:]) / 2, (np.array(box[:2]) + box[2:]) / 2)
