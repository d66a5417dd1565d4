"""Names beside the marks of a scatter: as many as fit without lying on one another."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

LONGEST = 22
LETTER, LINE, GAP = 6.6, 13.0, 8.5  # points, of the page's font at the size drawn with
Box = tuple[float, float, float, float]


def short(name: str, longest: int = LONGEST) -> str:
    """
    >>> short("basal cell carcinoma of the skin", 12)
    'basal cell…'
    """
    return name if len(name) <= longest else name[: longest - 1].rstrip() + "…"


def settle(figure: Any) -> None:
    """Find room for everything once and for all: from here on a point has its place."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)  # "none" would leave a stand-in, for which savefig draws everything twice


def label_points(
    axes: Any, x: Sequence[float], y: Sequence[float], names: Sequence[str], order: Iterable[int], *, most: int = 24
) -> None:
    """Write names beside the first points of ``order``; one that finds no free place is left out."""
    settle(axes.figure)
    low, high = axes.get_window_extent().get_points()
    places = axes.transData.transform(np.column_stack([x, y]))
    taken: list[Box] = [(px - 4, py - 4, px + 4, py + 4) for px, py in places]
    for which in list(order)[:most]:
        px, py = places[which]
        if not np.isfinite([px, py]).all():
            continue
        text = short(names[which])
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


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
