"""The blend of several models: each formula against a slow reference of its own."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.estimators.blending import FLOOR, Blend, blend_weights, count_margins


def drawn(rows=400, classes=3, models=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = (
        torch.randn(rows, classes, generator=generator, dtype=torch.float64) * 2
        + torch.tensor([2.0, 0.0, -1.0])[:classes]
    )
    target = torch.multinomial(z.softmax(-1), 1, generator=generator).squeeze(-1)
    noise = torch.randn(models, rows, classes, generator=generator, dtype=torch.float64)
    size = torch.linspace(0.1, 2.0, models, dtype=torch.float64).view(-1, 1, 1)
    return (z + size * noise).softmax(-1), target


def slow_logits(blend, outputs):
    """Loops over models, rows and classes."""
    models, rows, classes = outputs.shape
    found = torch.zeros(rows, classes, dtype=torch.float64)
    for row in range(rows):
        mixed = [0.0] * classes
        for model in range(models):
            p = [(1 - FLOOR) * float(outputs[model, row, c]) + FLOOR / classes for c in range(classes)]
            scaling = blend.scalings[model]
            e = [np.exp(float(scaling.scale[c]) * np.log(p[c]) + float(scaling.bias[c])) for c in range(classes)]
            for c in range(classes):
                mixed[c] += float(blend.weights[model]) * e[c] / sum(e)
        for c in range(classes):
            found[row, c] = np.log(mixed[c]) + float(blend.margins[c])
    return found


def slow_margins(uncertainty, counts):
    """Loops over classes."""
    most, rows = max(counts), sum(counts)
    by_count = [np.log(most / n) for n in counts]
    further = [np.log(u / min(uncertainty)) - own for u, own in zip(uncertainty, by_count, strict=True)]
    middle = sum(n / rows * each for n, each in zip(counts, further, strict=True))
    margins = []
    for n, own, each in zip(counts, by_count, further, strict=True):
        beyond = max(0.0, abs(each - middle) - (1 / (2 * n)) ** 0.5)
        margins.append(own + (beyond if each > middle else -beyond))
    return [each - min(margins) for each in margins]


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 10_000)), min_size=2, max_size=6),
)
def test_margins_are_those_of_slow_loops(classes):
    uncertainty, counts = zip(*classes, strict=True)
    found = count_margins(torch.tensor(uncertainty, dtype=torch.float64), torch.tensor(counts))
    torch.testing.assert_close(found, torch.tensor(slow_margins(uncertainty, counts), dtype=torch.float64))


def test_a_hard_class_gets_more_than_its_count_and_an_easy_one_less():
    counts = torch.tensor([5000, 1000, 1000, 1000])
    hard = count_margins(torch.tensor([1.0, 5.0, 10.0, 2.5]), counts)
    assert hard[2] > hard[1] > hard[3] > hard[0]
    alike = count_margins(torch.tensor([1.0, 5.01, 5.0, 4.99]), counts)
    torch.testing.assert_close(alike, torch.tensor([0.0, 5.0, 5.0, 5.0]).clamp_min(1).log().double())


def test_probabilities_that_are_calibrated_are_left_alone():
    outputs, _ = drawn(rows=4000, models=1)
    target = torch.multinomial(outputs[0], 1, generator=torch.Generator().manual_seed(7)).squeeze(-1)
    (scaling,) = Blend.fit(outputs, target).scalings
    assert scaling.scale.tolist() == pytest.approx([1.0] * 3, abs=0.2)
    assert scaling.bias.tolist() == pytest.approx([0.0] * 3, abs=0.2)


def test_a_model_that_is_too_sure_gets_its_whole_margin():
    """The margin is added to calibrated logits: with half of it a rare class would be missed."""
    outputs, target = drawn(rows=8000, classes=2, models=1)
    prior = torch.bincount(target).double() / len(target)
    fine = Blend.fit(outputs, target).logits(outputs).argmax(-1)
    sure = (outputs.log() * 3).softmax(-1)
    same = Blend.fit(sure, target).logits(sure).argmax(-1)
    assert (fine == same).double().mean() > 0.98
    naive = (sure.clamp_min(1e-12).log()[0] - prior.log()).argmax(-1)
    assert (fine == naive).double().mean() < 0.95


def test_a_class_without_rows_teaches_nothing():
    outputs, target = drawn(rows=1000)
    some = target != 2
    blend = Blend.fit(outputs[:, some], target[some], counts=torch.bincount(target))
    assert all(float(scaling.bias[2]) == pytest.approx(0, abs=1e-3) for scaling in blend.scalings)
    counts = torch.bincount(target).double()
    wanted = (counts.max() / counts).log()
    assert float(blend.margins[2] - blend.margins[1]) == pytest.approx(float(wanted[2] - wanted[1]), abs=0.5)


def test_logits_are_those_of_slow_loops():
    outputs, target = drawn()
    distorted = outputs * torch.tensor([1.0, 2.0, 9.0])
    outputs = distorted / distorted.sum(-1, keepdim=True)
    blend = Blend.fit(outputs, target)
    assert all(bool((scaling.bias != 0).any()) for scaling in blend.scalings)
    torch.testing.assert_close(blend.logits(outputs[:, :20]), slow_logits(blend, outputs[:, :20]))


def test_weights_have_the_least_held_log_loss_of_a_fine_grid():
    outputs, target = drawn(models=2)
    own = outputs.gather(-1, target.expand(2, -1).unsqueeze(-1)).squeeze(-1)

    def held(share):
        values = np.log([share, 1 - share])
        values = values - values.mean()  # softmax knows no common shift; the optimum has none
        return float(-(share * own[0] + (1 - share) * own[1]).log().mean()) + values @ values / len(target)

    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmin([held(share) for share in grid])]
    assert abs(float(blend_weights(outputs, target)[0]) - best) < 0.002


def test_the_better_model_weighs_more_and_few_rows_weigh_alike():
    outputs, target = drawn()
    weights = blend_weights(outputs, target)
    assert weights[0] > weights[2]
    few = blend_weights(outputs[:, :3], target[:3])
    assert (few - 1 / 3).abs().max() < (weights - 1 / 3).abs().max()


def test_row_weights_are_copies():
    outputs, target = drawn(rows=120)
    each = torch.randint(1, 4, (120,), generator=torch.Generator().manual_seed(1))
    heavy = Blend.fit(outputs, target, each.double())
    copies = Blend.fit(outputs.repeat_interleave(each, 1), target.repeat_interleave(each))
    torch.testing.assert_close(heavy.weights, copies.weights, atol=0.06, rtol=0)
    torch.testing.assert_close(heavy.uncertainty, copies.uncertainty, atol=0.05, rtol=0.1)


def test_a_known_distortion_is_taken_back():
    """Probabilities of balanced class weights: every class's odds are divided by its prior."""
    outputs, target = drawn(rows=4000, models=1)
    prior = torch.bincount(target) / len(target)
    distorted = outputs / prior
    distorted = distorted / distorted.sum(-1, keepdim=True)
    blend = Blend.fit(distorted, target)
    mean = blend.comparable(distorted)[0].mean(0)
    error = (prior * (1 - prior) / len(target)).sqrt()
    assert bool(((mean - prior).abs() < 3 * error).all()), (mean, prior)
    assert bool(((distorted[0].mean(0) - prior).abs() > 10 * error).any())


