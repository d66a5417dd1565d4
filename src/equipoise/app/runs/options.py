"""What a training command can be told; plain values, so that ``run.json`` holds them as they are."""

from dataclasses import asdict, dataclass
from typing import Any

from equipoise.errors import InvalidInputError
from equipoise.names import PRECISIONS, TIMM, backbone_names, loss_names

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class TrainOptions:
    """Everything ``equipoise train`` can be told; None is chosen from the data.

    Args:
        data: a table (CSV, Parquet, npz), an image folder, an archive of one, or the name of a known set.
        target: the column of a table that holds the label; several, with commas between, are 0/1 labels.
        labels: a table of ``file,label`` for a folder of images that are not sorted into classes.
        group: the column whose equal values must stay on one side of the split, a patient or a person.
        test: data to score on; None holds out ``test_share`` of the samples, or takes the official test part.
        test_labels: as ``labels``, for the images of ``test``; None takes ``labels``.
        test_share: in (0, 1).
        method: a name of ``equipoise.losses.LOSSES``.
        backbone: for images, a name of ``equipoise.models.BACKBONES`` or ``timm:NAME``.
        weights: a file of pretrained weights for it.
        freeze: use the backbone as it is and train two layers on its features; None does so for VGG16 with weights.
        size: the side of the square that images are brought to.
        epochs: how often all samples are visited; None takes as many optimiser steps as their number needs.
        batch_size: samples of a step; None chooses from their number.
        learning_rate: of AdamW, decaying to 0 along a cosine.
        dropout: share dropped between the hidden layers and in front of the class vectors.
        precision: ``bf16`` or ``fp16`` for mixed precision on a GPU.
        augment: vary images at random while training: crop and colour, and a flip of colour images.
        seed: of the split, the weights and the order of the samples.

    >>> TrainOptions("patients.csv", target="died", seed=1).as_dict()["method"]
    'uncertainty_margin'
    """

    data: str
    target: str | None = None
    labels: str | None = None
    group: str | None = None
    test: str | None = None
    test_labels: str | None = None
    test_share: float = 0.2
    method: str = "uncertainty_margin"
    backbone: str | None = None
    weights: str | None = None
    freeze: bool | None = None
    size: int | None = None
    augment: bool = True
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-3
    dropout: float = 0.5
    precision: str = "no"
    seed: int = 0

    def __post_init__(self) -> None:
        """What would only be found after the data are read, or never."""
        if not 0 < self.test_share < 1:
            raise InvalidInputError(f"--test-share must lie between 0 and 1, got {self.test_share}.")
        for name, least in (("epochs", 1), ("batch_size", 1), ("size", 8)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidInputError(f"--{name.replace('_', '-')} must be at least {least}, got {value}.")
        if self.method not in loss_names():
            raise InvalidInputError(f"--method must be one of {', '.join(loss_names())}, got {self.method!r}.")
        if self.backbone is not None and not self.backbone.startswith(TIMM) and self.backbone not in backbone_names():
            names = ", ".join(backbone_names())
            raise InvalidInputError(f"--backbone must be one of {names} or {TIMM}NAME, got {self.backbone!r}.")
        if self.precision not in PRECISIONS:
            raise InvalidInputError(f"--precision must be {', '.join(PRECISIONS)}, got {self.precision!r}.")
        if self.test_labels is not None and self.test is None:
            raise InvalidInputError("--test-labels is of the images of --test; give both, or leave it out.")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InvalidInputError(f"--seed must lie between 0 and {LARGEST_SEED}, got {self.seed}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``run.json``."""
        return asdict(self)
