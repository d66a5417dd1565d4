"""``equipoise train``."""

import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli.flags import AsJson, Quiet, check_weights, takes, tell_expected
from equipoise.app.cli.printing import (
    ConsoleWatcher,
    Interrupted,
    print_json,
    print_scores,
    print_sentence,
    print_verdict,
)
from equipoise.app.decision_options import DECISION_FLAGS
from equipoise.app.runs.run_options import NETWORK, NETWORK_OPTIONS, OUT, RunOptions, read_config
from equipoise.errors import InvalidInputError

if TYPE_CHECKING:
    from equipoise.app.report.sections.verdict import Verdict
    from equipoise.app.runs import RunResult


OPTIONS = [each.name for each in fields(RunOptions) if each.name not in (*NETWORK_OPTIONS, *DECISION_FLAGS)]
"""Options of a run, which the help names before those of the decision and of the network."""
Config = Annotated[
    Path | None,
    typer.Option(help="Options from a TOML file, or from another run's run.json; command-line flags take precedence."),
]


@takes(*OPTIONS, *DECISION_FLAGS, *NETWORK_OPTIONS, optional=True)
def train(
    context: typer.Context,
    *,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the unfinished run in --out.")] = False,
    config: Config = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Train on a table or on images.

    Defaults are chosen from the data, and the model is scored on held-out samples.

    \b
    Examples:
        equipoise train patients.csv --target diagnosis
        equipoise train payments.csv --target kind --recall fraud=0.95
        equipoise train payments.csv --target kind --cost miss:fraud=50
        equipoise train churn.csv --target left --id customer_id --drop closed_on --kind notes=text
        equipoise train photos/ --out runs/photos
        equipoise train skin/ --labels skin.csv --group lesion_id --backbone vgg16 --weights vgg16.pth
        equipoise train --config options.toml --seed 3
        equipoise train --resume --out runs/photos
    """
    from equipoise.app.run_folder import is_main

    if resume and out is None and config is None:
        raise InvalidInputError("--resume needs the folder of the unfinished run; add --out RUN.")
    options, configured = _options(context, values, config, out if resume else None)
    folder = _checked_folder(options, out or (Path(configured) if configured else None), resume=resume)
    from equipoise.app.runs.train import train_run  # torch, after everything that can be refused without it

    quiet = quiet or not is_main()
    watcher = ConsoleWatcher(quiet=quiet)
    command = shlex.join(["equipoise", *sys.argv[1:]])
    try:
        with watcher:
            shown = int(not quiet)
            result = train_run(options, folder, resume=resume, verbose=shown, watcher=watcher, command=command)
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(folder)) from None
    if is_main():
        _tell(result, watcher, as_json=as_json)


def _checked_folder(options: RunOptions, folder: Path | None, *, resume: bool) -> Path:
    """Return the run's folder; refuse data, weights and folders that cannot be used."""
    from equipoise.app.run_folder import are_several, check_folder, new_folder
    from equipoise.data.sources import check_source

    target, labels = options.target, options.labels
    rows = {"group": options.group, "time": options.time}
    check_source(options.data, target=target, labels=labels, **rows, columns=options.columns)
    if options.test is not None:
        check_source(options.test, target=target, labels=options.test_labels or labels)
    check_weights(options.weights)
    found = folder or new_folder(options.data)
    if not are_several():  # else another process may have begun the folder
        check_folder(found, options.as_dict(), resume=resume)
    return found


def _tell(result: "RunResult", watcher: ConsoleWatcher, *, as_json: bool) -> None:
    """Print the scores and the paths of the run and its report."""
    if as_json:
        print_json(summary_of(result))
    else:
        uncertainty, margins = result.class_uncertainty, result.margins
        print_scores(Console(), result.scores, result.classes, uncertainty=uncertainty, margins=margins)
        found = verdict_of(result)
        print_verdict(Console(), found.headline, [*found.worth, *found.change])
    if result.decision is not None:
        tell_expected(result.decision, tell=watcher.note if as_json else print_sentence)
    watcher.note(f"The run is in {result.folder}.")
    watcher.note(f"Open {result.report} in a browser.")


def _options(
    context: typer.Context, values: dict[str, Any], config: Path | None, resumed: Path | None
) -> tuple[RunOptions, str | None]:
    """Return the options typed, then those of the file, then the defaults; and the folder named in the file."""
    from equipoise.app.run_folder import read_run_record
    from equipoise.storage.run_files import RECORD

    from_file: dict[str, Any] = {}
    if config is None and resumed is not None and values["data"] is None:
        read_run_record(resumed)
        config = resumed / RECORD
    if config is not None:
        from_file = read_config(config)
    folder = from_file.pop(OUT, None)
    sources = {name: context.get_parameter_source(name) for name in values}
    typed = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    if config is not None and "model" not in typed:
        _check_record(config, from_file.get("model"))
    values |= {name: value for name, value in from_file.items() if name not in typed}
    if values["data"] is None:
        raise typer.BadParameter("give the data to train on, or a --config that names them.", param_hint="'DATA'")
    options, given = RunOptions(**values), typed | set(from_file)
    if "model" not in given and not options.of_network and given & set(NETWORK_OPTIONS):
        options = replace(options, model=NETWORK)  # a network option was given, though at its default
    return options, folder


def _check_record(config: Path, model: str | None) -> None:
    """Refuse to import a module that a record names: a stranger's file must not choose code to run."""
    if model is not None and ":" in model and config.suffix.lower() == ".json":
        raise InvalidInputError(f"{config} names the model {model}, and importing it runs code; add --model {model}.")


def verdict_of(result: "RunResult") -> "Verdict":
    """Return the report's verdict on a finished run."""
    from equipoise.app.report.sections.verdict import verdict
    from equipoise.app.stored_run import read_run

    return verdict(read_run(result.folder))


def summary_of(result: "RunResult") -> dict[str, Any]:
    """Return a finished run as plain values."""
    return {
        "run": str(result.folder),
        "report": str(result.report),
        "classes": result.classes,
        "seconds": result.seconds,
        "scores": result.scores.as_dict(),
        "before": None if result.before is None else result.before.as_dict(),
        "verdict": verdict_of(result).as_dict(),
        "decision": None if result.decision is None else result.decision.to_json(),
    }


def _how_to_go_on(folder: Path) -> str:
    from equipoise.storage.run_files import FINISHED, RECORD

    if (folder / FINISHED).exists():
        return (
            f"stopped; the run is finished. Write its report with: {shlex.join(['equipoise', 'report', str(folder)])}"
        )
    if (folder / RECORD).exists():
        way = shlex.join(["equipoise", "train", "--resume", "--out", str(folder)])
        return f"stopped; finished work is kept. Resume with: {way}"
    return "stopped before training began; nothing was written."
