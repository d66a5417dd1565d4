"""ResNets with torchvision's parameter names, so that public weights load as they are."""

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.models import resnet18, resnet50


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
    state = build().state_dict()
    for name, shape in shapes.items():
        assert tuple(state[name].shape) == shape
    names = {name.split(".")[0] for name in state}
    assert names == {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4"}


def test_names_count_as_many_as_torchvisions():
    assert len(resnet18().state_dict()) == 122 - 2  # without fc.weight and fc.bias
    assert len(resnet50().state_dict()) == 320 - 2
    assert not any(name.startswith("layer1.0.downsample") for name in resnet18().state_dict())


def test_the_stride_of_a_bottleneck_is_in_its_3x3():
    block = resnet50().layer2[0]
    assert (block.conv1.stride, block.conv2.stride) == ((1, 1), (2, 2))


@pytest.mark.parametrize(("build", "million"), [(resnet18, 11.69), (resnet50, 25.56)])
def test_with_the_classifier_the_parameters_are_the_published_ones(build, million):
    model = build()
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
