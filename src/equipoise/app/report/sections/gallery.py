"""Samples to look at: the most uncertain, and those the model was confidently wrong about."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from equipoise.app.report.markup import Section, fill
from equipoise.app.report.record import Record, shown
from equipoise.app.run_folder import GalleryItem

MOST_ITEMS, MOST_COLUMNS, MOST_BYTES = 12, 8, 80_000
KINDS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
"""How the two formats that a thumbnail may have begin."""
TITLES = {
    "uncertain": ("Most uncertain", "Where the model itself does not know: a human should look at these first."),
    "wrong": (
        "Confidently wrong",
        "Wrong answers that the model was surest of: look for mistaken labels and look-alikes.",
    ),
}
TEMPLATE = """\
{% for list in gallery %}
<h3>{{ list.title }}</h3>
<p>{{ list.text }}</p>
<ul class="gallery">
{% for item in list["items"] %}
<li class="card">
{% if item.image %}<img src="{{ item.image }}" alt="{{ item.name }}" loading="lazy">{% endif %}
<div><p class="file">{{ item.name }}</p>
<p><span class="{{ "ok" if item.right else "bad" }}">{{ item.predicted }}</span> {{ item.probability|percent }}</p>
<p class="aside">{% if item.right %}right{% else %}truly {{ item.true }}{% endif %}</p>
<p class="aside">uncertainty {{ item.uncertainty|number }}</p>
{% if item.columns %}<dl class="columns">{{ facts(item.columns) }}</dl>{% endif %}
</div></li>
{% endfor %}
</ul>
{% else %}<p class="none">No samples were kept with this run.</p>
{% endfor %}
"""


@dataclass(frozen=True)
class Item:
    """A sample."""

    name: str
    true: str
    predicted: str
    probability: float
    uncertainty: float
    image: str  # a data: address, or empty
    columns: dict[str, str]

    @property
    def right(self) -> bool:
        """Whether the answer is."""
        return self.true == self.predicted


def section(record: Record) -> Section:
    """Return the samples as cards."""
    return Section("Samples", "Samples to look at", fill(TEMPLATE, gallery=gallery(record)))


def gallery(record: Record) -> list[dict[str, Any]]:
    """Return the two lists, those that are not empty."""
    found = []
    for key, (title, text) in TITLES.items():
        items = [_item(entry) for entry in getattr(record.gallery, key)]
        if items:
            found.append({"title": title, "text": text, "items": items[:MOST_ITEMS]})
    return found


def _item(entry: GalleryItem) -> Item:
    return Item(
        name=shown(entry.name, 80),
        true=shown(entry.true, 80),
        predicted=shown(entry.predicted, 80),
        probability=entry.probability,
        uncertainty=entry.uncertainty,
        image=_image(entry.thumbnail),
        columns={shown(name, 40): shown(value, 40) for name, value in list(entry.columns.items())[:MOST_COLUMNS]},
    )


def _image(encoded: str) -> str:
    """A data address of what is truly a JPEG or PNG; anything else is not shown."""
    if len(encoded) > MOST_BYTES:
        return ""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    kind = next((kind for start, kind in KINDS.items() if content.startswith(start)), None)
    return f"data:{kind};base64,{encoded}" if kind else ""
