"""A backbone by name, from pixels to features."""

import sys
import types

import numpy as np
import pytest
import torch

from equipoise.models import ImageInput, image_backbone, resnet18
from equipoise.models.image_network import IMAGENET_MEAN

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
