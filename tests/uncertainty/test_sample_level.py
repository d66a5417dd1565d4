"""The sample level's Gaussian: moments by sampling and in closed form, and the probability of a mistake."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from equipoise.errors import InvalidInputError
from equipoise.uncertainty import (
    ErrorMoments,
    dropout_error_moments,
    dropout_error_variance,
    error_moments,
    misclassification_probability,
    strongest_rival,
)
from tests.reference import uncertainty as reference

MANY_CLASSES = 8_631
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32]


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements any operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def problem(
    *, batch: int = 5, classes: int = 4, length: int = 6, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Features, class vectors and targets in which one class never occurs."""
    features = torch.randn(batch, length, generator=seeded(1), dtype=dtype)
    vectors = torch.randn(classes, length, generator=seeded(2), dtype=dtype)
    return features, vectors, torch.randint(classes - 1, (batch,), generator=seeded(3))


def attributes_problem(batch: int = 5, attributes: int = 3, length: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    features = torch.randn(batch, length, generator=seeded(1), dtype=torch.float64)
    vectors = torch.randn(attributes, 2, length, generator=seeded(2), dtype=torch.float64)
    return features, vectors, torch.randint(2, (batch, attributes), generator=seeded(3))


def test_sampled_error_moments_equal_the_loop():
    logits = 3 * torch.randn(7, 5, 4, generator=seeded(), dtype=torch.float64)
    target = torch.tensor([0, 3, 1, 1, 0])
    mean, variance = reference.error_moments(logits, target)
    torch.testing.assert_close(error_moments(logits, target), ErrorMoments(mean, variance))


def test_two_passes_are_enough_for_a_variance():
    error = error_moments(torch.tensor([[[0.0, 1.0]], [[0.0, 3.0]]]), torch.tensor([0]))
    assert error.mean.tolist() == [[0.0, 2.0]]
    assert error.variance.tolist() == [[0.0, 1.0]]


def test_sampled_error_moments_of_several_labels_are_those_of_each_attribute():
    logits = torch.randn(7, 5, 3, 2, generator=seeded(), dtype=torch.float64)
    target = torch.randint(2, (5, 3), generator=seeded(1))
    error = error_moments(logits, target)
    assert error.mean.shape == error.variance.shape == (5, 3, 2)
    for a in range(3):
        mean, variance = reference.error_moments(logits[:, :, a], target[:, a])
        torch.testing.assert_close(error.mean[:, a], mean)
        torch.testing.assert_close(error.variance[:, a], variance)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_closed_form_equals_the_loop_over_classes_and_features(rate):
    features, vectors, target = problem()
    mean, variance = reference.dropout_error_moments(features, vectors, target, rate)
    torch.testing.assert_close(
        dropout_error_moments(features, vectors, target, rate=rate), ErrorMoments(mean, variance)
    )
    torch.testing.assert_close(dropout_error_variance(features, vectors, target, rate=rate), variance)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.7])
def test_closed_form_equals_the_sum_over_every_mask(rate):
    features, vectors, target = problem(batch=4, classes=3, length=5)
    closed = dropout_error_moments(features, vectors, target, rate=rate)
    for b in range(4):
        mean, variance = reference.every_mask_error_moments(
            features[b].tolist(), vectors.tolist(), int(target[b]), rate
        )
        torch.testing.assert_close(closed.mean[b], f64(*mean))
        torch.testing.assert_close(closed.variance[b], f64(*variance))


