"""From a matplotlib figure to SVG inside a page: its colours follow the page's theme, its text is text.

Figures are drawn in stand-in colours which become CSS variables here. No style attribute is left, for the page's
content-security policy forbids them, and no id can clash with another figure's.
"""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from equipoise.app.report.name_placement import settle

COLOURS = {
    name: f"#0000{number:02x}"
    for number, name in enumerate(
        ("ink", "muted", "grid", "paper", "many", "medium", "rare", "accent", "warn", "shade1", "shade2", "shade3"), 1
    )
}
"""Name of a CSS variable -> the stand-in drawn with."""
SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "equipoise",  # the same run gives the same page
    "text.parse_math": False,  # a class may be called "$5 or $6"
    "font.size": 12.5,
    "axes.titlesize": 13,
    "axes.labelsize": 12.5,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "legend.fontsize": 11.5,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.unicode_minus": True,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.edgecolor": COLOURS["muted"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "grid.color": COLOURS["grid"],
    "figure.dpi": 72,
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,  # each figure asks for it, and is then left as it is
}


@contextmanager
def drawing() -> Iterator[None]:
    """The house style, for the time of a figure."""
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's own font shows it
        warnings.filterwarnings("ignore", ".*tight_layout.*|.*constrained_layout.*")  # very long names
        yield


def inline_svg(
    figure: Figure, name: str, description: str, *, tips: Mapping[str, Sequence[str]] | None = None, extra: str = ""
) -> Markup:
    """The figure as an element of the page.

    Args:
        name: unique on the page; it starts every id.
        description: what a screen reader says.
        tips: gid of a collection -> the tool tip of each of its marks, in order.
        extra: name of an empty group laid over the figure, for a script to draw in.
    """
    settle(figure)  # else matplotlib does it anew at every draw
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {SVG + "style", SVG + "metadata"} or "metadata" in child.tag:
                parent.remove(child)
    _add_tips(root, tips or {})
    for element in root.iter():
        _plain_attributes(element, name)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("class", "figure")
    root.set("aria-label", description)
    if extra:
        ElementTree.SubElement(root, SVG + "g", {"id": extra})
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # ElementTree has escaped all text


def _add_tips(root: ElementTree.Element, tips: Mapping[str, Sequence[str]]) -> None:
    for group in root.iter(SVG + "g"):
        texts = tips.get(group.get("id", ""))
        if texts is None:
            continue
        marks = [child for child in group.iter() if child.tag in {SVG + "use", SVG + "path"} and child is not group]
        marks = [mark for mark in marks if "id" not in mark.attrib]  # a path with an id is a definition
        for mark, text in zip(marks, texts, strict=True):
            ElementTree.SubElement(mark, SVG + "title").text = text


def _plain_attributes(element: ElementTree.Element, name: str) -> None:
    """Presentation attributes for the style; ids of this figure's own; two decimals are plenty."""
    for part in element.attrib.pop("style", "").split(";"):
        key, _, value = (piece.strip() for piece in part.partition(":"))
        if key == "font-size":
            element.set(key, value.removesuffix("px"))
        elif key and not key.startswith("font-f"):  # the family is the page's
            element.set(key, value)
    for key, value in list(element.attrib.items()):
        if key == XLINK + "href":
            del element.attrib[key]
            element.set("href", value.replace("#", f"#{name}-"))
        elif key == "id":
            element.set(key, f"{name}-{value}")
        elif key == "clip-path":
            element.set(key, value.replace("#", f"#{name}-"))
        elif key in {"fill", "stroke"}:
            element.set(key, _variable(value))
        elif key in {"d", "x", "y", "transform", "points"}:
            element.set(key, re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}", " ".join(value.split())))


def _variable(colour: str) -> str:
    for name, stand_in in COLOURS.items():
        if colour == stand_in:
            return f"var(--{name})"
    return "var(--ink)" if colour == "#000000" else colour
