"""SE-ResNet-50 with timm's names."""

import torch

from equipoise.models import resnet50, se_resnet50


def test_parameters_and_names():
    model = se_resnet50()
    count = sum(p.numel() for p in model.parameters())
    assert count + 2048 * 1000 + 1000 == 28_088_024  # the published 28.09 M, with the 1000-way classifier
    state = model.state_dict()
    assert state["layer1.0.se.fc1.weight"].shape == (16, 256, 1, 1)
    assert state["layer1.0.se.fc1.bias"].shape == (16,)
    assert state["layer4.2.se.fc2.weight"].shape == (2048, 128, 1, 1)
    assert set(state) - set(resnet50().state_dict()) == {
        f"layer{stage}.{block}.se.fc{layer}.{kind}"
        for stage, depth in ((1, 3), (2, 4), (3, 6), (4, 3))
        for block in range(depth)
        for layer in (1, 2)
        for kind in ("weight", "bias")
    }


@torch.inference_mode()
def test_each_channel_is_scaled_by_what_the_averages_say():
    se, x = se_resnet50().layer1[0].se, torch.randn(2, 256, 5, 7)
    expected = torch.empty_like(x)
    for image in range(2):
        average = x[image].flatten(1).mean(1)
        hidden = (se.fc1.weight.flatten(1) @ average + se.fc1.bias).clamp(min=0)
        scale = 1 / (1 + torch.exp(-(se.fc2.weight.flatten(1) @ hidden + se.fc2.bias)))
        for channel in range(256):
            expected[image, channel] = x[image, channel] * scale[channel]
    torch.testing.assert_close(se(x), expected)


@torch.inference_mode()
def test_excitation_comes_before_the_shortcut():
    block = se_resnet50().eval().layer1[1]
    torch.nn.init.ones_(block.bn3.weight)
    x = torch.randn(2, 256, 6, 6).relu()
    out = block.relu(block.bn2(block.conv2(block.relu(block.bn1(block.conv1(x))))))
    expected = (block.se(block.bn3(block.conv3(out))) + x).relu()
    torch.testing.assert_close(block(x.clone()), expected)
    assert not torch.allclose(expected, x)


def test_faces_of_112_pixels_give_2048_features():
    with torch.inference_mode():
        assert se_resnet50().eval()(torch.randn(1, 3, 112, 112)).shape == (1, 2048)
