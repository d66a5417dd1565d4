"""Images to features: stored pixels to normalised floats, body and top as one module, by name and from weights."""

import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close

from equipoise.data.images import Images
from equipoise.errors import InvalidInputError
from equipoise.models import MLP, VGG16, ImageBackbone, ImageInput, LeNet, image_backbone, resnet18
from equipoise.models.augment import Augment
from equipoise.models.image_network import IMAGENET_MEAN, IMAGENET_STD
from equipoise.models.layers import Dropout
from equipoise.uncertainty import mc_dropout

PIXELS = torch.randint(0, 256, (3, 3, 40, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_two_full_layers_follow_the_pooling():
    network = image_backbone("resnet18", width=32, dropout=0.3).eval()
    assert network.out_features == 32
    assert network(PIXELS).shape == (3, 32)
    assert [layer.out_features for layer in network.top.layers if isinstance(layer, torch.nn.Linear)] == [32, 32]
    assert [layer.p for layer in network.top.layers if isinstance(layer, torch.nn.Dropout)] == [0.3]


def test_frozen_is_the_backbone_alone():
    network = image_backbone("resnet18", frozen=True).eval()
    assert network.out_features == 512
    floats = ImageInput(3)(PIXELS)
    torch.testing.assert_close(network(PIXELS), network.body(floats))


def test_weights_bring_imagenets_scale_and_a_slow_body(tmp_path):
    body = resnet18()
    torch.save(body.state_dict(), tmp_path / "w.pth")
    network = image_backbone("resnet18", weights=tmp_path / "w.pth")
    assert network.body_rate == 0.1
    np.testing.assert_allclose(network.input.mean.flatten(), IMAGENET_MEAN, rtol=1e-6)
    assert torch.equal(network.body.conv1.weight, body.conv1.weight)


def test_without_weights_the_images_themselves_set_the_scale():
    network = image_backbone("resnet18", images=PIXELS.numpy())
    assert network.body_rate == 1
    scaled = network.input(PIXELS)
    torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("channels", "name"), [(1, "resnet18"), (3, "lenet"), (1, "lenet")])
def test_grey_and_colour_go_into_either(channels, name):
    pixels = PIXELS[:, :channels]
    network = image_backbone(name, images=pixels.numpy()).eval()
    assert network(pixels).shape == (3, 500 if name == "lenet" else 512)


TIMM = """
import torch
class Network(torch.nn.Linear):
    num_features = 2
    default_cfg = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.5, 0.1), "input_size": (3, 8, 8)}
    def forward(self, x):
        return super().forward(x.flatten(1))
def create_model(name, pretrained, num_classes):
    network = Network(3 * 8 * 8, 2)
    if name == "silent":
        network.default_cfg = {"input_size": (3, 8, 8)}
    return network
"""


def test_a_network_of_timm_is_normalised_as_timm_says_of_it(tmp_path, monkeypatch):
    small = types.ModuleType("timm")
    exec(TIMM, small.__dict__)
    monkeypatch.setitem(sys.modules, "timm", small)
    torch.save(torch.nn.Linear(192, 2).state_dict(), tmp_path / "w.pth")
    told = image_backbone("timm:told", weights=tmp_path / "w.pth").input
    np.testing.assert_allclose(told.mean.flatten(), (0.5, 0.4, 0.3), rtol=1e-6)
    np.testing.assert_allclose(told.std.flatten(), (0.2, 0.5, 0.1), rtol=1e-6)
    silent = image_backbone("timm:silent", weights=tmp_path / "w.pth").input
    np.testing.assert_allclose(silent.mean.flatten(), IMAGENET_MEAN, rtol=1e-6)


def images(channels, *, batch=3, size=32):
    return torch.randint(0, 256, (batch, channels, size, size), dtype=torch.uint8)


@torch.inference_mode()
def test_input_body_and_top_follow_one_another():
    body = VGG16(blocks=(2, 3), enlarge=None)
    top = MLP(body.out_features, (16, 8))
    model = ImageBackbone(ImageInput.imagenet(), body, top).eval()
    x = images(3)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    floats = (x.double() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(model(x), top(body(floats.float())), atol=1e-5, rtol=1e-4)
    assert model(x).shape == (3, 8)
    assert model.out_features == 8
    assert ImageBackbone(ImageInput.imagenet(), body).out_features == 384
    assert {name.split(".")[0] for name in model.state_dict()} == {"input", "body", "top"}


@torch.inference_mode()
def test_grey_images_in_a_colour_network_and_colour_images_in_a_grey_one():
    model, x = ImageBackbone(ImageInput.imagenet(), VGG16(blocks=(1,), enlarge=None)).eval(), images(1)
    torch.testing.assert_close(model(x), model(x.expand(-1, 3, -1, -1)))
    model, x = ImageBackbone(ImageInput(1), LeNet()).eval(), images(3, size=28)
    torch.testing.assert_close(model(x), model.body(x.double().mean(1, keepdim=True).float() / 255))


def test_the_order_in_memory_changes_nothing_but_the_speed():
    model, x = ImageBackbone(ImageInput.imagenet(), resnet18()).eval(), images(3)
    seen = []
    model.body.conv1.register_forward_pre_hook(
        lambda _, given: seen.append(given[0].is_contiguous(memory_format=torch.channels_last))
    )
    with_gradient = model(x)
    with torch.inference_mode():
        without = model(x)
    assert seen == [False, True]
    torch.testing.assert_close(with_gradient.detach(), without, atol=1e-5, rtol=1e-4)


def test_every_part_learns():
    model = ImageBackbone(ImageInput(1), LeNet(), MLP(500, (8,)))
    model(images(1, size=28)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_a_body_that_tells_no_length():
    with pytest.raises(InvalidInputError, match="Flatten must give the number of its features as out_features"):
        ImageBackbone(ImageInput(1), nn.Flatten())


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
