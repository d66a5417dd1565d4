"""Files of weights: what fits is loaded, what does not is named, what could run code is not opened."""

import os
import pickle

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.models import load_weights, resnet18


class Small(nn.Module):
    """Convolution, BatchNorm and a full layer, as named as a ResNet's."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)


def same(module, state):
    return all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())


@pytest.fixture
def state():
    source = Small()
    source.bn1.running_mean += 3.0
    return source.state_dict()


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin", ".ckpt", ".safetensors"])
def test_a_state_dict_loads(tmp_path, state, suffix):
    path = tmp_path / f"w{suffix}"
    (safetensors.torch.save_file if suffix == ".safetensors" else torch.save)(state, path)
    module = Small()
    assert load_weights(module, str(path)) == ()
    assert same(module, state)


@pytest.mark.parametrize("prefix", ["module.", "backbone.", "model.", "module.model.", "_orig_mod.module."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "model_state_dict"])
def test_prefixes_and_wrappers(tmp_path, state, prefix, wrapper):
    content = {prefix + name: tensor for name, tensor in state.items()}
    torch.save({wrapper: content, "epoch": 3} if wrapper else content, tmp_path / "w.pth")
    module = Small()
    load_weights(module, tmp_path / "w.pth")
    assert same(module, state)


def test_own_names_with_a_prefix_stay(tmp_path):
    inner = Small()
    outer = nn.ModuleDict({"body": Small()})
    torch.save({f"body.{name}": tensor for name, tensor in inner.state_dict().items()}, tmp_path / "w.pth")
    load_weights(outer, tmp_path / "w.pth")
    assert same(outer["body"], inner.state_dict())


@pytest.mark.parametrize("classifier", ["fc", "classifier.6", "head.fc", "module.fc"])
def test_a_classifier_is_left_out_and_said(tmp_path, state, classifier):
    extra = {f"{classifier}.weight": torch.ones(10, 4), f"{classifier}.bias": torch.ones(10)}
    torch.save(dict(state) | extra, tmp_path / "w.pth")
    module = Small()
    (note,) = load_weights(module, tmp_path / "w.pth")
    name = classifier.removeprefix("module.")
    assert note == f"the classifier in {tmp_path / 'w.pth'} was left out ({name}.weight, {name}.bias)."
    assert same(module, state)


def test_a_module_with_a_classifier_of_its_own_keeps_it(tmp_path):
    source, module = nn.ModuleDict({"fc": nn.Linear(3, 2)}), nn.ModuleDict({"fc": nn.Linear(3, 2)})
    torch.save(source.state_dict(), tmp_path / "w.pth")
    assert load_weights(module, tmp_path / "w.pth") == ()
    assert same(module, source.state_dict())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_another_precision_becomes_the_modules_own(tmp_path, state, dtype):
    torch.save({n: t.to(dtype) if t.is_floating_point() else t for n, t in state.items()}, tmp_path / "w.pth")
    module = Small()
    load_weights(module, tmp_path / "w.pth")
    assert module.conv1.weight.dtype == torch.float32
    torch.testing.assert_close(module.conv1.weight.detach(), state["conv1.weight"].to(dtype).float())


def test_old_files_have_no_counters_of_batches(tmp_path, state):
    del state["bn1.num_batches_tracked"]
    torch.save(state, tmp_path / "w.pth")
    module = Small()
    load_weights(module, tmp_path / "w.pth")
    torch.testing.assert_close(module.bn1.running_var, state["bn1.running_var"])


def test_what_does_not_fit_is_named_in_one_sentence(tmp_path, state):
    del state["bn1.running_var"]
    state["conv1.weight"] = torch.zeros(4, 3, 5, 5)
    state |= {f"extra{number}": torch.zeros(1) for number in range(5)}
    torch.save(state, tmp_path / "w.pth")
    module = Small()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(InvalidInputError, match="do not fit") as caught:
        load_weights(module, tmp_path / "w.pth")
    assert str(caught.value) == (
        f"the weights in {tmp_path / 'w.pth'} do not fit (missing: bn1.running_var; unexpected: extra0, extra1, extra2 "
        "and 2 more; of the wrong shape: conv1.weight (4, 3, 5, 5) instead of (4, 3, 3, 3)); choose those of this "
        "network."
    )
    assert same(module, before)


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save(Small().state_dict(), tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match=r"do not fit \(missing: .* and 9\d more; unexpected: conv1.bias; of"):
        load_weights(resnet18(), tmp_path / "w.pth")


def test_two_sets_in_one_file(tmp_path, state):
    torch.save(dict(state) | {f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match="holds two sets of weights"):
        load_weights(Small(), tmp_path / "w.pth")


def test_numbers_that_are_not_finite(tmp_path, state):
    state["conv1.bias"] = torch.tensor([1.0, float("nan"), 0.0, 0.0])
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match=r"are not finite in conv1\.bias; fetch them again"):
        load_weights(Small(), tmp_path / "w.pth")


class Hostile:
    """A pickle that runs a command when it is opened."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("plain_pickle", [False, True])
def test_a_hostile_pickle_is_refused_and_does_not_run(tmp_path, plain_pickle):
    path, trace = tmp_path / "w.pth", tmp_path / "trace"
    content = {"state_dict": Hostile(f"touch {trace}")}
    path.write_bytes(pickle.dumps(content, protocol=2)) if plain_pickle else torch.save(content, path)
    with pytest.raises(
        InvalidInputError, match=r"holds more than tensors \(\w+\.system\) and could run code when opened"
    ):
        load_weights(Small(), path)
    assert not trace.exists()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@given(share=st.floats(0, 0.98))
def test_a_truncated_file_is_refused(tmp_path_factory, suffix, share):
    path = tmp_path_factory.mktemp("cut") / f"w{suffix}"
    state = nn.Linear(9, 9).state_dict()
    (safetensors.torch.save_file if suffix == ".safetensors" else torch.save)(state, path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(InvalidInputError, match="is not a file of weights, or is damaged; fetch it again"):
        load_weights(nn.Linear(9, 9), path)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory, suffix, content):
    path = tmp_path_factory.mktemp("any") / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(
        InvalidInputError, match=r"is not a file of weights|holds more than tensors|must hold tensors by"
    ):
        load_weights(nn.Linear(2, 2), path)


@pytest.mark.parametrize("content", [[torch.ones(2)], {"epoch": 3}, {"state_dict": 3}, {"model": {"state_dict": {}}}])
def test_no_tensors_by_name(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match="must hold tensors by name, or those under one of state_dict, model"):
        load_weights(Small(), tmp_path / "w.pth")


def test_a_file_that_is_not_there_and_one_of_another_kind(tmp_path):
    with pytest.raises(InvalidInputError, match=r"no such weights file: .*w\.pth; check the path"):
        load_weights(Small(), tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match=r"weights must be a \.pth, .* or \.safetensors file, got .*w\.h5"):
        load_weights(Small(), tmp_path / "w.h5")
