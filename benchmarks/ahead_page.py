"""docs/results/ahead.md from results/ahead.json."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import stats

from equipoise.app.compare import Interval, paired_interval
from equipoise.app.compare.leaderboard import FEWEST_PAIRS

OURS, ONE, STAGED, OUT_OF_FOLD = "ours", "ours, one network", "ours, three stages", "ours, out of fold"
PLAIN, RIVAL, HEAD = "cross-entropy", "logit adjustment", "logit adjustment, our head"
MIXUP, MIXUP_HEAD = "logit adjustment, plain mixup", "logit adjustment, our head, plain mixup"
AVERAGED, UNCERTAIN = "logit adjustment, four networks", "ours, uncertainty alone"
RIVALS = (PLAIN, RIVAL, "VS", "LDAM-DRW")
PICTURES, TEXTS = ("MNIST", "digits", "CIFAR-10", "HAM10000"), ("TREC", "SMS")
"""How the names of cases begin."""
NATURAL = (PLAIN, RIVAL, AVERAGED, ONE, OURS)
"""Methods that are also scored with decisions for the fewest mistakes."""
ONE_AGAINST = (PLAIN, RIVAL, HEAD, "VS", "LDAM-DRW")
"""Methods that a single network of ours is compared with."""
CHANGES = ((ONE, STAGED), (OURS, ONE), (AVERAGED, RIVAL), (ONE, RIVAL), (OURS, AVERAGED))
"""Pairs that show where a difference comes from."""
METRICS = {
    "balanced_accuracy": "balanced accuracy",
    "geometric_mean": "geometric mean of recalls",
    "macro_f1": "macro F1",
}
MISTAKES = {"accuracy": "accuracy", "macro_f1": "macro F1", "balanced_accuracy": "balanced accuracy"}
"""Scores of decisions for the fewest mistakes."""
EQUIVALENT = 1.0
"""Points within which two methods count as equivalent, if the 90 % interval of their difference lies inside."""
FEW = 2
"""Fewest seeds of the part that is compared over its cases alone."""
Cells = dict[str, dict[str, dict[int, dict[str, float]]]]
"""Case -> method -> seed -> scores."""
TEXT = Path(__file__).with_name("ahead.md.txt")
"""The sentences of the page, with places for its tables."""


def cells_of(record: dict[str, Any], part: str, methods: Sequence[str], *, fewest: int = FEWEST_PAIRS) -> Cells:
    """Sort the stored fits of a part by case, and keep the seeds that each of the methods has, if so many."""
    found: Cells = defaultdict(lambda: defaultdict(dict))
    for key, scores in record["cells"].items():
        kind, case, method, seed = key.split(" | ")
        if kind == part and method in methods:
            found[case][method][int(seed)] = scores
    kept: Cells = {}
    for case, own in found.items():
        shared = set.intersection(*(set(own[method]) for method in methods))
        if len(shared) >= fewest:
            kept[case] = {method: {seed: own[method][seed] for seed in sorted(shared)} for method in methods}
    return kept


def pair_of(record: dict[str, Any], one: str, other: str, parts: Sequence[str] = ("ahead",)) -> Cells:
    """The cases and seeds that two methods share."""
    return {case: own for part in parts for case, own in cells_of(record, part, [one, other]).items()}


def shown_cells(record: dict[str, Any], part: str, methods: list[str]) -> Cells:
    """For each case with our method, the methods that were run on it, with the seeds that they share."""
    found: Cells = {}
    for case in cells_of(record, part, [OURS]):
        own = [name for name in methods if case in cells_of(record, part, [name])]
        found[case] = cells_of(record, part, own)[case]
    return found


def gains(cells: Cells, case: str, one: str, other: str, metric: str) -> list[float]:
    """Paired differences in points, one for each seed."""
    own, rival = cells[case][one], cells[case][other]
    return [100 * (own[seed][metric] - rival[seed][metric]) for seed in own]


def over_cases(cells: Cells, one: str, other: str, metric: str) -> list[float]:
    """The mean difference of each case."""
    return [float(np.mean(gains(cells, case, one, other, metric))) for case in cells]


def shown(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.mean:+.2f}"
    return f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def wilcoxon(differences: Sequence[float]) -> float:
    return float(stats.wilcoxon(differences).pvalue) if np.any(np.asarray(differences) != 0) else 1.0


def p_value(differences: Sequence[float]) -> str:
    """The p of Wilcoxon's test in a sentence, never as 0.000."""
    p = wilcoxon(differences)
    return "p < .001" if p < 0.0005 else f"p = {p:.3f}"


