"""Recommended next steps for a model, in words, from its skill and from what balancing changed."""

import shlex

from equipoise.app.report.asked_rule import is_asked
from equipoise.app.report.model_grade import Worth
from equipoise.app.report.sections.before_after import Change
from equipoise.app.stored_run import StoredRun

ENOUGH = 100
"""Held-out samples that measure a recall of 80 % to within about 8 points."""


def next_steps(run: StoredRun, judged: Worth, rare: Change | None) -> list[str]:
    """Return what to do next, the most useful first."""
    subject, folder = judged.subject, shlex.quote(run.folder.as_posix())
    name = "CLASS" if judged.name is None else judged.name
    again = f"predict {folder} new.csv" if run.predictions is None else f"rebalance {shlex.quote(run.predictions)}"
    recall = f"`equipoise {again} --recall {shlex.quote(f'{name}=0.9')}`"
    few = (
        f"Label more samples of {subject}: {judged.samples:,} are held out, and {ENOUGH} would show its recall to "
        "about 8 points either way."
    )
    doubtful = f" (`equipoise inspect {folder}` lists the doubtful ones)" if run.predictions is None else ""
    labels = f"Check the labels first{doubtful}, then the columns."
    said = {
        "unknown": [few] if subject else [f"Label samples of more than one {run.noun}: there is nothing to judge by."],
        "unclear": [few],
        "guessing": [labels, "No threshold helps while the ranking is as good as random."],
        "weak": [
            "Better columns or more samples will help more than a threshold; `equipoise compare` on the same data "
            "shows whether another model ranks better.",
            labels,
        ],
        "silent": [f"Lower the threshold, see Decide; {recall} finds nine of ten."],
        "misses": [
            f"If misses cost more than false alarms, lower the threshold, see Decide; {recall} finds nine of ten."
        ],
        "false alarms": ["If a false alarm costs nearly as much as a miss, raise the threshold, see Decide."],
        "fair": ["Choose the threshold by what a miss costs, see Decide."],
        "good": ["Choose the threshold by what a miss costs, see Decide; the model can be used as it is."],
    }[judged.grade]
    if not is_asked(run):
        return [*said, *_without_remedy(rare)]
    if judged.grade in ("silent", "misses", "false alarms"):
        shows = "Decide shows" if run.predictions is None else "Another rule shows"
        return [f"{shows} what another threshold than that of your rule would find and cost."]
    return said


def _without_remedy(rare: Change | None) -> list[str]:
    """Return a sentence if the answers were better before balancing."""
    if rare is None or rare.gap is None or rare.gap.high >= 0:
        return []
    return ["The remedy made the answers worse here: `--prior natural` answers without it."]
