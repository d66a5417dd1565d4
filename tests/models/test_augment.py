"""Augmentation of batches against loops over pixels, and the statistics of its draws."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch.testing import assert_close

from equipoise.errors import InvalidInputError
from equipoise.models.augment import Augment, recoloured, shifted

LUMA = [0.299, 0.587, 0.114]


def pictures(batch: int = 4, channels: int = 3, height: int = 6, width: int = 9) -> torch.Tensor:
    return torch.rand(batch, channels, height, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def slowly_shifted(image: np.ndarray, down: int, right: int, mirrored: bool) -> np.ndarray:
    """numpy's own reflecting border, then a cut, then a flip."""
    height, width = image.shape[1:]
    wide = np.pad(image, ((0, 0), (height - 1,) * 2, (width - 1,) * 2), mode="reflect")
    top, left = height - 1 - down, width - 1 - right
    cut = wide[:, top : top + height, left : left + width]
    return cut[:, :, ::-1] if mirrored else cut


def slowly_recoloured(image: np.ndarray, brightness: float, contrast: float, saturation: float) -> np.ndarray:
    bright = image * brightness
    luma = sum(weight * channel for weight, channel in zip(LUMA, bright, strict=True)) if len(image) == 3 else bright[0]
    contrasted = (bright - luma.mean()) * contrast + luma.mean()
    if len(image) == 3:
        luma = sum(weight * channel for weight, channel in zip(LUMA, contrasted, strict=True))
        contrasted = luma + (contrasted - luma) * saturation
    return np.clip(contrasted, 0, 1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.uint8])
def test_a_shift_is_a_cut_out_of_the_reflected_image(channels, dtype):
    x = (pictures(5, channels) * 255).to(dtype)
    down, right = torch.tensor([0, 1, -3, 5, -5]), torch.tensor([0, -2, 4, -8, 8])
    mirrored = torch.tensor([False, True, True, False, True])
    out = shifted(x, down, right, mirrored)
    assert out.dtype == dtype
    for row in range(5):
        expected = slowly_shifted(x[row].numpy(), int(down[row]), int(right[row]), bool(mirrored[row]))
        assert np.array_equal(out[row].numpy(), expected), row


def test_down_and_right_are_what_they_say():
    x = torch.zeros(1, 1, 7, 7)
    x[0, 0, 3, 3] = 1
    out = shifted(x, torch.tensor([2]), torch.tensor([1]), torch.tensor([False]))
    assert out[0, 0].nonzero().tolist() == [[5, 4]]


@pytest.mark.parametrize("channels", [1, 3])
def test_colour_follows_the_slow_loop(channels):
    x = pictures(6, channels)
    factors = [torch.rand(6, generator=torch.Generator().manual_seed(n), dtype=torch.float64) * 2 for n in range(3)]
    out = recoloured(x, *factors)
    expected = [slowly_recoloured(x[row].numpy(), *(float(f[row]) for f in factors)) for row in range(6)]
    assert_close(out, torch.from_numpy(np.stack(expected)))


@pytest.mark.parametrize(
    ("place", "enhancer"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
)
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.3])
def test_each_factor_is_that_of_a_common_image_library(place, enhancer, factor):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    expected = np.asarray(enhancer(Image.fromarray(pixels)).enhance(factor)).transpose(2, 0, 1) / 255
    factors = [torch.tensor([factor if n == place else 1.0], dtype=torch.float64) for n in range(3)]
    out = recoloured(torch.from_numpy(pixels.transpose(2, 0, 1) / 255)[None], *factors)[0]
    assert_close(out, torch.from_numpy(expected), atol=2.5 / 255, rtol=0)  # it rounds to bytes at every step


def test_factors_of_one_change_nothing_and_grey_has_no_saturation():
    x, one = pictures(), torch.ones(4, dtype=torch.float64)
    assert_close(recoloured(x, one, one, one), x)
    grey = pictures(channels=1)
    assert_close(recoloured(grey, one, one, 0 * one), grey)
    three_equal = grey.expand(-1, 3, -1, -1)
    assert_close(recoloured(three_equal, one, one, 0 * one), three_equal)


