"""Weights: a row of weight k is k rows, to the loss and to all that is measured while training."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.calibration.scaling import SCALINGS, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.training import Network
from equipoise.training.batches import ArrayData, capped_sample, relative_weights
from equipoise.training.curriculum import Curriculum
from equipoise.training.margin_strength import angular_strength, lacking_shift, sure_shift
from equipoise.training.measurements import class_recall
from equipoise.uncertainty import ClassMoments

ROWS = 60
GENERATOR = torch.Generator().manual_seed(0)
WEIGHT = torch.randint(0, 5, (ROWS,), generator=GENERATOR)
COPIES = torch.arange(ROWS).repeat_interleave(WEIGHT)
SHAPES = pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=["labels", "attributes"])


def samples(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(ROWS, *shape, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(-1).flatten(0, -2), 1, generator=generator).view(logits.shape[:-1])


@SHAPES
def test_counts_moments_and_recalls_are_those_of_the_copies(shape):
    logits, target = samples(shape)
    again = class_counts(target[COPIES], shape[-1])
    assert torch.equal(class_counts(target, shape[-1], WEIGHT), again.double())
    passes = torch.stack([logits, 0.3 * logits, -logits]).softmax(-1)
    weighed, copied = ClassMoments.of(passes, target, WEIGHT), ClassMoments.of(passes[:, COPIES], target[COPIES])
    for one, other in zip(weighed.tensors(), copied.tensors(), strict=True):
        torch.testing.assert_close(one, other)
    recall, present = class_recall(logits.flip(-1), target, WEIGHT)
    torch.testing.assert_close((recall, present), class_recall(logits.flip(-1)[COPIES], target[COPIES]))


@SHAPES
def test_corrections_are_those_of_the_copies(shape):
    logits, target = samples(shape)
    biased = logits.clone()
    biased[..., -1] -= 3  # so that something is lacking
    direction = torch.arange(shape[-1]).double().expand(shape)
    for measured in (lacking_shift, sure_shift):
        copied = measured(biased[COPIES], target[COPIES], direction)
        assert copied > 0.2
        assert measured(biased, target, direction, sample_weight=WEIGHT) == pytest.approx(copied, rel=1e-6)
        assert measured(biased, target, direction) != pytest.approx(copied, rel=1e-3)


def test_the_strength_of_an_angle_is_that_of_the_copies():
    features = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(2))
    logits, target, margins = features, torch.arange(ROWS) % 3, torch.tensor([1.0, 2.0, 3.0])
    weighed = angular_strength(logits, features, target, margins, sample_weight=WEIGHT)
    copied = angular_strength(logits[COPIES], features[COPIES], target[COPIES], margins)
    assert weighed == pytest.approx(copied, rel=1e-5)
    assert weighed != pytest.approx(angular_strength(logits, features, target, margins), rel=1e-3)


@SHAPES
@pytest.mark.parametrize("method", SCALINGS)
def test_a_scaling_is_that_of_the_copies(shape, method):
    """Each method gives the same; which one is chosen may differ, because copies of a row fall into several folds."""
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(1000, *shape, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(-1).flatten(0, -2), 1, generator=generator).view(logits.shape[:-1])
    right = (logits.argmax(-1) == target).view(1000, -1).all(-1)
    weight = 4 - 3 * right.long()  # mistakes count for more
    logits[..., 0] -= 2
    logits *= 3
    copies, odds = torch.arange(1000).repeat_interleave(weight), torch.ones(shape, dtype=torch.float64)
    weighed = fit_scaling(logits, target, odds, sample_weight=weight, method=method)
    copied = fit_scaling(logits[copies], target[copies], odds, method=method)
    torch.testing.assert_close(weighed.scale, copied.scale, rtol=1e-4, atol=0)
    torch.testing.assert_close(weighed.bias, copied.bias, rtol=0, atol=1e-3)
    unweighed = fit_scaling(logits, target, odds, method=method)
    apart = (weighed.scale - unweighed.scale).abs().max() + (weighed.bias - unweighed.bias).abs().max()
    assert (float(apart) > 1e-3) == (method != "none")


def test_a_correction_takes_the_weights_of_what_was_held_back():
    features = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(4))
    target = (features[:, 0] + torch.arange(ROWS) % 3 > 1).long()
    found = []
    for rows, weight in ((torch.arange(ROWS), WEIGHT), (COPIES, None)):
        loss, curriculum = UncertaintyMarginLoss(4, 2), Curriculum(9)
        with torch.no_grad():
            loss.weight.copy_(torch.tensor([[-1.0, 0, 0, 0], [1, 0, 0, 0]]))
        curriculum.set_uncertainty(torch.tensor([1.0, 2.0]), loss)
        curriculum.correct(loss, features[rows], target[rows], weight)
        found.append(torch.cat([loss.shift.double(), curriculum.scaling.scale]))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 10), st.integers(0, 9))
def test_the_rows_of_a_capped_sample_weigh_what_their_class_does(labels, cap, seed):
    y = torch.tensor(labels)
    weight = torch.linspace(0.1, 7, len(y), dtype=torch.float64)
    rows, each = capped_sample(y, cap, seed=seed, weight=weight)
    assert torch.equal(rows, capped_sample(y, cap, seed=seed)[0])
    torch.testing.assert_close(class_counts(y[rows], 5, each), class_counts(y, 5, weight))
    ratio = each / weight[rows]
    for label in set(labels):
        assert float(ratio[y[rows] == label].std(correction=0)) == pytest.approx(0, abs=1e-9)


def test_only_the_ratios_of_weights_matter():
    weight = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    for factor in (1e-300, 1.0, 1e307):
        torch.testing.assert_close(relative_weights(weight * factor), torch.tensor([0, 0.5, 1.5], dtype=torch.float64))
    for wrong in ([0.0, 0.0], [1.0, -1.0], [1.0, float("nan")]):
        with pytest.raises(InvalidInputError, match="must be finite, not negative and above 0 for at least one sample"):
            relative_weights(torch.tensor(wrong))


def test_an_order_that_balances_classes_is_not_unbalanced_by_weights():
    y, weight = torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 40.0])
    data = ArrayData(torch.zeros(3, 1), y, weight)
    assert data.evenly_weighed().weight.tolist() == [0.5, 1.5, 1.0]
    assert torch.equal(data.weight, weight)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("multilabel", [False, True])
def test_over_all_batches_each_row_counts_by_its_weight(name, multilabel):
    """The mean over batches of two is that of one batch of all; dividing by what a batch weighs would not be."""
    y = torch.arange(8).view(-1, 2) % 2 if multilabel else torch.arange(4) % 2
    head = LOSSES[name](3, 2, multilabel=multilabel, class_counts=torch.ones(2, 2) if multilabel else torch.ones(2))
    network = Network(torch.nn.Identity(), head).double().eval()  # CoSen learns from every training batch
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    weight = relative_weights(torch.tensor([1.0, 20.0, 1.0, 3.0]))
    parts = torch.stack([network(x[rows], y[rows], weight[rows]) for rows in ([0, 1], [2, 3])])
    torch.testing.assert_close(parts.mean(), network(x, y, weight))
    if not multilabel:
        each = LOSSES[name](3, 2, class_counts=torch.ones(2), reduction="none").double().eval()
        each.load_state_dict(head.state_dict())
        torch.testing.assert_close(parts.mean(), (weight * each(x, y)).mean())
