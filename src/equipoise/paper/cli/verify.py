"""``equipoise verify``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from equipoise.app.cli.flags import AsJson, Quiet, RunFolder
from equipoise.app.cli.printing import ConsoleWatcher, print_json, shown
from equipoise.errors import InvalidInputError

if TYPE_CHECKING:
    from equipoise.paper.faces.verification import Verification


def verify(
    run: RunFolder,
    pairs: Annotated[
        Path, typer.Option(help="The list of pairs, or a .bin file; with --protocol folder the list to write.")
    ],
    images: Annotated[Path | None, typer.Option(help="The folder, or an archive, of the faces.")] = None,
    protocol: Annotated[
        Literal["lfw", "ytf", "list", "bin", "folder"] | None,
        typer.Option(help="How the pairs are written; default by the file."),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out pairs whose images are not there.")
    ] = False,
    frames: Annotated[
        int | None, typer.Option(min=1, help="Frames of a video at most, spread evenly; default all.")
    ] = None,
    count: Annotated[int, typer.Option(min=20, help="Pairs to draw with --protocol folder.")] = 6000,
    seed: Annotated[int, typer.Option(min=0, help="Of that draw.")] = 0,
    layer: Annotated[
        Literal["pooled", "last"],
        typer.Option(help="Features after the pooling, as in the paper, or the last before the classes."),
    ] = "pooled",
    flip: Annotated[bool, typer.Option(help="Average with the features of the mirror image.")] = True,
    roc: Annotated[Path | None, typer.Option(help="Write the ROC into a .csv, .png or .svg file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the ROC's file if it exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell whether two faces are of one person.

    The similarity of a pair is the cosine of the run's features; a fold is scored at the threshold that suits the
    other folds best. Reads LFW's pairs.txt, the splits.txt of YouTube Faces, plain lists of `path path 0/1 [fold]`
    and the .bin files of AgeDB-30, CFP-FP and others; or draws pairs from a folder of people and writes them down.

    \b
    Examples:
        equipoise verify runs/faces --pairs pairs.txt --images lfw-aligned/
        equipoise verify runs/faces --pairs agedb_30.bin --roc roc.png
        equipoise verify runs/faces --pairs splits.txt --images ytf-aligned/ --frames 100
        equipoise verify runs/faces --pairs my-pairs.txt --images people/ --protocol folder
    """
    from equipoise.app.run_folder import finished_record

    finished_record(run)
    _check_paths(pairs, images, made=protocol == "folder")
    from equipoise.app.runs.trained_run import RunModel
    from equipoise.paper.faces import run_verification as faces  # torch
    from equipoise.paper.faces.verification import verification

    if roc is not None:
        faces.roc_file(roc, force=force)
    with ConsoleWatcher(quiet=quiet) as watcher:
        model = RunModel.load(run)
        faces.embedding(model, layer=layer, flip=flip)  # what is wrong with the run is said before pairs are drawn
        used, found = faces.read_pairs(
            pairs, images, protocol=protocol, skip_missing=skip_missing, frames=frames, count=count, seed=seed
        )
        notes = [*found.notes, *faces.known_people(model, found)]
        for sentence in notes:
            watcher.note(sentence)
        similarity = faces.similarities(model, found, layer=layer, flip=flip, progress=watcher.progress)
        verified = verification(similarity, found.same, found.fold)
    if roc is not None:
        faces.write_roc(verified.roc, roc, force=force)
    if as_json:
        about = {"run": str(run), "pairs_file": str(pairs), "protocol": used, "layer": layer, "flip": flip}
        print_json(about | verified.as_dict() | {"notes": notes})
    else:
        _print(verified)
    if used == "folder":
        watcher.note(f"The pairs are in {pairs}; --protocol list uses them again.")
    if roc is not None:
        watcher.note(f"The ROC is in {roc}.")


def _check_paths(pairs: Path, images: Path | None, *, made: bool) -> None:
    """Refuse what is not there before anything takes time; the list of pairs may be one that is to be made."""
    if not made and not pairs.expanduser().is_file():
        raise InvalidInputError(
            f"{pairs} cannot be read: no such file; check --pairs, or pass --protocol folder to make it."
        )
    if images is not None and not images.expanduser().exists():
        raise InvalidInputError(f"there is no folder or archive {str(images)!r}; check --images.")


def _print(found: "Verification") -> None:
    from equipoise.paper.faces.verification import FALSE_ACCEPTS

    console = Console()
    different = found.pairs - found.same
    console.print(f"{found.pairs:,} pairs, {found.same:,} of one person and {different:,} of two", highlight=False)
    table = Table()
    for heading in ("fold", "pairs", "threshold", "accuracy"):
        table.add_column(heading, justify="right")
    for fold in found.folds:
        table.add_row(shown(str(fold.name)), f"{fold.pairs:,}", f"{fold.threshold:.4f}", f"{fold.accuracy:.2%}")
    console.print(table)
    lines = {"accuracy": f"{found.accuracy:.2%} ± {found.deviation:.2%} over the folds"}
    lines["area under the ROC"] = f"{found.roc.area:.4f}"
    for far, tar in found.tar.items():
        few = f"– (needs {FALSE_ACCEPTS / far:,.0f} pairs of two people, there are {different:,})"
        lines[f"TAR at FAR {far:g}"] = few if tar is None else f"{tar:.2%}"
    for name, text in lines.items():
        console.print(f"{name:<20}{text}", highlight=False, soft_wrap=True)
