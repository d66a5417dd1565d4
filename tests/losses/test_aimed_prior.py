"""The class prior that each loss aims its logits at, found by minimising the loss itself."""

from functools import partial

import pytest
import torch
from torch import Tensor

from equipoise.losses import LOSSES, ClassVectorLoss, LogitLoss, UncertaintyMarginLoss, effective_number_weights
from equipoise.losses.logit_losses import (
    balanced_softmax,
    cross_entropy,
    focal,
    logit_adjustment,
    neutral_prior,
    vector_scaling,
)
from equipoise.losses.softmax_loss import softmax_loss

COUNTS = torch.tensor([900.0, 90.0, 10.0])
PRIOR = COUNTS.double() / COUNTS.sum()
PAIRS = torch.tensor([[90.0, 10.0], [30.0, 70.0]])


def shares(values: Tensor) -> Tensor:
    return values / values.sum(-1, keepdim=True)


def best_logits(loss: ClassVectorLoss, prior: Tensor) -> Tensor:
    """What the loss drives the logits to where features say nothing: one row of each class, weighed by its share."""
    head = loss.double()
    torch.nn.init.zeros_(head.weight)
    target = torch.arange(len(prior))
    features = torch.zeros(len(prior), head.in_features, dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        [head.bias], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = (prior * head(features, target)).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return head.bias.detach()


def alpha_weighted(logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:  # noqa: ARG001
    return torch.tensor([1.0, 2.0, 5.0], dtype=logits.dtype)[target] * softmax_loss(logits, target)


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": cross_entropy},
        {"criterion": cross_entropy, "class_weight": "balanced"},
        {"criterion": cross_entropy, "class_weight": "effective"},
        {"criterion": cross_entropy, "class_weight": torch.tensor([1.0, 3.0, 0.5])},
        {"criterion": balanced_softmax},
        {"criterion": balanced_softmax, "class_weight": torch.tensor([1.0, 3.0, 0.5])},
        {"criterion": logit_adjustment},
        {"criterion": partial(logit_adjustment, tau=0.5)},
        {"criterion": partial(logit_adjustment, tau=1.6)},
        {"criterion": partial(vector_scaling, gamma=0.0)},
        {"criterion": alpha_weighted},
    ],
)
def test_the_aim_is_what_uninformative_features_are_driven_to(options):
    loss = LogitLoss(2, 3, class_counts=COUNTS, reduction="none", **options)
    found = best_logits(loss, PRIOR).softmax(-1)
    torch.testing.assert_close(loss.aimed_prior(PRIOR), found, atol=1e-5, rtol=1e-4)


def test_a_criterion_that_treats_all_classes_alike_keeps_the_training_prior():
    def squared(logits, target, class_counts):  # noqa: ARG001
        return softmax_loss(logits, target) ** 2

    for criterion in (cross_entropy, focal, squared):
        torch.testing.assert_close(LogitLoss(2, 3, criterion=criterion).aimed_prior(PRIOR), PRIOR)


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name](2, 3, class_counts=COUNTS).bias is not None])
def test_logits_of_zero_are_best_at_the_prior_whose_aim_is_balanced(name):
    loss = LOSSES[name](2, 3, class_counts=COUNTS, reduction="none").double()
    torch.nn.init.zeros_(loss.weight)
    even = torch.full((3,), 1 / 3, dtype=torch.float64)
    neutral = shares(1 / loss.aimed_prior(even))
    torch.testing.assert_close(loss.aimed_prior(neutral), even, rtol=1e-5, atol=1e-7)

    def cost(logits: Tensor) -> Tensor:
        loss.bias.data = logits
        return (neutral * loss(torch.zeros(3, 2, dtype=torch.float64), torch.arange(3))).sum().detach()

    slopes = torch.stack([(cost(step) - cost(-step)) / 2e-6 for step in 1e-6 * torch.eye(3, dtype=torch.float64)])
    torch.testing.assert_close(slopes, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-6)


EXPECTED = {
    "cross_entropy": PRIOR,
    "weighted": torch.ones(3),
    "focal": PRIOR,
    "class_balanced": PRIOR * effective_number_weights(COUNTS.double()),
    "ldam_drw": PRIOR * effective_number_weights(COUNTS.double()),  # in its last fifth
    "balanced_softmax": torch.ones(3),
    "logit_adjustment": torch.ones(3),
    "vs": PRIOR.pow(1 - 1.25),  # of its offsets; what its factors do besides is left to a calibration
    "am_softmax": PRIOR,
    "arcface": PRIOR,
    "l_softmax": PRIOR,
    "sphereface": PRIOR,
    "uncertainty_margin": torch.ones(3),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_aims_of_published_losses_are_known(name):
    loss = LOSSES[name](4, 3, class_counts=COUNTS)
    loss.set_progress(0.9)
    if name == "uncertainty_margin":
        torch.testing.assert_close(loss.aimed_prior(PRIOR), PRIOR)  # plain softmax until margins are set
        loss.strength = torch.tensor(0.5)
    torch.testing.assert_close(loss.aimed_prior(PRIOR), shares(EXPECTED[name].double()), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_each_attribute_has_an_aim_of_its_own(name):
    loss = LOSSES[name](4, 2, multilabel=True, class_counts=PAIRS)
    each = [LOSSES[name](4, 2, class_counts=pair) for pair in PAIRS]
    for one in (loss, *each):
        one.set_progress(0.9)
    apart = torch.stack([one.aimed_prior(shares(pair.double())) for one, pair in zip(each, PAIRS, strict=True)])
    torch.testing.assert_close(loss.aimed_prior(shares(PAIRS.double())), apart, rtol=1e-5, atol=1e-7)


def test_deferred_weights_change_the_aim_only_once_they_are_in_force():
    loss = LOSSES["ldam_drw"](4, 3, class_counts=COUNTS)
    torch.testing.assert_close(loss.aimed_prior(PRIOR), PRIOR)


def test_the_neutral_prior_of_many_classes_is_exact():
    counts = torch.logspace(4, 0, 300, dtype=torch.float64)
    torch.testing.assert_close(neutral_prior(balanced_softmax, counts, (300,)), shares(counts))


@pytest.mark.parametrize(
    ("build", "driven"),
    [
        (UncertaintyMarginLoss, True),
        (partial(UncertaintyMarginLoss, kappa=0.5), True),
        (partial(UncertaintyMarginLoss, margin=2.0, strength=0.5), False),
        *((LOSSES[name], name == "uncertainty_margin") for name in LOSSES),
    ],
)
def test_a_loss_without_margins_of_its_own_is_driven_by_a_curriculum(build, driven):
    assert build(4, 3, class_counts=COUNTS).driven_by_curriculum is driven


def test_a_criterion_without_a_slope_counts_all_classes_alike():
    found = neutral_prior(lambda logits, target, class_counts: 0 * logits.sum(-1) + target, None, (3,))  # noqa: ARG005
    torch.testing.assert_close(found, torch.full((3,), 1 / 3, dtype=torch.float64))


def test_a_thousand_classes_have_a_neutral_prior():
    counts = torch.randint(1, 500, (1000,), generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(neutral_prior(logit_adjustment, counts, (1000,)), counts / counts.sum())
