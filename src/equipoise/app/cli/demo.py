"""``equipoise demo``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise.app.cli.options import AsJson, Quiet
from equipoise.app.cli.printing import ConsoleWatcher, print_json, print_verdict
from equipoise.app.cli.train import verdict_of

if TYPE_CHECKING:
    from equipoise.app.runs import RunResult
    from equipoise.app.runs.demo import DemoResult, DemoSamples


def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which classes become rare, and every other random choice.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default runs/demo.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try equipoise on imbalanced digits.

    Softmax and equipoise on scikit-learn's digits, under a minute; the run is kept, with its report.

    \b
    Example:
        equipoise demo --seed 1
    """
    import numpy as np

    from equipoise.app.runs import new_folder
    from equipoise.app.runs.demo import run_demo

    watcher = ConsoleWatcher(quiet=quiet)
    watcher.note("scikit-learn's digits, 90 % of half of the classes dropped")
    folder = new_folder("demo") if out is None else out
    finished: list[RunResult] = []

    def fit(samples: "DemoSamples") -> Any:
        finished.append(_train(samples, folder, seed))
        return finished[0].model, np.asarray(finished[0].scores.recall.each)

    result = run_demo(fit, seed=seed, announce=lambda name: watcher.note(f"training {name} ..."))
    if as_json:
        recall = {name: [float(value) for value in each] for name, each in result.recall.items()}
        told = {"run": str(folder), "report": str(finished[0].report), "classes": result.names, "recall": recall}
        print_json(told | {"verdict": verdict_of(finished[0]).as_dict()})
    else:
        _print(Console(), result)
        found = verdict_of(finished[0])
        print_verdict(Console(), found.headline, found.worth)
    watcher.note(f"The run is in {folder}.")
    watcher.note(f"Open {finished[0].report} in a browser.")


def _train(samples: "DemoSamples", folder: Path, seed: int) -> "RunResult":
    from equipoise.app.runs import GivenSamples, TrainOptions, train_run

    given = GivenSamples(samples.train, samples.test, samples.pictures)
    command = f"equipoise demo --seed {seed}"
    return train_run(TrainOptions("demo", seed=seed), folder, command=command, given=given)


def _print(console: Console, result: "DemoResult") -> None:
    table = Table(title="Recall on an untouched, balanced test set")
    for heading in ("class", "train", "uncertainty", "margin", *result.recall, "change"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    before, after = result.recall.values()
    for c, name in enumerate(result.names):
        table.add_row(
            f"{name} [yellow]rare[/yellow]" if result.rare[c] else name,
            str(result.counts[c]),
            f"{result.uncertainty[c]:.1f}",
            f"{result.margins[c]:.2f}",
            *(f"{recall[c]:.1%}" for recall in result.recall.values()),
            f"{after[c] - before[c]:+.1%}",
        )
    table.add_section()
    for title, group in (("rare", result.rare), ("common", ~result.rare), ("all", result.rare | ~result.rare)):
        means = [float(recall[group].mean()) for recall in result.recall.values()]
        table.add_row(f"{title}, mean", "", "", "", *(f"{m:.1%}" for m in means), f"{means[1] - means[0]:+.1%}")
    console.print(table)