def p_cell(differences: Sequence[float]) -> str:
    """The same in a table."""
    return p_value(differences).removeprefix("p ").removeprefix("= ")


def means_table(cells: Cells, methods: list[str], metric: str) -> list[str]:
    """One row per case, one column per method: mean over the seeds."""
    lines = ["| | " + " | ".join(methods) + " | seeds |", "|---" * (len(methods) + 2) + "|"]
    for case, own in cells.items():
        means = {name: 100 * float(np.mean([each[metric] for each in seeds.values()])) for name, seeds in own.items()}
        best = max(round(mean, 1) for mean in means.values())
        texts = {name: f"**{mean:.1f}**" if round(mean, 1) == best else f"{mean:.1f}" for name, mean in means.items()}
        row = [texts.get(name, "–") for name in methods]
        lines.append(f"| {case} | " + " | ".join(row) + f" | {len(next(iter(own.values())))} |")
    return lines


def means_by_method(cells: Cells, methods: list[str], metric: str) -> list[str]:
    """The same for many methods: one row per method, one column per case."""
    wide = [line.strip("| ").split(" | ") for line in means_table(cells, methods, metric)[2:]]
    lines = ["| | " + " | ".join(case for case, *_ in wide) + " |", "|---" * (len(wide) + 1) + "|"]
    for place, method in enumerate(methods, 1):
        lines.append(f"| {method} | " + " | ".join(row[place] for row in wide) + " |")
    return lines


def verdict(points: Sequence[float]) -> str:
    """Say what the cases together show: ahead, behind, equivalent, or nothing."""
    whole, narrow = paired_interval(points), paired_interval(points, confidence=0.9)
    if whole.low is None:
        return "too few cases"
    p = wilcoxon(points)
    if not whole.contains_zero and p < 0.05:
        return "ahead" if whole.mean > 0 else "behind"
    if narrow.within(EQUIVALENT):
        return f"equivalent within ±{EQUIVALENT:g}"
    return "not significantly different"


