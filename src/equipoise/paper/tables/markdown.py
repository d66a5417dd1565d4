"""A finished table as Markdown: the paper's figure, the one measured, the difference, and who is tied for first."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.app.compare import METHODS, rank
from equipoise.app.compare.leaderboard import FEWEST_PAIRS, score_of
from equipoise.paper.tables.cases import FOLDS, Case
from equipoise.paper.tables.claims import EQUAL_CLASSES, OURS, against_resampling, completed, orders, percent
from equipoise.paper.tables.printed import Figures
from equipoise.paper.tables.run import TableResult
from equipoise.wording import EQUIPOISE, counted, duration

SCORES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "g_mean": "G-mean",
    "iba": "IBA",
}
ATTRIBUTE_SCORES = {"bca": "BCA", "accuracy": "accuracy", "f1": "F1"}
ATTRIBUTE_CLAIMS = {"bca": "BCA"}
HEADINGS = {
    "cifar10": "CIFAR-10 made imbalanced",
    "mnist": "MNIST made imbalanced",
    "margins": "Margin losses, with a fixed margin and with uncertainty's",
    "skin": "Skin lesions",
    "attributes": "Attributes, several labels a sample",
    "expressions": "Expressions of faces",
}
FEW = f"Differences between methods are judged from {FEWEST_PAIRS} runs of each on."
SMOKE = "A trial with few samples and epochs: it shows that everything runs, and nothing about the methods."
Records = Sequence[dict[str, Any]]


def table_page(result: TableResult) -> str:
    """The whole page."""
    lines = [
        f"# {HEADINGS[result.name]}",
        "",
        f"Percent, {_repeats(result)}, of the last epoch, on test samples by which no "
        "fit chose anything ([what had been seen before](../index.md#what-had-been-seen-before)). In brackets: how far "
        f"the classes lie apart, the standard deviation over them, as the paper gives it. **{METHODS[OURS].label}** is "
        "the method as it comes; [words and scores](../../words.md) are explained. Repeat it with",
        "",
        "```text",
        f"equipoise reproduce {result.name} --data DIR --seeds {result.seeds}"
        + " --tune" * result.tune
        + " --smoke" * result.smoke,
        "```",
        *(["", SMOKE] if result.smoke else []),
        "",
        f"Every method has the same network, epochs, batches and rows{_exceptions(result)}. {_tuning(result)}",
        "",
        f"It took {duration(3600 * result.hours)} of one core{_before(result)}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in result.header["versions"].items())
        + ".",
    ]
    varied = {key: case for key, case in result.cases.items() if len(case.methods) == 1}
    for key, case in result.cases.items():
        if key not in varied:
            lines += ["", f"## {case.title}", "", *_section(case, _of(result, key))]
    if varied:
        lines += ["", "## One setting changed", "", *_variations(varied, result)]
    return "\n".join(lines).rstrip() + "\n"


def _of(result: TableResult, key: str) -> Records:
    return [record for record in result.records if record["case"] == key]


def _section(case: Case, records: Records) -> list[str]:
    several = case.samples.multilabel
    lines = [_network(case), "", *_scores_table(case, records)]
    if not completed(records):
        return lines
    few = len({(record["seed"], record["fold"]) for record in records}) < FEWEST_PAIRS
    lines += ["", *([FEW] if few else _first(case, records))]
    sections = {
        "What is claimed, in points with 95 % intervals of the paired differences:": (
            [] if few else _claimed(case, records)
        ),
        f"{EQUIPOISE} beside resampling and support vector machines:": (
            [] if several or few else against_resampling(records)
        ),
        "BCA of each attribute, the most imbalanced first:": _each_attribute(case, records) if several else [],
        "The paper's figure, the one measured and the difference:": _beside_the_paper(case, records),
    }
    for heading, found in sections.items():
        lines += ["", heading, "", *found] if found else []
    return lines


def _repeats(result: TableResult) -> str:
    grouped = any(case.protocol == "grouped" for case in result.cases.values())
    if result.seeds == 1 and not grouped:
        return "one seed"
    return "mean ± standard deviation over " + counted(result.seeds, "seed") + f" and {FOLDS} folds" * grouped


def _before(result: TableResult) -> str:
    features = any(case.material.features for case in result.cases.values())
    return ", once the features were extracted" if features else ""


def _exceptions(result: TableResult) -> str:
    families = {METHODS[method].family for case in result.cases.values() for method in case.methods}
    said = {
        "resampling": "resamplers, which work on standardised columns, change the rows; cluster centroids are found by "
        "mini-batch k-means",
        "svm": "support vector machines are no networks",
        "margin": "margin losses have a softmax stage, as Equipoise has, before their margin rises",
    }
    found = [text for family, text in said.items() if family in families]
    return f", but: {'; '.join(found)}" if found else ""


def _tuning(result: TableResult) -> str:
    own = (
        f"{EQUIPOISE} has nothing to choose; in its first two stages it holds back a tenth of its training rows, by "
        "whose labels it corrects its predictions, and in the third it trains on all of them."
    )
    if result.tune:
        return f"A method with a knob chose among 4 settings on a fifth of the training rows. {own}"
    margins = any(METHODS[m].family == "margin" for case in result.cases.values() for m in case.methods)
    settings = "the paper prints" if margins else "its authors published"
    return f"No method was tuned: each has the settings which {settings}. {own}"


def _network(case: Case) -> str:
    """What every method of a case is trained on."""
    train, test = case.split(0, 0)
    options = case.options
    settings = options.settings(len(train), 0)
    layers = "two layers of " + f"{options.width_for(len(train))} units" if options.backbone is None else "a LeNet"
    return (
        f"{len(train):,} training and {len(test):,} test samples; {case.material.what}, {layers}, dropout "
        f"{options.dropout}, {settings.epochs} epochs in batches of {settings.batch_size} by AdamW."
    )


def _scores_table(case: Case, records: Records) -> list[str]:
    shown = ATTRIBUTE_SCORES if case.samples.multilabel else SCORES
    lines = _head("method", shown, case.paper)
    for method in case.methods:
        own = [record for record in records if record["method"] == method]
        if method not in completed(records):
            why = next((str(record["cannot_run"]) for record in own if "cannot_run" in record), "not run")
            lines.append(f"| {METHODS[method].label} | {why} |" + " |" * (lines[0].count("|") - 3))
            continue
        lines.append(_scores_row(METHODS[method].label, method, own, shown, case.paper))
    return lines


def _head(first: str, shown: Mapping[str, str], paper: Figures) -> list[str]:
    names = [first, *shown.values(), *(["paper", "difference"] if paper else [])]
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _scores_row(name: str, method: str, records: Records, shown: Mapping[str, str], paper: Figures) -> str:
    cells = [name, *(_cell(records, method, score) for score in shown)]
    if paper:
        first = next(iter(shown))
        printed, mean = paper.get(method, {}).get(first), percent(records, method, first)
        cells += ["–", "–"] if printed is None else [f"{printed:.1f}", f"{mean - printed:+.1f}"]
    return f"| {' | '.join(cells)} |"


def _cell(records: Records, method: str, name: str) -> str:
    values = [100 * score_of(record, name) for record in records]
    text = f"{percent(records, method, name):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")
    return text if name == "accuracy" else f"{text} ({percent(records, method, f'{name}.deviation'):.1f})"


def _variations(cases: Mapping[str, Case], result: TableResult) -> list[str]:
    """Cases of a single method, a row each."""
    lines = _head("setting", SCORES, next(iter(cases.values())).paper)
    for key, case in cases.items():
        (method,), own = case.methods, _of(result, key)
        lines.append(
            _scores_row(case.title, method, own, SCORES, case.paper)
            if own and completed(own)
            else f"| {case.title} | not run |" + " |" * (len(SCORES) + 1)
        )
    return lines


def _beside_the_paper(case: Case, records: Records) -> list[str]:
    """Every score of the rows of which the paper prints more than the first, each with its deviation in brackets."""
    lines = []
    for method in case.methods:
        printed = case.paper.get(method, {})
        if method not in completed(records) or len(printed) < 2:
            continue
        cells = []
        for name in SCORES:
            mean = percent(records, method, name)
            theirs, own = f"{printed[name]:.1f}", f"{mean:.1f}"
            if f"{name}.deviation" in printed:
                theirs += f" ({printed[f'{name}.deviation']:.1f})"
                own += f" ({percent(records, method, f'{name}.deviation'):.1f})"
            cells.append(f"{theirs}, {own}, {mean - printed[name]:+.1f}")
        lines.append(f"| {METHODS[method].label} | {' | '.join(cells)} |")
    return [f"| method | {' | '.join(SCORES.values())} |", "|---|" + "---|" * len(SCORES), *lines] if lines else []


def _first(case: Case, records: Records) -> list[str]:
    """Who is first, or not to be told from the first, by the scores that count every class alike."""
    lines = []
    there = completed(records)
    whole = [record for record in records if record["method"] in there]
    for metric, title in (ATTRIBUTE_CLAIMS if case.samples.multilabel else EQUAL_CLASSES).items():
        places = rank(whole, metric=metric, test_to_train=case.test_to_train).places
        found = [place for place in places if place.mean > 0]
        if 2 * len(found) < len(places):
            lines.append(
                f"- By {title} nothing can be told: it is 0 where a class is never found, and that is so here."
            )
            continue
        names = "; ".join(
            f"{METHODS[place.method].label} {100 * place.mean:.1f} ± {100 * place.deviation:.1f}"
            for place in places
            if place.tied
        )
        paired = "over seeds and folds" if case.protocol == "grouped" else "over seeds"
        lines.append(f"- First or tied for first (95 %, paired {paired}) by {title}: {names}.")
    return lines


def _claimed(case: Case, records: Records) -> list[str]:
    metrics = ATTRIBUTE_CLAIMS if case.samples.multilabel else EQUAL_CLASSES
    found = orders(records, metrics, test_to_train=case.test_to_train)
    after = "Each interval covers 95 % by itself; of twenty, one leaves 0 out by chance."
    return [*found, "", after] if found else []


def _each_attribute(case: Case, records: Records) -> list[str]:
    """The mean BCA of every attribute; the paper's, where it has one, in the last column."""
    there = completed(records)
    each = {
        method: np.array([r["scores"]["bca"]["each"] for r in records if r["method"] == method], dtype=np.float64)
        for method in case.methods
        if method in there
    }
    share = case.samples.y[case.split(0, 0)[0]].mean(0)
    names = [*(METHODS[method].label for method in each), *(["the paper"] if case.paper_bca else [])]
    lines = [f"| attribute | positive | {' | '.join(names)} |", "|---|" + "---|" * (1 + len(names))]
    for place in np.argsort(np.minimum(share, 1 - share), kind="stable"):
        attribute = case.samples.attributes[place]
        known = [values[~np.isnan(values)] for values in (found[:, place] for found in each.values())]
        cells = [f"{100 * values.mean():.1f}" if len(values) else "–" for values in known]
        cells += [str(case.paper_bca.get(attribute, "–"))] if case.paper_bca else []
        lines.append(f"| {attribute} | {100 * share[place]:.1f} % | {' | '.join(cells)} |")
    return lines
