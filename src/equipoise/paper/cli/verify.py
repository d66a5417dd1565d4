"""``equipoise verify``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli.flags import AsJson, Quiet, takes
from equipoise.app.cli.printing import ConsoleWatcher, new_table, print_json, shown
from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import VerifyOptions

if TYPE_CHECKING:
    from equipoise.paper.faces.verification_scores import Verification


@takes(of=VerifyOptions)
def verify(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="The folder of a finished run.")] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of --roc and --page.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Test a face recogniser on pairs of photographs.

    The similarity of two faces is the cosine of their features. Each fold is scored at the threshold that is best on
    the other folds. Features come from a finished RUN, an ONNX recogniser, or a file. Pairs come from LFW's pairs.txt,
    the splits.txt of YouTube Faces, plain lists of `path path 0/1 [fold]`, or the .bin files of AgeDB-30, CFP-FP and
    others; or they are drawn from a folder of people and saved as a list.

    \b
    Examples:
        equipoise verify runs/faces --pairs pairs.txt --images lfw-aligned/ --page lfw.html
        equipoise verify runs/faces --pairs agedb_30.bin --roc roc.png
        equipoise verify runs/faces --pairs splits.txt --images ytf-aligned/ --frames 100
        equipoise verify runs/faces --pairs my-pairs.txt --images people/ --protocol folder
        equipoise verify --model recogniser.onnx --pairs pairs.txt --images lfw-aligned/
        equipoise verify --embeddings features.npz --pairs pairs.txt
    """
    options = VerifyOptions(**values)
    named = _one_source(run, options)
    _check_paths(options)
    from equipoise.paper.faces.verification_page import check_outputs, write_outputs  # torch
    from equipoise.paper.faces.verify import verify_pairs

    check_outputs(options, force=force)
    with ConsoleWatcher(quiet=quiet) as watcher:
        found = verify_pairs(run, options, watcher)
    write_outputs(found, options, title=f"{named.name} on {options.pairs.name}")
    if as_json:
        about: dict[str, Any] = {"source": str(named), "pairs_file": str(options.pairs), "protocol": found.protocol}
        about |= {"layer": options.layer, "flip": options.flip}
        print_json(about | found.scores.as_dict() | {"probability": found.probability.as_dict(), "notes": found.notes})
    else:
        _print(found.scores)
    if found.protocol == "folder":
        watcher.note(f"The pairs are in {options.pairs}; --protocol list uses them again.")
    for what, file in (("ROC", options.roc), ("page", options.page)):
        if file is not None:
            watcher.note(f"The {what} is in {file}.")


def _one_source(run: Path | None, options: VerifyOptions) -> Path:
    """Return where the features come from; refuse none or several, and what is not there, before heavy imports."""
    given = [each for each in (run, options.model, options.embeddings) if each is not None]
    if len(given) != 1:
        raise InvalidInputError(
            f"give exactly one of RUN, --model FILE.onnx and --embeddings FILE.npz, got {len(given) or 'none'}."
        )
    if run is not None:
        from equipoise.app.run_folder import finished_record

        finished_record(run)
    elif not given[0].expanduser().is_file():
        flag = "model" if options.model else "embeddings"
        raise InvalidInputError(f"no such file: {str(given[0])!r}; check --{flag}.")
    return given[0]


def _check_paths(options: VerifyOptions) -> None:
    """Refuse what is not there before anything takes time; the list of pairs may be one that is to be made."""
    if options.protocol != "folder" and not options.pairs.expanduser().is_file():
        raise InvalidInputError(
            f"{options.pairs} cannot be read: no such file; check --pairs, or pass --protocol folder to make it."
        )
    if options.images is not None and not options.images.expanduser().exists():
        raise InvalidInputError(f"no such folder or archive: {str(options.images)!r}; check --images.")


def _print(found: "Verification") -> None:
    from equipoise.paper.faces.verification_scores import FALSE_ACCEPTS

    console = Console()
    different = found.pairs - found.same
    console.print(f"{found.pairs:,} pairs, {found.same:,} of one person and {different:,} of two", highlight=False)
    table = new_table("fold", "pairs", "threshold", "accuracy", left=())
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
