"""Figures of the page: matplotlib figures as SVG, with real text and the colours of the page's theme.

Figures are drawn in placeholder colours that become CSS variables here. Style attributes are removed, since the page's
content-security policy forbids them, and ids are unique across figures.
"""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from equipoise.app.stored_arrays import Floats
from equipoise.app.stored_run import StoredRun
from equipoise.data.summary import Group

WIDTH = 420
"""Width of a figure in units: little more than a phone's pixels, so that its text is legible there too."""
COLOURS = {
    name: f"#0000{number:02x}"
    for number, name in enumerate(
        ("ink", "muted", "grid", "paper", "common", "medium", "rare", "accent", "warn", "shade1", "shade2", "shade3"), 1
    )
}
"""Name of a CSS variable -> the placeholder colour."""
VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()} | {"#000000": "var(--ink)"}
DASHED: Any = {"color": COLOURS["muted"], "lw": 1, "ls": (0, (4, 3))}
MARKS: dict[Group, str] = {"common": "o", "medium": "s", "rare": "^"}
LONGEST, LETTER, LINE, GAP = 22, 6.6, 13.0, 8.5
"""Most characters of a name that are shown, and font sizes in points."""
SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "equipoise",  # the same run gives the same page
    "text.parse_math": False,  # a class may be called "$5 or $6"
    **dict.fromkeys(("font.size", "axes.labelsize"), 12.5),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 11.5),
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.0,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow", "axes.unicode_minus"), True),
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "text.color": COLOURS["ink"],
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), COLOURS["muted"]),
    "grid.color": COLOURS["grid"],
    "figure.dpi": 72,
    **dict.fromkeys(("figure.autolayout", "figure.constrained_layout.use"), False),  # each figure sets its own
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house style, as a context manager or decorator."""
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's own font has it
        warnings.filterwarnings("ignore", ".*tight_layout.*|.*constrained_layout.*")  # very long names
        yield


def new_axes(height: float, *, rows: int = 1, width: float = WIDTH) -> Any:
    """Return axes of a figure whose unit is a page pixel; an array of them for several rows."""
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure.subplots(rows, 1, sharex=True) if rows > 1 else figure.add_subplot()


def counts_axis(axes: Any, run: StoredRun) -> None:
    """Label the horizontal axis with training samples, logarithmic and in whole numbers."""
    axes.set_xscale("log")
    spread = max(float(run.counts.max()), 1) / max(float(run.counts.min()), 1)
    places = (1.0, 2.0, 5.0) if spread < 50 else (1.0, 3.0) if spread < 1000 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=places))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("positive training samples" if run.multilabel else "training samples")


def percent_axis(axes: Any, which: str) -> None:
    """Show 0 to 100 % on the axis ``"x"`` or ``"y"``, with room for the marks at both ends."""
    axes.set(**{f"{which}lim": (-0.03, 1.03)})
    getattr(axes, f"{which}axis").set_ticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])


class ShareLocator(MaxNLocator):
    """Ticks from 0 to 100 % only, whatever room the axis leaves beyond for marks and names.

    >>> ShareLocator().tick_values(-0.1, 1.2).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    def __init__(self) -> None:
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the base class's ticks that are valid shares."""
        found = np.asarray(super().tick_values(vmin, vmax))
        return found[(found > -1e-9) & (found < 1 + 1e-9)]


def share_axis(*axes: Any) -> None:
    """Show shares in percent on an axis that does not cover all of 0 to 100 %."""
    for axis in axes:
        axis.set_major_locator(ShareLocator())
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 2):g}%"))


