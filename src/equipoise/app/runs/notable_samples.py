"""Samples to look at: the most uncertain, the confidently wrong, and those with doubtful labels."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equipoise.app.run_folder import Gallery, GalleryItem, SpeakingWords
from equipoise.app.runs.choose_split import SplitSamples
from equipoise.app.runs.trained_run import RunModel
from equipoise.app.stored_arrays import HeldOut, JudgedLabels
from equipoise.data.data_frames import as_table
from equipoise.data.images.scan import encodable
from equipoise.data.samples import rows_of

MOST_ITEMS, MOST_COLUMNS, THUMBNAIL = 12, 8, 128
LONGEST_VALUE, LONGEST_TEXT = 80, 600
MOST_CLASSES, MOST_WORDS = 100, 12
"""Most classes whose words are stored, and words of each."""


def choose_samples(model: RunModel, x: Any, held: HeldOut, *, pictures: NDArray[np.uint8] | None = None) -> Gallery:
    """Choose the samples of ``gallery.json`` from x, as it was read, with ``pictures`` if x is a table of some."""
    found, wrong = held.probabilities.astype(np.float64), held.labels != held.predicted
    if model.multilabel:  # all labels together, as if independent
        sure, wrong = np.where(held.predicted == 1, found, 1 - found).prod(1), wrong.any(1)
    else:
        sure = found[np.arange(len(found)), held.predicted]
    by_uncertainty = np.argsort(-held.uncertainty, kind="stable")[:MOST_ITEMS]
    by_sureness = np.flatnonzero(wrong)[np.argsort(-sure[wrong], kind="stable")][:MOST_ITEMS]
    is_table = model.input.encoder is not None and pictures is None
    frame, columns = (as_table(x), key_columns(model)) if is_table else (None, [])
    texts = [] if frame is None else [column.name for column in _text_columns(model)]
    columns = [name for name in columns if name not in texts]
    images, names = rows_of(x if pictures is None else pictures), rows_of(x).names

    def item(place: int) -> GalleryItem:
        row = int(held.rows[place])
        return GalleryItem(
            row=row,
            name=f"row {row}" if names is None else encodable(names[place]),
            true=_named(held.labels[place], model),
            predicted=_named(held.predicted[place], model),
            probability=float(sure[place]),
            uncertainty=float(held.uncertainty[place]),
            thumbnail="" if is_table else thumbnail(images.preview(place, THUMBNAIL)),
            columns={} if frame is None else {name: str(frame[name].iloc[place])[:LONGEST_VALUE] for name in columns},
            texts={} if frame is None else {name: _text(frame[name].iloc[place]) for name in texts},
        )

    uncertain, confident = ([item(int(place)) for place in places] for places in (by_uncertainty, by_sureness))
    words = speaking_words(model) if is_table else []
    return Gallery("table" if is_table else "images", uncertain, confident, words)


def speaking_words(model: RunModel) -> list[SpeakingWords]:
    """Return the words that speak for each class or attribute, by the log-odds of every column of free text."""
    found = []
    for column in _text_columns(model):
        text, two = column.text, not model.multilabel and len(model.classes) == 2
        if text is None or not text.scores:
            continue
        for place, label in enumerate(model.classes[:MOST_CLASSES]):
            words = text.speaking_for(0 if two else place, against=two and place == 0, most=MOST_WORDS)
            if words:
                found.append(SpeakingWords(column.name, label, words))
    return found


def _text_columns(model: RunModel) -> list[Any]:
    encoder = model.input.encoder
    return [] if encoder is None else [column for column in encoder.columns_ if column.text or column.sentences]


def _text(value: Any) -> str:
    """Return a text as it was written, cut where it is long; nothing of a missing one."""
    text = value if isinstance(value, str) else ""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _named(place: Any, model: RunModel) -> str:
    if not model.multilabel:
        return model.classes[int(place)]
    return ", ".join(name for name, has in zip(model.classes, place.tolist(), strict=True) if has) or "none"


def key_columns(model: RunModel, most: int = MOST_COLUMNS) -> list[str]:
    """Return the columns that matter most to the model; the first ones if it does not say."""
    assert model.input.encoder is not None
    each = model.predictor.column_weights()  # one per output of the encoder
    if each is None:
        each = np.zeros(len(model.input.encoder.column_names_))
    columns: list[tuple[float, str]] = []
    start = 0
    for column in model.input.encoder.columns_ or ():
        width = len(column.outputs)
        columns.append((-float(each[start : start + width].max()), column.name))
        start += width
    return [name for _, name in sorted(columns, key=lambda entry: entry[0])[:most]]


def thumbnail(pixels: NDArray[np.uint8] | None) -> str:
    """Return a small JPEG as base64, from (channels, height, width); empty without pixels."""
    if pixels is None:
        return ""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=85)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def judge_labels(model: RunModel, parts: SplitSamples, rows: Any, tested: Any, softmax: Path) -> JudgedLabels:
    """Judge the labels of all samples.

    Args:
        rows, tested: training and test samples as the model takes them.
        softmax: weights at the end of a network's softmax stage; the file is optional.
    """
    targets, named = parts.targets, (rows_of(parts.train.x).names, rows_of(parts.test.x).names)
    files = [encodable(name).replace("\0", "") for names in named for name in names or ()]
    return JudgedLabels(
        rows=np.concatenate((parts.split.train, parts.test_rows)).astype(np.int64),
        test=np.repeat((False, True), (len(targets.train), len(targets.test))),
        labels=np.concatenate((targets.train, targets.test)),
        doubt=model.predictor.label_doubt(rows, tested, targets, softmax),
        names=None if None in named else tuple(files),
    )