def duel_table(
    cells: Cells, one: str, methods: Sequence[str], metrics: Mapping[str, str] = MappingProxyType(METRICS)
) -> list[str]:
    """A method against each of the others, over the cases."""
    lines = [
        f"| {one} against | " + " | ".join(f"{name} | p | verdict" for name in metrics.values()) + " |",
        "|---" * (1 + 3 * len(metrics)) + "|",
    ]
    for other in methods:
        row = [other]
        for metric in metrics:
            points = over_cases(cells, one, other, metric)
            row += [shown(paired_interval(points)), p_cell(points), verdict(points)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def record_of(cells: Cells, method: str, others: list[str], metric: str) -> tuple[int, int, int]:
    """Cases times rivals that a method wins, ties and loses by the 95 % interval over the seeds of a case."""
    found = [0, 0, 0]
    for case in cells:
        for other in others:
            interval = paired_interval(gains(cells, case, method, other, metric))
            found[1 if interval.contains_zero else 0 if interval.mean > 0 else 2] += 1
    return found[0], found[1], found[2]


def records_table(cells: Cells, methods: list[str]) -> list[str]:
    """Wins, ties and losses of every method against all others."""
    lines = ["| | " + " | ".join(METRICS.values()) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for method in methods:
        others = [other for other in methods if other != method]
        row = ["{} / {} / {}".format(*record_of(cells, method, others, metric)) for metric in METRICS]
        lines.append(f"| {method} | " + " | ".join(row) + " |")
    return lines


def by_case_table(cells: Cells, one: str, others: Sequence[str], metric: str) -> list[str]:
    """A method against others, case by case; bold where the interval over the seeds excludes 0."""
    lines = [f"| {one} against | " + " | ".join(others) + " |", "|---" * (len(others) + 1) + "|"]
    for case in cells:
        found = [paired_interval(gains(cells, case, one, other, metric)) for other in others]
        row = [shown(each) if each.contains_zero else f"**{shown(each)}**" for each in found]
        lines.append(f"| {case} | " + " | ".join(row) + " |")
    return lines


def won_and_lost(cells: Cells, one: str, others: Sequence[str], metric: str) -> list[str]:
    """A sentence per rival: in which cases a method is ahead of it or behind, by the interval over the seeds."""
    lines = []
    for other in others:
        found = {case: paired_interval(gains(cells, case, one, other, metric)) for case in cells}
        clear = {case: each.mean > 0 for case, each in found.items() if not each.contains_zero}
        parts = []
        for word, wanted in (("interval above 0", True), ("below 0", False)):
            own = [case for case, won in clear.items() if won == wanted]
            parts.append(f"{word} in {len(own)}" + (f" ({'; '.join(own)})" if own else ""))
        lines.append(f"- {one} against {other}, {len(cells)} cases: {', '.join(parts)}.")
    return lines


def misleading_tables(record: dict[str, Any], methods: list[str]) -> dict[str, list[str]]:
    """Cases whose counts mislead: means, ours case by case and over the cases, and every method's wins and losses."""
    cells = cells_of(record, "misleading", methods)
    rivals = [name for name in methods if not name.startswith(OURS)]
    return {
        "misleading": means_table(cells, methods, "balanced_accuracy"),
        "misleading_cases": [
            line for one in (OURS, UNCERTAIN) for line in (*by_case_table(cells, one, rivals, "balanced_accuracy"), "")
        ],
        "misleading_said": [
            line for one in (OURS, UNCERTAIN) for line in won_and_lost(cells, one, rivals[1:], "balanced_accuracy")
        ],
        "misleading_records": records_table(cells, methods),
        "misleading_duels": [line for one in (OURS, UNCERTAIN) for line in (*duel_table(cells, one, rivals), "")],
    }


def unseen_tables(record: dict[str, Any], methods: list[str], mixed: Sequence[str]) -> dict[str, list[str]]:
    """Tables not used before: means, ours against each method there and over all cases, and what mixing adds."""
    cells = shown_cells(record, "unseen", methods)
    pairs = [(OURS, name) for name in methods if name != OURS] + [(ONE, name) for name in ONE_AGAINST]
    pair = pair_of(record, ONE, HEAD, ("unseen",))
    return {
        "unseen_cases": [str(len(cells))],
        "unseen": means_table(cells, methods, "balanced_accuracy"),
        "unseen_duels": pairs_table(record, pairs, ("unseen",)),
        "unseen_mixed_cases": [str(len(mixed))],
        "unseen_mixed": sample_level_table({case: own for case, own in pair.items() if case in mixed}),
        "joint_cases": [str(len(cells) + len(shown_cells(record, "ahead", methods)))],
        "joint_duels": pairs_table(record, pairs, ("ahead", "unseen")),
    }


def natural_tables(record: dict[str, Any]) -> dict[str, list[str]]:
    """Decisions for the fewest mistakes: the mean scores of each method over the cases, and ours against each."""
    cells = cells_of(record, "natural", NATURAL)
    lines = ["| decided by `Natural()` | " + " | ".join(MISTAKES.values()) + " |", "|---" * (len(MISTAKES) + 1) + "|"]
    for method in NATURAL:
        means = [
            100 * float(np.mean([np.mean([each[metric] for each in own[method].values()]) for own in cells.values()]))
            for metric in MISTAKES
        ]
        lines.append(f"| {method} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    rivals = [name for name in NATURAL if name != OURS]
    return {
        "natural_cases": [str(len(cells))],
        "natural": lines,
        "natural_duels": duel_table(cells, OURS, rivals, MISTAKES),
    }


def sample_level_table(cells: Cells) -> list[str]:
    """What the sample level adds, case by case and over the cases."""
    lines = ["| | " + " | ".join(METRICS.values()) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for case in cells:
        row = [shown(paired_interval(gains(cells, case, ONE, HEAD, metric))) for metric in METRICS]
        lines.append(f"| {case} | " + " | ".join(row) + " |")
    pooled = [[gain for case in cells for gain in gains(cells, case, ONE, HEAD, metric)] for metric in METRICS]
    lines.append("| all fits pooled | " + " | ".join(shown(paired_interval(own)) for own in pooled) + " |")
    points = {metric: over_cases(cells, ONE, HEAD, metric) for metric in METRICS}
    row = [f"{shown(paired_interval(own))}, {p_value(own)}" for own in points.values()]
    return [*lines, "| means of the cases | " + " | ".join(row) + " |"]


def mixup_tables(record: dict[str, Any]) -> list[str]:
    """One network of ours against logit adjustment with mixup, whose partners come as the samples do."""
    rivals = (RIVAL, HEAD, MIXUP, MIXUP_HEAD)
    cells = cells_of(record, "mixup", (ONE, *rivals))
    return [*means_table(cells, [*rivals, ONE], "balanced_accuracy"), "", *duel_table(cells, ONE, rivals)]


def in_short(record: dict[str, Any], methods: list[str]) -> list[str]:
    """The findings, each from the tables below."""
    lines = []
    for other in [name for name in methods if name != OURS]:
        parts, cells = [], pair_of(record, OURS, other)
        for metric, name in METRICS.items():
            points = over_cases(cells, OURS, other, metric)
            parts.append(f"{name} {verdict(points)} ({shown(paired_interval(points))}, {p_value(points)})")
        lines.append(f"- Against {other}, {len(cells)} cases: {'; '.join(parts)}.")
    return lines


def answer(record: dict[str, Any], rivals: Sequence[str], part: str) -> str:
    """The rivals that ours is ahead of in balanced accuracy in a part of the page, and the others with figures."""
    ahead, others = [], []
    for rival in rivals:
        points = over_cases(pair_of(record, OURS, rival, (part,)), OURS, rival, "balanced_accuracy")
        said = verdict(points)
        if said == "ahead":
            ahead.append(rival)
        else:
            others.append(f"{rival}: {said} ({shown(paired_interval(points))} points, {p_value(points)})")
    return "; ".join([", ".join(ahead) or "none", *others])


def groups_table(record: dict[str, Any], groups: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> list[str]:
    """Balanced accuracy against logit adjustment by kind of data; a group has parts of the page and names of cases."""
    pairs = ((OURS, RIVAL), (OURS, AVERAGED), (ONE, RIVAL))
    lines = [
        "| | cases | " + " | ".join(f"{one} against {other} | p" for one, other in pairs) + " |",
        "|---" * (2 + 2 * len(pairs)) + "|",
    ]
    for group, (parts, names) in groups.items():
        row = [group, str(len(names))]
        for one, other in pairs:
            cells = pair_of(record, one, other, parts)
            points = over_cases({case: cells[case] for case in names}, one, other, "balanced_accuracy")
            row += [shown(paired_interval(points)), p_cell(points)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def sources_table(record: dict[str, Any], rivals: Sequence[str]) -> list[str]:
    """Balanced accuracy of ours against each, cases of the same source of data averaged first."""
    parts = {"sources of these cases": ("ahead",), "with the unused tables": ("ahead", "unseen")}
    lines = ["| ours against | " + " | ".join(f"{name} | p" for name in parts) + " |", "|---" * 5 + "|"]
    for rival in rivals:
        row = [rival]
        for chosen in parts.values():
            found: dict[str, list[float]] = defaultdict(list)
            cells = pair_of(record, OURS, rival, chosen)
            for case, points in zip(cells, over_cases(cells, OURS, rival, "balanced_accuracy"), strict=True):
                found[source_of(case)].append(points)
            means = [float(np.mean(each)) for each in found.values()]
            row += [f"{shown(paired_interval(means))} ({len(means)})", p_cell(means)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def source_of(case: str) -> str:
    """The data of a case.

    >>> source_of("CIFAR-10 features, step 1:10"), source_of("CIFAR-10 features, step 1:50")
    ('CIFAR-10 features', 'CIFAR-10 features')
    """
    return case.split(",", maxsplit=1)[0]


def kinds(record: dict[str, Any], methods: list[str], mixed: Sequence[str]) -> dict[str, Any]:
    """The cases by kind of data, each with its part of the page; ``mixed`` are those with a sample level."""
    every = list(shown_cells(record, "ahead", methods))
    pictures = [case for case in every if case.startswith(PICTURES)]
    texts = [case for case in every if case.startswith(TEXTS)]
    rest = [case for case in every if case not in (*pictures, *texts)]
    found = {
        "pictures and their features, mixed": pictures,
        "texts, mixed": texts,
        "tables, mixed": [case for case in rest if case in mixed],
        "tables, not mixed": [case for case in rest if case not in mixed],
    }
    groups = {name: (("ahead",), cases) for name, cases in found.items() if cases}
    return groups | {"tables not used before": (("unseen",), list(shown_cells(record, "unseen", methods)))}


def pairs_table(
    record: dict[str, Any], pairs: Sequence[tuple[str, str]], parts: Sequence[str] = ("ahead",)
) -> list[str]:
    """One method against another over the cases that both were run on, a row for each pair."""
    lines = [
        "| | against | cases | " + " | ".join(f"{name} | p | verdict" for name in METRICS.values()) + " |",
        "|---" * (3 + 3 * len(METRICS)) + "|",
    ]
    for one, other in pairs:
        cells = pair_of(record, one, other, parts)
        row = [one, other, str(len(cells))]
        for metric in METRICS:
            points = over_cases(cells, one, other, metric)
            row += [shown(paired_interval(points)), p_cell(points), verdict(points)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def added_in_short(cells: Cells) -> list[str]:
    """What mixing adds, in a sentence."""
    points, f1 = (over_cases(cells, ONE, HEAD, metric) for metric in ("balanced_accuracy", "macro_f1"))
    clear = [
        case
        for case in cells
        if (found := paired_interval(gains(cells, case, ONE, HEAD, "balanced_accuracy"))).mean > 0
        and not found.contains_zero
    ]
    return [
        f"- Mixing adds {shown(paired_interval(points))} points of balanced accuracy over the {len(cells)} cases "
        f"run with and without it ({p_value(points)}), and {shown(paired_interval(f1))} of macro F1 ({p_value(f1)}). "
        f"In balanced accuracy the interval over the seeds is above 0 in {len(clear)} of them"
        + (f": {'; '.join(clear)}." if clear else ".")
    ]


def tuned_tables(record: dict[str, Any], methods: list[str]) -> list[str]:
    """Methods with their best of four settings: balanced accuracy case by case, and ours against each."""
    cells = cells_of(record, "tuned", methods)
    if not cells:
        return ["Not run yet."]
    rivals = [name for name in methods if name != ONE]
    lines = [f"| {ONE} against | " + " | ".join(METRICS.values()) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for rival in rivals:
        found = [shown(paired_interval(over_cases(cells, ONE, rival, metric))) for metric in METRICS]
        lines.append(f"| {rival} | " + " | ".join(found) + " |")
    return [*means_by_method(cells, methods, "balanced_accuracy"), "", *lines]


def sizes(cells: Cells) -> list[str]:
    """Rows and classes of each case."""
    lines = ["| | rows to fit | classes |", "|---|---|---|"]
    for case, methods in cells.items():
        first = next(iter(methods[OURS].values()))
        lines.append(f"| {case} | {first['rows']:,.0f} | {first['classes']:.0f} |")
    return lines


def most_rows(record: dict[str, Any]) -> str:
    """Rows to fit of the largest case, unused tables included."""
    cells = pair_of(record, OURS, RIVAL, ("ahead", "unseen"))
    return f"{max(each['rows'] for own in cells.values() for each in own[OURS].values()):,.0f}"


def speed_table(record: dict[str, Any]) -> list[str]:
    """How many times as long a fit takes as with cross-entropy: the ratio of medians, case by case."""
    others = (ONE, AVERAGED, OURS)
    lines = ["| | cross-entropy, seconds | " + " | ".join(others) + " |", "|---" * 5 + "|"]
    for case, own in record["speed"].items():
        plain, *rest = (float(np.median(own[name])) for name in (PLAIN, *others))
        lines.append(f"| {case} | {plain:.2f} | " + " | ".join(f"{each / plain:.2f} ×" for each in rest) + " |")
    return lines


def page(
    record: dict[str, Any],
    methods: list[str],
    *,
    counted: list[str],
    tuned: list[str],
    unmixed: Sequence[str],
    unseen_mixed: Sequence[str],
    tried: dict[str, list[str]],
) -> str:
    """The page as Markdown: ``counted`` and ``tuned`` are the methods of two further parts, ``unmixed`` the cases
    without a sample level, ``unseen_mixed`` those of the unseen part with one, ``tried`` the tables of the searches.
    """
    beside = [name for name in methods if name not in (OUT_OF_FOLD, STAGED)]
    cells = shown_cells(record, "ahead", beside)
    mixed = {case: own for case, own in pair_of(record, ONE, HEAD).items() if case not in unmixed}
    older = [PLAIN, RIVAL, HEAD, "VS", "LDAM-DRW", STAGED, OUT_OF_FOLD]
    slow = cells_of(record, "ahead", older, fewest=FEW)
    settings, versions = record["settings"], record["versions"]
    places = {
        **{f"answer_{part}": [answer(record, RIVALS, part)] for part in ("ahead", "unseen")},
        "kinds": groups_table(record, kinds(record, beside, list(mixed))),
        "sources": sources_table(record, (*RIVALS, HEAD, AVERAGED)),
        "in_short": [*in_short(record, beside), *added_in_short(mixed)],
        **{metric: means_table(cells, beside, metric) for metric in METRICS},
        "duels": pairs_table(record, [(OURS, name) for name in beside if name != OURS]),
        "changes": pairs_table(record, CHANGES),
        "records": records_table(cells_of(record, "ahead", beside), beside),
        "sample_level": sample_level_table(mixed),
        "out_of_fold": [*means_table(slow, older, "balanced_accuracy"), "", *duel_table(slow, OUT_OF_FOLD, older[:-1])],
        "tuned": tuned_tables(record, tuned),
        "mixup": mixup_tables(record),
        "sizes": sizes(cells),
        "cases": [str(len(cells))],
        "most_rows": [most_rows(record)],
        "speed": speed_table(record),
        **misleading_tables(record, counted),
        **unseen_tables(record, beside, unseen_mixed),
        **natural_tables(record),
        **tried,
        "versions": [", ".join(f"{name} {number}" for name, number in versions.items())],
    }
    text = TEXT.read_text()
    for name, lines in places.items():
        text = text.replace("{" + name + "}", "\n".join(lines).rstrip())
    return text.format(**settings)
