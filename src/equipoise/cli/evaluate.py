"""``equipoise evaluate``."""

from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.options import AsJson, Labels, Quiet, RunFolder, Target
from equipoise.cli.printing import ConsoleWatcher, print_json, print_scores


def evaluate(
    run: RunFolder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled data: as for training.")],
    target: Target = None,
    labels: Labels = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a finished run on other labelled data.

    \b
    Examples:
        equipoise evaluate runs/patients second-hospital.csv
        equipoise evaluate runs/photos new-photos/ --json
    """
    from equipoise.runs import RunModel
    from equipoise.runs.evaluate import evaluate_run

    model = RunModel.load(run)
    with ConsoleWatcher(quiet=quiet) as watcher:
        scores = evaluate_run(model, data, target=target, labels=labels, watcher=watcher)
    if as_json:
        print_json({"run": str(run), "data": data, "classes": list(model.classes), "scores": scores.as_dict()})
        return
    print_scores(
        Console(),
        scores,
        model.classes,
        uncertainty=model.learnt("class_uncertainty"),
        margins=model.learnt("margins"),
        title="On {samples:,} samples",
    )