def legend_above(axes: Any, columns: int = 3, **options: Any) -> None:
    """Put the legend above the axes, in a row."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, **options)


def group_scatter(
    axes: Any,
    run: StoredRun,
    y: Floats,
    tips: Sequence[str],
    *,
    x: Floats | None = None,
    sizes: Floats | None = None,
    hollow: Any = None,
) -> dict[str, list[str]]:
    """Draw a mark for each class, in its group's colour and shape, over its training samples or ``x``.

    Returns the tooltips of each collection by gid.
    """
    across = np.maximum(run.counts, 1).astype(np.float64) if x is None else x
    unfilled = np.zeros(len(y), dtype=bool) if hollow is None else hollow
    known = ~np.isnan(y) & ~np.isnan(across)
    many = len(run.classes) > 100
    drawn = {}
    for group, mark in MARKS.items():
        for outline in (False, True):
            rows = run.in_group(group) & known & (unfilled == outline)
            if not rows.any():
                continue
            area = (24.0 if many else 52.0) if sizes is None else sizes[rows]
            style = {"facecolor": "none", "lw": 1.5} if outline else {"facecolor": COLOURS[group], "lw": 0.5}
            style |= {"edgecolor": COLOURS[group], "alpha": 0.6 if many else 0.85, "zorder": 3, "marker": mark}
            gid = f"{group}-{'open' if outline else 'full'}"
            axes.scatter(across[rows], y[rows], s=area, label="" if outline else group, **style).set_gid(gid)
            drawn[gid] = [tips[which] for which in np.flatnonzero(rows).tolist()]
    return drawn


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name, cut at the end if it is too long.

    >>> short("basal cell carcinoma of the skin", 12)
    'basal cell…'
    """
    return name if len(name) <= longest else name[: longest - 1].rstrip() + "…"


def label_points(axes: Any, run: StoredRun, y: Floats, *, above: float = -np.inf, most: int = 24) -> None:
    """Write names beside the marks of classes, the highest first and only ``above``; skip those without free space."""
    _settle(axes.figure)
    x = np.maximum(run.counts, 1)
    low, high = axes.get_window_extent().get_points()
    places = axes.transData.transform(np.column_stack([x, y]))
    taken = [(px - 4, py - 4, px + 4, py + 4) for px, py in places]
    for which in np.argsort(-np.nan_to_num(y, nan=-1), kind="stable")[:most]:
        px, py = places[which]
        if not (np.isfinite([px, py]).all() and y[which] > above):
            continue
        text = short(run.classes[which])
        wide = LETTER * len(text)
        for dx, dy, side in ((GAP, 0, "left"), (-GAP, 0, "right"), (0, GAP + 5, "center"), (0, -GAP - 5, "center")):
            left = px + dx - {"left": 0.0, "right": wide, "center": wide / 2}[side]
            box = (left, py + dy - LINE / 2, left + wide, py + dy + LINE / 2)
            inside = box[0] >= low[0] and box[2] <= high[0] + 4 and box[1] >= low[1] and box[3] <= high[1]
            if inside and not any(_overlap(box, other) for other in taken):
                axes.annotate(
                    text, (x[which], y[which]), (dx, dy), textcoords="offset points", ha=side, va="center", size=11.5
                )
                taken.append(box)
                break


def inline_svg(
    figure: Figure, name: str, description: str, *, tips: Mapping[str, Sequence[str]] | None = None, extra: str = ""
) -> Markup:
    """Return the figure as an element of the page.

    Args:
        name: unique on the page; it prefixes every id.
        description: text for screen readers.
        tips: gid of a collection -> the tooltip of each of its marks, in order.
        extra: name of an empty group over the figure for a script to draw in.
    """
    _settle(figure)  # otherwise matplotlib repeats it at every draw
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(file.getvalue())  # matplotlib wrote it  # nosec B314
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == SVG + "style" or "metadata" in child.tag:
                parent.remove(child)
    _add_tips(root, tips or {})
    for element in root.iter():
        _plain_attributes(element, name)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "class": "figure", "aria-label": description}
    if extra:
        ElementTree.SubElement(root, SVG + "g", {"id": extra})
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # ElementTree has escaped all text  # nosec B704


def _settle(figure: Any) -> None:
    """Compute the layout once and for all, so that points keep their places."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)  # "none" would leave a placeholder, for which savefig draws everything twice


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _add_tips(root: ElementTree.Element, tips: Mapping[str, Sequence[str]]) -> None:
    for group in root.iter(SVG + "g"):
        texts = tips.get(group.get("id", ""))
        if texts is not None:  # a path with an id is a definition
            marks = [
                mark for mark in group.iter() if mark.tag in {SVG + "use", SVG + "path"} and "id" not in mark.attrib
            ]
            for mark, text in zip(marks, texts, strict=True):
                ElementTree.SubElement(mark, SVG + "title").text = text


def _plain_attributes(element: ElementTree.Element, name: str) -> None:
    """Replace the style by presentation attributes, make ids unique, and round to two decimals."""
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
            element.set(key, VARIABLES.get(value, value))
        elif key in {"d", "x", "y", "transform", "points"}:
            element.set(key, re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}", " ".join(value.split())))
