"""The paper's loss against its loop, its limits, and no input that breaks it."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import UncertaintyMarginLoss
from equipoise.losses.sample_level_logits import complement_weight, printed_weight
from equipoise.uncertainty.sample_level import ErrorMoments, dropout_error_moments
from tests.losses.cases import ATTRIBUTES, CLASSES, FEATURES, MARGINS, PAIR_MARGINS, ROWS, batch, f64, prepared, seeded
from tests.reference import losses as reference

FORMS, PLACEMENTS = ["angular", "additive"], ["target", "all"]
SAMPLE_LEVELS = ["none", "expected", "complement", "printed"]
EVERY_KIND = list(itertools.product(FORMS, PLACEMENTS, [True, False]))
RATE = 0.375


def head(*, margins=MARGINS, strength=0.5, sample_strength=1.0, dtype=torch.float64, **options):
    options = {"dropout": RATE, "reduction": "none"} | options
    multilabel = options.get("multilabel", False)
    loss = prepared(UncertaintyMarginLoss(FEATURES, ATTRIBUTES if multilabel else CLASSES, **options), dtype)
    loss.margins, loss.strength, loss.sample_strength = margins, strength, sample_strength
    return loss


@pytest.mark.parametrize("sample_level", SAMPLE_LEVELS)
@pytest.mark.parametrize(("form", "placement", "normalize"), EVERY_KIND)
@pytest.mark.parametrize("sample_strength", [1.0, 0.25])
def test_the_loss_equals_its_loop(form, placement, normalize, sample_level, sample_strength):
    kind = {"form": form, "placement": placement, "normalize": normalize, "sample_level": sample_level}
    loss = head(**kind, kappa=0.375, sample_strength=sample_strength)
    features, target = batch(rows=11)
    expected = [
        reference.uncertainty_margin(
            feature,
            loss.weight.tolist(),
            label,
            margins=loss.margins.tolist(),
            strength=0.5,
            kappa=0.375,
            sample_strength=sample_strength,
            rate=RATE,
            **kind,
        )
        for feature, label in zip(features.tolist(), target.tolist(), strict=True)
    ]
    torch.testing.assert_close(loss(features, target), f64(expected), atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("sample_level", SAMPLE_LEVELS)
@pytest.mark.parametrize(("form", "placement", "normalize"), EVERY_KIND)
def test_several_labels_are_a_sum_of_two_class_problems(form, placement, normalize, sample_level):
    kind = {"form": form, "placement": placement, "normalize": normalize, "sample_level": sample_level}
    loss = head(**kind, multilabel=True, margins=PAIR_MARGINS)
    features, target = batch(multilabel=True)
    expected = [
        reference.multilabel_uncertainty_margin(
            feature,
            loss.weight.view(ATTRIBUTES, 2, FEATURES).tolist(),
            labels,
            margins=loss.margins.tolist(),
            strength=0.5,
            rate=RATE,
            **kind,
        )
        for feature, labels in zip(features.tolist(), target.tolist(), strict=True)
    ]
    torch.testing.assert_close(loss(features, target), f64(expected), atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize(("form", "placement", "normalize"), EVERY_KIND)
@pytest.mark.parametrize(("margin", "strength"), [(1.0, 0.7), (3.0, 0.0), (1.0, 0.0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_without_margin_or_strength_it_is_cross_entropy_bit_for_bit(
    *, form, placement, normalize, margin, strength, dtype
):
    kind = {"form": form, "placement": placement, "normalize": normalize}
    loss = head(**kind, margins=torch.full((CLASSES,), margin), strength=strength, dtype=dtype)
    features, target = batch(dtype=dtype)
    assert torch.equal(loss(features, target), F.cross_entropy(loss.logits(features), target, reduction="none"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_without_variance_the_expected_level_is_the_plain_loss_bit_for_bit(form, placement):
    features, target = batch()
    certain = ErrorMoments(torch.zeros(ROWS, CLASSES), torch.zeros(ROWS, CLASSES))
    plain = head(form=form, placement=placement)
    expected = head(form=form, placement=placement, sample_level="expected")
    assert torch.equal(expected(features, target, error=certain), plain(features, target))
    expected.strength = 0.0
    softmax = F.cross_entropy(expected.logits(features), target, reduction="none")
    assert torch.equal(expected(features, target, error=certain), softmax)


@pytest.mark.parametrize("sample_level", SAMPLE_LEVELS)
def test_a_sample_strength_of_zero_is_the_class_level_bit_for_bit(sample_level):
    features, target = batch()
    loss = head(form="angular", sample_level=sample_level, sample_strength=0.0)
    assert torch.equal(loss(features, target), head(form="angular")(features, target))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("sample_level", ["none", "expected", "complement"])
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    margin=st.floats(1, 20),
    more=st.floats(0, 20),
    strength=st.floats(0, 1),
    length=st.floats(0, 30),
)
def test_a_larger_own_margin_never_lowers_a_samples_loss(
    *, form, placement, sample_level, seed, margin, more, strength, length
):
    features, target = batch(seed=seed)
    features, target = features * length, torch.full_like(target, 2)
    loss = head(form=form, placement=placement, sample_level=sample_level, strength=strength)
    margins = MARGINS.double()
    loss.margins = margins.index_fill(0, torch.tensor(2), margin)
    before = loss(features, target)
    loss.margins = margins.index_fill(0, torch.tensor(2), margin + more)
    assert bool((loss(features, target) >= before - 1e-9 * (1 + before)).all())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strength", [0.1, 1.0])
def test_a_larger_own_margin_raises_the_loss_and_a_rivals_margin_in_placement_all_lowers_it(form, strength):
    features, target = batch()
    target = torch.full_like(target, 2)
    plain = head(form=form, margins=torch.ones(CLASSES), strength=strength)(features, target)
    own = head(form=form, margins=torch.tensor([1.0, 1, 2, 1, 1]), strength=strength)(features, target)
    rival = head(form=form, margins=torch.tensor([2.0, 1, 1, 1, 1]), strength=strength)
    assert bool((own > plain).all())
    assert bool((rival(features, target) < plain).all())
    rival.placement = "target"
    assert torch.equal(rival(features, target), plain)


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), kappa=st.floats(0, 2), factor=st.floats(1, 50), form=st.sampled_from(FORMS))
def test_in_mode_expected_a_larger_variance_never_lowers_the_loss(seed, kappa, factor, form):
    features, target = batch(seed=seed)
    loss = head(form=form, sample_level="expected", kappa=kappa)
    vectors = loss.class_vectors(torch.float64).detach()
    mean, variance = dropout_error_moments(features, vectors, target, rate=RATE)
    before = loss(features, target, error=ErrorMoments(mean, variance))
    assert bool((loss(features, target, error=ErrorMoments(mean, variance * factor)) >= before).all())
    assert bool((before >= head(form=form)(features, target)).all())


def test_a_larger_dropout_rate_raises_the_expected_loss_of_every_sample():
    features, target = batch()
    low, high = (head(sample_level="expected", dropout=rate)(features, target) for rate in (0.1, 0.5))
    assert bool((high > low).all())


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_expected_at_one_half_bounds_the_expected_loss_over_gaussian_features(strength):
    features, target = batch(rows=5)
    loss = head(sample_level="expected", kappa=0.5, strength=strength)
    plain = head(strength=strength)
    spread = features.abs() * (RATE / (1 - RATE)) ** 0.5
    noise = torch.randn(20_000, 5, FEATURES, generator=seeded(3), dtype=torch.float64)
    draws = plain((features + spread * noise).flatten(0, 1), target.repeat(20_000)).view(20_000, 5)
    mean, error = draws.mean(0), draws.std(0) / 20_000**0.5
    assert bool((loss(features, target) > mean + 4 * error).all())
    assert bool((plain(features, target) < mean - 4 * error).all())  # log Σ exp is convex: noise costs


def test_complement_is_never_below_the_plain_loss_nor_printed_its_equal():
    features, target = batch(rows=64)
    for form in FORMS:
        plain = head(form=form)(features, target)
        assert bool((head(form=form, sample_level="complement")(features, target) >= plain).all())
        assert not torch.allclose(head(form=form, sample_level="printed")(features, target), plain)


def test_complement_is_stricter_on_both_signs_of_the_true_logit_and_printed_wipes_it_out():
    logit, probability = f64([2.0, -2.0, 0.0]), f64([0.25, 0.25, 0.9])
    assert torch.equal(complement_weight(logit, probability), f64([1.5, -2.5, 0.0]))
    assert torch.equal(printed_weight(logit, probability), f64([0.5, -0.5, 0.0]))
    assert torch.equal(printed_weight(logit, probability, 0.5), f64([1.25, -1.25, 0.0]))


@pytest.mark.parametrize("sample_level", ["expected", "complement", "printed"])
def test_the_network_cannot_earn_loss_by_its_uncertainty(sample_level):
    features, target = batch()
    loss = head(form="angular", sample_level=sample_level)
    error = dropout_error_moments(features, loss.class_vectors(torch.float64).detach(), target, rate=RATE)
    features.requires_grad_()
    inputs = (features, loss.weight)
    closed = torch.autograd.grad(loss(features, target).sum(), inputs)
    given_ = torch.autograd.grad(loss(features, target, error=error).sum(), inputs)
    for a, b in zip(closed, given_, strict=True):
        torch.testing.assert_close(a, b)


def test_moments_given_in_the_call_replace_the_closed_form():
    features, target = batch()
    loss = head(sample_level="expected", kappa=0.5, dropout=0.0, strength=0.0)
    variance = torch.rand(ROWS, CLASSES, generator=seeded(), dtype=torch.float64)
    variance[torch.arange(ROWS), target] = 0
    error = ErrorMoments(torch.zeros_like(variance), variance)
    expected = F.cross_entropy(loss.logits(features) + 0.5 * variance, target, reduction="none")
    torch.testing.assert_close(loss(features, target, error=error), expected)


@pytest.mark.parametrize("sample_level", SAMPLE_LEVELS)
@pytest.mark.parametrize(("form", "placement", "normalize"), EVERY_KIND)
@pytest.mark.parametrize("multilabel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradcheck_with_the_moments_held(form, placement, normalize, sample_level, multilabel):
    loss = head(
        form=form,
        placement=placement,
        normalize=normalize,
        sample_level=sample_level,
        multilabel=multilabel,
        margins=PAIR_MARGINS if multilabel else MARGINS,
    )
    features, target = batch(rows=3, multilabel=multilabel)
    shape = (3, *loss.class_shape)
    moments = torch.rand(2, *shape, generator=seeded(2), dtype=torch.float64)
    error = ErrorMoments(moments[0] - 0.5, moments[1].scatter(-1, target.unsqueeze(-1), 0.0))

    def value(features, weight):
        options = {"error": error}
        return torch.func.functional_call(loss, {"weight": weight}, (features, target), options)

    inputs = (features.requires_grad_(), loss.weight.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(value, inputs)


@pytest.mark.parametrize("sample_level", ["expected", "complement", "printed"])
def test_in_training_the_variance_is_that_of_the_whole_features_and_the_logits_are_dropped_ones(sample_level):
    features, target = batch()
    loss = head(sample_level=sample_level).train()
    error = dropout_error_moments(features, loss.class_vectors(torch.float64).detach(), target, rate=RATE)
    torch.manual_seed(3)
    closed = loss(features, target)
    torch.manual_seed(3)  # the same units dropped
    torch.testing.assert_close(closed, loss(features, target, error=error))
    assert not torch.allclose(closed, loss(features, target))
    assert torch.equal(loss.eval()(features, target), loss(features, target))


def test_the_margins_are_softmax_at_the_start_and_live_in_the_state_dict():
    loss = UncertaintyMarginLoss(FEATURES, CLASSES)
    assert torch.equal(loss.margins, torch.ones(CLASSES))
    assert float(loss.strength) == 0
    assert float(loss.sample_strength) == 1
    assert {"margins", "strength", "sample_strength", "weight"} <= set(loss.state_dict())
    given_ = torch.tensor([1.0, 2, 3, 1, 1])
    loss.margins = given_
    given_[0] = 9.0
    assert float(loss.margins[0]) == 1  # a copy: later changes to the caller's tensor do not reach the loss
    assert "form='additive', placement='all', normalize=True, sample_level='none'" in repr(loss)


def set_buffer(name, value):
    setattr(UncertaintyMarginLoss(FEATURES, CLASSES), name, value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: UncertaintyMarginLoss(4, 3, form="round"), "form must be one of angular, additive, got 'round'"),
        (lambda: UncertaintyMarginLoss(4, 3, placement="some"), "placement must be one of target, all"),
        (lambda: UncertaintyMarginLoss(4, 3, sample_level="all"), "sample_level must be one of none, expected"),
        (lambda: UncertaintyMarginLoss(4, 3, kappa=-0.1), "kappa must be finite and not negative, got -0.1"),
        (lambda: UncertaintyMarginLoss(4, 3, kappa=float("nan")), "kappa must be finite and not negative, got nan"),
        (lambda: UncertaintyMarginLoss(4, 3, kappa=float("inf")), "kappa must be finite and not negative, got inf"),
        (lambda: set_buffer("margins", "wide"), "margins must be numbers, got str"),
        (lambda: set_buffer("strength", None), "strength must be numbers, got NoneType"),
        (lambda: UncertaintyMarginLoss(4, 3, margin=0.9), "margins must be finite and at least 1"),
        (lambda: UncertaintyMarginLoss(4, 3, strength=-1.0), "strength must be finite and at least 0"),
        (lambda: set_buffer("margins", torch.full((CLASSES,), 0.99)), "margins must be finite and at least 1"),
        (lambda: set_buffer("margins", torch.full((CLASSES,), float("nan"))), "margins must be finite"),
        (lambda: set_buffer("margins", torch.full((CLASSES,), float("inf"))), "margins must be finite"),
        (lambda: set_buffer("margins", torch.ones(CLASSES + 1)), r"margins must have the shape \(5,\), got \(6,\)"),
        (lambda: set_buffer("strength", -0.1), "strength must be finite and at least 0"),
        (lambda: set_buffer("strength", torch.ones(2)), r"strength must have the shape \(\)"),
        (lambda: set_buffer("sample_strength", -0.1), "sample_strength must be finite and at least 0"),
    ],
)
def test_bad_settings_get_one_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("wrong", [(3, CLASSES), (ROWS, 2)])
def test_moments_of_another_shape_are_refused(wrong):
    features, target = batch()
    right = torch.zeros(ROWS, CLASSES)
    for error in (ErrorMoments(torch.zeros(wrong), right), ErrorMoments(right, torch.zeros(wrong))):
        with pytest.raises(InvalidInputError, match="error must hold a mean and a variance of shape"):
            head(sample_level="expected")(features, target, error=error)


def test_moments_may_be_a_plain_pair():
    features, target = batch()
    loss = head(sample_level="expected")
    error = dropout_error_moments(features, loss.class_vectors(torch.float64).detach(), target, rate=RATE)
    assert torch.equal(loss(features, target, error=tuple(error)), loss(features, target, error=error))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.zeros(ROWS, CLASSES), "error must be a pair of a mean and a variance, got Tensor"),
        ((torch.zeros(ROWS, CLASSES),), "error must be a pair of a mean and a variance, got tuple"),
        (([0.0], torch.zeros(ROWS, CLASSES)), "error's mean must be a torch tensor, got list"),
        ((torch.zeros(ROWS, CLASSES), None), "error's variance must be a torch tensor, got NoneType"),
    ],
)
def test_moments_that_are_no_pair_of_tensors_are_refused(error, message):
    with pytest.raises(InvalidInputError, match=message):
        head(sample_level="expected")(*batch(), error=error)


@pytest.mark.parametrize("sample_level", ["expected", "complement", "printed"])
def test_a_sample_level_without_any_variance_says_what_to_do(sample_level):
    features, target = batch()
    with pytest.raises(InvalidStateError, match="build the loss with dropout > 0"):
        head(sample_level=sample_level, dropout=0.0)(features, target)


def test_free_vectors_and_features_that_are_both_huge_give_a_finite_loss():
    loss = head(normalize=False, sample_level="expected", dtype=torch.float32)
    features, target = batch(dtype=torch.float32)
    with torch.no_grad():
        loss.weight.mul_(1e4)
    assert bool(loss(features * 1e30, target).isfinite().all())


def extreme_features(rows, exponent, generator):
    """A random scale a row around 10^exponent; zeros, one-hot rows, one huge entry among small ones."""
    features = torch.randn(rows, FEATURES, generator=generator)
    scale = 10.0 ** (exponent + torch.randn(rows, 1, generator=generator, dtype=torch.float64))
    features = (features.double() * scale).clamp(-3e38, 3e38).float()
    quarter = rows // 4
    features[:quarter] = F.one_hot(torch.arange(quarter) % FEATURES, FEATURES) * features[:quarter, :1]
    features[:100] = 0
    features[-100:, 0] = 3e38
    return features


def test_no_features_class_vectors_or_margins_give_a_non_finite_loss_or_gradient():
    cases, rows = 0, 8192

    @settings(max_examples=140, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**31 - 1),
        exponent=st.integers(-38, 38),
        vector_exponent=st.integers(-38, 38),
        kind=st.sampled_from(list(itertools.product(FORMS, PLACEMENTS))),
        normalize=st.booleans(),
        sample_level=st.sampled_from(SAMPLE_LEVELS),
        largest=st.sampled_from([1.0, 1.01, 2.0, 3.0, 10.0, 100.0]),
        strength=st.sampled_from([0.0, 1e-6, 0.1, 0.5, 1.0]),
        rate=st.sampled_from([0.01, 0.5, 0.99]),
    )
    def check(*, seed, exponent, vector_exponent, kind, normalize, sample_level, largest, strength, rate):
        nonlocal cases
        generator = seeded(seed)
        loss = UncertaintyMarginLoss(
            FEATURES,
            CLASSES,
            form=kind[0],
            placement=kind[1],
            normalize=normalize,
            sample_level=sample_level,
            strength=strength,
            dropout=rate,
            reduction="none",
        )
        loss.margins = 1 + torch.rand(CLASSES, generator=generator) * (largest - 1)
        with torch.no_grad():
            vectors = torch.randn(CLASSES, FEATURES, generator=generator, dtype=torch.float64) * 10.0**vector_exponent
            loss.weight.copy_(vectors.clamp(-3e38, 3e38))
            loss.weight[0] = F.one_hot(torch.tensor(1), FEATURES)
            loss.weight[1] = 0
        features = extreme_features(rows, exponent, generator).requires_grad_()
        target = torch.randint(0, CLASSES, (rows,), generator=generator)
        with torch.no_grad():  # some features along their own class vector, to either side: cos α = ±1
            features[200:300] = loss.weight[target[200:300]] * (torch.arange(100) % 2 * 2.0 - 1).view(-1, 1)
        losses = loss(features, target)
        assert bool(losses.isfinite().all())
        for part in torch.autograd.grad(losses.mean(), (features, loss.weight)):
            assert bool(part.isfinite().all())
        cases += rows

    check()
    assert cases >= 1_000_000
