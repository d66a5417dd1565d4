"""The result of a comparison as one self-contained page, or as Markdown."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from equipoise.app.compare.comparison import SHOWN, Comparison, counted_as
from equipoise.app.compare.leaderboard import SMALLER_IS_BETTER, Interval
from equipoise.app.compare.method import Remedy
from equipoise.app.output_files import one_line
from equipoise.app.report import drawing
from equipoise.app.report.markup import number, percent, render
from equipoise.app.report.run_page import page_path, write_page
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

FORMATS = {".html": 'content="equipoise"', ".htm": 'content="equipoise"', ".md": "<!-- equipoise compare -->"}
"""Suffix of a page -> text that every page written here contains near its beginning."""
MARKED = 2000
"""Characters at the start of a page in which its mark is looked for."""
LONGEST_LABEL, COLUMN = 30, 48
"""Letters of a method's name, and points of a column of figures, in the picture."""
MANY = 100
"""Count or cost from which decimals are left out."""
MARKS: dict[Remedy, tuple[str, str, str]] = {
    "none": ("s", "warn", "no remedy"),
    "threshold": ("^", "medium", "moved threshold"),
    "training": ("o", "accent", "remedy"),
}
"""By what a method does about imbalance: its mark, its colour and its name in the legend."""


def check_page(page: str | Path) -> Path:
    """Return where to write a page; refuse a folder, another format, and a file that is not one of our pages."""
    path = page_path(page)
    if path.suffix.lower() not in FORMATS:
        raise InvalidInputError(f"the page must end in .html or .md, got {path.name}.")
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            if FORMATS[path.suffix.lower()] not in file.read(MARKED):
                raise InvalidInputError(f"{path} exists and is not a page of equipoise; name another file.")
    return path


def write_methods_page(found: Comparison, page: str | Path, *, data: str) -> Path:
    """Write a comparison as self-contained HTML, or as Markdown.

    Args:
        found: by :func:`~equipoise.app.compare.compare`.
        page: a file that ends in .html or .md; an earlier page there is replaced.
        data: the name of the data.
    """
    path = check_page(page)
    return write_page(markdown(found, data) if path.suffix.lower() == ".md" else html(found, data), path)


def html(found: Comparison, data: str) -> str:
    """Return the page as HTML."""
    rows = table_rows(found)
    return render(
        "methods.html.j2",
        name=one_line(data),
        verdict=found.verdict,
        details=found.recommendation.removeprefix(found.verdict).strip(),
        metric=SHOWN.get(found.ranking.metric, found.ranking.metric.replace("_", " ")),
        rows=rows,
        best=_best(rows),
        counted=None if found.yardstick is None else counted_as(found.yardstick),
        heads=SHOWN,
        baseline=None if found.ranking.baseline is None else found.methods[found.ranking.baseline].name_in_text,
        figure=ranking_figure(found, rows) if rows else None,
        basis=basis(found),
        notes=[*found.notes, *absences(found)],
        data={},
    )


def markdown(found: Comparison, data: str) -> str:
    """Return the page as Markdown."""
    heads = ["", "method", *SHOWN.values(), "behind the best", "fit"]
    lines = [
        "| "
        + " | ".join([row["position"], row["label"].replace("|", "\\|"), *row["shown"].values(), row["behind"]])
        + f" | {row['time']} |"
        for row in table_rows(found)
    ]
    table = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * (len(heads) - 2), *lines]
    notes = [f"- {one_line(note, 2000)}" for note in (*found.notes, *absences(found))]
    title = f"# Methods compared on {one_line(data)}"
    parts = [FORMATS[".md"], title, found.recommendation, basis(found), "\n".join(table), "\n".join(notes)]
    return "\n\n".join(filter(None, parts)) + "\n"


def basis(found: Comparison) -> str:
    """Return what the figures are means of, in words."""
    runs = counted(found.seeds, "seed") + (f" × {counted(found.folds, 'fold')}" if found.folds else "")
    if found.rounds < found.seeds * (found.folds or 1):
        runs = f"{counted(found.rounds, 'fit')} of each method instead of {runs}"
    return f"Means over {runs}; intervals are paired, at 95 % confidence."


def absences(found: Comparison) -> list[str]:
    """Return which methods are not ranked, and why, in words."""
    said = [f"{found.methods[name].label}: {why}" for name, why in found.ranking.cannot_run.items()]
    for why in dict.fromkeys(found.left_out.values()):
        names = "; ".join(found.methods[name].label for name, own in found.left_out.items() if own == why)
        said.append(f"Left out for the budget ({why}): {names}.")
    return said


