"""From stochastic passes to one uncertainty and one margin per class."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.uncertainty import (
    ClassMoments,
    class_uncertainty,
    margins_from_uncertainty,
    model_precision,
    predictive_covariance,
)
from tests.reference import uncertainty as reference

KINDS = ["relative", "unresolved", "dispersion", "own"]
TARGET = torch.tensor([0, 3, 1, 2, 1, 0])


def probabilities(*shape: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    logits = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * logits).softmax(-1)


@pytest.mark.parametrize("precision", [None, 2.5])
def test_predictive_covariance_equals_the_loop(precision):
    outputs = torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = reference.predictive_covariance(outputs, precision)
    torch.testing.assert_close(predictive_covariance(outputs, precision), expected)


def test_predictive_covariance_is_symmetric_and_never_negative():
    covariance = predictive_covariance(probabilities(10, 6, 4))
    torch.testing.assert_close(covariance, covariance.mT)
    assert (torch.linalg.eigvalsh(covariance) > -1e-12).all()
    # probabilities sum to 1 in every pass, so their covariances with one another cancel out
    torch.testing.assert_close(covariance.sum(-1), torch.zeros(6, 4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_predictive_covariance_of_several_labels_is_that_of_each_attribute():
    outputs = probabilities(5, 4, 3, 2)
    actual = predictive_covariance(outputs, precision=4.0)
    assert actual.shape == (4, 3, 2, 2)
    for a in range(3):
        torch.testing.assert_close(actual[:, a], reference.predictive_covariance(outputs[:, :, a], 4.0))


def test_predictive_covariance_does_not_cancel_for_large_outputs():
    small = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(predictive_covariance(small + 1e6), predictive_covariance(small), atol=1e-8, rtol=1e-8)


def test_model_precision_is_gal_and_ghahramanis():
    tau = model_precision(length_scale=3.0, dropout=0.2, samples=50, weight_decay=1e-3)
    assert tau == pytest.approx(0.8 * 9 / (2 * 50 * 1e-3))


@pytest.mark.parametrize(
    "change",
    [{"length_scale": 0.0}, {"dropout": 1.0}, {"dropout": -0.1}, {"samples": 0}, {"weight_decay": 0.0}],
    ids=lambda change: next(iter(change)),
)
def test_model_precision_refuses_what_it_cannot_divide_by(change):
    good = {"length_scale": 1.0, "dropout": 0.5, "samples": 10, "weight_decay": 1e-4}
    with pytest.raises(InvalidInputError, match="without weight decay leave τ out"):
        model_precision(**(good | change))


@pytest.mark.parametrize("kind", KINDS)
def test_class_uncertainty_equals_the_loop(kind):
    outputs = probabilities(7, 6, 4)
    arguments = (outputs, TARGET) if kind == "own" else (outputs,)
    expected = getattr(reference, kind)(*arguments)
    actual = class_uncertainty(outputs, TARGET, kind)
    assert actual.dtype == torch.float64
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(class_uncertainty(outputs.float(), TARGET, kind), expected, rtol=1e-5, atol=1e-7)


def test_two_passes_are_enough_for_a_variance():
    outputs = torch.tensor([[[0.2, 0.8]], [[0.4, 0.6]]], dtype=torch.float64)
    torch.testing.assert_close(class_uncertainty(outputs, kind="dispersion"), reference.dispersion(outputs))


def test_the_default_kind_is_unresolved_and_needs_no_target():
    outputs = probabilities(7, 6, 4)
    torch.testing.assert_close(class_uncertainty(outputs), reference.unresolved(outputs))


@pytest.mark.parametrize("kind", KINDS)
def test_class_uncertainty_of_several_labels_is_that_of_each_attribute(kind):
    outputs = probabilities(5, 6, 3, 2)
    target = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 0]])
    actual = class_uncertainty(outputs, target, kind)
    assert actual.shape == (3, 2)
    for a in range(3):
        expected = class_uncertainty(outputs[:, :, a], target[:, a], kind)
        torch.testing.assert_close(actual[a], expected)


def test_a_class_rarely_predicted_but_as_noisy_is_more_uncertain():
    noise = torch.tensor([-0.03, 0.03], dtype=torch.float64).view(2, 1)
    rare = torch.full((2, 8), 0.1, dtype=torch.float64) + noise
    u = class_uncertainty(torch.stack((rare, 1 - rare), dim=-1), kind="relative")
    torch.testing.assert_close(u, torch.tensor([(0.03 / 0.1) ** 2, (0.03 / 0.9) ** 2], dtype=torch.float64))


@pytest.mark.parametrize("kind", ["relative", "dispersion", "own"])
def test_passes_that_agree_leave_no_uncertainty(kind):
    outputs = probabilities(1, 6, 4).expand(5, -1, -1)
    torch.testing.assert_close(
        class_uncertainty(outputs, TARGET, kind), torch.zeros(4, dtype=torch.float64), atol=1e-15, rtol=0
    )


def test_unresolved_is_one_over_the_prior_where_samples_are_not_told_apart_and_nothing_where_all_are_sure():
    prior = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    blind = prior.expand(4, 10, 3)
    torch.testing.assert_close(class_uncertainty(blind, kind="unresolved"), 1 / prior)
    sure = torch.eye(3, dtype=torch.float64)[torch.tensor([0] * 7 + [1] * 2 + [2])].expand(4, 10, 3)
    torch.testing.assert_close(class_uncertainty(sure, kind="unresolved"), torch.zeros(3, dtype=torch.float64))


def test_unresolved_of_two_classes_is_logit_adjustment():
    u = class_uncertainty(probabilities(6, 9, 2), kind="unresolved")
    mean = probabilities(6, 9, 2).mean((0, 1))
    torch.testing.assert_close(u[1] / u[0], mean[0] / mean[1])


@pytest.mark.parametrize("kind", ["relative", "unresolved", "dispersion"])
@pytest.mark.parametrize("hardly", [0.0, 1e-200])
def test_a_class_never_predicted_is_as_uncertain_as_the_most_uncertain(kind, hardly):
    seen = probabilities(5, 6, 3)
    outputs = torch.cat((seen, torch.full((5, 6, 1), hardly, dtype=torch.float64)), dim=-1)
    outputs[0, :, 3] *= 2  # a variance that underflows
    expected = getattr(reference, kind)(seen)
    torch.testing.assert_close(class_uncertainty(outputs, kind=kind), torch.cat((expected, expected.max().view(1))))


def test_a_small_mean_that_still_has_a_variance_keeps_its_own_uncertainty():
    outputs = torch.cat((probabilities(5, 6, 3), torch.full((5, 6, 1), 1e-40, dtype=torch.float64)), dim=-1)
    outputs[0, :, 3] *= 2
    assert float(class_uncertainty(outputs, kind="relative")[3]) == pytest.approx(0.16 / 1.2**2)


def test_a_class_absent_from_the_target_is_as_uncertain_as_the_most_uncertain():
    outputs, target = probabilities(5, 6, 4), TARGET.where(TARGET != 3, 0)
    u = class_uncertainty(outputs, target, "own")
    expected = reference.own(outputs[..., :], torch.tensor([0, 3, 1, 2, 1, 0]))
    torch.testing.assert_close(u[1:3], expected[1:3])
    assert u[3] == u[:3].max()


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_counts_a_sample_as_often_as_it_says(kind):
    outputs, times = probabilities(5, 6, 4), torch.tensor([2, 1, 3, 1, 0, 1])
    repeated = ClassMoments.of(outputs.repeat_interleave(times, dim=1), TARGET.repeat_interleave(times))
    weighted = ClassMoments.of(outputs, TARGET, weight=times)
    for actual, expected in zip(weighted.tensors(), repeated.tensors(), strict=True):
        torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(weighted.uncertainty(kind), repeated.uncertainty(kind))


def test_a_weight_counts_all_attributes_of_a_sample():
    outputs, times = probabilities(5, 6, 3, 2), torch.tensor([2, 1, 3, 1, 0, 1])
    target = torch.randint(2, (6, 3))
    repeated = ClassMoments.of(outputs.repeat_interleave(times, dim=1), target.repeat_interleave(times, dim=0))
    for actual, expected in zip(
        ClassMoments.of(outputs, target, weight=times).tensors(), repeated.tensors(), strict=True
    ):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_added_over_batches_equal_those_of_the_whole_in_any_order(kind):
    outputs = probabilities(5, 9, 4)
    target = torch.tensor([0, 1, 2, 3, 0, 1, 2, 0, 1])
    whole = ClassMoments.of(outputs, target)
    parts = [ClassMoments.of(outputs[:, i:j], target[i:j]) for i, j in [(0, 2), (2, 3), (3, 9)]]
    for order in itertools.permutations(parts):
        total = order[0] + order[1] + order[2]
        for added, expected in zip(total.tensors(), whole.tensors(), strict=True):
            torch.testing.assert_close(added, expected)
        torch.testing.assert_close(total.uncertainty(kind), class_uncertainty(outputs, target, kind))


def test_the_sums_are_what_they_are_called():
    outputs = probabilities(5, 6, 4)
    sums = ClassMoments.of(outputs, TARGET)
    variance, mean = torch.var_mean(outputs, dim=0, correction=0)
    torch.testing.assert_close(sums.variance, variance.sum(0))
    torch.testing.assert_close(sums.mean, mean.sum(0))
    assert sums.own_count.tolist() == [2, 2, 1, 1]
    assert float(sums.own_trace.sum()) == pytest.approx(float(variance.sum()))
    assert float(sums.samples) == 6
    torch.testing.assert_close(sums.spread, (mean * (1 - mean)).sum(0))
    fields = (sums.variance, sums.mean, sums.spread, sums.own_trace, sums.own_count, sums.samples)
    assert all(a is b for a, b in zip(sums.tensors(), fields, strict=True))


def test_moments_without_a_target_know_no_class_of_its_own():
    sums = ClassMoments.of(probabilities(5, 6, 4))
    assert (sums.own_count == 0).all()
    with pytest.raises(InvalidInputError, match=r"kind 'own' averages .* pass their target as well"):
        sums.uncertainty("own")


@given(
    shape=st.tuples(st.integers(2, 4), st.integers(1, 5), st.integers(2, 5)),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3, 1e30]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_class_uncertainty_and_its_margins_are_finite_for_every_softmax(shape, scale, dtype, kind, seed):
    outputs = probabilities(*shape, seed=seed, scale=scale).to(dtype)
    target = torch.randint(shape[2], shape[1:2], generator=torch.Generator().manual_seed(seed))
    u = class_uncertainty(outputs, target, kind)
    assert (u.isfinite() & (u >= 0)).all()
    margins = margins_from_uncertainty(u)
    assert ((margins >= 1) & (margins <= 3)).all()


@pytest.mark.parametrize(
    ("outputs", "target", "message"),
    [
        (torch.full((1, 4, 2), 0.5), None, r"at least 2 passes, got \(1, 4, 2\)"),
        (torch.full((4, 2), 0.5), None, r"shape \(passes, batch, classes\)"),
        (torch.ones(3, 4, 2, dtype=torch.long), None, r"floating point, got torch\.int64"),
        (torch.randn(3, 4, 2), None, "must be probabilities .* apply softmax to logits"),
        (torch.full((3, 4, 2), 0.6), None, "must be probabilities"),
        (torch.full((3, 4, 2), 0.4), None, "must be probabilities"),
        (torch.tensor([1.5, -0.5]).expand(3, 4, 2), None, "must be probabilities"),
        (torch.full((3, 4, 2), math.nan), None, "must be probabilities"),
        (torch.full((3, 4, 2), 0.5), torch.zeros(5), r"target must have the shape \(4,\) .* got \(5,\)"),
        (torch.full((3, 4, 2), 0.5), torch.tensor([0, 1, 2, 1]), "label 2 but there are 2 classes"),
        (torch.full((3, 4, 2), 0.5), torch.tensor([0, 1, -1, 1]), "label -1 but labels start at 0"),
        (torch.full((3, 4, 2), 0.5), torch.zeros(4), "integer labels, got torch.float32"),
        (torch.full((3, 4, 2), 0.5), [0, 1, 0, 1], "target must be a torch tensor, got list"),
        (torch.full((3, 4, 1, 2), 0.5), torch.full((4, 1), 2), "must hold 0 and 1 only, got values from 2 to 2"),
        (torch.full((3, 4, 2), 0.5).numpy(), None, "outputs must be a torch tensor, got ndarray; wrap it"),
        (None, None, "outputs must be a torch tensor, got NoneType"),
        (torch.zeros(3, 0, 2), None, r"at least one sample and one class, got \(3, 0, 2\)"),
    ],
)
def test_bad_outputs_and_targets_are_named(outputs, target, message):
    with pytest.raises(InvalidInputError, match=message):
        class_uncertainty(outputs, target)


def test_an_unknown_kind_is_named():
    with pytest.raises(InvalidInputError, match="one of relative, unresolved, dispersion, own, got 'variance'"):
        class_uncertainty(probabilities(3, 4, 2), kind="variance")


@pytest.mark.parametrize("precision", [0.0, -1.0, math.nan])
def test_a_precision_that_is_not_positive_is_refused(precision):
    with pytest.raises(InvalidInputError, match="precision τ must be positive"):
        predictive_covariance(probabilities(3, 4, 2), precision)


def test_label_matrices_of_any_type_count_as_labels():
    outputs = probabilities(5, 6, 4).view(5, 6, 2, 2)
    outputs = outputs / outputs.sum(-1, keepdim=True)
    target = torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
    expected = class_uncertainty(outputs, target, "own")
    for dtype in (torch.bool, torch.float32, torch.uint16):
        assert torch.equal(class_uncertainty(outputs, target.to(dtype), "own"), expected)


def test_predictive_covariance_takes_tensors_only():
    with pytest.raises(InvalidInputError, match="outputs must be a torch tensor, got list"):
        predictive_covariance([[[0.5, 0.5]], [[0.5, 0.5]]])


def test_predictive_covariance_refuses_a_single_pass():
    with pytest.raises(InvalidInputError, match="at least 2 passes"):
        predictive_covariance(probabilities(1, 4, 2))


def test_log_margins_equal_the_formula():
    u = [0.3, 0.011, 0.05, 0.9]
    actual = margins_from_uncertainty(torch.tensor(u, dtype=torch.float64), m_max=4.5)
    torch.testing.assert_close(actual, torch.tensor(reference.margins_log(u, 4.5), dtype=torch.float64))
    actual = margins_from_uncertainty(torch.tensor(u, dtype=torch.float64), m_max=1.0, m_min=0.0)
    torch.testing.assert_close(actual, torch.tensor(reference.margins_log(u, 1.0, 0.0), dtype=torch.float64))


@pytest.mark.parametrize("m_max", [1, 2, 3, 7])
def test_paper_margins_equal_the_formula(m_max):
    u = [0.3, 0.011, 0.05, 0.9, 0.77, 0.41]
    actual = margins_from_uncertainty(torch.tensor(u, dtype=torch.float64), m_max=m_max, rule="paper")
    assert actual.tolist() == reference.margins_paper(u, m_max)
    assert actual.max() == m_max


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6), st.sampled_from(["log", "paper"]))
def test_margins_reach_from_least_to_most_and_never_fall_with_uncertainty(values, rule):
    u = torch.tensor(values, dtype=torch.float64)
    margins = margins_from_uncertainty(u, m_max=3.0, rule=rule)
    assert ((margins >= 1) & (margins <= 3 + 1e-12)).all()
    assert (margins[u.argsort()].diff() >= 0).all()
    if max(values) > 1e-300 and min(values) < 0.5 * max(values):
        assert float(margins.max()) == pytest.approx(3)
        assert float(margins.min()) == pytest.approx(1, abs=1e-12)


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=6), st.sampled_from([1e-9, 0.125, 1e12]))
def test_log_margins_do_not_depend_on_the_unit_of_uncertainty(values, unit):
    u = torch.tensor(values, dtype=torch.float64)
    if max(values) > 1.001 * min(values):
        torch.testing.assert_close(margins_from_uncertainty(u), margins_from_uncertainty(unit * u), atol=1e-9, rtol=0)


@pytest.mark.parametrize("rule", ["log", "paper"])
def test_no_uncertainty_at_all_gives_the_smallest_margin(rule):
    assert margins_from_uncertainty(torch.zeros(3), rule=rule).tolist() == [1.0] * 3


def test_equal_uncertainties_give_the_smallest_margin():
    assert margins_from_uncertainty(torch.full((3,), 0.7)).tolist() == [1.0] * 3
    assert margins_from_uncertainty(torch.full((3,), 0.7), m_min=0.0).tolist() == [0.0] * 3


def test_a_class_without_uncertainty_does_not_flatten_the_others():
    margins = margins_from_uncertainty(torch.tensor([0.0, 1e-3, 1.0], dtype=torch.float64))
    torch.testing.assert_close(margins, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))  # 0 counts as 1e-6


def test_integer_uncertainties_are_taken_as_numbers():
    torch.testing.assert_close(margins_from_uncertainty(torch.tensor([1, 2, 4])), torch.tensor([1.0, 2.0, 3.0]))


def test_pairs_are_measured_against_their_own_smaller_value_on_one_scale():
    u = torch.tensor([[0.1, 0.4], [8.0, 4.0], [5.0, 5.0]], dtype=torch.float64)
    expected = torch.tensor([[1.0, 3.0], [2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(margins_from_uncertainty(u), expected)


@pytest.mark.parametrize(
    ("u", "options", "message"),
    [
        ([0.1, -0.1], {}, "finite and not negative"),
        ([0.1, math.nan], {}, "finite and not negative"),
        ([0.1, math.inf], {}, "finite and not negative"),
        ([], {}, "finite and not negative"),
        ([0.1], {"m_max": 0.5}, "m_max must be at least m_min = 1.0, got 0.5"),
        ([0.1], {"m_max": math.inf}, "got inf"),
        ([0.1], {"m_max": math.nan}, "got nan"),
        ([0.1], {"m_min": -1.0}, "m_min"),
        ([0.1], {"rule": "linear"}, "rule must be 'log' or 'paper', got 'linear'"),
    ],
)
def test_bad_uncertainties_and_options_are_named(u, options, message):
    with pytest.raises(InvalidInputError, match=message):
        margins_from_uncertainty(torch.tensor(u), **options)


@pytest.mark.parametrize(
    ("u", "message"),
    [
        (None, "class uncertainties must be numbers, got NoneType"),
        ("much", "class uncertainties must be numbers, got str"),
        (["a", "b"], "class uncertainties must be numbers, got list"),
        (torch.tensor([1j, 2j]), "finite and not negative"),
    ],
)
def test_uncertainties_that_are_no_numbers_are_named(u, message):
    with pytest.raises(InvalidInputError, match=message):
        margins_from_uncertainty(u)


def test_uncertainties_may_be_a_list():
    torch.testing.assert_close(margins_from_uncertainty([0.1, 0.2, 0.4]), torch.tensor([1.0, 2.0, 3.0]))
