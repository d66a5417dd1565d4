"""A finished table as Markdown: the paper's figures, ours, who is best or equivalent to it, and the claims."""

import statistics
from collections.abc import Collection, Mapping

import numpy as np

from equipoise.app.compare import METHODS, rank
from equipoise.app.compare.leaderboard import FEWEST_PAIRS, Interval, Place, score_of
from equipoise.paper.tables.claims import (
    EQUAL_CLASSES,
    OURS,
    SCORES,
    Records,
    against_resampling,
    completed,
    markdown_table,
    orders,
    percent,
)
from equipoise.paper.tables.printed_results import Figures
from equipoise.paper.tables.table_cases import FOLDS, TABLES, Case
from equipoise.paper.tables.table_runner import TableResult
from equipoise.wording import EQUIPOISE, counted, duration

ATTRIBUTE_SCORES = {"bca": "BCA", "accuracy": "accuracy", "f1": "F1"}
EQUAL_ATTRIBUTES = {"bca": "BCA"}
EXCEPTIONS = {
    "resampling": "resamplers, which work on standardised columns, change the rows; cluster centroids are found by "
    "mini-batch k-means",
    "svm": "support vector machines are not networks",
    "margin": "margin losses have a softmax stage before their margin rises",
}
"""Differences of a family of methods from the others."""
BY_LABELS = "over- and under-sampling repeat or drop rows, in proportion to the mean inverse share of their labels"
"""That of resamplers, with several labels per sample."""
FEW = f"Differences between methods are judged only with at least {FEWEST_PAIRS} runs of each."
EQUIVALENT = 0.01
"""Two methods are equivalent if the 90 % interval of their difference is within ± this: two one-sided tests at 5 %."""
JUDGED = (
    f"Equivalent means that the 90 % interval of the paired difference to the best lies within ±{100 * EQUIVALENT:g} "
    "point; square brackets hold 95 % intervals of the difference to the best, in points."
)
SMOKE = "A trial with few samples and epochs: it shows only that everything runs."
HELD_BACK = (
    f"{EQUIPOISE} has no hyperparameters to choose. Unless it mixes samples, the first two thirds of its epochs hold "
    "back a tenth of the training rows, which calibrate its probabilities; the last third trains on all of them."
)


def table_page(result: TableResult) -> str:
    """Return the whole page."""
    command = f"equipoise reproduce {result.name} --data DIR --seeds {result.seeds}"
    families = {METHODS[method].family for case in result.cases.values() for method in case.methods}
    several = any(case.material.samples.multilabel for case in result.cases.values())
    differences = EXCEPTIONS | ({"resampling": BY_LABELS} if several else {})
    exceptions = "; ".join(text for family, text in differences.items() if family in families)
    features = any(case.material.features for case in result.cases.values())
    versions = ", ".join(f"{name} {version}" for name, version in result.header["versions"].items())
    lines = [
        f"# {TABLES[result.name].heading}",
        "",
        f"Scores in percent at the last epoch, {_repeats(result)}. No fit chose anything by a test label ([what had "
        "been seen before](../index.md#what-had-been-seen-before)). In brackets: the standard deviation over the "
        f"classes, as in the paper. **{METHODS[OURS].label}** has its defaults; [words and scores](../../words.md) "
        "explains the terms. Repeat it with",
        "",
        "```text",
        command + " --tune" * result.tune + " --smoke" * result.smoke,
        "```",
        *(["", SMOKE] if result.smoke else []),
        "",
        "Every method has the same network, epochs, batches and rows. "
        f"{f'Exceptions: {exceptions}. ' if exceptions else ''}{_tuning(result, families)} {HELD_BACK}",
        "",
        f"This took {duration(3600 * result.hours)} of one core{', once the features were extracted' * features}. "
        f"Versions: {versions}.",
    ]
    records = {key: [record for record in result.records if record["case"] == key] for key in result.cases}
    varied = {key: case for key, case in result.cases.items() if len(case.methods) == 1}
    for key, case in result.cases.items():
        if key not in varied:
            lines += ["", f"## {case.title}", "", *_section(case, records[key])]
    if varied:
        lines += ["", "## One setting changed", "", *_variations(varied, records)]
    return "\n".join(lines).rstrip() + "\n"


