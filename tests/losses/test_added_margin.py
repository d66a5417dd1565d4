"""AM-Softmax, ArcFace, LDAM, L-Softmax and SphereFace against loops of their own papers."""

import math

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, CosineMarginLoss, feature_scale, ldam_margins
from equipoise.losses.class_weights import effective_number_weights
from tests.losses.cases import ATTRIBUTES, CLASSES, COUNTS, FEATURES, PAIR_COUNTS, batch, build, f64, prepared
from tests.marks import mostly_slow
from tests.reference import losses as reference


def head(kind, **options):
    options = {"class_counts": COUNTS, "reduction": "none"} | options
    return prepared(CosineMarginLoss(FEATURES, CLASSES, kind=kind, **options))


def loop(formula, loss, features, target, *, margins, scale):
    """The formula a sample, with the margin of the sample's own class."""
    vectors = loss.weight.tolist()
    rows = zip(features.tolist(), target.tolist(), strict=True)
    return f64([formula(feature, vectors, label, margins[label], scale) for feature, label in rows])


@pytest.mark.parametrize(("kind", "formula"), [("am_softmax", reference.am_softmax), ("arcface", reference.arcface)])
@pytest.mark.parametrize("margin", [0.0, 0.35, 0.5, 2.5])
def test_am_softmax_and_arcface_equal_their_loops(kind, formula, margin):
    features, target = batch(rows=11)
    loss = head(kind, margin=margin, scale=12.5)
    margins = loss.margins.tolist()
    assert margins == pytest.approx([margin] * CLASSES)
    torch.testing.assert_close(
        loss(features, target), loop(formula, loss, features, target, margins=margins, scale=12.5)
    )


@pytest.mark.parametrize(("kind", "formula"), [("am_softmax", reference.am_softmax), ("arcface", reference.arcface)])
def test_every_class_may_have_a_margin_of_its_own(kind, formula):
    features, target = batch(rows=11)
    loss = head(kind, scale=8.0)
    loss.margins = torch.tensor([0.0, 0.25, 0.5, 1.0, 3.0])
    expected = loop(formula, loss, features, target, margins=loss.margins.tolist(), scale=8.0)
    torch.testing.assert_close(loss(features, target), expected)


def test_arcface_does_not_turn_upwards_past_pi():
    loss = prepared(CosineMarginLoss(2, 2, kind="arcface", margin=1.0, scale=1.0, reduction="none"))
    with torch.no_grad():
        loss.weight.copy_(f64([[1.0, 0.0], [0.0, 1.0]]))
    angle = torch.linspace(0, math.pi, 101, dtype=torch.float64)
    features = torch.stack((angle.cos(), -angle.sin()), dim=-1)  # ever farther from class 0
    target = torch.zeros(101, dtype=torch.int64)
    true = loss.logits(features)[:, 0].detach()
    rival = loss.logits(features)[:, 1].detach()
    implied = rival - loss(features, target).detach().expm1().log()  # the true logit with its margin
    assert bool((implied.diff() < 0).all())
    past = angle + 1 > math.pi
    torch.testing.assert_close(implied[~past], (angle + 1).cos()[~past])
    torch.testing.assert_close(implied[past], -(angle + 1).cos()[past] - 2)
    assert bool((implied < true).all())


@pytest.mark.parametrize("counts", [COUNTS, torch.tensor([500.0, 0.0, 20.0, 3.0, 3.0])], ids=["seen", "one unseen"])
def test_ldam_equals_its_loop_with_margins_by_the_fourth_root(counts):
    features, target = batch(rows=11)
    loss = LOSSES["ldam_drw"](FEATURES, CLASSES, class_counts=counts, reduction="none")
    loss = prepared(loss)
    margins = reference.ldam_margins(counts.tolist(), 0.5)
    torch.testing.assert_close(loss.margins, f64(margins), rtol=1e-6, atol=0)
    expected = loop(reference.am_softmax, loss, features, target, margins=margins, scale=30.0)
    torch.testing.assert_close(loss(features, target), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        ldam_margins(counts.double(), 0.3), f64(reference.ldam_margins(counts.tolist(), 0.3)), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("share", [0.0, 0.79, 0.8, 1.0])
def test_deferred_reweighting_starts_at_its_share_of_the_epochs(share):
    features, target = batch(rows=11)
    loss = build("ldam_drw", reduction="none")
    plain = loss(features, target)
    loss.set_progress(share)
    weights = f64(reference.deferred_weights(COUNTS.tolist(), share, 0.8, 0.9999))
    torch.testing.assert_close(loss(features, target), plain * weights[target], rtol=1e-5, atol=1e-7)
    loss.set_progress(0.0)
    assert torch.equal(loss(features, target), plain)


def test_deferred_weights_multiply_weights_that_were_given_and_survive_a_checkpoint():
    given = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    loss = LOSSES["ldam_drw"](FEATURES, CLASSES, class_counts=COUNTS, class_weight=given)
    torch.testing.assert_close(loss.class_weight, given)
    loss.set_progress(0.9)
    torch.testing.assert_close(loss.class_weight, given * effective_number_weights(COUNTS))
    fresh = LOSSES["ldam_drw"](FEATURES, CLASSES, class_counts=COUNTS, class_weight=given)
    fresh.load_state_dict(loss.state_dict())
    assert torch.equal(fresh.class_weight, loss.class_weight)


def test_without_defer_progress_changes_nothing():
    loss = head("am_softmax")
    loss.set_progress(1.0)
    assert loss.class_weight is None


@pytest.mark.parametrize(
    ("name", "formula"), [("l_softmax", reference.l_softmax), ("sphereface", reference.sphereface)]
)
def test_l_softmax_and_sphereface_equal_their_loops_at_margin_4_and_lambda_5(name, formula):
    features, target = batch(rows=11)
    loss = build(name, reduction="none")
    vectors = loss.weight.tolist()
    rows = zip(features.tolist(), target.tolist(), strict=True)
    expected = f64([formula(feature, vectors, label, 4.0, 5.0) for feature, label in rows])
    torch.testing.assert_close(loss(features, target), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "formula"), [("am_softmax", reference.am_softmax), ("arcface", reference.arcface)])
