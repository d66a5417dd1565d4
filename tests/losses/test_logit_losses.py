"""The rivals on plain logits against loops of their own papers."""

import inspect
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, LogitLoss, adjust_logits
from equipoise.losses.logit_losses import (
    balanced_softmax,
    cross_entropy,
    focal,
    log_prior,
    logit_adjustment,
    vector_scaling,
)
from tests.losses.cases import ATTRIBUTES, CLASSES, COUNTS, FEATURES, PAIR_COUNTS, batch, build, f64, seeded
from tests.reference import losses as reference

UNSEEN = torch.tensor([500.0, 0.0, 20.0, 3.0, 0.0])
ON_LOGITS = {name: loss for name in LOSSES if isinstance(loss := build(name, reduction="none"), LogitLoss)}
CRITERIA = {loss.criterion.__name__: loss.criterion for loss in ON_LOGITS.values()} | {
    "focal, gamma 0.5": partial(focal, gamma=0.5),
    "logit_adjustment, tau 1.3": partial(logit_adjustment, tau=1.3),
    "vector_scaling, gamma 0.4": partial(vector_scaling, gamma=0.4, tau=0.5),
}
"""Those of ``LOSSES``, and some of them with other constants."""


def loop(criterion):
    """The loop of the same name, with the criterion's constants."""
    name = getattr(criterion, "func", criterion).__name__
    assert hasattr(reference, name), f"write a loop called {name} in tests/reference/losses.py"
    given = inspect.signature(criterion).parameters.values()
    constants = {each.name: each.default for each in given if isinstance(each.default, float)}
    return partial(getattr(reference, name), **constants)


def logits_and_target(rows=11, classes=CLASSES):
    logits = 3 * torch.randn(rows, classes, generator=seeded(5), dtype=torch.float64)
    return logits, torch.arange(rows) % classes


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("counts", [COUNTS, UNSEEN], ids=["seen", "two unseen"])
def test_a_criterion_equals_its_loop(name, counts):
    criterion, formula = CRITERIA[name], loop(CRITERIA[name])
    logits, target = logits_and_target()
    rows = zip(logits.tolist(), target.tolist(), strict=True)
    expected = f64([formula(z, y, counts.tolist()) for z, y in rows])
    torch.testing.assert_close(criterion(logits, target, counts.double()), expected)


@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_takes_several_labels_at_once(name):
    criterion, formula = CRITERIA[name], loop(CRITERIA[name])
    logits = torch.randn(4, ATTRIBUTES, 2, generator=seeded(), dtype=torch.float64)
    target = torch.randint(0, 2, (4, ATTRIBUTES), generator=seeded(1))
    expected = f64(
        [
            [formula(logits[i, a].tolist(), int(target[i, a]), PAIR_COUNTS[a].tolist()) for a in range(ATTRIBUTES)]
            for i in range(4)
        ]
    )
    torch.testing.assert_close(criterion(logits, target, PAIR_COUNTS.double()), expected)


WEIGHTS = {
    "weighted": reference.inverse_frequency_weights(COUNTS.tolist()),
    "class_balanced": reference.effective_number_weights(COUNTS.tolist(), 0.9999),
}


@pytest.mark.parametrize("name", ON_LOGITS)
def test_a_named_loss_is_its_formula_on_a_linear_head(name):
    features, target = batch(rows=11)
    loss, weights = ON_LOGITS[name], WEIGHTS.get(name, [1.0] * CLASSES)
    bias, formula = loss.bias.tolist(), loop(loss.criterion)
    expected = []
    for f, y in zip(features.tolist(), target.tolist(), strict=True):
        logits = [reference.dot(f, w) + b for w, b in zip(loss.weight.tolist(), bias, strict=True)]
        expected.append(formula(logits, y, COUNTS.tolist()) * weights[y])
    torch.testing.assert_close(loss(features, target), f64(expected), rtol=1e-6, atol=1e-9)


def test_cross_entropy_is_torchs_own_bit_for_bit():
    features, target = batch()
    for reduction in ("none", "mean", "sum"):
        loss = build("cross_entropy", reduction=reduction)
        linear = F.linear(features, loss.weight, loss.bias)
        assert torch.equal(loss(features, target), F.cross_entropy(linear, target, reduction=reduction))


