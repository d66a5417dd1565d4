"""docs/remedies.md and its picture, from whatever tables are stored: no figure is typed by hand.

    python benchmarks/remedies_page.py

Read are docs/results/tables/*.jsonl, which ``equipoise reproduce`` writes, and benchmarks/results/ahead.json.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from equipoise.app.compare import METHODS, Place, rank
from equipoise.paper.tables.table_cases import FOLDS, TEST_SHARE
from equipoise.wording import EQUIPOISE

ROOT = Path(__file__).parent.parent
TABLES, AHEAD = ROOT / "docs/results/tables", ROOT / "benchmarks/results/ahead.json"
PAGE, PICTURE = ROOT / "docs/remedies.md", ROOT / "docs/images/remedies.png"
BASELINE, OURS, ONE = "cross-entropy", EQUIPOISE, "ours, one network"
SEVERAL_NETWORKS = {"ours", "logit adjustment, four networks"}
TITLES = {
    "cifar10": "JPEG CIFAR-10, step 1:10",
    "dropout=0.5": "MNIST, step 1:10",
    "dermofit": "Dermofit",
    "dermofit_5": "Dermofit, five classes",
    "ham10000": "HAM10000, skin lesions",
    "expressions": "LFW, expressions",
    "celeba": "CelebA, attributes",
    "digits": "Attributes of MNIST's digits",
}
"""Cases of the tables, as a reader calls them and in his order; another is one of these again, with another margin or
dropout."""
SHOWN = {
    "logit adjustment": "o",
    "VS": "s",
    "LDAM-DRW": "^",
    "class-balanced": "v",
    "focal": "x",
    "random over-sampling": "+",
    "SMOTE": "*",
}
"""Rivals in the picture, and their marks."""
DRAWN_AGAIN = {
    **dict.fromkeys(("ham10000", "dermofit", "dermofit_5"), 1 / (FOLDS - 1)),
    "expressions": TEST_SHARE / (1 - TEST_SHARE),
}
"""Test over training rows where every run divides the same samples anew, which widens the intervals."""


@dataclass(frozen=True)
class Case:
    """What was measured on some data: methods by mean balanced accuracy, best first, and accuracy where it is kept."""

    title: str
    source: str
    seeds: int
    places: tuple[Place, ...]
    accuracy: dict[str, float]

    def place(self, name: str) -> Place | None:
        """A method's, if it took part."""
        return next((place for place in self.places if place.method == name), None)

    @property
    def rival(self) -> Place | None:
        """The best that is neither the baseline nor the method."""
        return next((place for place in self.places if place.method not in (BASELINE, OURS)), None)


def called(method: str) -> str:
    """A method's name in the tables of this page."""
    return METHODS[method].label if method in METHODS else method


def ranked(title: str, source: str, records: list[dict[str, Any]], *, shared: float = 0.0) -> Case:
    """A case from the records of its fits; the method's own variants are left to the pages of the tables."""
    named = [{**record, "method": called(record["method"])} for record in records]
    named = [record for record in named if not record["method"].startswith(f"{OURS}, ")]
    found = rank(named, baseline=BASELINE, test_to_train=shared)
    accuracy: dict[str, list[float]] = {}
    for record in named:
        if "accuracy" in record.get("scores", {}):
            accuracy.setdefault(record["method"], []).append(record["scores"]["accuracy"])
    means = {name: sum(values) / len(values) for name, values in accuracy.items()}
    return Case(title, source, len({record["seed"] for record in records}), found.places, means)


