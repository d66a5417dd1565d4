"""``equipoise export``."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import Quiet, RunFolder
from equipoise.cli.printing import ConsoleWatcher


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, such as model.onnx.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a run as an ONNX file.

    It gives probabilities and uncertainty, was checked against torch, and describes its preprocessing.

    \b
    Example:
        equipoise export runs/patients patients.onnx
    """
    from equipoise.runs import RunModel
    from equipoise.runs.export import export_run

    model = RunModel.load(run)
    difference = export_run(model, out, force=force)
    ConsoleWatcher(quiet=quiet).note(f"{out} is written; onnxruntime and torch differ by {difference:.1g} at most.")
