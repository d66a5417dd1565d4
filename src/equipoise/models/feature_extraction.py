"""Features of many images from a frozen backbone, computed once and cached on disk."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from equipoise.data.images import Images
from equipoise.data.samples import Progress, rows_of
from equipoise.errors import InvalidInputError
from equipoise.models.evaluation_copy import eval_replica
from equipoise.models.feature_store import FeatureStore
from equipoise.storage.files import cache_folder

PROBE = 2
CLOSE = 1e-3


def extract_features(
    images: NDArray[np.uint8] | Images,
    backbone: nn.Module,
    *,
    cache: str | Path | Literal[False] | None = None,
    batch_size: int = 100,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Compute features (images, D) by a backbone in evaluation mode, or read them from the cache.

    The cache key covers the bytes of the weights, the layers and their settings, and the content of the images; for
    images on disk, the content that their files had when they were checked, or otherwise the files' place,
    sizes and times, so that nothing is read to look the features up.
    An interrupted extraction resumes where it stopped, with identical results; of two processes at the same
    features, one waits for the other. Features on disk are memory-mapped: changes to them stay in memory.

    Args:
        images: uint8, (images, channels, height, width), or images on disk.
        backbone: images -> features, (batch, D); its mode does not matter and is not changed.
        cache: folder for the features; None is ``cache_folder() / "features"``, False stores nothing.
        batch_size: images at a time; it affects memory, and the features only by rounding.
        progress: callback (done, total) after each batch.

    >>> from equipoise.models import image_backbone
    >>> images = np.zeros((5, 1, 28, 28), dtype=np.uint8)
    >>> features = extract_features(images, image_backbone("lenet", frozen=True), cache=False)
    >>> features.shape, features.dtype
    ((5, 500), dtype('float32'))
    """
    _check(images, batch_size)
    backbone = eval_replica(backbone)
    shape = (len(images), _features(images[np.arange(1)], backbone).shape[1])
    report = progress or (lambda *_: None)
    if cache is False:
        found = np.empty(shape, dtype=np.float32)
        for rows, features in _batches(images, backbone, 0, batch_size):
            found[rows] = features
            report(rows.stop, len(images))
        return found
    folder = cache_folder() / "features" if cache is None else Path(cache)
    with FeatureStore(folder, _key(images, backbone), shape=shape) as store:
        if store.complete and not _agrees(store, images, backbone):
            store.clear()
        report(store.rows, len(images))
        if not store.complete:
            for rows, features in _batches(images, backbone, store.rows, batch_size):
                store.append(features)
                report(rows.stop, len(images))
            store.finish()
        return store.open()


def _check(images: NDArray[np.uint8] | Images, batch_size: int) -> None:
    shape = getattr(images, "shape", ())
    if len(shape) != 4 or np.dtype(images.dtype) != np.uint8 or not len(images):
        raise InvalidInputError(
            "images must be uint8, (images, channels, height, width), at least one, got "
            f"{getattr(images, 'dtype', type(images).__name__)} of shape {tuple(shape)}."
        )
    if batch_size < 1:
        raise InvalidInputError(f"batch_size must be at least 1, got {batch_size}.")


@torch.inference_mode()
def _features(pixels: NDArray[np.uint8], backbone: nn.Module) -> NDArray[np.float32]:
    weight = next(backbone.parameters(), None)
    batch = torch.from_numpy(np.ascontiguousarray(pixels))
    parts = batch.split(getattr(backbone, "images_at_once", None) or len(batch))
    features = torch.cat([backbone(part if weight is None else part.to(weight.device)) for part in parts])
    if features.ndim != 2 or len(features) != len(pixels):
        raise InvalidInputError(f"the backbone must give (images, features), got the shape {tuple(features.shape)}.")
    found: NDArray[np.float32] = features.to("cpu", torch.float32).numpy()
    if not np.isfinite(found).all():
        raise InvalidInputError("the backbone returned non-finite features; check its weights.")
    return found


def _batches(
    images: NDArray[np.uint8] | Images, backbone: nn.Module, start: int, batch_size: int
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield batches from row ``start`` on; while one is computed, the next is read and decoded."""
    parts = [slice(first, min(first + batch_size, len(images))) for first in range(start, len(images), batch_size)]
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(images.__getitem__, rows) for rows in parts[:1]]
        for rows, following in zip(parts, [*parts[1:], None], strict=False):
            pixels = coming.pop().result()
            if following is not None:
                coming.append(reader.submit(images.__getitem__, following))
            yield rows, _features(pixels, backbone)


def _agrees(store: FeatureStore, images: NDArray[np.uint8] | Images, backbone: nn.Module) -> bool:
    """Return whether the backbone still gives stored features: its code may have changed with its layers equal."""
    stored = store.open()
    now = _features(images[np.arange(min(PROBE, len(images)))], backbone)
    scale = float(np.abs(now).max()) + np.finfo(np.float32).tiny
    return bool((np.abs(stored[: len(now)] - now) <= CLOSE * scale).all())


def _key(images: NDArray[np.uint8] | Images, backbone: nn.Module) -> str:
    """Return a cache key of everything the features depend on: the weights' bytes, the layers' settings, the images."""
    digest = hashlib.blake2b(digest_size=20)
    digest.update(f"{type(backbone).__qualname__} {backbone!r}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    digest.update(f"images {tuple(images.shape)}".encode())
    files = rows_of(images).fingerprint()
    if files is not None:
        digest.update(files.encode())
    else:
        for first in range(0, len(images), 4096):
            digest.update(np.ascontiguousarray(images[first : first + 4096]).data)
    return digest.hexdigest()
