"""``equipoise demo``."""

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli.flags import AsJson, Quiet
from equipoise.app.cli.printing import ConsoleWatcher, new_table, print_json, print_verdict
from equipoise.app.cli.train import verdict_of
from equipoise.wording import EQUIPOISE

if TYPE_CHECKING:
    from equipoise.app.runs import RunResult


def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random choices, including which classes become rare.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default runs/demo.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try equipoise on imbalanced digits.

    Compares ordinary training (softmax) with Equipoise on scikit-learn's digits, in under a minute. The run and its
    report are kept.

    \b
    Example:
        equipoise demo --seed 1
    """
    from equipoise.app.run_folder import new_folder
    from equipoise.app.runs.demo import run_demo

    watcher = ConsoleWatcher(quiet=quiet)
    watcher.note("scikit-learn's digits, 90 % of half of the classes dropped")
    folder = new_folder("demo") if out is None else out
    result, softmax, counts = run_demo(folder, seed=seed, announce=lambda name: watcher.note(f"training {name} ..."))
    recall = {"softmax": softmax.tolist(), EQUIPOISE: list(result.scores.recall.each)}
    found = verdict_of(result)
    if as_json:
        content = {"run": str(folder), "report": str(result.report), "classes": result.classes, "recall": recall}
        print_json(content | {"verdict": found.as_dict()})
    else:
        _print(Console(), result, recall, counts)
        print_verdict(Console(), found.headline, found.worth)
    watcher.note(f"The run is in {folder}.")
    watcher.note(f"Open {result.report} in a browser.")


def _print(console: Console, result: "RunResult", recall: dict[str, list[float]], counts: Any) -> None:
    from equipoise.data.summary import rare_classes

    headings = ("class", "train", "uncertainty", "margin", *recall, "change")
    table = new_table(*headings, left=["class"], title="Recall on an untouched, balanced test set")
    before, after = recall.values()
    rare = rare_classes(counts).tolist()
    for c, name in enumerate(result.classes):
        table.add_row(
            f"{name} [yellow]rare[/yellow]" if rare[c] else name,
            str(counts[c]),
            f"{result.model.class_uncertainty_[c]:.1f}",
            f"{result.model.margins_[c]:.2f}",
            f"{before[c]:.1%}",
            f"{after[c]:.1%}",
            f"{after[c] - before[c]:+.1%}",
        )
    table.add_section()
    groups = {"rare": [c for c, own in enumerate(rare) if own], "common": [c for c, own in enumerate(rare) if not own]}
    for title, group in (groups | {"all": range(len(rare))}).items():
        first, last = (fmean(each[c] for c in group) for each in (before, after))
        table.add_row(f"{title}, mean", "", "", "", f"{first:.1%}", f"{last:.1%}", f"{last - first:+.1%}")
    console.print(table)