def test_several_labels_are_a_sum_of_two_class_problems(kind, formula):
    features, target = batch(multilabel=True)
    loss = prepared(CosineMarginLoss(FEATURES, ATTRIBUTES, kind=kind, multilabel=True, scale=8.0, reduction="none"))
    loss.margins = torch.tensor([[0.0, 0.5], [0.25, 1.0], [0.5, 2.0]])
    pairs = loss.weight.view(ATTRIBUTES, 2, FEATURES).tolist()
    expected = [
        sum(formula(f, pairs[a], y, loss.margins[a, y].item(), 8.0) for a, y in enumerate(labels))
        for f, labels in zip(features.tolist(), target.tolist(), strict=True)
    ]
    torch.testing.assert_close(loss(features, target), f64(expected))


@pytest.mark.parametrize("kind", ["am_softmax", "arcface"])
def test_a_larger_own_margin_raises_the_loss_of_its_class_alone(kind):
    features, target = batch(rows=11)
    loss = head(kind, margin=0.2, scale=8.0)
    before = loss(features, target)
    loss.margins = torch.tensor([0.2, 0.2, 0.9, 0.2, 0.2])
    after = loss(features, target)
    assert bool((after[target == 2] > before[target == 2]).all())
    assert torch.equal(after[target != 2], before[target != 2])


@pytest.mark.parametrize(("kind", "margin"), [("am_softmax", 0.35), ("arcface", 0.5), ("ldam", 0.5)])
def test_the_papers_margins_are_the_defaults(kind, margin):
    assert float(head(kind).margins.max()) == pytest.approx(margin)
    assert float(head(kind, margin=0.1).margins.max()) == pytest.approx(0.1)


@pytest.mark.parametrize("classes", [2, 10, 8631])
def test_half_the_feature_scale_gives_a_sure_class_its_probability(classes):
    half = feature_scale(classes, 0.99) / 2
    assert math.exp(half) / (math.exp(half) + classes - 1) == pytest.approx(0.99)
    assert feature_scale(classes) > feature_scale(classes, 0.99)


def test_the_scale_comes_from_the_number_of_rivals_unless_given():
    assert head("arcface").scale == feature_scale(CLASSES)
    assert head("arcface", scale=3.0).scale == 3.0
    assert CosineMarginLoss(FEATURES, 40, multilabel=True).scale == feature_scale(2)  # each label has one rival


def test_logits_are_scaled_cosines_whatever_the_length_of_features():
    features, _ = batch()
    loss = head("am_softmax", scale=3.0)
    expected = f64([[3 * c for c in reference.cosines(f, loss.weight.tolist())] for f in features.tolist()])
    torch.testing.assert_close(loss.logits(features), expected)
    torch.testing.assert_close(loss.logits(1e6 * features), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: head("cosface"), "kind must be one of am_softmax, arcface, ldam, got 'cosface'"),
        (lambda: head("arcface", scale=0.0), "scale must be positive"),
        (lambda: head("ldam", defer=1.5), "defer must be a share of the epochs from 0 to 1, got 1.5"),
        (lambda: head("ldam", defer=-0.1), "defer must be a share of the epochs from 0 to 1, got -0.1"),
        (lambda: head("ldam", defer=math.nan), "defer must be a share of the epochs from 0 to 1, got nan"),
        (lambda: head("arcface", scale=float("inf")), "scale must be positive"),
        (lambda: head("arcface", margin=3.2), r"margins must lie in \[0, π\]"),
        (lambda: head("arcface", margin=-0.1), "margins must be finite and not negative"),
        (lambda: setattr(head("arcface"), "margins", torch.ones(4)), r"margins must have the shape \(5,\)"),
        (lambda: head("ldam", class_counts=None), "ldam needs the number of training samples"),
        (lambda: head("arcface", defer=0.5, class_counts=None), "defer=0.5 needs the number of training samples"),
        (lambda: head("arcface", class_counts=PAIR_COUNTS), r"class_counts must have the shape \(5,\), got \(3, 2\)"),
    ],
)
def test_bad_settings_get_one_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("kind", mostly_slow(["ldam", "arcface", "am_softmax"]))
def test_training_drops_no_feature_and_a_stochastic_pass_drops_behind_the_normalisation(kind):
    """Dropout in front of the normalisation stretches what is left: a handicap that no other head has."""
    torch.manual_seed(0)
    loss = CosineMarginLoss(16, 3, kind=kind, dropout=0.5, class_counts=torch.tensor([9.0, 3.0, 1.0]))
    features, target = torch.randn(8, 16), torch.arange(8) % 3
    trained = loss.train()(features, target)
    assert torch.equal(trained, loss.eval()(features, target))
    loss.train()
    with torch.no_grad():
        passes = torch.stack([loss.logits(features) for _ in range(4000)]).double()
        plain = loss.eval().logits(features).double()
    error = passes.std(0) / len(passes) ** 0.5
    assert bool(((passes.mean(0) - plain).abs() < 5 * error).all())  # what is left is not stretched
    assert float(error.min()) > 0
