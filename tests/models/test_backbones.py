"""Every backbone by name: features of the length it tells, trainable, with weights from a file."""

import logging
import sys

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.models import BACKBONES, build_backbone


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith(("50", "vgg16"))) for name in BACKBONES]
)
def test_the_contract(name):
    """Features of the length it says, a gradient for every parameter, and images that do not see one another."""
    model = build_backbone(name)
    features = model(torch.randn(2, model.in_channels, 40, 36))
    assert features.shape == (2, model.out_features)
    features.square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []
    model.eval()
    x = torch.randn(2, model.in_channels, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(model(x)[1:], model(x[1:]), atol=1e-5, rtol=1e-4)


def test_weights_of_a_file_and_what_was_left_out(tmp_path, caplog):
    source = build_backbone("lenet")
    torch.save(source.state_dict() | {"fc.weight": torch.ones(10, 500)}, tmp_path / "w.pth")
    with caplog.at_level(logging.INFO, logger="equipoise"):
        model = build_backbone("lenet", weights=tmp_path / "w.pth")
    assert torch.equal(model.conv2.weight, source.conv2.weight)
    assert [r.message for r in caplog.records] == [f"the classifier in {tmp_path / 'w.pth'} was left out (fc.weight)."]


def test_weights_of_another_backbone_are_recognised(tmp_path):
    torch.save(build_backbone("vgg16").state_dict() | {"classifier.6.bias": torch.ones(10)}, tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match=r"w\.pth looks like weights of vgg16, not of resnet18; choose that"):
        build_backbone("resnet18", weights=tmp_path / "w.pth")


def test_weights_of_no_backbone_are_said_not_to_fit(tmp_path):
    torch.save({"layer.weight": torch.ones(3)}, tmp_path / "w.pth")
    with pytest.raises(InvalidInputError, match=r"do not fit \(missing: conv1\.weight"):
        build_backbone("lenet", weights=tmp_path / "w.pth")


def test_a_name_that_is_none():
    with pytest.raises(InvalidInputError, match=r"backbone must be one of lenet, .* or hf:NAME, got 'vgg'"):
        build_backbone("vgg")


def test_without_timm_the_error_says_why_and_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # Python's own way of saying: not to be imported
    with pytest.raises(InvalidInputError, match="needs timm") as caught:
        build_backbone("timm:resnet26")
    assert str(caught.value) == (
        "timm:resnet26 needs timm, which does not import here (ModuleNotFoundError: import of timm halted; None in "
        "sys.modules); pip install 'equipoise[vision]', with a torchvision made for this torch."
    )


def test_a_torchvision_that_does_not_fit_torch_is_named(tmp_path, monkeypatch):
    (tmp_path / "timm.py").write_text("import torch\ntorch.ops.torchvision.nms")  # where such a torchvision stops
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(InvalidInputError, match=r"not import here \(AttributeError: .* has no attribute 'nms'\); pip"):
        build_backbone("timm:resnet26")


def test_timm_itself_where_it_imports():
    pytest.importorskip("timm", exc_type=Exception, reason="timm does not import here")
    model = build_backbone("timm:resnet18")
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, model.out_features)
    with pytest.raises(InvalidInputError, match="timm cannot build 'no_such_network'"):
        build_backbone("timm:no_such_network")
