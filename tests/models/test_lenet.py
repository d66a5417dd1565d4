"""The LeNet of the MNIST experiment."""

import torch
import torch.nn.functional as F

from equipoise.models import LeNet


def test_parameters_are_those_of_caffes_lenet():
    model = LeNet()
    assert sum(p.numel() for p in model.parameters()) + 500 * 10 + 10 == 431_080
    assert set(model.state_dict()) == {f"{n}.{k}" for n in ("conv1", "conv2", "fc1") for k in ("weight", "bias")}


@torch.inference_mode()
def test_layer_by_layer():
    model, x = LeNet(), torch.randn(5, 1, 28, 28)
    state = model.state_dict()
    hidden = F.conv2d(x, state["conv1.weight"], state["conv1.bias"]).unfold(2, 2, 2).unfold(3, 2, 2).amax((-2, -1))
    assert hidden.shape == (5, 20, 12, 12)
    hidden = F.conv2d(hidden, state["conv2.weight"], state["conv2.bias"]).unfold(2, 2, 2).unfold(3, 2, 2)
    flat = hidden.amax((-2, -1)).reshape(5, 800)
    expected = (flat @ state["fc1.weight"].T + state["fc1.bias"]).clamp(min=0)
    torch.testing.assert_close(model(x), expected)
    assert (expected > 0).any()
    assert (expected == 0).any()


def test_other_sizes_go_through():
    assert LeNet()(torch.randn(2, 1, 64, 40)).shape == (2, 500)


@torch.inference_mode()
def test_small_images_are_enlarged_to_28_by_their_short_side():
    model, x = LeNet(), torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(model(x), model(F.interpolate(x, (28, 28), mode="bilinear", align_corners=False)))
    x = torch.randn(2, 1, 7, 10)
    torch.testing.assert_close(model(x), model(F.interpolate(x, (28, 40), mode="bilinear", align_corners=False)))
    assert model(torch.randn(2, 1, 1, 1)).shape == (2, 500)
