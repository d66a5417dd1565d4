"""Several runs side by side, on one page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from equipoise.app.report import drawing
from equipoise.app.report.markup import percent, points, render
from equipoise.app.report.run_page import page_path, write_page
from equipoise.app.report.sections.class_table import MOST_ROWS
from equipoise.app.report.sections.provenance import provenance
from equipoise.app.report.sections.verdict import verdict
from equipoise.app.run_folder import REMEDY
from equipoise.app.stored_run import StoredRun, read_run
from equipoise.data.summary import GROUPS, Group
from equipoise.errors import InvalidInputError
from equipoise.evaluation.intervals import known_mean
from equipoise.evaluation.metrics import SCORE_NAMES, score_at
from equipoise.storage.files import foreign_files

DRAWS = 2000
SCORES = ("balanced_accuracy", "accuracy", "f1", "g_mean")


class Difference(NamedTuple):
    """Balanced accuracy of one run minus that of another, with the 95 % interval over the held-out samples."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """True if the interval excludes zero."""
        return self.low > 0 or self.high < 0


def write_comparison(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Write one page about several finished runs.

    Args:
        runs: their folders, at least two.
        out: the page; an existing one is replaced.
    """
    if len(runs) < 2:
        raise InvalidInputError(f"a comparison needs at least two runs, got {len(runs)}; for one, write its report.")
    found = [read_run(run) for run in runs]
    if len({run.multilabel for run in found}) > 1:
        raise InvalidInputError("runs with classes and runs with attributes cannot be compared; choose one kind.")
    path = page_path(out)
    with foreign_files(Path("one of the runs"), REMEDY):  # each was read on its own before
        page = render("comparison.html.j2", **_content(found))
    return write_page(page, path)


def difference(one: StoredRun, other: StoredRun) -> Difference | None:
    """Return how much better ``one`` is, from resamples within each class; None unless both saw the same samples.

    With attributes, the ones and the zeros of each are classes: the mean of their recalls is also balanced accuracy.
    """
    a, b = one.held_out, other.held_out
    if a is None or b is None or not _same_samples(one, other):
        return None
    size = len(one.classes)
    place = a.labels * size + np.arange(size) if one.multilabel else a.labels
    right, right_too = (held.predicted == held.labels for held in (a, b))
    masks = (right & ~right_too, right_too & ~right, right == right_too)
    counts = np.stack([np.bincount(place[mask], minlength=2 * size) for mask in masks], axis=1)
    counts = counts[counts.sum(1) > 0]  # (classes, 3): only the one right, only the other, both or neither
    total = counts.sum(1)
    rng = np.random.default_rng(0)
    drawn = np.zeros(DRAWS)
    for number, part in zip(total.tolist(), counts / total[:, None], strict=True):
        found = rng.multinomial(number, part, size=DRAWS)
        drawn += (found[:, 0] - found[:, 1]) / number
    low, high = np.quantile(drawn / len(total), [0.025, 0.975])
    return Difference(float(((counts[:, 0] - counts[:, 1]) / total).mean()), float(low), float(high))


def _same_samples(one: StoredRun, other: StoredRun) -> bool:
    a, b = one.held_out, other.held_out
    if a is None or b is None or one.classes != other.classes:
        return False
    return np.array_equal(a.rows, b.rows) and np.array_equal(a.labels, b.labels)


def _content(runs: list[StoredRun]) -> dict[str, Any]:
    names = _names(runs)
    groups = [group for group in GROUPS if any(group in run.groups for run in runs)]
    rows = [_run_row(run, name, groups) for run, name in zip(runs, names, strict=True)]
    best = int(np.nan_to_num([row["values"]["balanced_accuracy"] for row in rows], nan=-1).argmax())
    for row, run in zip(rows, runs, strict=True):
        row["difference"] = None if run is runs[best] else difference(runs[best], run)
    return {
        "headline": _headline(names, best, rows),
        "sentences": [f"{names[best]}: {verdict(runs[best]).headline}", _basis(runs)],
        "noun": runs[0].noun,
        "nouns": runs[0].nouns,
        "groups": groups,
        "scores": SCORES,
        "score_names": SCORE_NAMES,
        "rows": rows,
        "best": _best(rows),
        "seeds": _over_seeds(rows),
        "classes": _class_rows(runs),
        "names": names,
        "groups_figure": groups_figure(runs, names),
        "commands": [(name, provenance(run)["command"]) for name, run in zip(names, runs, strict=True)],
        "data": {},
    }


def _names(runs: list[StoredRun]) -> list[str]:
    """Return the folders' names, with their parents if two are equal."""
    names = [run.name for run in runs]
    alike = len(set(names)) < len(names)
    return [f"{run.folder.resolve().parent.name}/{run.name}" for run in runs] if alike else names


