"""How rows of a table or images become what the classifier takes, and how that is written into a run."""

from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray

from equipoise.app.run_folder import EXTRACTOR, MODEL, BackboneRecord, InputRecord
from equipoise.app.runs.train_options import TrainOptions
from equipoise.data.encoder import TableEncoder
from equipoise.data.samples import Progress, rows_of
from equipoise.errors import InvalidInputError
from equipoise.models import Augment, ImageBackbone, build_backbone, extract_features, image_backbone
from equipoise.storage.files import write_atomically
from equipoise.storage.limits import load_tensors, open_tensors
from equipoise.tensors import not_finite

SMALL_IMAGE = 32
"""Pixels a side up to which the network of the MNIST experiment is the default for grey images."""


class RunInput(Protocol):
    """From what a reader gives to what the classifier takes."""

    notes: tuple[str, ...]

    @property
    def backbone(self) -> ImageBackbone | None:
        """What is trained below the head; None where the rows are numbers already."""
        ...

    def rows(self, x: Any) -> Any:
        """Rows for the classifier."""
        ...

    def save(self, folder: Path) -> InputRecord:
        """Write what is needed to do the same again; the plain part is returned for ``run.json``."""
        ...


class TableInput:
    """Columns as numbers."""

    backbone = None

    def __init__(self, encoder: TableEncoder) -> None:
        self.encoder = encoder
        self.notes = tuple(encoder.notes)

    def rows(self, x: Any) -> NDArray[np.floating[Any]]:
        """The encoded columns."""
        return self.encoder.transform(x)

    def save(self, folder: Path) -> InputRecord:  # noqa: ARG002
        """All of it is plain."""
        return InputRecord("table", encoder=self.encoder.to_json())


class ImagesInput:
    """Images as they are, for a backbone that is trained with the head."""

    def __init__(self, backbone: ImageBackbone, described: BackboneRecord, progress: Progress | None) -> None:
        self.backbone = backbone
        self.described, self.progress = described, progress
        self.notes: tuple[str, ...] = ()

    def rows(self, x: Any) -> Any:
        """The images themselves, decoded once where memory allows."""
        return rows_of(x).cached(progress=self.progress)

    def save(self, folder: Path) -> InputRecord:  # noqa: ARG002
        """The backbone's weights are in the model."""
        return InputRecord("images", backbone=self.described)


class FeaturesInput:
    """Features of a frozen backbone, extracted once and kept on disk."""

    backbone = None

    def __init__(
        self,
        extractor: ImageBackbone,
        described: BackboneRecord,
        progress: Progress | None,
        *,
        cache: Literal[False] | None = None,
    ) -> None:
        self.extractor, self.described, self.progress, self.cache = extractor, described, progress, cache
        self.notes: tuple[str, ...] = ()

    def rows(self, x: Any) -> NDArray[np.float32]:
        """One row of features an image."""
        return extract_features(x, self.extractor, cache=self.cache, progress=self.progress)

    def save(self, folder: Path) -> InputRecord:
        """The extractor's weights get a file of their own."""
        tensors = {name: tensor.contiguous() for name, tensor in self.extractor.state_dict().items()}
        write_atomically(folder / EXTRACTOR, safetensors.torch.save(tensors))
        return InputRecord("features", backbone=self.described)


def make_input(x: Any, options: TrainOptions, *, progress: Progress | None = None) -> RunInput:
    """What suits the training rows x: a data frame or a matrix, or images."""
    if x.ndim == 2:
        for name in ("backbone", "weights", "size"):
            if getattr(options, name) is not None:
                raise InvalidInputError(f"--{name} is for images, and {options.data} is a table; leave it out.")
        return TableInput(TableEncoder().fit(x))
    channels, height, width = x.shape[1:]
    small = channels == 1 and max(height, width) <= SMALL_IMAGE and options.weights is None
    name = options.backbone or ("lenet" if small else "resnet18")
    freeze = options.freeze if options.freeze is not None else name == "vgg16" and options.weights is not None
    if freeze and options.weights is None:
        raise InvalidInputError("--freeze uses a backbone as it was trained before; pass its --weights.")
    described = BackboneRecord(name, channels, (height, width), freeze)
    module = image_backbone(
        name,
        weights=options.weights,
        images=x,
        augment=None if freeze or not options.augment else Augment(flip=0.5 if channels == 3 else 0.0),
        dropout=options.dropout,
        frozen=freeze,
    )
    kind = FeaturesInput if freeze else ImagesInput
    return kind(module, described, progress)


def load_backbone(known: BackboneRecord, folder: Path, *, frozen: bool = False, dropout: float = 0.5) -> ImageBackbone:
    """Build the backbone that a run's record describes.

    A frozen one has its weights; one that was trained with the head gets them with the model. The sizes of the file's
    tensors are compared with those of the network before it is built: a wrong name must not fill the memory.
    """
    path, prefix = (folder / EXTRACTOR, "") if frozen else (folder / MODEL, "network/backbone.")
    try:
        with open_tensors(path) as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise InvalidInputError(f"{path} cannot be read ({error}); train again.") from error
    with torch.device("meta"):
        body = build_backbone(known.name)
    wanted = {f"{prefix}body.{name}": tuple(tensor.shape) for name, tensor in body.state_dict().items()}
    wrong = [name for name, shape in wanted.items() if shapes.get(name) != shape]
    if wrong:
        raise InvalidInputError(f"the weights in {path} are not those of {known.name}: {wrong[0]} does not fit.")
    backbone = image_backbone(known.name, dropout=dropout, frozen=frozen)
    if frozen:
        try:
            weights = load_tensors(path)
            backbone.load_state_dict(weights)
        except (RuntimeError, safetensors.SafetensorError) as error:
            raise InvalidInputError(f"the weights in {path} do not fit {known.name}: {error}.") from error
        damaged = not_finite(weights)
        if damaged is not None:
            raise InvalidInputError(f"{path} holds NaN or infinity in {damaged!r}; train again.")
    return backbone.eval()