def table_cases() -> list[Case]:
    """The cases of every stored table in which cross-entropy and the method both took part."""
    cases = []
    for path in sorted(TABLES.glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        for key in [key for key in dict.fromkeys(record["case"] for record in records) if key in TITLES]:
            own = [record for record in records if record["case"] == key]
            if {"cross_entropy", "uncertainty_margin"} <= {record["method"] for record in own if "scores" in record}:
                source = f"results/tables/{path.stem}.md"
                cases.append(ranked(TITLES[key], source, own, shared=DRAWN_AGAIN.get(key, 0.0)))
    return sorted(cases, key=lambda case: list(TITLES.values()).index(case.title))


def ahead_cases() -> list[Case]:
    """Those of the page "Ahead", with one network for every method; their test rows are the same for all seeds."""
    records: dict[str, list[dict[str, Any]]] = {}
    for key, cell in json.loads(AHEAD.read_text(encoding="utf-8"))["cells"].items():
        part, case, method, seed = key.split(" | ")
        if part == "ahead" and method not in SEVERAL_NETWORKS:
            called = OURS if method == ONE else method.replace("ours", OURS)
            record = {"case": case, "method": called, "seed": int(seed), "fold": 0, "scores": cell}
            records.setdefault(re.sub(r"^(MNIST|CIFAR-10)( features)?,", r"\1 of 2,000,", case), []).append(record)
    return [ranked(case, "results/ahead.md", own) for case, own in sorted(records.items())]


def percent(place: Place | None) -> str:
    """A mean and its deviation over seeds and folds."""
    if place is None:
        return "–"
    spread = "" if place.runs == 1 else f" ± {100 * place.deviation:.1f}"
    return f"{100 * place.mean:.1f}{spread}"


def named(place: Place | None) -> str:
    """A rival with its name."""
    return "–" if place is None else f"{percent(place)} ({place.method})"


def tie(case: Case, name: str) -> bool:
    """Return whether a method was first, or not significantly different from the best."""
    place = case.place(name)
    return place is not None and place.tied


def listed(cases: list[Case]) -> str:
    """Their titles; a semicolon between, for titles have commas."""
    return "; ".join(case.title for case in cases) or "none"


def summary(cases: list[Case]) -> list[str]:
    """What the figures say, each sentence worked out from them."""
    gains = [(case, case.place(OURS).to_baseline) for case in cases]
    gained = [case for case, gain in gains if (gain.low or 0) > 0]
    lost = [case for case, gain in gains if (gain.high or 0) < 0]
    behind = [case for case in cases if not tie(case, OURS)]
    rivals = sorted({place.method for case in cases for place in case.places} - {BASELINE, OURS})
    often = {name: sum(tie(case, name) for case in cases) for name in rivals}
    took = {name: sum(case.place(name) is not None for case in cases) for name in rivals}
    best = sorted(rivals, key=lambda name: -often[name])[:3]
    return [
        f"- **Equipoise against cross-entropy**: significantly better in {len(gained)} of {len(cases)} cases, "
        f"significantly worse in {len(lost)}{f' ({listed(lost)})' if lost else ''}.",
        "- **Cross-entropy is enough** (the best, or not significantly worse than the best) in "
        f"{listed([case for case in cases if tie(case, BASELINE)])}.",
        "- **Equipoise against all**: the best, or not significantly worse than the best, in "
        f"{len(cases) - len(behind)} cases; significantly worse in {listed(behind)}.",
        "- **Rivals that are most often** the best, or not significantly worse: "
        + ", ".join(f"{name} in {often[name]} of {took[name]}" for name in best)
        + ".",
        f"- In {sum(higher(case) for case in cases)} cases the best rival has a higher mean than Equipoise. Which "
        "rival is best differs from case to case, and you only know it afterwards.",
    ]


def higher(case: Case) -> bool:
    """Whether the best rival's mean is above the method's."""
    ours, rival = case.place(OURS), case.rival
    return ours is not None and rival is not None and rival.mean > ours.mean


def balanced_table(cases: list[Case]) -> list[str]:
    """One row per case."""
    lines = [
        "| data | seeds | cross-entropy | Equipoise | best rival | not significantly behind the best |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        tied = [place.method for place in case.places if place.tied]
        names = "; ".join(tied) if len(tied) <= 4 else f"{len(tied)} of {len(case.places)} methods"
        row = [f"[{case.title}]({case.source})", str(case.seeds), percent(case.place(BASELINE))]
        lines.append("| " + " | ".join([*row, percent(case.place(OURS)), named(case.rival), names]) + " |")
    return lines


def price_table(cases: list[Case]) -> list[str]:
    """Accuracy on the test samples as they are, of the same methods: what the rare classes' gain costs the others."""
    lines = ["| data | cross-entropy | Equipoise | the best rival above |", "|---|---|---|---|"]
    for case in cases:
        if BASELINE in case.accuracy:
            values = [case.accuracy.get(name) for name in (BASELINE, OURS, case.rival.method if case.rival else "")]
            cells = ["–" if value is None else f"{100 * value:.1f}" for value in values]
            lines.append(f"| [{case.title}]({case.source}) | " + " | ".join(cells) + " |")
    return lines


def page(cases: list[Case]) -> str:
    """The whole page."""
    template = (Path(__file__).parent / "remedies.md.txt").read_text(encoding="utf-8")
    parts = {
        "SUMMARY": "\n".join(summary(cases)),
        "BALANCED": "\n".join(balanced_table(cases)),
        "PRICE": "\n".join(price_table(cases)),
        "CASES": str(len(cases)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def draw(cases: list[Case]) -> None:
    """Points gained over cross-entropy, one row per case."""
    figure = Figure(figsize=(7.2, 1.4 + 0.36 * len(cases)), layout="constrained")
    axes = figure.subplots()
    for row, case in enumerate(reversed(cases)):
        base = case.place(BASELINE)
        for place in case.places:
            if base is None or (place.method != OURS and place.method not in SHOWN):
                continue
            style = {"marker": "D", "color": "#117733", "zorder": 3} if place.method == OURS else {}
            style = style or {"marker": SHOWN[place.method], "color": "#777777", "zorder": 2}
            axes.scatter(100 * (place.mean - base.mean), row, s=34, linewidths=1, **style)
    axes.axvline(0, color="#cc6677", linestyle="--", linewidth=1)
    axes.scatter([], [], marker="D", color="#117733", label=OURS)
    for name, mark in SHOWN.items():
        if any(case.place(name) for case in cases):
            axes.scatter([], [], marker=mark, color="#777777", label=name)
    axes.set_yticks(range(len(cases)), [case.title for case in reversed(cases)], fontsize="small")
    axes.set_xlabel("points of balanced accuracy gained over cross-entropy (dashed)")
    axes.grid(axis="y", linewidth=0.4)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


def main() -> None:
    """Write both."""
    cases = [*table_cases(), *ahead_cases()]
    draw(cases)
    PAGE.write_text(page(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