def _repeats(result: TableResult) -> str:
    grouped = any(case.protocol == "grouped" for case in result.cases.values())
    if result.seeds == 1 and not grouped:
        return "one seed"
    return "mean ± standard deviation over " + counted(result.seeds, "seed") + f" and {FOLDS} folds" * grouped


def _tuning(result: TableResult, families: Collection[str]) -> str:
    if result.tune:
        return "A method with a hyperparameter chose among 4 settings on a fifth of the training rows."
    settings = "the paper prints" if "margin" in families else "its authors published"
    return f"No method was tuned: each has the hyperparameters that {settings}."


def _section(case: Case, records: Records) -> list[str]:
    several = case.material.samples.multilabel
    lines = [_network(case), "", *_scores_table(case, records)]
    if not completed(records):
        return lines
    few = len({(record["seed"], record["fold"]) for record in records}) < FEWEST_PAIRS
    equal = EQUAL_ATTRIBUTES if several else EQUAL_CLASSES
    lines += ["", *([FEW] if few else _first(case, records, equal))]
    claimed = [] if few else orders(records, equal, test_to_train=case.test_to_train)
    chance = "The intervals are not corrected for their number: about one in twenty excludes 0 by chance."
    sections = {
        "Paired differences in points, with 95 % intervals:": [
            *claimed,
            *(["", chance] if claimed else []),
        ],
        f"{EQUIPOISE} beside resampling and support vector machines:": (
            [] if several or few else against_resampling(records)
        ),
        "BCA of each attribute, the most imbalanced first:": _each_attribute(case, records) if several else [],
        "The paper's figure, ours, and the difference:": _beside_the_paper(case, records),
    }
    for heading, found in sections.items():
        lines += ["", heading, "", *found] if found else []
    return lines


def _network(case: Case) -> str:
    """Describe the network that every method of a case trains."""
    train, test = case.split(0, 0)
    options = case.options
    sized, length = options.sized(len(train)), options.length(len(train))
    layers = f"two layers of {sized.width} units" if options.backbone is None else case.network
    return (
        f"{len(train):,} training and {len(test):,} test samples; {case.material.what}, {layers}, dropout "
        f"{options.dropout}, {length.epochs} epochs in batches of {sized.batch_size} by AdamW."
    )


def _scores_table(case: Case, records: Records) -> list[str]:
    shown = ATTRIBUTE_SCORES if case.material.samples.multilabel else SCORES
    rows = []
    for method in case.methods:
        own = [record for record in records if record["method"] == method]
        if method in completed(records):
            rows.append(_scores_row(METHODS[method].label, method, own, shown, case.paper))
        else:
            why = next((str(record["cannot_run"]) for record in own if "cannot_run" in record), "not run")
            rows.append([METHODS[method].label, why])
    return markdown_table(_scores_head("method", shown, case.paper, case.printed_in), rows)


def _variations(cases: Mapping[str, Case], records: Mapping[str, Records]) -> list[str]:
    """Return cases of a single method, a row each."""
    rows = []
    for key, case in cases.items():
        (method,), own = case.methods, records[key]
        ran = own and completed(own)
        rows.append(_scores_row(case.title, method, own, SCORES, case.paper) if ran else [case.title, "not run"])
    return markdown_table(_scores_head("setting", SCORES, next(iter(cases.values())).paper), rows)


def _scores_head(first: str, shown: Mapping[str, str], paper: Figures, printed_in: str = "paper") -> list[str]:
    return [first, *shown.values(), *([printed_in, "difference"] if paper else [])]


def _scores_row(name: str, method: str, records: Records, shown: Mapping[str, str], paper: Figures) -> list[str]:
    row = [name, *(_score(records, method, score) for score in shown)]
    if paper:
        first = next(iter(shown))
        printed, mean = paper.get(method, {}).get(first), percent(records, method, first)
        row += ["–", "–"] if printed is None else [f"{printed:.1f}", f"{mean - printed:+.1f}"]
    return row


