"""What held-out samples lack, against a slow search; what an angle is worth as a shift."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.training.margin_strength import WIDEST, angular_strength, balancing_weights, lacking_shift, sure_shift


def balanced_log_loss(logits, target, direction, k):
    """The written form: every class present weighs the same, one sample at a time."""
    total = 0.0
    for c in sorted(set(target.tolist())):
        rows = [i for i, label in enumerate(target.tolist()) if label == c]
        for i in rows:
            z = [float(logits[i, j]) + k * float(direction[j]) for j in range(logits.shape[1])]
            highest = max(z)
            total += (highest + math.log(sum(math.exp(v - highest) for v in z)) - z[c]) / len(rows)
    return total


@given(seed=st.integers(0, 10_000), shift=st.floats(-3, 3))
def test_the_shift_is_where_the_balanced_log_loss_is_least(seed, shift):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (30,), generator=generator)
    direction = torch.tensor([0.0, 0.5, 2.0])
    logits = torch.randn(30, 3, generator=generator) + torch.nn.functional.one_hot(target, 3) - shift * direction
    found = lacking_shift(logits, target, direction)
    best = balanced_log_loss(logits, target, direction, found)
    for step in (-0.01, 0.01):
        assert best <= balanced_log_loss(logits, target, direction, found + step) + 1e-9


def test_logits_that_were_shifted_lack_just_that_shift():
    generator = torch.Generator().manual_seed(0)
    direction = torch.tensor([0.0, 0.3, 1.0])
    target = torch.arange(3).repeat(400)
    logits = 2 * torch.nn.functional.one_hot(target, 3) + torch.randn(1200, 3, generator=generator)
    before = lacking_shift(logits, target, direction)
    assert lacking_shift(logits - 1.7 * direction, target, direction) == pytest.approx(before + 1.7, abs=1e-6)


def test_no_direction_and_no_bound_are_handled():
    assert lacking_shift(torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1]), torch.zeros(3)) == 0
    only = lacking_shift(torch.zeros(4, 2), torch.ones(4, dtype=torch.long), torch.tensor([0.0, 2.0]))
    assert only == pytest.approx(WIDEST / 2)  # every sample is of the pushed class: as far as is sought
    with pytest.raises(InvalidInputError, match="at least one validation sample"):
        lacking_shift(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long), torch.ones(2))


def test_every_class_present_weighs_the_same():
    weights = balancing_weights(torch.tensor([0, 0, 0, 2]), 3)
    torch.testing.assert_close(weights, torch.tensor([1 / 3, 1 / 3, 1 / 3, 1.0], dtype=torch.float64))
    pairs = balancing_weights(torch.tensor([[0, 1], [0, 0], [1, 0]]), 2)
    expected = torch.tensor([[0.5, 1.0], [0.5, 0.5], [1.0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(pairs, expected)


def test_several_labels_share_one_shift():
    target = torch.tensor([[0, 1], [1, 0], [0, 0], [1, 1]] * 20)
    logits = torch.randn(80, 2, 2) + torch.nn.functional.one_hot(target, 2)
    direction = torch.tensor([[0.0, 1.0], [0.5, 0.0]])
    before = lacking_shift(logits, target, direction)
    assert lacking_shift(logits - 0.8 * direction, target, direction) == pytest.approx(before + 0.8, abs=1e-6)


def test_an_angle_of_sixty_degrees_by_hand():
    # ‖f‖ = 2, α = 60°, m = 2: ψ = cos 120° = −½, so the logit falls by 2·(½ + ½) = 2 where the shift is m − 1 = 1
    features = torch.tensor([[2.0, 0.0]])
    logits = torch.tensor([[1.0, 0.0]])
    assert angular_strength(logits, features, torch.tensor([0]), torch.tensor([2.0, 1.0])) == pytest.approx(0.5)


def tempered_log_loss(logits, target, direction, k, temperature):
    """The written form of what ``sure_shift`` minimises: the balanced mean, times Kish's effective number."""
    labels = target.tolist()
    weight = [1 / labels.count(label) for label in labels]
    effective = sum(weight) ** 2 / sum(w * w for w in weight)
    scaled = (logits + k * direction) / temperature
    return effective * balanced_log_loss(scaled, target, torch.zeros_like(direction), 0.0) / len(set(labels))


def overconfident(seed, *, samples=(60, 20, 20), shift=1.0, temperature=2.0):
    """Logits of classes that overlap, too large by a factor and too low along a direction."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(3).repeat_interleave(torch.tensor(samples))
    direction = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    clean = torch.randn(len(target), 3, generator=generator).double() + 1.2 * torch.nn.functional.one_hot(target, 3)
    return temperature * clean - shift * direction, target, direction


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_the_sure_shift_is_the_slow_search_less_a_standard_error(seed):
    logits, target, direction = overconfident(seed)
    points = [(k / 20, t / 20) for k in range(0, 50, 2) for t in range(20, 64, 4)]
    k, temperature = min(points, key=lambda point: tempered_log_loss(logits, target, direction, *point))
    step = 1e-3
    middle, low, high = (
        tempered_log_loss(logits, target, direction, k + move, temperature) for move in (0.0, -step, step)
    )
    error = (step**2 / (low + high - 2 * middle)) ** 0.5
    assert k - error > 0.1, "the case must have something to find"
    assert sure_shift(logits, target, direction) == pytest.approx(k - error, abs=0.12)


def test_a_shift_is_told_from_mere_overconfidence():
    logits, target, direction = overconfident(0, samples=(400, 400, 400), shift=0.0, temperature=4.0)
    assert sure_shift(logits, target, direction) < 0.1
    assert sure_shift(logits - 2 * direction, target, direction) == pytest.approx(2, abs=0.2)


def test_margins_are_never_taken_back_and_few_samples_move_nothing():
    logits, target, direction = overconfident(0, shift=-2.0)
    assert sure_shift(logits, target, direction) == 0
    logits, target, direction = overconfident(1, samples=(3, 1, 1), shift=0.5)
    assert sure_shift(logits, target, direction) == 0
    told_apart = 20.0 * torch.nn.functional.one_hot(target, 3)
    assert sure_shift(told_apart, target, direction) == 0
    assert sure_shift(logits[:0], target[:0], direction) == 0
    assert sure_shift(logits, target, torch.zeros(3)) == 0


def test_the_sure_shift_of_several_labels_counts_each_label():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(300, 4, generator=generator) < 0.5).long()
    clean = torch.randn(300, 4, 2, generator=generator) + torch.nn.functional.one_hot(target, 2)
    direction = torch.tensor([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.5]])
    before = sure_shift(clean, target, direction)
    assert sure_shift(clean - 1.5 * direction, target, direction) == pytest.approx(before + 1.5, abs=0.15)


def test_a_shift_is_found_where_gradients_are_switched_off():
    logits, target, direction = overconfident(0)
    expected = sure_shift(logits, target, direction)
    assert expected > 0
    with torch.no_grad():
        assert sure_shift(logits, target, direction) == pytest.approx(expected)
