"""docs/results/decisions.md from the JSON of decisions.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.app.compare.leaderboard import paired_interval

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks/results/decisions.json", ROOT / "docs/results/decisions.md"
NAMES = {"bank": "bank marketing", "sms_spam": "SMS spam"}


MARGIN = 0.02
"""Share of the cost by which it may be higher and still count as no higher; set before the run."""
HEAD = """
Each table is split {splits} times: three quarters of the rows to fit, the rest to test. The model is
`BalancedClassifier` around a logistic regression or gradient boosting in a pipeline (for SMS spam, on TF-IDF). Repeat
it with
"""
RECALL = """
The promise is about the true recall. The test rows have few positives, so the recall measured on them sometimes falls
below the floor even if every promise holds. *Met* is the share of splits with at least the promised recall. *Expected*
is how often that should happen if test rows are drawn like the rows used to choose the threshold (the beta-binomial law
of its rank); ± is two standard deviations of the share, slightly too small because the splits share rows. False alarms
are per 1,000 cases: expected, with the mean interval, and found. *Inside* is the share of splits whose count lies in
the interval; the interval is for the true count and is widened here by the sampling error of the test rows.
"""
COSTS = """
A miss costs {miss:g}, a false alarm 1; costs are per 1,000 cases. *Expected* is the long-run cost with its 95 %
interval. The cost of a limited number of cases varies more: *these cases* is the range reported for that number
(`expected.cost_of_next(cases)`), and *inside* the share of splits whose test cost lies in it. *Long run* is the share
inside the narrower interval, which is not meant for a single test.
"""
TUNED = """
`TunedThresholdClassifierCV` of scikit-learn has the same base model and minimises the same cost by cross-validation. It
fits the model again to all rows; ours is the mean of five members. *Lowest* is our model with the threshold of the
lowest out-of-fold cost, as scikit-learn would choose it, so it differs from ours in the threshold alone. Differences
are in percent of the other's cost, with 95 % intervals that allow for overlapping splits (Nadeau and Bengio).
"""
CHOSEN = """
We chose the way to set the threshold on other splits (0 to 14) of these tables and on splits of ten more KEEL tables,
among about thirty candidates: the theoretical threshold, the lowest cost, the lowest cost smoothed over 0.2 to 1
logits, taken always or only if better by half a standard error, one or two, and mixtures. The chosen one had the lowest
mean cost there, though not the lowest median.

The expected cost comes from thresholds that were chosen without the row, applied to an estimate of what the mean of the
members gives unseen rows. That estimate fails for phoneme with boosting: on its splits 0 to 14 the mean of the members
cost 19 less than one member, where 28 less was expected (page-blocks0: 15 and 25). On four other tables the gain was
larger than expected.

The margin, the tables and the code were fixed before these new splits were begun. 30 were planned; the run was stopped
after 16 for lack of time, when its first nine had been looked at.
"""


def lines() -> list[str]:
    """Return the page, line by line."""
    found = json.loads(RESULTS.read_text())
    rows: dict[str, list[dict[str, Any]]] = {}
    for key, row in found["splits"].items():
        name, model, _ = key.split(" | ")
        rows.setdefault(f"{NAMES.get(name, name)}, {model}", []).append(row)
    test_to_train = found["test_share"] / (1 - found["test_share"])
    whole = min(len(own) for own in rows.values())
    rows = {name: own[:whole] for name, own in rows.items()}  # a split that was not finished is left out
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
        "| data, model | expected | these cases | on test rows | inside | long run |",
        "|---|---|---|---|---|---|",
        *(_costs(name, own) for name, own in rows.items()),
        "",
        "## Against tuned thresholds",
        TUNED,
        "| data, model | ours | tuned by scikit-learn | ours against it | lowest | ours against that |",
        "|---|---|---|---|---|---|",
        *(_against(name, own, test_to_train) for name, own in rows.items()),
        "",
        _pooled(rows, test_to_train),
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
    costs = np.mean([row["next"][0] <= row["cost"] <= row["next"][1] for own in rows.values() for row in own])
    return (
        f"\nOver all splits the promise is met in {met:.0%} (expected: {chance:.0%}), the false alarms lie inside "
        f"their interval in {_inside(each):.0%}, and the cost (next table) in {costs:.0%}.\n"
    )


def _mean_interval(each: list[dict[str, Any]]) -> str:
    value, low, high = np.array([one["expected"] for one in each]).mean(0)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _inside(each: list[dict[str, Any]]) -> float:
    """Return the share of splits with the false alarms found in their interval, widened by the test rows' error."""
    found, noise = (np.array([one[key] for one in each]) for key in ("false_alarms", "noise"))
    value, low, high = np.array([one["expected"] for one in each]).T
    down, up = np.hypot(value - low, 1.96 * noise), np.hypot(high - value, 1.96 * noise)
    return float(((value - down <= found) & (found <= value + up)).mean())


def _costs(name: str, rows: list[dict[str, Any]]) -> str:
    cost = np.array([row["cost"] for row in rows])
    value, low, high = np.array([row["expected"] for row in rows]).T
    bottom, top = np.array([row["next"] for row in rows]).T
    inside, within = ((bottom <= cost) & (cost <= top)).mean(), ((low <= cost) & (cost <= high)).mean()
    expected = f"{value.mean():.0f} [{low.mean():.0f}, {high.mean():.0f}] | {bottom.mean():.0f} to {top.mean():.0f}"
    return f"| {name} | {expected} | {cost.mean():.0f} | {inside:.0%} | {within:.0%} |"


def _against(name: str, rows: list[dict[str, Any]], test_to_train: float) -> str:
    cost, tuned, lowest = (np.array([row[key] for row in rows]) for key in ("cost", "tuned_cost", "lowest_cost"))
    ends = [_interval((cost - other) / other.mean(), test_to_train) for other in (tuned, lowest)]
    return f"| {name} | {cost.mean():.0f} | {tuned.mean():.0f} | {ends[0]} | {lowest.mean():.0f} | {ends[1]} |"


def _interval(shares: np.ndarray, test_to_train: float) -> str:
    found = paired_interval(shares.tolist(), test_to_train=test_to_train)
    assert found.low is not None
    assert found.high is not None
    return f"{100 * found.mean:+.1f} % [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _pooled(rows: dict[str, list[dict[str, Any]]], test_to_train: float) -> str:
    """Say whether the cost of all cases together is no higher, by the margin; a split is one draw of all of them."""
    cost, tuned = (np.array([[row[key] for row in own] for own in rows.values()]) for key in ("cost", "tuned_cost"))
    together = (cost - tuned).sum(0) / tuned.mean(1).sum()
    alike = ((cost - tuned) / tuned.mean(1, keepdims=True)).mean(0)
    high = paired_interval(together.tolist(), test_to_train=test_to_train).high
    assert high is not None
    shown = "is shown to be" if high < MARGIN else "is not shown to be"
    return (
        f"Over all cases together, our cost differs by {_interval(together, test_to_train)}. With a margin of "
        f"{100 * MARGIN:.0f} %, set before the run, our cost {shown} no higher. If every case counts the same, the "
        f"difference is {_interval(alike, test_to_train)}."
    )


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