def table_rows(found: Comparison) -> list[dict[str, Any]]:
    """Return a row per ranked method, with its scores as values and as text."""
    rows = []
    for position, place in enumerate(found.ranking.places, start=1):
        values = found.means(place.method)
        count = values["count"] = None if found.yardstick is None else values[found.yardstick.counted]
        rows.append(
            {
                "position": f"{position}{'=' if place.tied and position > 1 else ''}",
                "label": one_line(found.methods[place.method].label),
                "values": values,
                "shown": {name: _shown(name, values[name]) for name in SHOWN},
                "behind": _points(place.to_best),
                "behind_value": 0.0 if place.to_best is None else place.to_best.mean,
                "time": f"{number(values['seconds'])} s",
                "count": "" if count is None else number(count, 0 if abs(count) >= MANY else 1),
            }
        )
    return rows


def _shown(name: str, value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if name == "log_loss" else percent(value)


def _points(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    span = "" if interval.low is None else f" ({100 * interval.low:.1f} to {100 * (interval.high or 0):.1f})"
    return f"{100 * interval.mean:.1f}{span}".replace("-", "−")


def _best(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the best value of each column."""
    found = {}
    for name in (*SHOWN, "seconds", "count"):
        known = [row["values"][name] for row in rows if row["values"][name] is not None]
        smaller = name.rpartition(".")[2] in (*SMALLER_IS_BETTER, "seconds", "count")
        found[name] = (min(known) if smaller else max(known)) if known else math.nan
    return found


@drawing.house_style()
def ranking_figure(found: Comparison, table: list[dict[str, Any]]) -> Markup:
    """Draw how far each method lies behind the best, with its interval, and write time, cost or other counts beside it.

    Filled marks are tied with the best. ``table`` is by :func:`table_rows`.
    """
    places = found.ranking.places
    axes = drawing.new_axes(80 + 19 * len(places))
    gaps = [place.to_best or Interval(0.0, 0.0, 0.0, place.runs) for place in places]
    behind = -100 * np.array([gap.mean for gap in gaps])
    axes.axvline(0, **drawing.DASHED)
    labels = [found.methods[place.method].label for place in places]
    drawn: dict[str, list[str]] = {}
    for remedy, (mark, colour, legend) in MARKS.items():
        for tied in (True, False):
            rows = [
                row
                for row, place in enumerate(places)
                if place.tied == tied and found.methods[place.method].remedy == remedy
            ]
            if not rows:
                continue
            known = [row for row in rows if gaps[row].low is not None and places[row].to_best is not None]
            ends = [(-100 * (gaps[row].high or 0), -100 * (gaps[row].low or 0)) for row in known]
            axes.hlines(known, *zip(*ends, strict=True), color=drawing.COLOURS[colour], lw=1.6) if known else None
            style = {"facecolor": drawing.COLOURS[colour if tied else "paper"], "edgecolor": drawing.COLOURS[colour]}
            name = legend if legend not in [each.get_label() for each in axes.collections] else ""
            gid = f"{remedy}-{'tied' if tied else 'behind'}"
            axes.scatter(behind[rows], rows, s=34, marker=mark, zorder=3, label=name, **style).set_gid(gid)
            drawn[gid] = [f"{one_line(labels[row])}: {percent(places[row].mean)}" for row in rows]
    axes.set_yticks(range(len(places)), [drawing.short(one_line(label), LONGEST_LABEL) for label in labels])
    axes.set(ylim=(len(places) - 0.4, -0.6), xlabel="difference to the best, in points")
    axes.grid(axis="y", visible=False)
    _columns_beside(axes, table, "" if found.yardstick is None else counted_as(found.yardstick)[0])
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1.02 + 0.35 / len(places)), ncols=3, borderaxespad=0.2, handletextpad=0.2
    )
    said = "Distance of each method to the best, with 95 % intervals, best first"
    return drawing.inline_svg(axes.figure, "ranking", said, tips=drawn)


def _columns_beside(axes: Any, table: list[dict[str, Any]], counted: str) -> None:
    """Write each method's time, and what a rule's yardstick counts, to the right of the axes."""
    columns = {"a fit": [row["time"] for row in table], counted: [row["count"] for row in table]}
    rows = axes.get_yaxis_transform()  # across in shares of the axes, down in rows
    for place, (head, texts) in enumerate((head, texts) for head, texts in columns.items() if any(texts)):
        for row, text in enumerate([head, *texts], start=-1):
            axes.annotate(
                text,
                (1, row),
                (COLUMN * (place + 1), 0),
                xycoords=rows,
                textcoords="offset points",
                ha="right",
                va="center",
                size=11.5,
                color=drawing.COLOURS["muted" if row < 0 else "ink"],
                annotation_clip=False,
            )
