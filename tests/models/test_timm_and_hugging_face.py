"""Networks of timm and transformers load the weights that these libraries have, and are built again without them."""

import json
import sys
import types

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.models import build_backbone, image_backbone
from equipoise.models.timm_and_hugging_face import check_config

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
SETTINGS = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "size": {"height": 16, "width": 16}}
TINY = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
PIXELS = torch.randint(0, 256, (2, 3, 24, 20), dtype=torch.uint8)


@pytest.fixture
def vit(tmp_path):
    """A vision transformer as transformers keeps it in a folder, and the model."""
    model = transformers.ViTModel(transformers.ViTConfig(**TINY, image_size=16, patch_size=8)).eval()
    model.save_pretrained(tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return tmp_path / "vit", model


@torch.inference_mode()
def test_a_folder_of_transformers_gives_the_models_pooled_features(vit):
    folder, model = vit
    network = image_backbone(f"hf:{folder}", pretrained=True, frozen=True).eval()
    scaled = (PIXELS / 255 - torch.tensor(SETTINGS["image_mean"]).view(3, 1, 1)) / torch.tensor(
        SETTINGS["image_std"]
    ).view(3, 1, 1)
    small = torch.nn.functional.interpolate(scaled, (16, 16), mode="bilinear")
    torch.testing.assert_close(network(PIXELS), model(pixel_values=small).pooler_output, atol=1e-5, rtol=1e-4)
    assert (network.out_features, network.body_rate) == (8, 0.1)


@torch.inference_mode()
def test_the_config_builds_it_again_without_its_folder(vit):
    folder, _ = vit
    network = build_backbone(f"hf:{folder}", pretrained=True)
    config = json.loads(json.dumps(network.config))
    assert str(folder) not in json.dumps(config)
    check_config(config, tensors=len(network.state_dict()))
    again = build_backbone("hf:gone", config=config)
    again.load_state_dict(network.state_dict())
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(again.eval()(x), network.eval()(x))


@torch.inference_mode()
def test_a_convolutional_network_of_transformers_takes_any_size(tmp_path):
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    network = image_backbone(f"hf:{tmp_path / 'resnet'}", pretrained=True, frozen=True).eval()
    assert network(PIXELS).shape == (2, 8)


@pytest.mark.parametrize("content", [None, "{}", '{"model_type": "bert"}'])
def test_what_is_no_vision_model_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "model"
    folder.mkdir()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(InvalidInputError, match=r"must be a vision model of transformers.*check it, or be online"):
        build_backbone(f"hf:{folder}", pretrained=True)


def test_a_record_without_a_config_fetches_nothing():
    with pytest.raises(InvalidInputError, match="hf:some/model must be a vision model"):
        build_backbone("hf:some/model", config={})


def test_timm_is_asked_for_its_weights_only_where_there_is_no_file(tmp_path, monkeypatch):
    asked, timm = [], types.ModuleType("timm")

    def create_model(name, pretrained, num_classes):
        asked.append((name, pretrained, num_classes))
        if name == "offline":
            raise OSError("no network")
        network = torch.nn.Linear(3, 2)
        network.num_features = 2
        return network

    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "w.pth")
    build_backbone("timm:small", pretrained=True)
    build_backbone("timm:small", pretrained=True, weights=tmp_path / "w.pth")
    build_backbone("timm:small")
    assert asked == [("small", True, 0), ("small", False, 0), ("small", False, 0)]
    with pytest.raises(InvalidInputError, match=r"timm could not fetch the weights of offline \(no network\); give a"):
        build_backbone("timm:offline", pretrained=True)