def _score(records: Records, method: str, name: str) -> str:
    values = [100 * score_of(record, name) for record in records]
    text = f"{percent(records, method, name):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")
    return text if name == "accuracy" else f"{text} ({percent(records, method, f'{name}.deviation'):.1f})"


def _beside_the_paper(case: Case, records: Records) -> list[str]:
    """Return every score of rows for which the paper prints more than the first, with its deviation in brackets."""
    rows, there = [], completed(records)
    for method in case.methods:
        printed = case.paper.get(method, {})
        if method not in there or len(printed) < 2:
            continue
        row = [METHODS[method].label]
        for name in SCORES:
            mean, spread = percent(records, method, name), printed.get(f"{name}.deviation")
            theirs, own = f"{printed[name]:.1f}", f"{mean:.1f}"
            if spread is not None:
                theirs += f" ({spread:.1f})"
                own += f" ({percent(records, method, f'{name}.deviation'):.1f})"
            row.append(f"{theirs}, {own}, {mean - printed[name]:+.1f}")
        rows.append(row)
    return markdown_table(["method", *SCORES.values()], rows)


def _first(case: Case, records: Records, metrics: Mapping[str, str]) -> list[str]:
    """Return who is best, who is equivalent to it, and who is neither, by scores that weigh classes equally."""
    lines = []
    there = completed(records)
    whole = [record for record in records if record["method"] in there]
    paired = "fits of one seed and fold" if case.protocol == "grouped" else "fits of one seed"
    for metric, title in metrics.items():
        places = rank(whole, metric=metric, test_to_train=case.test_to_train).places
        if 2 * sum(place.mean > 0 for place in places) < len(places):
            lines.append(
                f"- By {title} nothing can be concluded: it is 0 if a class is never found, which happens here."
            )
            continue
        narrow = rank(whole, metric=metric, test_to_train=case.test_to_train, confidence=0.9).places
        equal = [each for each in narrow if each.to_best is not None and each.to_best.within(EQUIVALENT)]
        shown = {each.method for each in equal}
        unclear = [each for each in places[1:] if each.tied and each.method not in shown]
        lines.append(f"- Best by {title}: {_named(places[0])}.")
        if equal:
            lines[-1] += f" Equivalent to it within ±{100 * EQUIVALENT:g} point: {'; '.join(map(_named, equal))}."
        if unclear:
            ranges = [f"{METHODS[each.method].label} {_range(each.to_best)}" for each in unclear]
            lines[-1] += f" Neither equivalent nor significantly behind: {'; '.join(ranges)}."
    return [*lines, "", f"{JUDGED} Pairs are {paired}."]


def _named(place: Place) -> str:
    return f"{METHODS[place.method].label} {100 * place.mean:.1f} ± {100 * place.deviation:.1f}"


def _range(lead: Interval | None) -> str:
    """Return the difference of a method to the best, negative if it is behind, and its interval, in points."""
    if lead is None or lead.low is None or lead.high is None:
        return "too few pairs"
    return f"{-100 * lead.mean:+.1f} [{-100 * lead.high:+.1f}, {-100 * lead.low:+.1f}]"


def _each_attribute(case: Case, records: Records) -> list[str]:
    """Return the mean BCA of every attribute, with the paper's in the last column if it has one."""
    there = completed(records)
    each = {
        method: np.array([r["scores"]["bca"]["each"] for r in records if r["method"] == method], dtype=np.float64)
        for method in case.methods
        if method in there
    }
    share = case.material.samples.y[case.split(0, 0)[0]].mean(0)
    rows = []
    for place in np.argsort(np.minimum(share, 1 - share), kind="stable"):
        attribute = case.material.samples.attributes[place]
        known = [values[~np.isnan(values)] for values in (found[:, place] for found in each.values())]
        row = [attribute, f"{100 * share[place]:.1f} %"]
        row += [f"{100 * values.mean():.1f}" if len(values) else "–" for values in known]
        rows.append(row + ([str(case.paper_bca.get(attribute, "–"))] if case.paper_bca else []))
    names = [*(METHODS[method].label for method in each), *(["the paper"] if case.paper_bca else [])]
    return markdown_table(["attribute", "positive", *names], rows)