def test_the_aimed_prior_takes_logits_back_to_probabilities():
    outputs, target = drawn()
    blend = Blend.fit(outputs, target)
    natural = blend.calibrated(target).probabilities(blend.logits(outputs))
    torch.testing.assert_close(natural, torch.einsum("f,f...->...", blend.weights, blend.comparable(outputs)))


def test_margins_of_two_classes_are_nearly_those_of_the_counts():
    outputs, target = drawn(rows=4000, classes=2)
    blend = Blend.fit(outputs, target)
    counts = torch.bincount(target).double()
    wanted = (counts.max() / counts).log()
    torch.testing.assert_close(blend.margins / blend.margins.max() * wanted.max(), wanted, atol=0.05, rtol=0)
    assert wanted.max() <= blend.margins.max() + 0.05


def test_several_labels_are_blended_one_by_one():
    outputs, target = drawn(classes=2, models=2)
    other, second = drawn(classes=2, models=2, seed=5)
    both = Blend.fit(torch.stack((outputs, other), 2), torch.stack((target, second), 1))
    for place, (own, labels) in enumerate(((outputs, target), (other, second))):
        alone = Blend.fit(own, labels)
        torch.testing.assert_close(both.uncertainty[place], alone.uncertainty, atol=0.02, rtol=0.02)
    assert both.logits(torch.stack((outputs, other), 2)).shape == (400, 2, 2)