def test_closed_form_of_several_labels_is_that_of_each_attribute():
    features, vectors, target = attributes_problem()
    closed = dropout_error_moments(features, vectors, target, rate=0.3)
    assert closed.mean.shape == closed.variance.shape == (5, 3, 2)
    for a in range(3):
        mean, variance = reference.dropout_error_moments(features, vectors[a], target[:, a], 0.3)
        torch.testing.assert_close(closed.mean[:, a], mean)
        torch.testing.assert_close(closed.variance[:, a], variance)


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_sampling_and_closed_form_agree_within_sampling_error(rate):
    passes = 4_000
    features, vectors, target = problem(batch=6, classes=5, length=8)
    masked = F.dropout(features.expand(passes, -1, -1), rate)
    logits = masked @ vectors.T
    sampled, closed = error_moments(logits, target), dropout_error_moments(features, vectors, target, rate=rate)
    error = logits - logits.gather(-1, target.expand(passes, -1).unsqueeze(-1))
    fourth = (error - closed.mean).pow(4).mean(0)
    # standard errors: σ/√N of the mean, √((μ₄ − σ⁴)/N) of the variance; 30 values each, so 4.5 of them are safe
    mean_error = (closed.variance / passes).sqrt()
    variance_error = ((fourth - closed.variance.square()).clamp_min(0) / passes).sqrt()
    assert ((sampled.mean - closed.mean).abs() <= 4.5 * mean_error + 1e-12).all()
    assert ((sampled.variance - closed.variance).abs() <= 4.5 * variance_error + 1e-12).all()
    rivals = closed.variance > 0  # and the band is narrow enough to tell a wrong formula
    assert rivals.sum() == 24
    assert (4.5 * variance_error[rivals] < 0.2 * closed.variance[rivals]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_true_class_has_neither_mean_nor_variance(dtype):
    features, vectors, target = problem(dtype=dtype)
    closed = dropout_error_moments(100 * features, vectors, target, rate=0.5)
    sampled = error_moments(torch.randn(3, 5, 4, dtype=dtype), target)
    for moments in (*closed, *sampled):
        assert moments.dtype == dtype
        assert (moments.gather(-1, target.unsqueeze(-1)) == 0).all()


def test_without_dropout_there_is_no_variance():
    features, vectors, target = problem()
    assert (dropout_error_variance(features, vectors, target, rate=0.0) == 0).all()
    features, vectors, target = attributes_problem()
    assert (dropout_error_variance(features, vectors, target, rate=0.0) == 0).all()


def test_variance_grows_with_the_rate_and_with_the_square_of_the_features():
    features, vectors, target = problem()
    little, much = (dropout_error_variance(features, vectors, target, rate=rate) for rate in (0.2, 0.5))
    torch.testing.assert_close(much, 4 * little)  # p/(1 − p): 1 against ¼
    torch.testing.assert_close(dropout_error_variance(-3 * features, vectors, target, rate=0.5), 9 * much)


def test_equal_class_vectors_give_no_variance_and_never_a_negative_one():
    features = 1e3 * torch.randn(64, 32, generator=seeded())
    vectors = torch.randn(1, 32, generator=seeded(1)).repeat(6, 1)
    variance = dropout_error_variance(features, vectors, torch.zeros(64, dtype=torch.long), rate=0.5)
    assert (variance >= 0).all()
    assert (variance <= 1e-5 * features.square().sum(-1, keepdim=True)).all()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_labels_of_every_integer_type_count_as_labels(dtype):
    features, vectors, target = problem()
    expected = dropout_error_moments(features, vectors, target, rate=0.5)
    torch.testing.assert_close(dropout_error_moments(features, vectors, target.to(dtype), rate=0.5), expected)
    logits = torch.randn(3, 5, 4, generator=seeded())
    torch.testing.assert_close(error_moments(logits, target.to(dtype)), error_moments(logits, target))
    torch.testing.assert_close(strongest_rival(expected, target.to(dtype)), strongest_rival(expected, target))


def test_closed_form_variance_has_the_right_gradient():
    features, vectors, target = problem(batch=4, classes=3, length=3)
    assert torch.autograd.gradcheck(
        lambda f, w: dropout_error_variance(f, w, target, rate=0.4),
        (features.requires_grad_(), vectors.requires_grad_()),
    )


def test_inputs_stay_as_they_were():
    features, vectors, target = problem()
    copies = features.clone(), vectors.clone(), target.clone()
    error = dropout_error_moments(features, vectors, target, rate=0.5)
    kept = ErrorMoments(*(moments.clone() for moments in error))
    strongest_rival(error, target)
    logits = torch.randn(3, 5, 4)
    before = logits.clone()
    error_moments(logits, target)
    for value, copy in zip((features, vectors, target, *error, logits), (*copies, *kept, before), strict=True):
        assert torch.equal(value, copy)


def test_no_tensor_larger_than_batch_by_classes_at_8631_classes():
    batch, length = 16, 512
    features, vectors, target = problem(batch=batch, classes=MANY_CLASSES, length=length, dtype=torch.float32)
    with LargestTensor() as largest:
        error = dropout_error_moments(features, vectors, target, rate=0.5)
    # the squared class vectors are the largest; batch x classes x features would be 16 times as many
    assert largest.elements <= MANY_CLASSES * length
    with LargestTensor() as largest:
        strongest_rival(error, target)
    assert largest.elements <= batch * MANY_CLASSES
    logits = torch.randn(3, batch, MANY_CLASSES, generator=seeded())
    with LargestTensor() as largest:
        error_moments(logits, target)
    assert largest.elements <= logits.numel()


def test_few_tensors_of_batch_by_classes_are_alive_at_8631_classes():
    batch, length = 256, 32
    features, vectors, target = problem(batch=batch, classes=MANY_CLASSES, length=length, dtype=torch.float32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        error = dropout_error_moments(features, vectors, target, rate=0.5)
    steps = [e.nbytes() for e in memory_events(profile)]
    peak = max(sum(steps[: k + 1]) for k in range(len(steps)))
    unit = error.mean.numel() * error.mean.element_size()
    assert 2 * unit <= peak <= 3.5 * unit  # the two results and one more


def memory_events(profile: torch.profiler.profile) -> list:
    """The allocations and releases in the order in which they happened."""
    events = profile.profiler.kineto_results.events()
    return sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())


def test_misclassification_probability_is_the_share_of_positive_draws():
    draws = torch.randn(400_000, generator=seeded(), dtype=torch.float64)
    for mean, variance in [(-1.0, 4.0), (0.0, 1.0), (0.5, 0.25), (2.0, 9.0), (-3.0, 1.0)]:
        share = (mean + math.sqrt(variance) * draws > 0).double().mean()
        actual = misclassification_probability(f64(mean), f64(variance))[0]
        standard_error = math.sqrt(float(actual * (1 - actual)) / len(draws))
        assert abs(float(share - actual)) < 4 * standard_error


def test_misclassification_probability_is_the_integral_of_the_density():
    means = torch.linspace(-3, 3, 7, dtype=torch.float64)
    variances = f64(0.3, 1.0, 5.0)
    actual = misclassification_probability(means[:, None], variances)
    expected = f64(*(reference.probability_of_error(float(m), float(v)) for m in means for v in variances)).view(7, 3)
    torch.testing.assert_close(actual, expected, atol=1e-7, rtol=1e-6)


def test_misclassification_probability_keeps_its_tail():
    # 1 + erf(x) would be 0 here; the tail is e^{−x²/2}/(x√2π)·(1 − 1/x² + 3/x⁴ ...)
    z = 20.0
    tail = math.exp(-(z**2) / 2) / (z * math.sqrt(2 * math.pi)) * (1 - z**-2 + 3 * z**-4)
    assert float(misclassification_probability(f64(-z), f64(1.0))) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_without_variance_the_probability_is_a_step(dtype):
    mean = torch.tensor([-5.0, -1e-3, 0.0, 1e-3, 5.0], dtype=dtype)
    actual = misclassification_probability(mean, torch.zeros(5, dtype=dtype))
    assert actual.dtype == dtype
    assert actual.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]


