"""Samples to look at: the most uncertain, and the confidently wrong."""

import base64
import binascii
from typing import Any

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill
from equipoise.app.run_folder import GalleryItem
from equipoise.app.stored_run import StoredRun

MOST_ITEMS, MOST_COLUMNS, MOST_BYTES = 12, 8, 80_000
LONGEST_TEXT = 300
KINDS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
"""First bytes of the two formats that a thumbnail may have."""
TITLES = {
    "uncertain": ("Most uncertain", "The model is least sure of these: a human should look at them first."),
    "wrong": (
        "Confidently wrong",
        "Wrong answers that the model was surest of: look for mistaken labels and look-alikes.",
    ),
}


def section(run: StoredRun) -> Section:
    """Return the samples as cards."""
    return Section("Samples", "Samples to look at", fill("gallery.html.j2", gallery=shown_samples(run)))


def shown_samples(run: StoredRun) -> list[dict[str, Any]]:
    """Return the two lists, those that are not empty."""
    lists = [
        {"title": title, "text": text, "items": [_item(entry) for entry in getattr(run.gallery, key)[:MOST_ITEMS]]}
        for key, (title, text) in TITLES.items()
    ]
    return [found for found in lists if found["items"]]


def _item(entry: GalleryItem) -> dict[str, Any]:
    texts = {name: one_line(getattr(entry, name), 80) for name in ("name", "true", "predicted")}
    columns = list(entry.columns.items())[:MOST_COLUMNS]
    return {
        **texts,
        "right": entry.true == entry.predicted,
        "probability": entry.probability,
        "uncertainty": entry.uncertainty,
        "image": _image(entry.thumbnail),
        "texts": {one_line(name, 40): one_line(text, LONGEST_TEXT) for name, text in entry.texts.items() if text},
        "columns": {one_line(name, 40): one_line(value, 40) for name, value in columns},
    }


def _image(encoded: str) -> str:
    """Return a data URL of a genuine JPEG or PNG; anything else is not shown."""
    if len(encoded) > MOST_BYTES:
        return ""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    kind = next((kind for start, kind in KINDS.items() if content.startswith(start)), None)
    return f"data:{kind};base64,{encoded}" if kind else ""
