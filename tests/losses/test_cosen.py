"""CoSen against a loop, with the separability of the features it has seen."""

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES
from equipoise.losses.cosen import MEMORY, class_separability, log_costs
from equipoise.losses.logit_losses import cross_entropy, logit_adjustment
from tests.losses.cases import ATTRIBUTES, CLASSES, COUNTS, FEATURES, PAIR_COUNTS, batch, build, f64, seeded
from tests.reference import losses as reference


def trained(loss, *batches):
    """Let the loss see some training batches."""
    loss.train()
    for features, target in batches:
        loss(features, target)
    return loss.eval()


def grouped(features, labels, classes):
    return [features[labels == c].tolist() for c in range(classes)]


@pytest.mark.parametrize("constants", [{}, {"mu": 0.4, "sigma": 0.3}])
def test_the_loss_equals_its_loop(constants):
    features, target = batch(rows=13)
    loss = trained(build("cosen", reduction="none", **constants), (features, target))
    separable = reference.separability(grouped(features, target, CLASSES))
    torch.testing.assert_close(loss.separability(), f64(separable))
    constants = {"mu": 1.0, "sigma": 1.0} | constants
    rows = zip(loss.logits(features).tolist(), target.tolist(), strict=True)
    expected = [reference.cosen(z, y, COUNTS.tolist(), separable[y], **constants) for z, y in rows]
    torch.testing.assert_close(loss(features, target), f64(expected))


def test_every_attribute_has_costs_of_its_own():
    features, target = batch(rows=13, multilabel=True)
    loss = trained(build("cosen", multilabel=True, reduction="none"), (features, target))
    expected = torch.zeros(13, dtype=torch.float64)
    for a in range(ATTRIBUTES):
        separable = reference.separability(grouped(features, target[:, a], 2))
        for i, (z, y) in enumerate(zip(loss.logits(features)[:, a].tolist(), target[:, a].tolist(), strict=True)):
            expected[i] += reference.cosen(z, y, PAIR_COUNTS[a].tolist(), separable[y], 1.0, 1.0)
    torch.testing.assert_close(loss(features, target), expected)


def test_the_rarest_class_is_adjusted_as_by_its_share_and_the_most_common_not_at_all():
    features, _ = batch()
    loss = build("cosen", reduction="none")
    logits = loss.logits(features)
    for label, criterion in ((CLASSES - 1, logit_adjustment), (0, cross_entropy)):
        target = torch.full((len(features),), label)
        torch.testing.assert_close(loss(features, target), criterion(logits, target, COUNTS.double()))


def test_equal_counts_and_no_separability_are_cross_entropy():
    features, target = batch()
    loss = build("cosen", class_counts=torch.full((CLASSES,), 7.0), reduction="none")
    torch.testing.assert_close(loss(features, target), cross_entropy(loss.logits(features), target))
    wide = build("cosen", class_counts=torch.full((CLASSES,), 7.0), sigma=1e6, reduction="none")
    trained(wide, (features, target))
    torch.testing.assert_close(wide(features, target), cross_entropy(wide.logits(features), target))


def test_classes_that_overlap_cost_more_than_classes_apart():
    apart = class_separability(f64([[0.0], [1.0], [9.0]]), f64([1.0, 1.0, 1.0]))
    assert bool(apart[0, 0] == 1)
    assert bool(1 > apart[0, 1] > apart[0, 2] > 0)
    costs = log_costs(torch.ones(3, dtype=torch.float64), apart)
    assert bool(costs[0, 0] > costs[0, 1] > costs[0, 2])
    assert torch.equal(class_separability(torch.zeros(2, 3), torch.zeros(2)), torch.ones(2, 2))


def test_the_first_batches_count_alike_and_later_ones_fade():
    loss = build("cosen")
    target = torch.zeros(3, dtype=torch.int64)
    each = [torch.randn(3, FEATURES, generator=seeded(i), dtype=torch.float64) for i in range(MEMORY + 1)]
    trained(loss, *((features, target) for features in each[:-1]))
    expected = torch.stack(each[:-1]).mean((0, 1))
    torch.testing.assert_close(loss.moments[0, :-1], expected)
    trained(loss, (each[-1], target))
    torch.testing.assert_close(loss.moments[0, :-1], 0.9 * expected + 0.1 * each[-1].mean(0))
    assert loss.batches.tolist() == [MEMORY + 1, 0, 0, 0, 0]
    assert torch.equal(loss.separability()[1:], torch.ones(4, 5, dtype=torch.float64))  # nothing known of them


def test_only_training_changes_what_is_known_and_checkpoints_keep_it():
    features, target = batch()
    loss = trained(build("cosen"), (features, target))
    known = loss.moments.clone()
    loss(2 * features, target)
    assert torch.equal(loss.moments, known)
    fresh = build("cosen")
    assert not torch.equal(fresh(features, target), loss(features, target))
    fresh.load_state_dict(loss.state_dict())
    assert torch.equal(fresh(features, target), loss(features, target))


def test_training_with_members_and_dropout_sees_the_features_before_both():
    features, target = batch(dtype=torch.float32)
    loss = LOSSES["cosen"](FEATURES, CLASSES, members=2, dropout=0.5, class_counts=COUNTS).train()
    loss(features, target).backward()
    torch.testing.assert_close(loss.moments[1, :-1], features[target == 1].mean(0))
    assert not loss.moments.requires_grad
    loss(features[:0], target[:0])
    assert bool(loss.moments.isfinite().all())


def test_bad_settings_are_refused():
    with pytest.raises(InvalidInputError, match="sigma must be above 0, got 0"):
        build("cosen", sigma=0.0)
    with pytest.raises(InvalidInputError, match=r"cosen needs .* pass class_counts"):
        LOSSES["cosen"](4, 3)


def test_the_aim_lies_between_the_training_prior_and_a_balanced_one():
    prior = torch.tensor([0.9, 0.1], dtype=torch.float64)
    aim = LOSSES["cosen"](4, 2, class_counts=torch.tensor([90.0, 10.0])).aimed_prior(prior)
    torch.testing.assert_close(aim, f64([5 / 6, 1 / 6]))  # odds of 9 become 5: at most a factor of 2
