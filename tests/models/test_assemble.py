"""A backbone by name, from pixels to features."""

import numpy as np
import pytest
import torch

from equipoise.models import ImageInput, image_backbone, resnet18
from equipoise.models.image_input import IMAGENET_MEAN

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
    network = image_backbone(name, images=pixels.numpy() if name != "lenet" or channels == 1 else None).eval()
    assert network(pixels).shape == (3, 500 if name == "lenet" else 512)
