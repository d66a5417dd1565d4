"""Members side by side: as many heads apart, with the mean of their losses and of their logits."""

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.losses.softmax_loss import member_products
from tests.losses.cases import ATTRIBUTES, CLASSES, COUNTS, FEATURES, PAIR_COUNTS, ROWS, batch, build, f64, seeded

MEMBERS = 3
ADDITIVE = [name for name in LOSSES if name not in ("l_softmax", "sphereface")]


def packed(name, *, multilabel=False, **options):
    """A head with members, and one head for each of them with its class vectors."""
    counts, classes = (PAIR_COUNTS, ATTRIBUTES) if multilabel else (COUNTS, CLASSES)
    alone = [build(name, multilabel=multilabel, **options) for _ in range(MEMBERS)]
    together = LOSSES[name](
        MEMBERS * FEATURES, classes, multilabel=multilabel, members=MEMBERS, class_counts=counts, **options
    )
    together = together.double().eval()
    with torch.no_grad():
        for number, head in enumerate(alone):
            head.weight.copy_(torch.randn(head.weight.shape, generator=seeded(number)))
        together.weight.copy_(torch.cat([head.weight for head in alone], -1))
        if together.bias is not None:
            together.bias.copy_(alone[0].bias)
    for buffer in ("margins", "strength"):
        if name == "uncertainty_margin":
            setattr(together, buffer, getattr(alone[0], buffer))
    return together, alone


def parts(seed=0, rows=ROWS):
    return [batch(seed=seed + number, rows=rows)[0] for number in range(MEMBERS)]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("name", ADDITIVE)
def test_loss_and_prediction_are_the_means_of_heads_apart(name, multilabel):
    if multilabel and name == "ldam_drw":
        pytest.skip("margins by counts are of labels")
    together, alone = packed(name, multilabel=multilabel, reduction="none")
    target, features = batch(multilabel=multilabel)[1], parts()
    expected = torch.stack([head(own, target) for head, own in zip(alone, features, strict=True)]).mean(0)
    torch.testing.assert_close(together(torch.cat(features, -1), target), expected, atol=1e-12, rtol=1e-12)
    logits = torch.stack([head.logits(own) for head, own in zip(alone, features, strict=True)]).mean(0)
    torch.testing.assert_close(together.logits(torch.cat(features, -1)), logits, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("placement", ["all", "target"])
def test_mixed_loss_is_the_mean_of_heads_apart(placement):
    together, alone = packed("uncertainty_margin", sample_level="mixing", placement=placement)
    features = parts()
    labels = torch.arange(ROWS) % CLASSES, (torch.arange(ROWS) + 2) % CLASSES
    share = torch.rand(ROWS, generator=seeded(), dtype=torch.float64)
    expected = [head.mixed_loss(own, labels, (share, 1 - share)) for head, own in zip(alone, features, strict=True)]
    found = together.mixed_loss(torch.cat(features, -1), labels, (share, 1 - share))
    torch.testing.assert_close(found, torch.stack(expected).mean(), atol=1e-12, rtol=1e-12)


def test_a_member_learns_from_its_own_features_alone():
    together, alone = packed("uncertainty_margin")
    features, target = [own.requires_grad_() for own in parts()], batch()[1]
    together(torch.cat(features, -1), target).backward()
    head, own = alone[1], features[1].detach().clone().requires_grad_()
    head(own, target).backward()
    torch.testing.assert_close(features[1].grad * MEMBERS, own.grad, atol=1e-12, rtol=1e-12)
    block = together.weight.grad[:, FEATURES : 2 * FEATURES]
    torch.testing.assert_close(block * MEMBERS, head.weight.grad, atol=1e-12, rtol=1e-12)


def test_class_vectors_of_members_start_as_those_of_one():
    torch.manual_seed(0)
    wide = UncertaintyMarginLoss(1000 * 4, 50, members=4).weight.detach()
    assert float(wide.abs().max()) == pytest.approx(1000**-0.5, rel=1e-3)


def test_member_products_keep_members_apart():
    features, vectors = f64([[1.0, 2.0, 3.0, 4.0]]), f64([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    assert member_products(features, vectors, 2).tolist() == [[[1.0, 2.0]], [[4.0, 3.0]]]
    assert member_products(features, vectors, 1).tolist() == [[5.0, 5.0]]


@pytest.mark.parametrize("options", [{"form": "angular"}, {"sample_level": "expected", "dropout": 0.5}])
def test_what_members_cannot_have_is_refused(options):
    with pytest.raises(InvalidInputError, match="several members need form='additive'"):
        UncertaintyMarginLoss(8, 3, members=2, **options)


@pytest.mark.parametrize("members", [0, 3])
def test_features_that_members_cannot_share_out_are_refused(members):
    with pytest.raises(InvalidInputError, match="in_features must be a multiple of members"):
        UncertaintyMarginLoss(8, 3, members=members)
