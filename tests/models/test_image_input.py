"""Stored pixels to normalised floats: the first layer of a network of images."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close

from equipoise.data.images import Images
from equipoise.errors import InvalidInputError
from equipoise.models.augment import Augment
from equipoise.models.image_network import IMAGENET_MEAN, IMAGENET_STD, ImageInput
from equipoise.models.layers import Dropout
from equipoise.uncertainty import mc_dropout


def pixels(n: int = 6, channels: int = 3, height: int = 5, width: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.integers(0, 256, (n, channels, height, width)) * np.array([1, 0.5, 0.2])[:channels, None, None]).astype(
        np.uint8
    )


def test_imagenet_s_mean_and_deviation_by_hand():
    x = pixels()
    out = ImageInput.imagenet().eval()(torch.from_numpy(x))
    assert out.dtype == torch.float32
    for channel in range(3):
        expected = (x[:, channel] / 255 - IMAGENET_MEAN[channel]) / IMAGENET_STD[channel]
        assert_close(out[:, channel].double(), torch.from_numpy(expected), atol=1e-6, rtol=1e-5)


def test_bytes_and_floats_of_the_same_values_give_the_same():
    x, layer = torch.from_numpy(pixels()), ImageInput.imagenet().eval()
    assert torch.equal(layer(x.float()), layer(x))
    assert torch.equal(layer(x.double()), layer(x))
    assert layer.double()(x).dtype == torch.float64


def test_without_a_fit_pixels_go_from_zero_to_one():
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    assert_close(ImageInput(1).eval()(x), torch.tensor([0, 0.2, 1]).view(1, 1, 1, 3))


@pytest.mark.parametrize("channels", [1, 3])
def test_fit_gives_mean_0_and_deviation_1(channels):
    x = pixels(50, channels)
    layer = ImageInput(channels).fit(x).eval()
    assert_close(layer.mean.flatten().double(), torch.from_numpy(x.mean((0, 2, 3)) / 255), atol=1e-6, rtol=1e-5)
    assert_close(layer.std.flatten().double(), torch.from_numpy(x.std((0, 2, 3)) / 255), atol=1e-6, rtol=1e-5)
    out = layer(torch.from_numpy(x))
    assert_close(out.mean((0, 2, 3)), torch.zeros(channels), atol=1e-5, rtol=0)
    assert_close(out.std((0, 2, 3), correction=0), torch.ones(channels), atol=1e-5, rtol=0)


def test_fit_in_parts_is_fit_of_all_and_many_images_are_sampled_evenly(monkeypatch):
    x = pixels(40)
    whole = ImageInput(3).fit(x)
    monkeypatch.setattr("equipoise.models.image_network.IMAGES_AT_ONCE", 7)
    assert_close(ImageInput(3).fit(x).std, whole.std)
    monkeypatch.setattr("equipoise.models.image_network.IMAGES_TO_FIT", 3)
    assert_close(ImageInput(3).fit(x).mean, ImageInput(3).fit(x[[0, 20, 39]]).mean)


def test_a_channel_without_variation_keeps_its_scale():
    x = np.full((4, 1, 3, 3), 77, dtype=np.uint8)
    layer = ImageInput(1).fit(x).eval()
    assert float(layer.std) == 1
    assert float(layer(torch.from_numpy(x)).abs().max()) < 1e-6


def test_images_on_disk_are_fitted_like_those_in_memory(tmp_path):
    x = pixels(8)
    for row, image in enumerate(x):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / f"{row}.png")
    images = Images(tmp_path, [f"{row}.png" for row in range(8)], size=(5, 4), channels=3)
    assert torch.equal(ImageInput(3).fit(images).mean, ImageInput(3).fit(x).mean)


def test_grey_images_become_three_equal_channels_for_a_network_of_three():
    grey = pixels(4, 1)
    layer = ImageInput(3).fit(grey).eval()
    out = layer(torch.from_numpy(grey))
    assert out.shape == (4, 3, 5, 4)
    assert torch.equal(out[:, 0], out[:, 2])
    assert_close(out[:, :1], ImageInput(1).fit(grey).eval()(torch.from_numpy(grey)))
    imagenet = ImageInput.imagenet().eval()
    repeated = torch.from_numpy(grey).expand(-1, 3, -1, -1)
    assert_close(imagenet(torch.from_numpy(grey)), imagenet(repeated))


def test_augmentation_comes_in_training_mode_alone_and_before_the_normalisation():
    x = torch.from_numpy(pixels())
    layer = ImageInput.imagenet(augment=Augment())
    plain = ImageInput.imagenet()
    assert torch.equal(layer.eval()(x), plain.eval()(x))
    torch.manual_seed(5)
    out = layer.train()(x)
    torch.manual_seed(5)
    expected = (Augment().train()(x / 255) - plain.mean) / plain.std
    assert_close(out, expected)
    assert not torch.equal(out, plain(x))
    assert torch.equal(plain.train()(x), plain.eval()(x))


def test_stochastic_passes_share_the_image_and_differ_by_dropout():
    x = torch.from_numpy(pixels())
    layer = ImageInput.imagenet(augment=Augment())
    seen = []
    network = nn.Sequential(layer, nn.Flatten(), nn.Linear(60, 8), Dropout(0.5))
    layer.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    out = mc_dropout(network.train(), x, passes=5, generator=torch.Generator().manual_seed(0))
    assert out.shape == (5, 6, 8)
    assert not torch.equal(out[0], out[1])
    assert len(seen) == 2  # for the masks' shapes, then once for all passes
    assert torch.equal(seen[1], ImageInput.imagenet().eval()(x))
    assert layer.augment.training  # as it was


def test_the_state_dict_holds_what_a_prediction_needs():
    x = torch.from_numpy(pixels())
    fitted = ImageInput(3).fit(pixels(20)).eval()
    other = ImageInput(3).eval()
    other.load_state_dict(fitted.state_dict())
    assert torch.equal(other(x), fitted(x))
    assert set(fitted.state_dict()) == {"mean", "std"}
    assert list(fitted.parameters()) == []


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 4, 4), (0, 3, 4, 4), (2, 4, 4, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(InvalidInputError, match=r"expected images \(batch, 1 or 3, height, width\), got the shape"):
        ImageInput(3)(torch.zeros(shape, dtype=torch.uint8))
    with pytest.raises(InvalidInputError, match=r"expected images \(batch, 1 or 3, height, width\), got the shape"):
        ImageInput(3).fit(np.zeros(shape, dtype=np.uint8))


def test_colour_is_not_given_to_a_network_of_one_channel():
    with pytest.raises(InvalidInputError, match=r"expected images \(batch, 1, height, width\)"):
        ImageInput(1)(torch.zeros(1, 3, 4, 4))


def test_impossible_options_are_refused():
    with pytest.raises(InvalidInputError, match="channels must be 1 or 3, got 2"):
        ImageInput(2)
    with pytest.raises(InvalidInputError, match="mean and std must have 3 values, got 1"):
        ImageInput(3, mean=[0.5])
    with pytest.raises(InvalidInputError, match=r"std must be positive, got \[0.0\]"):
        ImageInput(1, std=[0.0])


def test_colour_images_fit_a_network_of_one_channel_by_their_average():
    x = pixels(20)
    layer = ImageInput(1).fit(x)
    average = x.astype(np.float64).mean(1) / 255
    assert_close(layer.mean.flatten().double(), torch.tensor([average.mean()]), atol=1e-6, rtol=1e-5)
    assert_close(layer.std.flatten().double(), torch.tensor([average.std()]), atol=1e-6, rtol=1e-5)
    with pytest.raises(InvalidInputError, match=r"expected images \(batch, 1, height, width\), got the shape"):
        ImageInput(1).fit(np.zeros((2, 4, 5, 5), dtype=np.uint8))
