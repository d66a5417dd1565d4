"""Pixels, body and top as one module."""

import pytest
import torch
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.models import MLP, VGG16, ImageBackbone, LeNet, resnet18
from equipoise.models.image_network import ImageInput


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
    with pytest.raises(InvalidInputError, match="Flatten must tell the number of its features as out_features"):
        ImageBackbone(ImageInput(1), nn.Flatten())