@given(
    mean=st.floats(-(2.0**100), 2.0**100, width=32),
    variance=st.floats(0, 2.0**127, width=32),
    more=st.floats(0, 2.0**100, width=32),
)
def test_misclassification_probability_is_finite_and_monotone_in_the_mean(mean, variance, more):
    means, variances = torch.tensor([mean, mean + more]), torch.tensor([variance, variance])
    low, high = misclassification_probability(means, variances).tolist()
    assert 0 <= low <= high <= 1
    opposite = misclassification_probability(-means, variances)
    assert low + float(opposite[0]) == pytest.approx(1, abs=1e-6)


def test_misclassification_probability_survives_the_largest_variance():
    largest = torch.finfo(torch.float32).max
    mean = torch.tensor([-math.sqrt(largest)])
    expected = misclassification_probability(torch.tensor([-1.0]), torch.tensor([1.0]))
    torch.testing.assert_close(misclassification_probability(mean, torch.tensor([largest])), expected)


def test_strongest_rival_is_the_largest_probability_over_the_others():
    error = error_moments(torch.randn(7, 5, 4, generator=seeded(), dtype=torch.float64), torch.tensor([0, 3, 1, 1, 0]))
    target = torch.tensor([0, 3, 1, 1, 0])
    actual = strongest_rival(error, target)
    for b in range(5):
        rivals = [
            reference.probability_of_error(float(error.mean[b, j]), float(error.variance[b, j]))
            for j in range(4)
            if j != int(target[b])
        ]
        assert float(actual[b]) == pytest.approx(max(rivals), abs=1e-6)


