"""``equipoise verify``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from equipoise.app.cli.flags import AsJson, Quiet
from equipoise.app.cli.printing import ConsoleWatcher, print_json, shown
from equipoise.errors import InvalidInputError

if TYPE_CHECKING:
    from equipoise.paper.faces.face_encoders import EncodedFaces, StoredEmbeddings
    from equipoise.paper.faces.verification import Verification


def verify(
    pairs: Annotated[
        Path, typer.Option(help="The list of pairs, or a .bin file; with --protocol folder the list to write.")
    ],
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The folder of a finished run.")] = None,
    images: Annotated[Path | None, typer.Option(help="The folder, or an archive, of the faces.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Use an ONNX face recogniser instead of RUN, such as one for 112×112 pixels."),
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Use stored features instead of RUN: a .npz file with names and embeddings.")
    ] = None,
    protocol: Annotated[
        Literal["lfw", "ytf", "list", "bin", "folder"] | None,
        typer.Option(help="How the pairs are written; default by the file."),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out pairs whose images are missing.")
    ] = False,
    frames: Annotated[
        int | None, typer.Option(min=1, help="Most frames per video, spread evenly; default all.")
    ] = None,
    count: Annotated[int, typer.Option(min=20, help="Pairs to draw with --protocol folder.")] = 6000,
    seed: Annotated[int, typer.Option(min=0, help="Of that draw.")] = 0,
    layer: Annotated[
        Literal["pooled", "last"],
        typer.Option(help="Features of a run after the pooling, as in the paper, or the last before the classes."),
    ] = "pooled",
    flip: Annotated[bool, typer.Option(help="Average with the features of the mirror image.")] = True,
    roc: Annotated[Path | None, typer.Option(help="Write the ROC into a .csv, .png or .svg file.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write an .html page: scores, ROC, calibrated probability, hardest pairs.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of --roc and --page.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure how well a network recognises whether two faces show one person.

    The similarity of a pair is the cosine of two features; a fold is scored at the threshold that suits the other folds
    best. Features come from a finished RUN, an ONNX recogniser, or a file. Pairs come from LFW's pairs.txt, the
    splits.txt of YouTube Faces, plain lists of `path path 0/1 [fold]` and the .bin files of AgeDB-30, CFP-FP and
    others; or are drawn from a folder of people and saved as a list.

    \b
    Examples:
        equipoise verify runs/faces --pairs pairs.txt --images lfw-aligned/ --page lfw.html
        equipoise verify runs/faces --pairs agedb_30.bin --roc roc.png
        equipoise verify runs/faces --pairs splits.txt --images ytf-aligned/ --frames 100
        equipoise verify runs/faces --pairs my-pairs.txt --images people/ --protocol folder
        equipoise verify --model recogniser.onnx --pairs pairs.txt --images lfw-aligned/
        equipoise verify --embeddings features.npz --pairs pairs.txt
    """
    named = _one_source(run, model, embeddings)
    _check_paths(pairs, images, made=protocol == "folder")
    from equipoise.paper.faces import face_encoders as faces  # torch
    from equipoise.paper.faces import verification_page as written
    from equipoise.paper.faces.protocols import read_pairs
    from equipoise.paper.faces.same_person import fit_same_person
    from equipoise.paper.faces.verification import verification

    outputs = written.Outputs.check(roc, page, force=force)
    with ConsoleWatcher(quiet=quiet) as watcher:
        source, trained_on = _source(run, model, embeddings, layer, flip)  # its faults are reported before any work
        used, found = read_pairs(
            pairs,
            source.named(images),
            protocol=protocol,
            skip_missing=skip_missing,
            frames=frames,
            count=count,
            seed=seed,
        )
        notes = [*found.notes, *faces.known_people(trained_on, found)]
        for sentence in notes:
            watcher.note(sentence)
        pictures = None if page is None else source.pictures(found, images)
        similarity = faces.similarities(source.features(found, progress=watcher.progress), found)
        verified = verification(similarity, found.same, found.fold)
        probability = fit_same_person(similarity, found.same, found.fold)
    title = f"{named.name} on {pairs.name}"
    outputs.write(verified, probability, similarity, found, pictures, title=title, notes=notes)
    if as_json:
        about = {"source": str(named), "pairs_file": str(pairs), "protocol": used, "layer": layer, "flip": flip}
        print_json(about | verified.as_dict() | {"probability": probability.as_dict(), "notes": notes})
    else:
        _print(verified)
    if used == "folder":
        watcher.note(f"The pairs are in {pairs}; --protocol list uses them again.")
    for what, file in (("ROC", roc), ("page", page)):
        if file is not None:
            watcher.note(f"The {what} is in {file}.")


def _one_source(run: Path | None, model: Path | None, embeddings: Path | None) -> Path:
    """Return where the features come from; refuse none or several, and what is not there, before heavy imports."""
    given = [each for each in (run, model, embeddings) if each is not None]
    if len(given) != 1:
        raise InvalidInputError(
            f"give exactly one of RUN, --model FILE.onnx and --embeddings FILE.npz, got {len(given) or 'none'}."
        )
    if run is not None:
        from equipoise.app.run_folder import finished_record

        finished_record(run)
    elif not given[0].expanduser().is_file():
        raise InvalidInputError(f"there is no file {str(given[0])!r}; check --{'model' if model else 'embeddings'}.")
    return given[0]


def _source(
    run: Path | None, model: Path | None, embeddings: Path | None, layer: Literal["pooled", "last"], flip: bool
) -> "tuple[EncodedFaces | StoredEmbeddings, tuple[str, ...]]":
    """Return what gives the features, and the people it was trained on as far as they are known."""
    from equipoise.paper.faces.face_encoders import EncodedFaces, OnnxEncoder, RunEncoder, StoredEmbeddings

    if embeddings is not None:
        return StoredEmbeddings.load(embeddings), ()
    if model is not None:
        return EncodedFaces(OnnxEncoder(model, flip=flip)), ()
    from equipoise.app.runs.trained_run import RunModel

    assert run is not None
    trained = RunModel.load(run)
    return EncodedFaces(RunEncoder(trained, layer=layer, flip=flip)), trained.classes


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
