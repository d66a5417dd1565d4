"""``equipoise faces align``: images of people made ready for recognition."""

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.app.cli.flags import AsJson, Quiet, takes
from equipoise.app.cli.printing import ConsoleWatcher, print_json
from equipoise.app.output_files import printable
from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import AlignmentOptions


@takes("min_face", "choose", "lenient", "side", of=AlignmentOptions)
def align(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A folder or archive of images; subfolders are kept.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="A new folder, or that of an interrupted run.")],
    *,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Folder of pnet.pt, rnet.pt, onet.pt; default $EQUIPOISE_MTCNN, else an installed facenet-pytorch."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes; default one per core, at most 8.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Find and align the face in every image.

    Faces are aligned to the 112×112 template of face recognition and keep the names of their images. DST/to_check.csv
    lists images that are unreadable or show no face or several; DST/alignment.csv has the landmarks of all. Run the
    command again to continue after an interruption.

    \b
    Examples:
        equipoise faces align photos/ aligned/ --weights mtcnn/
        equipoise faces align lfw.tgz lfw-aligned/ --workers 8
    """
    if not Path(source).expanduser().exists():
        raise InvalidInputError(f"{source!r} is not a folder or archive; give the folder that holds the images.")
    from equipoise.cores_and_memory import cores
    from equipoise.paper.faces import align_folder  # torch

    with ConsoleWatcher(quiet=quiet) as watcher:
        done = align_folder(
            source,
            target,
            **values,
            weights=weights,
            workers=min(8, cores()) if workers is None else workers,
            progress=lambda ready, total: watcher.progress(ready, total, "aligning faces"),
        )
    watcher.note(*done.notes)
    if as_json:
        print_json(done.as_dict())
    else:
        sentence = (
            f"{done.aligned:,} of {done.images:,} images have their face in {done.folder}; {done.several:,} have "
            f"several, {done.without:,} none, {done.unreadable:,} cannot be read: see {done.to_check}."
        )
        typer.echo(printable(sentence))
    if not done.aligned:
        smaller = values["min_face"] / 4
        raise InvalidInputError(
            f"no face was found in any of {done.images:,} images; try --min-face {smaller:g}, or check SRC."
        )
