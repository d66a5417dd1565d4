"""The samples a person wants to see: the most uncertain, and those that are confidently wrong."""

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equipoise.app.runs.held_out import HeldOut
from equipoise.app.runs.inputs import TableInput, as_frame
from equipoise.app.runs.trained import RunModel
from equipoise.data.images import Images, UnreadableImageError, decode_image

MOST_ITEMS, MOST_COLUMNS, THUMBNAIL = 12, 8, 128
LONGEST_VALUE = 80


def gallery(model: RunModel, x: Any, held: HeldOut, *, pictures: NDArray[np.uint8] | None = None) -> dict[str, Any]:
    """Plain values for ``gallery.json``.

    Args:
        x: the held-out samples as they were read.
        pictures: of the same samples, (samples, channels, height, width), where x is a table that was pictures.
    """
    wrong = held.labels != held.predicted
    wrong = wrong.any(1) if model.multilabel else wrong
    sure = _sureness(held, model.multilabel)
    by_uncertainty = np.argsort(-held.uncertainty, kind="stable")[:MOST_ITEMS]
    by_sureness = np.flatnonzero(wrong)[np.argsort(-sure[wrong], kind="stable")][:MOST_ITEMS]
    is_table = isinstance(model.input, TableInput) and pictures is None
    show = _table_shower(model, x) if is_table else _picture_shower(x if pictures is None else pictures)

    def item(place: int) -> dict[str, Any]:
        row = int(held.rows[place])
        return {
            "row": row,
            "name": printable(x.take([place]).names[0]) if isinstance(x, Images) else f"row {row}",
            "true": _named(held.labels[place], model),
            "predicted": _named(held.predicted[place], model),
            "probability": float(sure[place]),
            "uncertainty": float(held.uncertainty[place]),
            **show(place),
        }

    return {
        "kind": "table" if is_table else "images",
        "uncertain": [item(int(place)) for place in by_uncertainty],
        "wrong": [item(int(place)) for place in by_sureness],
    }


def _sureness(held: HeldOut, multilabel: bool) -> NDArray[np.float64]:
    """Probability of what was predicted; of several labels together as if they were independent."""
    found = held.probabilities.astype(np.float64)
    if not multilabel:
        return np.asarray(found[np.arange(len(found)), held.predicted])
    return np.asarray(np.where(held.predicted == 1, found, 1 - found).prod(1))


def _named(place: Any, model: RunModel) -> str:
    if not model.multilabel:
        return model.classes[int(place)]
    return ", ".join(name for name, has in zip(model.classes, place.tolist(), strict=True) if has) or "none"


def _table_shower(model: RunModel, x: Any) -> Callable[[int], dict[str, Any]]:
    frame = as_frame(x)
    names = key_columns(model)

    def show(place: int) -> dict[str, Any]:
        values = frame.iloc[place]
        return {"columns": {name: str(values[name])[:LONGEST_VALUE] for name in names}}

    return show


def key_columns(model: RunModel, most: int = MOST_COLUMNS) -> list[str]:
    """The columns whose standardised values meet the largest weights of the first layer."""
    assert isinstance(model.input, TableInput)
    weight = next(tensor for name, tensor in model.network.backbone.named_parameters() if tensor.ndim == 2)
    each = weight.detach().square().sum(0).double().numpy()  # one an output of the encoder
    columns: list[tuple[float, str]] = []
    start = 0
    for column in model.input.encoder.columns_ or ():
        width = len(column.outputs)
        columns.append((-float(each[start : start + width].max()), column.name))
        start += width
    return [name for _, name in sorted(columns)[:most]]


def _picture_shower(x: Any) -> Callable[[int], dict[str, Any]]:
    def show(place: int) -> dict[str, Any]:
        found = thumbnail(_pixels(x, place))
        return {} if found is None else {"thumbnail": found}

    return show


def _pixels(x: Any, place: int) -> NDArray[np.uint8] | None:
    """(channels, height, width); a file is read anew, in the shape that the network saw but finer."""
    if not isinstance(x, Images):
        return np.asarray(x[place], dtype=np.uint8)
    scale = THUMBNAIL / max(x.size)
    size = (max(1, round(x.size[0] * scale)), max(1, round(x.size[1] * scale)))
    try:
        return decode_image(x.paths[place], size=size, channels=x.channels, fit=x.fit)
    except UnreadableImageError:  # it was there a moment ago; a picture less is no reason to lose the run
        return None


def thumbnail(pixels: NDArray[np.uint8] | None, most: int = THUMBNAIL) -> str | None:
    """Base64 of a JPEG of at most so many pixels a side, from (channels, height, width)."""
    if pixels is None:
        return None
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((most, most))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=85)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def printable(name: str) -> str:
    """A file's name as text that can be written; bytes that are no UTF-8 become marks."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
