"""ψ and ArcFace's shifted cosine: value, shape and gradient, at the ends above all."""

import math

import pytest
import scipy.special
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.losses import psi, shifted_cosine
from equipoise.losses.psi import STEEPEST
from tests.losses.cases import f64, seeded
from tests.reference import losses as reference

REAL_MARGINS = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.3, 100.0]
ANGLES = [0.0, 0.2, math.pi / 2, 3.0, math.pi]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
ENDS = [-1.0000001, -1.0, 0.0, 1.0, 1.0000001]


def gradient(function, cosine, margin, **options):
    cosine = cosine.clone().requires_grad_()
    return torch.autograd.grad(function(cosine, margin, **options).sum(), cosine)[0]


@pytest.mark.parametrize("margin", REAL_MARGINS)
def test_psi_equals_its_piecewise_definition(margin):
    cosine = torch.linspace(-1, 1, 501, dtype=torch.float64)
    expected = f64([reference.psi(c, margin) for c in cosine.tolist()])
    torch.testing.assert_close(psi(cosine, margin), expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 3e-5), (torch.bfloat16, 0.05), (torch.float16, 0.01)], ids=str
)
def test_psi_in_narrow_types_is_as_near_as_the_type_allows(dtype, tolerance):
    cosine = torch.linspace(-1, 1, 257).to(dtype)
    margin = torch.tensor([1.0, 1.5, 2.5, 4.0]).view(-1, 1)
    value = psi(cosine, margin)
    expected = f64([[reference.psi(c, m) for c in cosine.tolist()] for m in margin.flatten().tolist()])
    assert value.dtype == dtype
    assert torch.equal(value, psi(cosine.float(), margin).to(dtype))  # the angle itself is never a half
    torch.testing.assert_close(value.double(), expected, atol=tolerance, rtol=0)


def test_psi_takes_a_margin_of_its_own_for_each_element_and_class():
    cosine = torch.rand(4, 3, generator=seeded(), dtype=torch.float64) * 2 - 1
    a_class, an_element = f64([1.0, 2.5, 3.0]), 1 + 3 * torch.rand(4, 3, generator=seeded(1), dtype=torch.float64)
    for margins in (a_class, an_element):
        pairs = zip(cosine.flatten().tolist(), margins.expand(4, 3).flatten().tolist(), strict=True)
        expected = f64([reference.psi(c, m) for c, m in pairs]).view(4, 3)
        torch.testing.assert_close(psi(cosine, margins), expected, atol=1e-12, rtol=0)
    assert psi(cosine[:, :1], a_class).shape == (4, 3)


@pytest.mark.parametrize("margin", [1.0, 1.3, 1.5, 2.0, 2.5, 3.0, 4.0, math.pi, 7.3, 100.0])
def test_psi_is_continuous_and_decreasing_in_the_angle(margin):
    angle = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
    steps = psi(angle.cos(), margin).diff()
    assert bool((steps <= 1e-12).all())
    # |dψ/dα| ≤ m: a jump at a segment's end would show as a longer step
    assert float(steps.abs().max()) <= margin * float(angle[1]) * 1.01
    assert float(psi(f64(1.0), margin)) == 1
    last = psi(f64(-1.0), margin)
    torch.testing.assert_close(last, f64(reference.psi(-1.0, margin)), atol=1e-10, rtol=0)


