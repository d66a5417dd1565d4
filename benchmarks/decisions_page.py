"""docs/results/decisions.md from the JSON of decisions.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.app.compare.leaderboard import paired_interval

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/decisions.json", ROOT / "docs/results/decisions.md"
NAMES = {"bank": "bank marketing", "sms_spam": "SMS spam"}


HEAD = """
{splits} times, half of a table's rows are fitted to and the others tested. The base model is a logistic regression or
gradient boosting in a pipeline, for SMS spam on TF-IDF, behind `BalancedClassifier`. Repeat it with
"""
RECALL = """
The promise is about the true recall, and a test half has few positives of its own: even where every promise holds, the
recall found on them falls below it now and then. *Met* is the share of splits with at least the promised recall, and
*expected* how often that would be if test rows were drawn exactly as those that the threshold was chosen by (the
beta-binomial law of its rank); ± is two standard deviations of the share, too few because the splits share rows. False
alarms are of 1,000 cases: expected, with the mean interval, and found; *inside* is the share of splits with the count
found in its interval, which is about the true one, widened by the sampling error of the test half.
"""
COSTS = """
A miss costs {miss:g}, a false alarm 1; costs are of 1,000 cases. `TunedThresholdClassifierCV` of scikit-learn has the
same base model and minimises the same cost by cross-validation. *Within* is the share of splits whose test cost lies in
the interval that was reported, which is about the true cost; *with test noise*, in that interval widened by the
sampling error of the test half. The difference has a 95 % interval that allows for overlapping splits (Nadeau and
Bengio).
"""
CHOSEN = """
That the evidence moves the threshold of costs only beyond one standard error was chosen among 0, ½, 1 and 2 on twelve
other splits of all of these tables but bank marketing, whose test rows were seen for it, with the logistic regression.
How expectations are counted was settled on made-up data, and has not changed since these splits, which are new, were
begun. 20 were planned: the run was ended after 9 for want of time, and its first 6 had been looked at by then. Bank
marketing with boosting was planned too, and dropped for its time before a result of it was seen in these splits. Split
1000 was interrupted and run anew, and split 5 was run beforehand for its time alone.
"""


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    rows: dict[str, list[dict[str, Any]]] = {}
    for key, row in found["splits"].items():
        name, model, _ = key.split(" | ")
        rows.setdefault(f"{NAMES.get(name, name)}, {model}", []).append(row)
    return [
        "# Do decisions keep their promises?",
        HEAD.format(splits=len(next(iter(rows.values())))),
        "```text",
        "EQUIPOISE_DATA=... python benchmarks/decisions.py && python benchmarks/decisions_page.py",
        "```",
        "",
        "## Recall",
        RECALL,
        "| data, model | positives fitted, tested | asked | promised | found, mean | met | expected "
        "| false alarms expected | found | inside |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(line for name, own in rows.items() for line in _recalls(name, own)),
        _together(rows),
        "## Costs",
        COSTS.format(miss=found["miss"]),
        "| data, model | expected | on test rows | within | with test noise | tuned by scikit-learn "
        "| ours less theirs |",
        "|---|---|---|---|---|---|---|",
        *(_costs(name, own) for name, own in rows.items()),
        CHOSEN,
        "Versions: " + ", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".",
    ]


def _recalls(name: str, rows: list[dict[str, Any]]) -> list[str]:
    made = []
    for place in range(len(rows[0]["recalls"])):
        each = [row["recalls"][place] for row in rows]
        met = np.mean([one["found"] >= one["promised"] - 1e-9 for one in each])
        chance = np.mean([one["chance"] for one in each])
        noise = 2 * np.sqrt(chance * (1 - chance) / len(each))
        fitted, tested = rows[0]["positives"]
        made.append(
            f"| {name} | {fitted:,}, {tested:,} | {each[0]['asked']:.0%} | "
            f"{each[0]['promised']:.1%} | "
            f"{np.mean([one['found'] for one in each]):.1%} | {met:.0%} | {chance:.0%} ± {100 * noise:.0f} | "
            f"{_mean_interval(each)} | {np.mean([one['false_alarms'] for one in each]):.0f} | {_inside(each):.0%} |"
        )
    return made


def _together(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Say how often all promises and all intervals held."""
    each = [one for own in rows.values() for row in own for one in row["recalls"]]
    met = np.mean([one["found"] >= one["promised"] - 1e-9 for one in each])
    chance = np.mean([one["chance"] for one in each])
    costs = np.mean([_inside(own, "cost") for own in rows.values()])
    return (
        f"\nOver all splits the promise is met in {met:.0%}, where {chance:.0%} were expected; the false alarms lie "
        f"inside in {_inside(each):.0%}, and the cost below, with test noise, in {costs:.0%}.\n"
    )


def _mean_interval(each: list[dict[str, Any]]) -> str:
    value, low, high = np.array([one["expected"] for one in each]).mean(0)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _inside(each: list[dict[str, Any]], what: str = "false_alarms") -> float:
    """Return the share of splits with what was found in its interval, widened by the test half's sampling error."""
    found, noise = (np.array([one[key] for one in each]) for key in (what, "noise"))
    value, low, high = np.array([one["expected"] for one in each]).T
    down, up = np.hypot(value - low, 1.96 * noise), np.hypot(high - value, 1.96 * noise)
    return float(((value - down <= found) & (found <= value + up)).mean())


def _costs(name: str, rows: list[dict[str, Any]]) -> str:
    cost, tuned = (np.array([row[key] for row in rows]) for key in ("cost", "tuned_cost"))
    value, low, high = np.array([row["expected"] for row in rows]).T
    within = ((low <= cost) & (cost <= high)).mean()
    widened = _inside(rows, "cost")
    apart = paired_interval((cost - tuned).tolist(), test_to_train=1.0)
    assert apart.low is not None
    assert apart.high is not None
    return (
        f"| {name} | {value.mean():.0f} [{low.mean():.0f}, {high.mean():.0f}] | {cost.mean():.0f} | "
        f"{within:.0%} | {widened:.0%} | {tuned.mean():.0f} | {apart.mean:+.1f} [{apart.low:.1f}, {apart.high:.1f}] |"
    )


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
