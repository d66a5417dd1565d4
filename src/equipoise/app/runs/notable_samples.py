"""Samples a person should look at: the most uncertain, the confidently wrong, those whose label is doubtful."""

import base64
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from equipoise.app.run_folder import Gallery, GalleryItem
from equipoise.app.runs.split import Division, Targets
from equipoise.app.runs.trained import FORWARD_NUMBERS, RunModel
from equipoise.app.stored_run import HeldOut, JudgedLabels
from equipoise.data import Samples
from equipoise.data.encoder import as_table
from equipoise.data.images.scan import encodable
from equipoise.data.samples import rows_of
from equipoise.evaluation.label_quality import LabelJudge, class_sizes
from equipoise.tensors import new_tensor
from equipoise.training.settings import rows_at_once

MOST_ITEMS, MOST_COLUMNS, THUMBNAIL = 12, 8, 128
LONGEST_VALUE = 80


def gallery(model: RunModel, x: Any, held: HeldOut, *, pictures: NDArray[np.uint8] | None = None) -> Gallery:
    """Choose the samples of ``gallery.json``.

    Args:
        x: the held-out samples as they were read.
        pictures: of the same samples, (samples, channels, height, width), where x is a table that was pictures.
    """
    wrong = held.labels != held.predicted
    wrong = wrong.any(1) if model.multilabel else wrong
    sure = _sureness(held, model.multilabel)
    by_uncertainty = np.argsort(-held.uncertainty, kind="stable")[:MOST_ITEMS]
    by_sureness = np.flatnonzero(wrong)[np.argsort(-sure[wrong], kind="stable")][:MOST_ITEMS]
    is_table = model.input.encoder is not None and pictures is None
    show = _table_shower(model, x) if is_table else _picture_shower(x if pictures is None else pictures)

    names = rows_of(x).names

    def item(place: int) -> GalleryItem:
        row = int(held.rows[place])
        return GalleryItem(
            row=row,
            name=f"row {row}" if names is None else encodable(names[place]),
            true=_named(held.labels[place], model),
            predicted=_named(held.predicted[place], model),
            probability=float(sure[place]),
            uncertainty=float(held.uncertainty[place]),
            **show(place),
        )

    return Gallery(
        "table" if is_table else "images",
        [item(int(place)) for place in by_uncertainty],
        [item(int(place)) for place in by_sureness],
    )


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
    frame = as_table(x)
    names = key_columns(model)

    def show(place: int) -> dict[str, Any]:
        values = frame.iloc[place]
        return {"columns": {name: str(values[name])[:LONGEST_VALUE] for name in names}}

    return show


def key_columns(model: RunModel, most: int = MOST_COLUMNS) -> list[str]:
    """The columns whose standardised values meet the largest weights of the first layer."""
    assert model.input.encoder is not None
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
        found = thumbnail(rows_of(x).preview(place, THUMBNAIL))
        return {} if found is None else {"thumbnail": found}

    return show


def thumbnail(pixels: NDArray[np.uint8] | None, most: int = THUMBNAIL) -> str | None:
    """Base64 of a JPEG of at most so many pixels a side, from (channels, height, width)."""
    if pixels is None:
        return None
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((most, most))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=85)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


Part = tuple[NDArray[np.float32], slice]


def judge_labels(
    model: RunModel, division: Division, targets: Targets, rows: Any, tested: Any, softmax: Path
) -> JudgedLabels:
    """Judge the labels of all samples; features are taken twice, a part at a time, and never held together.

    Args:
        targets: the labels of the division.
        rows, tested: training and test samples as the network takes them.
        softmax: the weights at the end of the softmax stage, which know fewest labels by heart. Without the file, the
            trained network's own.
    """
    model = model.softmax_stage(softmax) or model
    places, others = targets
    judge = LabelJudge(class_sizes(places, len(model.classes)), several=model.multilabel)
    for features, part in _features(model, rows):
        judge.add(features, places[part])
    for features, part in _features(model, rows):
        judge.look(features, places[part], added=True)
    for features, part in _features(model, tested):
        judge.look(features, others[part], added=False)
    own = division.split.test
    return JudgedLabels(
        rows=np.concatenate((division.split.train, own if len(own) else np.arange(len(others)))).astype(np.int64),
        test=np.repeat((False, True), (len(places), len(others))),
        labels=np.concatenate((places, others)),
        doubt=judge.doubt(),
        names=_names(division.train, division.test),
    )


@torch.inference_mode()
def _features(model: RunModel, rows: Any) -> Iterator[Part]:
    """Of the last layer, before its dropout."""
    backbone = model.network.eval().backbone
    numbers = FORWARD_NUMBERS * int(np.prod(rows.shape[1:], dtype=np.int64))
    step = rows_at_once(max(numbers, len(model.classes)))  # the judge reckons with every class
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        yield backbone(new_tensor(rows[part])).float().numpy(), part


def _names(train: Samples, test: Samples) -> tuple[str, ...] | None:
    names, others = rows_of(train.x).names, rows_of(test.x).names
    if names is None or others is None:
        return None
    return tuple(encodable(name).replace("\0", "") for name in (*names, *others))