def test_the_true_class_is_no_rival_of_its_own():
    # its error is 0 for certain, which alone would be a probability of ½
    error = ErrorMoments(torch.tensor([[0.0, -50.0, -40.0]]), torch.ones(1, 3))
    assert float(strongest_rival(error, torch.tensor([0]))) < 1e-6


def test_strongest_rival_of_several_labels():
    features, vectors, target = attributes_problem()
    error = dropout_error_moments(features, vectors, target, rate=0.5)
    expected = misclassification_probability(error.mean, error.variance).gather(-1, (1 - target).unsqueeze(-1))
    torch.testing.assert_close(strongest_rival(error, target), expected.squeeze(-1))


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-10, 1e10, 1e18, 1e38])
def test_no_feature_makes_the_moments_infinite_or_nan(scale):
    features, vectors, target = problem(dtype=torch.float32)
    vectors = F.normalize(vectors, dim=-1)
    features = features.sign() * scale
    error = dropout_error_moments(features, vectors, target, rate=0.9)
    assert error.variance.isfinite().all()
    assert (error.variance >= 0).all()
    probability = strongest_rival(error, target)
    assert ((probability >= 0) & (probability <= 1)).all()


@pytest.mark.parametrize(
    ("size", "length", "dtype"),
    [
        (20.0, 1.0, torch.float16),
        (6e4, 6e4, torch.float16),
        (1e38, 1e38, torch.bfloat16),
        (1e18, 1e6, torch.float32),
        (3e38, 3e38, torch.float32),
        (1e308, 1e308, torch.float64),
    ],
)
@pytest.mark.parametrize("shape", [(7, 512), (3, 2, 512)], ids=["classes", "labels"])
def test_no_finite_features_and_vectors_make_the_moments_infinite(size, length, dtype, shape):
    features = size * torch.randn(5, 512, generator=seeded()).sign().to(dtype)
    vectors = length * torch.randn(shape, generator=seeded(1)).sign().to(dtype)
    target = torch.ones((5, *shape[:-2]), dtype=torch.long)
    for rate in (0.0, 0.5, 1 - 1e-9):
        error = dropout_error_moments(features, vectors, target, rate=rate)
        assert error.mean.isfinite().all()
        assert (error.variance.isfinite() & (error.variance >= 0)).all()
        assert error.variance.sum().isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_moments_of_halves_are_those_in_float32(dtype):
    features, vectors, target = problem(batch=4, length=512, dtype=torch.float32)
    features, vectors = (20 * features).to(dtype), vectors.to(dtype)
    error = dropout_error_moments(features, vectors, target, rate=0.5)
    expected = dropout_error_moments(features.float(), vectors.float(), target, rate=0.5)
    assert error.variance.dtype == torch.float32
    assert all(torch.equal(a, b) for a, b in zip(error, expected, strict=True))


@given(
    shape=st.tuples(st.integers(0, 5), st.integers(2, 6), st.integers(1, 5)),
    rate=st.floats(0, 0.99),
    scale=st.sampled_from([0.0, 1e-20, 1.0, 1e6, 1e15]),
    seed=st.integers(0, 99),
)
def test_closed_form_is_finite_for_every_shape_and_scale(shape, rate, scale, seed):
    batch, classes, length = shape
    generator = seeded(seed)
    features = scale * torch.randn(batch, length, generator=generator)
    vectors = F.normalize(torch.randn(classes, length, generator=generator), dim=-1)
    target = torch.randint(classes, (batch,), generator=generator)
    error = dropout_error_moments(features, vectors, target, rate=rate)
    assert error.mean.shape == error.variance.shape == (batch, classes)
    assert error.mean.isfinite().all()
    assert (error.variance.isfinite() & (error.variance >= 0)).all()
    assert strongest_rival(error, target).shape == (batch,)