def test_the_weighted_mean_is_torchs_own():
    features, target = batch()
    loss = build("weighted")
    expected = F.cross_entropy(loss.logits(features), target, weight=loss.class_weight)
    torch.testing.assert_close(loss(features, target), expected)


@pytest.mark.parametrize("tau", [1.0, 1.3, 0.0])
def test_post_hoc_adjustment_takes_the_prior_away(tau):
    logits, _ = logits_and_target()
    for counts in (COUNTS, UNSEEN):
        expected = f64([reference.post_hoc_logits(z, counts.tolist(), tau) for z in logits.tolist()])
        torch.testing.assert_close(adjust_logits(logits, counts, tau=tau), expected)


def test_post_hoc_adjustment_undoes_the_adjustment_in_the_loss():
    logits, target = logits_and_target()
    moved = adjust_logits(logits, COUNTS)
    torch.testing.assert_close(logit_adjustment(moved, target, COUNTS.double()), cross_entropy(logits, target))
    assert int(adjust_logits(torch.zeros(1, CLASSES), COUNTS).argmax()) == int(COUNTS.argmin())


def test_balanced_softmax_is_logit_adjustment_at_tau_one_and_vs_without_scaling():
    logits, target = logits_and_target()
    expected = logit_adjustment(logits, target, COUNTS.double())
    torch.testing.assert_close(balanced_softmax(logits, target, COUNTS.double()), expected)
    torch.testing.assert_close(vector_scaling(logits, target, COUNTS.double(), gamma=0.0, tau=1.0), expected)


def test_focal_at_gamma_zero_is_cross_entropy_and_otherwise_lower():
    logits, target = logits_and_target()
    torch.testing.assert_close(focal(logits, target, gamma=0.0), cross_entropy(logits, target))
    assert bool((focal(logits, target) < cross_entropy(logits, target)).all())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_focal_is_finite_where_the_sample_is_certain_or_hopeless(gamma, dtype):
    logits = torch.tensor([[0.0, 0.0], [40.0, 0.0], [1e30, -1e30], [-1e30, 1e30], [1e-30, 0.0]], dtype=dtype)
    logits.requires_grad_()
    loss = focal(logits, torch.zeros(5, dtype=torch.int64), gamma=gamma)
    (slope,) = torch.autograd.grad(loss.sum(), logits)
    assert bool(loss.isfinite().all())
    assert bool(slope.isfinite().all())
    assert float(loss.detach()[2]) == 0


def test_the_log_prior_is_that_of_the_training_samples():
    torch.testing.assert_close(log_prior(COUNTS).exp().sum(), torch.tensor(1.0))
    torch.testing.assert_close(log_prior(PAIR_COUNTS).exp().sum(-1), torch.ones(ATTRIBUTES))


def test_a_criterion_of_ones_own_is_taken_if_it_returns_a_loss_a_sample():
    def brier(logits, target, class_counts):  # noqa: ARG001
        return (logits.softmax(-1) - F.one_hot(target, CLASSES)).square().sum(-1)

    features, target = batch(dtype=torch.float32)
    loss = LogitLoss(FEATURES, CLASSES, criterion=brier, reduction="none")
    torch.testing.assert_close(loss(features, target), brier(loss.logits(features), target, None))
    with pytest.raises(InvalidInputError, match="one loss per sample"):
        LogitLoss(FEATURES, CLASSES, criterion=lambda z, y, n: F.cross_entropy(z, y))  # noqa: ARG005


@pytest.mark.parametrize("criterion", [balanced_softmax, logit_adjustment, vector_scaling])
def test_a_criterion_that_needs_counts_says_so(criterion):
    with pytest.raises(InvalidInputError, match=f"{criterion.__name__} needs .* pass class_counts"):
        LogitLoss(FEATURES, CLASSES, criterion=criterion)


def test_unit_class_vectors_have_no_bias_and_change_only_the_logits():
    features, target = batch(dtype=torch.float32)
    loss = LogitLoss(
        FEATURES, CLASSES, criterion=logit_adjustment, normalize=True, class_counts=COUNTS, reduction="none"
    )
    logits = features @ F.normalize(loss.weight, dim=-1).T
    assert loss.bias is None
    torch.testing.assert_close(loss(features, target), logit_adjustment(logits, target, COUNTS))
