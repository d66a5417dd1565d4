"""The paper's network for extracted features."""

import pytest
import torch
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.models import MLP, Dropout


@pytest.mark.parametrize(("hidden", "out"), [((512, 512), 512), ((7,), 7), ((5, 4, 3), 3)])
def test_shapes_and_feature_length(hidden, out):
    model = MLP(6, hidden)
    assert model(torch.randn(9, 6)).shape == (9, out)
    assert (model.in_features, model.out_features) == (6, out)


def test_the_default_is_the_papers_two_layers():
    layers = [type(layer) for layer in MLP(1024).layers]
    assert layers == [nn.Linear, nn.ReLU, Dropout, nn.Linear, nn.ReLU]
    assert sum(p.numel() for p in MLP(1024).parameters()) == 1024 * 512 + 512 + 512 * 512 + 512


def test_dropout_lies_between_the_layers_only():
    model = MLP(4, (8,), dropout=0.9).train()  # one layer: the dropout behind it is the head's
    x = torch.randn(5, 4)
    assert torch.equal(model(x), model(x))
    deeper = MLP(4, (64, 64)).train()
    assert not torch.equal(deeper(x), deeper(x))
    assert torch.equal(deeper.eval()(x), deeper(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.float32])
def test_rows_of_any_shape_and_type_are_taken(dtype):
    x = torch.arange(24).view(2, 3, 4).to(dtype)
    features = MLP(12, (5,))(x)
    assert features.shape == (2, 5)
    assert features.dtype == torch.float32


@pytest.mark.parametrize(("in_features", "hidden"), [(0, (3,)), (3, ()), (3, (4, 0))])
def test_layers_without_units_are_refused(in_features, hidden):
    with pytest.raises(InvalidInputError, match="an MLP needs layers and members of at least one unit"):
        MLP(in_features, hidden)


def test_members_are_networks_apart():
    together = MLP(6, (5, 4, 3), members=2).eval()
    x = torch.randn(7, 6)
    for number in range(2):
        alone = MLP(6, (5, 4, 3)).eval()
        own, parts = alone.layers, together.layers
        with torch.no_grad():
            own[0].weight.copy_(parts[0].weight[5 * number : 5 * number + 5])
            own[0].bias.copy_(parts[0].bias[5 * number : 5 * number + 5])
            for place in (3, 6):
                own[place].weight.copy_(parts[place].weight[number].T)
                own[place].bias.copy_(parts[place].bias[number, 0])
        torch.testing.assert_close(together(x)[:, 3 * number : 3 * number + 3], alone(x))
    assert together.out_features == 6


def test_a_network_without_members_is_refused():
    with pytest.raises(InvalidInputError, match="members=0"):
        MLP(3, (4,), members=0)