def test_eval_mode_gives_the_very_same_tensor_and_draws_nothing():
    x, state = pictures(), torch.get_rng_state()
    assert Augment().eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_everything_off_gives_the_very_same_tensor():
    x = pictures()
    assert Augment(crop=0, flip=0, colour=0).train()(x) is x


def test_it_does_not_change_its_input():
    x = pictures()
    before = x.clone()
    Augment().train()(x)
    assert torch.equal(x, before)


def test_the_same_seed_draws_the_same_and_the_next_call_another():
    x, augment = pictures(), Augment().train()
    torch.manual_seed(3)
    first, second = augment(x), augment(x)
    torch.manual_seed(3)
    assert torch.equal(augment(x), first)
    assert not torch.equal(first, second)
    assert first.dtype == x.dtype
    assert first.shape == x.shape


def test_shifts_are_uniform_over_their_range_and_independent_of_each_other():
    x = torch.zeros(20_000, 1, 17, 33)
    x[:, 0, 8, 16] = 1
    out = Augment(crop=0.125, flip=0, colour=0).train()(x)  # round(0.125 × 17) = 2 rows, 4 columns
    where = out.nonzero()
    assert len(where) == len(x)
    down, right = where[:, 2] - 8, where[:, 3] - 16
    assert_close(torch.bincount(down + 2).double() / len(x), torch.full((5,), 1 / 5).double(), atol=0.01, rtol=0)
    assert_close(torch.bincount(right + 4).double() / len(x), torch.full((9,), 1 / 9).double(), atol=0.01, rtol=0)
    assert abs(float(torch.corrcoef(torch.stack([down, right]).double())[0, 1])) < 0.03


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_the_share_of_mirrored_images_is_the_probability(probability):
    x = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(20_000, -1, -1, -1)
    out = Augment(crop=0, flip=probability, colour=0).train()(x)
    assert abs(float(out[:, 0, 0, 0].mean()) - probability) < 0.015


def test_brightness_is_uniform_about_one_and_each_image_has_its_own():
    flat = torch.full((20_000, 1, 2, 2), 0.5)  # contrast and saturation do not touch a flat grey image
    level = Augment(crop=0, flip=0, colour=0.4).train()(flat)[:, 0, 0, 0] / 0.5
    assert float(level.min()) >= 0.6 - 1e-6
    assert float(level.max()) <= 1.4 + 1e-6
    shares = torch.histc(level, 4, 0.6, 1.4) / len(level)
    assert_close(shares, torch.full((4,), 0.25), atol=0.015, rtol=0)


def test_contrast_and_saturation_are_drawn_apart():
    x = torch.tensor([0.3, 0.5, 0.7]).view(1, 3, 1, 1).repeat(4000, 1, 1, 2)
    x[:, :, :, 1] += 0.1
    out = Augment(crop=0, flip=0, colour=0.2).train()(x).double()
    luma = (out * torch.tensor(LUMA).view(1, 3, 1, 1)).sum(1)
    spread = (luma[:, 0, 1] - luma[:, 0, 0]) / luma.mean((1, 2))  # follows the contrast alone
    hue = (out[:, 2] - out[:, 0]).mean((1, 2)) / (luma[:, 0, 1] - luma[:, 0, 0])  # the saturation alone
    assert float(spread.std() / spread.mean()) > 0.1
    assert float(hue.std() / hue.mean()) > 0.1
    assert abs(float(torch.corrcoef(torch.stack([spread, hue]))[0, 1])) < 0.05


@pytest.mark.parametrize("side", [(1, 1), (1, 5), (2, 2)])
def test_tiny_images_and_the_largest_shift_stay_inside(side):
    x = torch.rand(50, 3, *side)
    out = Augment(crop=1.0, colour=1.0).train()(x)
    assert out.shape == x.shape
    assert out.isfinite().all()
    assert float(out.min()) >= 0
    assert float(out.max()) <= 1


@pytest.mark.parametrize("option", ["crop", "flip", "colour"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_options_outside_of_their_range_are_refused(option, value):
    with pytest.raises(InvalidInputError, match=f"{option} must be between 0 and 1, got"):
        Augment(**{option: value})


def test_it_tells_its_options():
    assert repr(Augment(crop=0.1, flip=0.0)) == "Augment(crop=0.1, flip=0.0, colour=0.2)"
