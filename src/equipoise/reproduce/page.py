"""A finished table as Markdown: the paper's figure, ours, the difference, and who is tied for first."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.compare import METHODS, rank
from equipoise.compare.ranking import score_of
from equipoise.reproduce.cases import FOLDS, Case
from equipoise.reproduce.claims import EQUAL_CLASSES, against_resampling, completed, orders, percent
from equipoise.reproduce.run import TableResult

SCORES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "g_mean": "G-mean",
    "iba": "IBA",
}
ATTRIBUTE_SCORES = {"bca": "BCA", "accuracy": "accuracy", "f1": "F1"}


def table_page(result: TableResult) -> str:
    """The whole page."""
    lines = [
        f"# Table: {result.name}",
        "",
        f"Percent, mean ± standard deviation over {_repeats(result)}, last epoch, on test samples that no choice was "
        "made on. In brackets the deviation over the classes, as the paper gives it. Every method has the same "
        f"network, epochs, batches and rows{_exceptions(result)}; {_tuning(result)} Repeat it with",
        "",
        "```text",
        f"equipoise reproduce {result.name} --data DIR --seeds {result.seeds}{' --tune' if result.tune else ''}",
        "```",
        "",
        f"It took {result.hours:.1f} hours of one core. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result.header["versions"].items())
        + ".",
    ]
    for key, case in result.cases.items():
        records = [record for record in result.records if record["case"] == key]
        lines += ["", f"## {case.title}", "", *_scores_table(case, records), "", *_findings(case, records)]
        if case.samples.multilabel:
            lines += ["", *_each_attribute(case, records)]
        lines += _beside_the_paper(case, records)
    return "\n".join(lines).rstrip() + "\n"


def _repeats(result: TableResult) -> str:
    grouped = any(case.protocol == "grouped" for case in result.cases.values())
    return f"{result.seeds} seeds" + f" and {FOLDS} folds" * grouped


def _exceptions(result: TableResult) -> str:
    families = {METHODS[method].family for case in result.cases.values() for method in case.methods}
    said = {"resampling": "resamplers change the rows", "svm": "support vector machines are no networks"}
    found = [text for family, text in said.items() if family in families]
    return f" (but {' and '.join(found)})" if found else ""


def _tuning(result: TableResult) -> str:
    if result.tune:
        return "a method with a knob chose among 4 settings on a fifth of the training rows; ours has none."
    return "all have the settings their authors published; ours has none to choose."


def _scores_table(case: Case, records: Sequence[dict[str, Any]]) -> list[str]:
    shown = ATTRIBUTE_SCORES if case.samples.multilabel else SCORES
    lines = [
        "| method | " + " | ".join(shown.values()) + " | paper | difference |",
        "|---|" + "---|" * (len(shown) + 2),
    ]
    first = next(iter(shown))
    for method in case.methods:
        own = [record for record in records if record["method"] == method]
        scored = [record for record in own if "scores" in record]
        if not scored or len(scored) < len(own):
            why = next((str(record["cannot_run"]) for record in own if "cannot_run" in record), "not run")
            lines.append(f"| {METHODS[method].label} | {why} |" + " |" * (len(shown) + 1))
            continue
        printed = case.paper.get(method, {}).get(first)
        mean = percent(scored, method, first)
        beside = "– | –" if printed is None else f"{printed:.1f} | {mean - printed:+.1f}"
        cells = [_cell(scored, method, name) for name in shown]
        lines.append(f"| {METHODS[method].label} | {' | '.join(cells)} | {beside} |")
    return lines


def _cell(records: Sequence[dict[str, Any]], method: str, name: str) -> str:
    values = [100 * score_of(record, name) for record in records]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    text = f"{percent(records, method, name):.1f} ± {spread:.1f}"
    return text if name == "accuracy" else f"{text} ({percent(records, method, f'{name}.deviation'):.1f})"


def _beside_the_paper(case: Case, records: Sequence[dict[str, Any]]) -> list[str]:
    """Every score of the rows of which the paper prints more than the first."""
    lines = []
    for method in case.methods:
        if method not in completed(records) or len(case.paper.get(method, {})) < 2:
            continue
        cells = []
        for name in SCORES:
            mean, printed = percent(records, method, name), case.paper[method][name]
            cells.append(f"{printed:.1f}, {mean:.1f}, {mean - printed:+.1f}")
        lines.append(f"| {METHODS[method].label} | {' | '.join(cells)} |")
    if not lines:
        return []
    head = ["", "The paper's figure, ours and the difference:", "", f"| method | {' | '.join(SCORES.values())} |"]
    return [*head, "|---|" + "---|" * len(SCORES), *lines]


def _findings(case: Case, records: Sequence[dict[str, Any]]) -> list[str]:
    """Who is first, or not to be told from the first, by the scores that count every class alike; and what is claimed
    of the method."""
    if len(case.methods) < 2:
        return []
    lines = []
    shared = 1 / (FOLDS - 1) if case.protocol == "grouped" else 0.0
    for metric, title in EQUAL_CLASSES.items():
        ranking = rank(records, metric=metric, test_to_train=shared)
        names = ", ".join(f"{METHODS[p.method].label} {100 * p.mean:.1f}" for p in ranking.places if p.tied)
        nought = any(place.tied and place.mean == 0 for place in ranking.places)
        why = " One class that is never found makes it 0." if nought else ""
        paired = "over seeds and folds" if case.protocol == "grouped" else "over seeds"
        lines.append(f"First or tied for first (95 %, paired {paired}) by {title}: {names}.{why}")
    lines += [*against_resampling(records), *orders(records, test_to_train=shared)]
    return [*(f"- {line}" for line in lines), "", "Each interval is of 95 %, not widened for the number of them."]


def _each_attribute(case: Case, records: Sequence[dict[str, Any]]) -> list[str]:
    """The mean BCA of every attribute, the most imbalanced first."""
    each = {
        method: np.array([r["scores"]["bca"]["each"] for r in records if r["method"] == method], dtype=np.float64)
        for method in case.methods
        if method in completed(records)
    }
    share = case.samples.y[case.split(0, 0)[0]].mean(0)
    lines = [
        "BCA of each attribute, the most imbalanced first:",
        "",
        f"| attribute | positive | {' | '.join(METHODS[method].label for method in each)} |",
        "|---|" + "---|" * (1 + len(each)),
    ]
    for place in np.argsort(np.minimum(share, 1 - share), kind="stable"):
        known = [values[~np.isnan(values)] for values in (found[:, place] for found in each.values())]
        cells = " | ".join(f"{100 * values.mean():.1f}" if len(values) else "–" for values in known)
        lines.append(f"| {case.samples.attributes[place]} | {100 * share[place]:.1f} % | {cells} |")
    return lines
