"""VGG16's convolutions with torchvision's names; features of chosen blocks, averaged over the image."""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from equipoise.errors import InvalidInputError
from equipoise.models import VGG16, load_weights

# torchvision's indices of the convolutions of configuration D, block by block
CONVOLUTIONS = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))


def by_hand(state, x, blocks):
    """The network written out once more, on the state dict alone."""
    found = []
    for number, convolutions in enumerate(CONVOLUTIONS, start=1):
        for index in convolutions:
            x = F.conv2d(x, state[f"features.{index}.weight"], state[f"features.{index}.bias"], padding=1).clamp(min=0)
        if number in blocks:
            found.append(x.flatten(2).mean(-1))
        if number == blocks[-1]:
            break
        x = F.max_pool2d(x, 2)
    return torch.cat(found, 1)


def test_the_convolutions_have_the_published_number_of_parameters_and_torchvisions_names():
    model = VGG16()
    assert sum(p.numel() for p in model.parameters()) == 14_714_688
    names = {f"features.{index}.{kind}" for block in CONVOLUTIONS for index in block for kind in ("weight", "bias")}
    assert set(model.state_dict()) == names
    assert model.state_dict()["features.17.weight"].shape == (512, 256, 3, 3)


@pytest.mark.parametrize(("blocks", "features"), [((5,), 512), ((4, 5), 1024), ((1, 3), 320), ((1, 2, 3, 4, 5), 1472)])
@torch.inference_mode()
def test_features_are_the_averages_of_the_chosen_blocks(blocks, features):
    model = VGG16(blocks=blocks, enlarge=None).eval()
    for parameter in model.parameters():
        parameter.mul_(1.1)  # biases are 0 at the start, weights not
        parameter.add_(0.001)
    x = torch.randn(3, 3, 32, 48)
    found = model(x)
    assert model.out_features == features
    assert found.shape == (3, features)
    torch.testing.assert_close(found, by_hand(model.state_dict(), x, blocks))


@torch.inference_mode()
def test_small_images_are_enlarged_to_the_short_side_and_large_ones_taken_as_they_are():
    plain, larger = VGG16(blocks=(2,), enlarge=None), VGG16(blocks=(2,), enlarge=48)
    larger.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 24, 32)
    torch.testing.assert_close(larger(x), plain(F.interpolate(x, (48, 64), mode="bilinear", align_corners=False)))
    x = torch.randn(2, 3, 64, 48)
    assert torch.equal(larger(x), plain(x))
    assert "enlarge=48" in repr(larger)


@pytest.mark.parametrize("blocks", [(), (0,), (6,), (5, 4), (4, 4)])
def test_blocks_that_are_none(blocks):
    with pytest.raises(InvalidInputError, match="blocks must be some of 1, 2, 3, 4, 5, in this order, got"):
        VGG16(blocks=blocks)


def test_a_size_that_is_none():
    with pytest.raises(InvalidInputError, match="enlarge must be a number of pixels or None, got 0"):
        VGG16(enlarge=0)


@pytest.mark.skipif("EQUIPOISE_DATA" not in os.environ, reason="EQUIPOISE_DATA names no folder with VGG16's weights")
def test_the_published_weights_load():
    model = VGG16()
    before = model.features[28].weight.clone()
    assert load_weights(model, Path(os.environ["EQUIPOISE_DATA"]) / "vgg16/vgg16_features_imagenet_fp16.pth") == ()
    published = [[-0.5537, 0.1427, 0.5290], [-0.5831, 0.3566, 0.7657], [-0.6902, -0.0480, 0.4841]]
    torch.testing.assert_close(model.features[0].weight[0, 0].detach(), torch.tensor(published), atol=4e-4, rtol=0)
    assert model.features[0].weight.dtype == torch.float32
    assert not torch.equal(model.features[28].weight, before)


@pytest.mark.parametrize(("blocks", "enlarge", "least"), [((5,), None, 16), ((3,), None, 4), ((4, 5), 10, 16)])
@torch.inference_mode()
def test_images_too_small_for_the_poolings_are_enlarged_to_the_least_side(blocks, enlarge, least):
    model = VGG16(blocks=blocks, enlarge=enlarge).eval()
    x = torch.randn(2, 3, 3, 3)
    larger = F.interpolate(x, (least, least), mode="bilinear", align_corners=False)
    torch.testing.assert_close(model(x), by_hand(model.state_dict(), larger, blocks))
    as_it_is = torch.randn(2, 3, least, least)
    torch.testing.assert_close(model(as_it_is), by_hand(model.state_dict(), as_it_is, blocks))