@pytest.mark.parametrize("function", [dropout_error_moments, dropout_error_variance])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 1.0}, r"must lie in \[0, 1\), got 1.0"),
        ({"rate": -0.1}, r"must lie in \[0, 1\), got -0.1"),
        ({"rate": math.nan}, r"must lie in \[0, 1\), got nan"),
        ({"target": torch.tensor([0, 1, 4, 0, 0])}, "label 4 but there are 4 classes"),
        ({"target": torch.tensor([0, -1, 3, 0, 0])}, "label -1 but labels start at 0; check the labels"),
        ({"target": torch.zeros(5)}, "integer labels, got torch.float32"),
        ({"target": torch.zeros(5, dtype=torch.bool)}, "integer labels, got torch.bool"),
        ({"target": torch.zeros(4, dtype=torch.long)}, r"target must have the shape \(5,\), got \(4,\)"),
        ({"features": torch.ones(5, 6, dtype=torch.long)}, "floating point, got torch.int64"),
        ({"features": torch.ones(5, 7)}, r"got \(5, 7\) and \(4, 6\); D must be the same"),
        ({"features": torch.ones(5, 2, 6)}, r"features must be \(batch, D\)"),
        ({"vectors": torch.ones(6)}, r"vectors \(classes, D\)"),
        ({"features": torch.full((5, 6), math.nan)}, "features must be finite"),
        ({"features": torch.full((5, 6), math.inf)}, "features must be finite"),
        ({"features": [[1.0] * 6] * 5}, "features must be a torch tensor, got list; wrap it in torch.as_tensor"),
        ({"vectors": torch.ones(4, 6).numpy()}, "vectors must be a torch tensor, got ndarray"),
        ({"target": None}, "target must be a torch tensor, got NoneType"),
    ],
)
def test_bad_input_of_the_closed_form_is_named(function, change, message):
    features, vectors, target = problem(dtype=torch.float32)
    arguments = {"features": features, "vectors": vectors, "target": target, "rate": 0.5} | change
    with pytest.raises(InvalidInputError, match=message):
        function(**arguments)


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (torch.zeros(3, 5, 4), torch.zeros(6, dtype=torch.long), r"got \(3, 5, 4\) for a target of shape \(6,\)"),
        (torch.zeros(5, 4), torch.zeros(5, dtype=torch.long), "stack the passes in front"),
        (torch.zeros(3, 5, 4, 2), torch.zeros(5, dtype=torch.long), "stack the passes in front"),
        (torch.zeros(3, 2, 4), torch.tensor([0, 4]), "label 4 but there are 4 classes"),
        (torch.zeros(3, 2, 4), torch.tensor([-1, 0]), "label -1 but labels start at 0"),
        (None, torch.tensor([0, 1]), "logits must be a torch tensor, got NoneType"),
        (torch.zeros(3, 2, 4), [0, 1], "target must be a torch tensor, got list; wrap it in torch.as_tensor"),
        (torch.zeros(3, 2, 4), torch.zeros(2), "integer labels, got torch.float32"),
        (torch.zeros(1, 2, 4), torch.tensor([0, 1]), "at least 2 passes, got torch.float32 from 1"),
        (torch.zeros(3, 2, 4, dtype=torch.long), torch.tensor([0, 1]), "floating point .* got torch.int64 from 3"),
    ],
)
def test_bad_input_of_the_sampled_moments_is_named(logits, target, message):
    with pytest.raises(InvalidInputError, match=message):
        error_moments(logits, target)


def test_an_integer_mean_is_refused():
    with pytest.raises(InvalidInputError, match=r"floating point, got torch\.int64"):
        misclassification_probability(torch.tensor([1]), torch.tensor([1.0]))


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        (0.5, torch.ones(1), "mean must be a torch tensor, got float; wrap it in torch.as_tensor"),
        (torch.ones(1), [1.0], "variance must be a torch tensor, got list"),
        (torch.ones(2), torch.tensor([1.0, -0.5]), "variance must not be negative, got -0.5"),
        (torch.ones(2), torch.tensor([1.0, math.nan]), "variance must not be negative, got nan"),
    ],
)
def test_a_mean_or_variance_that_is_none_is_named(mean, variance, message):
    with pytest.raises(InvalidInputError, match=message):
        misclassification_probability(mean, variance)


def test_no_errors_have_no_probabilities():
    assert misclassification_probability(torch.ones(0), torch.ones(0)).shape == (0,)


def test_the_strongest_rival_takes_a_plain_pair_and_a_tensor_of_labels():
    pair, target = (torch.tensor([[0.0, -1.0]]), torch.ones(1, 2)), torch.tensor([0])
    assert torch.equal(strongest_rival(pair, target), strongest_rival(ErrorMoments(*pair), target))
    with pytest.raises(InvalidInputError, match="target must be a torch tensor, got list"):
        strongest_rival(ErrorMoments(*pair), [0])
