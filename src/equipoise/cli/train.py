"""``equipoise train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.cli.printing import ConsoleWatcher, print_scores

if TYPE_CHECKING:
    from equipoise.runs import RunResult


def train(
    data: Annotated[
        str, typer.Argument(help="A table (CSV, Parquet, npz), an image folder or archive, or a set's name.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The table's column with the label; several, with commas, are 0/1 labels.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A table of file,label for images not sorted into folders.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column whose equal values stay on one side of the split: a patient, a person.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Data to score on; else a part is held out.")] = None,
    test_share: Annotated[float, typer.Option(help="Share of the samples held out for scoring.")] = 0.2,
    out: Annotated[Path | None, typer.Option(help="The run's folder; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")] = False,
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
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(min=1)] = None,
    learning_rate: Annotated[float, typer.Option()] = 1e-3,
    dropout: Annotated[float, typer.Option(help="Share dropped; the uncertainty comes from it.")] = 0.5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The split and every other random choice.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the scores only.")] = False,
) -> None:
    """Train on a table or on images, everything chosen from the data, and score on samples held out.

    Examples:

        equipoise train patients.csv --target diagnosis

        equipoise train photos/ --out runs/photos

        equipoise train skin/ --labels skin.csv --group lesion_id --backbone vgg16 --weights vgg16.pth
    """
    from equipoise.runs import TrainOptions, new_folder, train_run

    options = TrainOptions(
        data=data,
        target=target,
        labels=None if labels is None else str(labels),
        group=group,
        test=test,
        test_share=test_share,
        method=method,
        backbone=backbone,
        weights=None if weights is None else str(weights),
        freeze=freeze,
        size=size,
        augment=augment,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        dropout=dropout,
        seed=seed,
    )
    folder = new_folder(data) if out is None else out
    watcher = ConsoleWatcher(quiet=quiet)
    with watcher:
        result: RunResult = train_run(options, folder, resume=resume, verbose=int(not quiet), watcher=watcher)
    print_scores(Console(), result)
    watcher.note(f"The run is in {result.folder}.")