@pytest.mark.parametrize("margin", [2, 3, 4, 5, 8])
def test_psi_is_the_chebyshev_polynomial_on_the_first_segment(margin):
    cosine = torch.linspace(math.cos(math.pi / margin), 1, 200, dtype=torch.float64)
    expected = torch.from_numpy(scipy.special.eval_chebyt(margin, cosine.numpy()))
    torch.testing.assert_close(psi(cosine, float(margin)), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("margin", [1, 2, 3, 4, 5, 6, 7])
def test_the_printed_expansion_is_a_misprint_and_the_corrected_one_is_not(margin):
    angles = [0.1, 0.5, 1.1, 2.0, 3.0]
    corrected = [reference.corrected_expansion(math.cos(a), margin) for a in angles]
    printed = [reference.printed_expansion(math.cos(a), margin) for a in angles]
    expected = [math.cos(margin * a) for a in angles]
    assert corrected == pytest.approx(expected, abs=1e-11)
    assert all(abs(p - e) > 0.01 for p, e in zip(printed, expected, strict=True))


@pytest.mark.parametrize("margin", [2.0, 3.0, 4.0])
def test_psi_continues_the_corrected_expansion_downwards(margin):
    for cosine in torch.linspace(-0.99, 0.99, 41).tolist():
        r = math.floor(margin * math.acos(cosine) / math.pi)
        expected = (-1) ** r * reference.corrected_expansion(cosine, int(margin)) - 2 * r
        assert float(psi(f64(cosine), margin)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_margin_one_is_the_cosine_bit_for_bit_with_its_gradient(dtype):
    cosine = (torch.rand(1000, generator=seeded()) * 2 - 1).to(dtype)
    assert torch.equal(psi(cosine, 1.0), cosine)
    assert torch.equal(gradient(psi, cosine, 1.0), torch.ones_like(cosine))


@pytest.mark.parametrize("margin", [1.5, 2.0, 2.5, 3.0, 7.3])
def test_the_exact_gradient_is_the_written_slope(margin):
    cosine = torch.linspace(-0.99, 0.99, 101, dtype=torch.float64)
    expected = f64([reference.psi_slope(c, margin) for c in cosine.tolist()])
    torch.testing.assert_close(gradient(psi, cosine, margin), expected, atol=1e-9, rtol=1e-9)


def test_psi_passes_gradcheck():
    cosine = torch.linspace(-0.95, 0.95, 24, dtype=torch.float64).view(6, 4).requires_grad_()
    margins = f64([1.0, 1.7, 3.0, 5.2])
    assert torch.autograd.gradcheck(lambda c: psi(c, margins), cosine)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("margin", REAL_MARGINS)
def test_psi_and_its_gradient_are_finite_and_bounded_at_the_ends(dtype, margin):
    cosine = torch.tensor(ENDS, dtype=torch.float64).to(dtype)
    slope = gradient(psi, cosine, margin)
    assert bool(psi(cosine, margin).isfinite().all())
    assert bool(slope.isfinite().all())
    assert bool((slope >= 0).all())
    assert float(slope.max()) <= STEEPEST * margin * (1 + torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("margin", ANGLES)
def test_the_shifted_cosine_and_its_gradient_are_finite_and_bounded_at_the_ends(dtype, margin):
    cosine = torch.tensor(ENDS, dtype=torch.float64).to(dtype)
    slope = gradient(shifted_cosine, cosine, margin)
    assert bool(shifted_cosine(cosine, margin).isfinite().all())
    assert bool(slope.isfinite().all())
    assert 0 <= float(slope.min()) <= float(slope.max()) <= STEEPEST


@pytest.mark.parametrize("past", [1.0000001, 1.5, 1e10])
@pytest.mark.parametrize("margin", REAL_MARGINS)
def test_a_cosine_past_one_counts_as_one(margin, past):
    past, ends = torch.tensor([-past, past]), torch.tensor([-1.0, 1.0])
    assert torch.equal(psi(past, margin), psi(ends, margin))
    assert torch.equal(gradient(psi, past, margin), gradient(psi, ends, margin))


def test_the_gradient_of_margin_one_flows_at_the_ends_and_past_them():
    cosine = torch.tensor([-1.5, *ENDS, 1.5])
    assert torch.equal(gradient(psi, cosine, 1.0), torch.ones_like(cosine))


def test_a_margin_may_be_a_list():
    cosine = torch.tensor([0.5, -0.5])
    assert torch.equal(psi(cosine, [1.0, 2.0]), psi(cosine, torch.tensor([1.0, 2.0])))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("margin", [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 100.0])
def test_the_gradient_at_cosine_one_is_its_limit_the_squared_margin(dtype, margin):
    assert float(gradient(psi, torch.ones(1, dtype=dtype), margin)) == margin**2


def test_the_gradient_approaches_its_limit_smoothly():
    cosine = 1 - torch.logspace(-15, -3, 200, dtype=torch.float64)
    torch.testing.assert_close(gradient(psi, cosine, 2.5), torch.full_like(cosine, 6.25), rtol=0.01, atol=0)


@pytest.mark.parametrize("margin", ANGLES)
def test_the_shifted_cosine_equals_its_loop_and_decreases_past_pi(margin):
    angle = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    value = shifted_cosine(angle.cos(), margin)
    expected = f64([reference.shifted_cosine(c, margin) for c in angle.cos().tolist()])
    torch.testing.assert_close(value, expected, atol=1e-12, rtol=0)
    assert bool((value.diff() <= 1e-12).all())
    assert float(value.diff().abs().max()) <= 1.01 * float(angle[1])


def test_the_shifted_cosine_passes_gradcheck():
    cosine = torch.linspace(-0.95, 0.95, 24, dtype=torch.float64).view(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: shifted_cosine(c, f64([0.0, 0.5, 1.5, 3.0])), cosine)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: psi(torch.zeros(2), 0.5), "margin must be at least 1"),
        (lambda: psi(torch.zeros(2), torch.tensor([2.0, float("nan")])), "margin must be at least 1"),
        (lambda: psi(torch.zeros(2), float("inf")), "finite"),
        (lambda: psi(torch.zeros(2, dtype=torch.int64), 2.0), "floating point"),
        (lambda: psi(torch.zeros(2, 3), torch.ones(4)), "does not broadcast"),
        (lambda: psi([0.0, 0.5], 2.0), r"cosine must be a torch tensor, got list; wrap it in torch.as_tensor"),
        (lambda: psi(None, 2.0), "cosine must be a torch tensor, got NoneType"),
        (lambda: psi(torch.zeros(2), None), "margin must be numbers, got NoneType"),
        (lambda: psi(torch.zeros(2), "wide"), "margin must be numbers, got str"),
        (lambda: shifted_cosine(0.5, 0.1), "cosine must be a torch tensor, got float"),
        (lambda: shifted_cosine(torch.zeros(2), -0.1), r"\[0, π\]"),
        (lambda: shifted_cosine(torch.zeros(2), 3.2), r"\[0, π\]"),
        (lambda: shifted_cosine(torch.zeros(2), float("nan")), r"\[0, π\]"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_no_cosine_and_no_margin_gives_a_non_finite_value_or_gradient():
    cases = 0

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**31 - 1),
        dtype=st.sampled_from(DTYPES),
        largest=st.sampled_from([1.0, 1.0001, 2.0, 3.0, 10.0, 100.0]),
        nearness=st.sampled_from([0.0, 1.0, 4.0, 8.0, 16.0]),
        spread=st.sampled_from([0.9, 1.0, 1.0000001, 1.01]),
    )
    def check(seed, dtype, largest, nearness, spread):
        nonlocal cases
        random = torch.rand(3, 20_000, generator=seeded(seed), dtype=torch.float64)
        near_one = 1 - random[0] * 10**-nearness
        cosine = (spread * near_one * torch.where(random[1] < 0.5, -1, 1)).to(dtype)
        margins = 1 + random[2] * (largest - 1)
        assert bool(psi(cosine, margins).isfinite().all())
        assert bool(gradient(psi, cosine, margins).isfinite().all())
        cases += cosine.numel()

    check()
    assert cases >= 1_000_000
