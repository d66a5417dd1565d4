"""Networks of timm and of Hugging Face's transformers as backbones, with the pretrained weights that these load."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.errors import InvalidInputError

LABELS = ("id2label", "label2id", "auto_map", "_name_or_path")
"""Fields of a configuration that a backbone does not need."""
LARGEST = 10**6
WITHOUT = "give a file with --weights, or another backbone"


def from_timm(name: str, *, pretrained: bool) -> nn.Module:
    """Build a network of timm without its classifier; a name that timm would look for elsewhere is refused."""
    if not re.fullmatch(r"[\w.]+", name):
        raise InvalidInputError(f"timm:{name} is not the name of one of timm's own networks; see timm.list_models().")
    try:
        import timm  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:  # beside an ImportError: what torchvision raises when it does not fit torch
        raise InvalidInputError(
            f"timm:{name} needs timm, which does not import here ({type(error).__name__}: {error}); "
            "pip install 'equipoise[vision]', with a torchvision made for this torch."
        ) from error
    try:
        network: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except OSError as error:  # requests' errors are OSErrors
        raise InvalidInputError(f"timm could not fetch the weights of {name} ({error}); {WITHOUT}.") from error
    except (RuntimeError, ValueError) as error:
        raise InvalidInputError(f"timm cannot build {name!r} ({error}); see timm.list_models().") from error
    network.out_features, network.in_channels = network.num_features, 3  # type: ignore[assignment]
    return network


class HuggingFaceNetwork(nn.Module):
    """A vision model of transformers: images (batch, 3, height, width) -> its pooled features.

    Args:
        model: from ``AutoModel``; of a model of images and words, the part for images.
        processing: its ``preprocessor_config.json``; ``image_mean`` and ``image_std`` are used, and ``size``.
    """

    in_channels = 3

    def __init__(self, model: Any, processing: dict[str, Any]) -> None:
        super().__init__()
        used = {name: processing[name] for name in ("image_mean", "image_std", "size") if name in processing}
        values = {name: value for name, value in model.config.to_dict().items() if name not in LABELS}
        self.config = {"model": json.loads(json.dumps(values)), "processing": used}
        self.model = getattr(model, "vision_model", model)
        own = self.model.config
        width = getattr(own, "hidden_size", None) or (getattr(own, "hidden_sizes", None) or [None])[-1]
        if not isinstance(width, int):
            raise InvalidInputError(f"{type(model).__name__} of transformers has no features of images; {WITHOUT}.")
        self.out_features = width
        fixed = getattr(own, "image_size", None)
        self.side = fixed if isinstance(fixed, int) else None
        self.enlarge = _side(processing)
        mean, std = processing.get("image_mean"), processing.get("image_std")
        self.default_cfg = {"mean": mean, "std": std} if mean and std else {}

    def forward(self, x: Tensor) -> Tensor:
        side = self.side or max(min(x.shape[-2:]), self.enlarge)
        if x.shape[-2:] != (side, side):
            x = F.interpolate(x, (side, side), mode="bilinear", align_corners=False, antialias=False)
        found = self.model(pixel_values=x)
        features: Tensor | None = getattr(found, "pooler_output", None)
        if features is None:
            features = found.last_hidden_state
        if features.ndim == 4:  # (batch, channels, height, width)
            return features.mean((-2, -1))
        return features.mean(1) if features.ndim == 3 else features  # (batch, places, channels)


def from_hugging_face(place: str, *, pretrained: bool, config: dict[str, Any] | None) -> nn.Module:
    """Build a vision model of transformers by its name or folder.

    Args:
        pretrained: load its weights, from the folder or from Hugging Face's hub; else it is built by its ``config``.
        config: of :class:`HuggingFaceNetwork`; None reads it from the same place.
    """
    try:
        from transformers import AutoConfig, AutoModel
        from transformers.models.auto.image_processing_auto import get_image_processor_config
    except ImportError as error:
        raise InvalidInputError(
            f"hf:{place} needs transformers, which does not import here ({error}); pip install 'equipoise[vision]'."
        ) from error
    build: Callable[[Any], Any] = AutoModel.from_config
    try:
        if config is not None:
            values = dict(config["model"])
            model = build(AutoConfig.for_model(values.pop("model_type"), **values))
            return HuggingFaceNetwork(model, dict(config["processing"]))
        processing = get_image_processor_config(place)
        if pretrained:
            return HuggingFaceNetwork(AutoModel.from_pretrained(place), processing)  # the user names it  # nosec B615
        return HuggingFaceNetwork(build(AutoConfig.from_pretrained(place)), processing)  # nosec B615
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InvalidInputError(
            f"hf:{place} must be a vision model of transformers, by its name or folder, and could not be built "
            f"({reason}); check it, or be online to fetch it."
        ) from error


def check_config(config: dict[str, Any], *, tensors: int) -> None:
    """Raise an error for a configuration too large for its file of tensors: building it must not fill the memory.

    >>> check_config({"model": {"num_hidden_layers": 10**5}, "processing": {}}, tensors=200)
    Traceback (most recent call last):
        ...
    equipoise.errors.InvalidInputError: the backbone's config has num_hidden_layers = 100000, ...; train again.
    """
    for name, value in _numbers(config):
        if value > (tensors if re.search("layer|depth|stage|block|head", name) else LARGEST):
            raise InvalidInputError(
                f"the backbone's config has {name} = {value}, more than its {tensors} tensors allow; train again."
            )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number below a value, by the name it stands under."""
    if isinstance(value, int | float):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, name)


def _side(processing: dict[str, Any]) -> int:
    """Return the side of the processor's images in pixels; smaller ones are enlarged to it."""
    size = processing.get("size")
    given = [size] if isinstance(size, int) else list(size.values()) if isinstance(size, dict) else []
    return min((int(side) for side in given if isinstance(side, int)), default=1)