def _run_row(run: StoredRun, name: str, groups: list[Group]) -> dict[str, Any]:
    about = provenance(run)
    values: dict[str, Any] = {
        **{score: score_at(run.scores, score) for score in SCORES},
        **{group: _group_recall(run, group) for group in groups},
        "ECE": score_at(run.scores, "calibration.ece"),
    }
    known = {key: float("nan") if value is None else float(value) for key, value in values.items()}
    return {
        "name": name,
        "method": about["method"],
        "seed": about["options"].get("seed", ""),
        "samples": int(run.scores["samples"]),
        "values": known,
        "same_but_seed": {key: value for key, value in about["options"].items() if key != "seed"},
    }


def _headline(names: list[str], best: int, rows: list[dict[str, Any]]) -> str:
    said = f"{names[best]} has the highest balanced accuracy, {percent(rows[best]['values']['balanced_accuracy'])}"
    gaps = {row["name"]: row["difference"] for row in rows if row["difference"] is not None}
    level = [name for name, gap in gaps.items() if not gap.clear]
    if level:
        verb = "is" if len(level) == 1 else "are"
        return f"{said}, but {', '.join(level)} {verb} not clearly worse: the difference may be chance."
    return f"{said}, and its lead is more than these samples would give by chance." if gaps else said + "."


def _basis(runs: list[StoredRun]) -> str:
    if all(_same_samples(runs[0], run) for run in runs[1:]):
        return (
            f"All runs were scored on the same {int(runs[0].scores['samples']):,} held-out samples. Intervals come "
            "from resampling these; they do not cover the variation between training seeds."
        )
    return (
        "The runs were not all scored on the same samples, so a difference may come from the samples as well as from "
        "the method; train with the same data, --test-share and --seed for a fair comparison."
    )


def _best(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the best value of each column; for the calibration error, the smallest."""
    columns = {key: [row["values"][key] for row in rows] for key in rows[0]["values"]}
    known = {key: [value for value in values if not np.isnan(value)] for key, values in columns.items()}
    return {key: min(values) if key == "ECE" else max(values) for key, values in known.items() if values}


def _over_seeds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and standard deviation of runs that differ only in their seed."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        alike.setdefault(repr(sorted(row["same_but_seed"].items())), []).append(row)
    found = []
    for members in alike.values():
        if len(members) > 1 and len({row["seed"] for row in members}) == len(members):
            values = {key: np.array([row["values"][key] for row in members]) for key in members[0]["values"]}
            shown = {key: f"{percent(each.mean())} ± {100 * each.std(ddof=1):.1f}" for key, each in values.items()}
            found.append({"method": members[0]["method"], "runs": len(members), "values": shown})
    return found


def _class_rows(runs: list[StoredRun]) -> list[dict[str, Any]]:
    """Return the recall of the first run's classes in every run; missing where a run does not have the class."""
    first = runs[0]
    recalls = [dict(zip(run.classes, run.each("recall").tolist(), strict=True)) for run in runs]
    rows = first.rows(first.by_count[:MOST_ROWS])
    for row in rows:
        values = row["values"] = [recall.get(row["name"], float("nan")) for recall in recalls]
        row["best"] = max((value for value in values if not np.isnan(value)), default=None)
        row["gain"] = points(values[-1] - values[0]) if len(values) == 2 else ""
    return rows


@drawing.house_style()
def groups_figure(runs: Sequence[StoredRun], names: Sequence[str]) -> Markup:
    """Draw the mean recall of each group of classes, a line per run."""
    axes = drawing.new_axes(90 + 28 * len(runs))
    rows = np.arange(len(runs))
    drawn: dict[str, list[str]] = {}
    for group, mark in drawing.MARKS.items():
        values = np.array([_group_recall(run, group) for run in runs])
        known = ~np.isnan(values)
        if known.any():
            style = {"s": 58, "marker": mark, "color": drawing.COLOURS[group], "zorder": 3, "label": group}
            axes.scatter(values[known], rows[known], **style).set_gid(group)
            drawn[group] = [f"{names[place]}: {percent(values[place])}" for place in np.flatnonzero(known).tolist()]
    axes.set_yticks(rows, [drawing.short(name, 20) for name in names])
    axes.set(ylim=(len(runs) - 0.4, -0.6), xlabel="mean recall of the group's classes")
    drawing.percent_axis(axes, "x")
    drawing.legend_above(axes, handletextpad=0.2)
    said = "Mean recall of each group of classes in every run"
    return drawing.inline_svg(axes.figure, "groups", said, tips=drawn)


def _group_recall(run: StoredRun, group: Group) -> float:
    return known_mean(run.each("recall")[run.in_group(group)])
