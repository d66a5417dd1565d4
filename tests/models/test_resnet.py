"""ResNets with torchvision's parameter names, so that public weights load as they are."""

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.models import resnet18, resnet50, se_resnet50


def shapes_of(build):
    """The network without its numbers, which take longest."""
    with torch.device("meta"):
        return build()


@pytest.mark.parametrize(
    ("build", "parameters", "features"), [(resnet18, 11_176_512, 512), (resnet50, 23_508_032, 2_048)]
)
def test_parameters_and_features(build, parameters, features):
    model = build().eval()
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.out_features == features
    with torch.no_grad():
        assert model(torch.randn(2, 3, 40, 48)).shape == (2, features)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (
            resnet18,
            {
                "conv1.weight": (64, 3, 7, 7),
                "bn1.running_var": (64,),
                "layer1.0.conv1.weight": (64, 64, 3, 3),
                "layer1.1.bn2.num_batches_tracked": (),
                "layer2.0.downsample.0.weight": (128, 64, 1, 1),
                "layer2.0.downsample.1.running_mean": (128,),
                "layer4.1.conv2.weight": (512, 512, 3, 3),
            },
        ),
        (
            resnet50,
            {
                "layer1.0.downsample.0.weight": (256, 64, 1, 1),
                "layer1.2.conv3.weight": (256, 64, 1, 1),
                "layer2.0.downsample.0.weight": (512, 256, 1, 1),
                "layer3.5.bn3.bias": (1024,),
                "layer4.0.conv2.weight": (512, 512, 3, 3),
            },
        ),
    ],
)
def test_names_are_torchvisions(build, shapes):
    state = shapes_of(build).state_dict()
    for name, shape in shapes.items():
        assert tuple(state[name].shape) == shape
    names = {name.split(".")[0] for name in state}
    assert names == {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4"}


def test_names_count_as_many_as_torchvisions():
    small, large = (shapes_of(build).state_dict() for build in (resnet18, resnet50))
    assert len(small) == 122 - 2  # without fc.weight and fc.bias
    assert len(large) == 320 - 2
    assert not any(name.startswith("layer1.0.downsample") for name in small)


def test_the_stride_of_a_bottleneck_is_in_its_3x3():
    block = shapes_of(resnet50).layer2[0]
    assert (block.conv1.stride, block.conv2.stride) == ((1, 1), (2, 2))


@pytest.mark.parametrize(("build", "million"), [(resnet18, 11.69), (resnet50, 25.56)])
def test_with_the_classifier_the_parameters_are_the_published_ones(build, million):
    model = shapes_of(build)
    count = sum(p.numel() for p in model.parameters()) + model.out_features * 1000 + 1000
    assert round(count / 1e6, 2) == million


@torch.inference_mode()
def test_a_block_starts_as_its_shortcut():
    x = torch.randn(2, 64, 6, 6).relu()
    assert torch.equal(resnet18().eval().layer1[1](x.clone()), x)
    x = torch.randn(2, 256, 6, 6).relu()
    assert torch.equal(resnet50().eval().layer1[1](x.clone()), x)


def test_one_small_image_is_no_batch_to_train_on():
    model = resnet18().train()
    with pytest.raises(InvalidInputError, match=r"^batch_size must be 2 or more for .*one image of 32 × 20 pixels"):
        model(torch.randn(1, 3, 32, 20))
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 512)
    assert model(torch.randn(1, 3, 33, 32)).shape == (1, 512)
    assert model.eval()(torch.randn(1, 3, 32, 32)).shape == (1, 512)


def test_parameters_and_names():
    model = shapes_of(se_resnet50)
    count = sum(p.numel() for p in model.parameters())
    assert count + 2048 * 1000 + 1000 == 28_088_024  # the published 28.09 M, with the 1000-way classifier
    state = model.state_dict()
    assert state["layer1.0.se.fc1.weight"].shape == (16, 256, 1, 1)
    assert state["layer1.0.se.fc1.bias"].shape == (16,)
    assert state["layer4.2.se.fc2.weight"].shape == (2048, 128, 1, 1)
    assert set(state) - set(shapes_of(resnet50).state_dict()) == {
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
