"""``equipoise train``."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli.options import AsJson, Labels, Quiet, Target, check_weights
from equipoise.app.cli.printing import ConsoleWatcher, Interrupted, print_json, print_scores, print_verdict

if TYPE_CHECKING:
    from equipoise.app.report.sections.verdict import Verdict
    from equipoise.app.runs import RunResult, TrainOptions

NOT_OPTIONS = ("context", "config", "out", "resume", "as_json", "quiet")


def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="A table (CSV, Parquet, npz), an image folder or archive, or a set's name."
        ),
    ] = None,
    target: Target = None,
    labels: Labels = None,
    group: Annotated[
        str | None, typer.Option(help="Column whose equal values stay on one side of the split: a patient, a person.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Data to score on; else a part is held out.")] = None,
    test_labels: Annotated[
        Path | None, typer.Option(help="A table of file,label for the images of --test; default --labels.")
    ] = None,
    test_share: Annotated[float, typer.Option(help="Share of the samples held out for scoring.")] = 0.2,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="Options from a TOML file, or from another run's run.json; flags go first.")
    ] = None,
    method: Annotated[str, typer.Option(help="A loss by name; 'cross_entropy' for comparison.")] = "uncertainty_margin",
    backbone: Annotated[
        str | None, typer.Option(help="For images: lenet, vgg16, resnet18, resnet50, se_resnet50 or timm:NAME.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Pretrained weights for the backbone (.pth, .safetensors).")
    ] = None,
    freeze: Annotated[
        bool | None, typer.Option("--freeze/--fine-tune", help="Use the backbone as it is, or train it too.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of the square that images are brought to.")] = None,
    augment: Annotated[bool, typer.Option(help="Vary images at random while training.")] = True,
    epochs: Annotated[int | None, typer.Option(min=1, help="Visits of all samples; default: by their number.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Default: from the number of samples.")] = None,
    learning_rate: Annotated[float, typer.Option(help="At the start; it decays to 0.")] = 1e-3,
    dropout: Annotated[float, typer.Option(help="Share dropped; the uncertainty comes from it.")] = 0.5,
    precision: Annotated[str, typer.Option(help="no, or bf16 or fp16 for mixed precision on a GPU.")] = "no",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The split and every other random choice.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on a table or on images.

    Everything is chosen from the data where you do not say it, and scored on samples held out.

    \b
    Examples:
        equipoise train patients.csv --target diagnosis
        equipoise train photos/ --out runs/photos
        equipoise train skin/ --labels skin.csv --group lesion_id --backbone vgg16 --weights vgg16.pth
        equipoise train --config options.toml --seed 3
        equipoise train --resume --out runs/photos
    """
    from equipoise.app.run_folder import are_several, check_folder, is_main, new_folder
    from equipoise.data.sources import check_source

    values = {name: value for name, value in locals().items() if name in context.params and name not in NOT_OPTIONS}
    values |= {name: str(values[name]) for name in ("labels", "test_labels", "weights") if values[name] is not None}
    options, configured = _options(context, values, config, out if resume else None)
    folder = out or (Path(configured) if configured else new_folder(options.data))
    check_source(options.data, target=options.target, labels=options.labels, group=options.group)
    if options.test is not None:
        check_source(options.test, target=options.target, labels=options.test_labels or options.labels)
    check_weights(options.weights)
    if not are_several():  # else another process may have begun the folder
        check_folder(folder, options.as_dict(), resume=resume)
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
    if not is_main():
        return
    if as_json:
        print_json(summary_of(result))
    else:
        print_scores(
            Console(),
            result.scores,
            result.classes,
            uncertainty=result.class_uncertainty,
            margins=result.margins,
        )
        found = verdict_of(result)
        print_verdict(Console(), found.headline, [*found.worth, *found.change])
    watcher.note(f"The run is in {result.folder}.")
    watcher.note(f"Open {result.report} in a browser.")


def _options(
    context: typer.Context, values: dict[str, Any], config: Path | None, resumed: Path | None
) -> tuple["TrainOptions", str | None]:
    """What was typed, then what the file says, then the defaults; and the folder that the file names."""
    from equipoise.app.run_folder import RECORD, read_record
    from equipoise.app.runs.train_options import OUT, TrainOptions, read_config

    told: dict[str, Any] = {}
    if config is not None:
        told = read_config(config)
    elif resumed is not None and values["data"] is None:
        read_record(resumed)
        told = read_config(resumed / RECORD)
    folder = told.pop(OUT, None)
    sources = {name: context.get_parameter_source(name) for name in values}
    typed = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    values |= {name: value for name, value in told.items() if name not in typed}
    if values["data"] is None:
        raise typer.BadParameter("give the data to train on, or a --config that names them.", param_hint="'DATA'")
    return TrainOptions(**values), folder


def verdict_of(result: "RunResult") -> "Verdict":
    """The report's verdict on a finished run."""
    from equipoise.app.report.record import read_record
    from equipoise.app.report.sections.verdict import verdict

    return verdict(read_record(result.folder))


def summary_of(result: "RunResult") -> dict[str, Any]:
    """A finished run as plain values."""
    return {
        "run": str(result.folder),
        "report": str(result.report),
        "classes": result.classes,
        "seconds": result.seconds,
        "scores": result.scores.as_dict(),
        "before": None if result.before is None else result.before.as_dict(),
        "verdict": verdict_of(result).as_dict(),
    }


def _how_to_go_on(folder: Path) -> str:
    from equipoise.app.run_folder import FINISHED, RECORD

    if (folder / FINISHED).exists():
        return f"stopped; the run is finished. Write its report by: {shlex.join(['equipoise', 'report', str(folder)])}"
    if (folder / RECORD).exists():
        way = shlex.join(["equipoise", "train", "--resume", "--out", str(folder)])
        return f"stopped; what is done is kept. Go on by: {way}"
    return "stopped before training began; nothing was written."
