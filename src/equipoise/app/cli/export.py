"""``equipoise export``."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.app.cli.flags import AsJson, Force, Quiet, RunFolder
from equipoise.app.cli.printing import ConsoleWatcher, print_json


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, such as model.onnx.")],
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a run as an ONNX file.

    The graph returns calibrated probabilities, the uncertainty and the predicted class. It is checked against Python,
    and its metadata describe the preprocessing.

    \b
    Example:
        equipoise export runs/patients patients.onnx
    """
    from equipoise.app.output_files import check_free
    from equipoise.app.run_folder import finished_record

    finished_record(run)
    check_free(out, force)
    from equipoise.app.runs.export import export_run  # torch
    from equipoise.app.runs.trained_run import RunModel

    model = RunModel.load(run)
    difference = export_run(model, out, force=force)
    if as_json:
        print_json({"run": str(run), "out": str(out), "difference": difference})
    ConsoleWatcher(quiet=quiet).note(f"{out} is written; onnxruntime and Python differ by {difference:.1g} at most.")
