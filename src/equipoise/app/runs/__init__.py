"""A run: from a user's data to a folder with a trained model and everything needed to repeat it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.app.run_folder import new_folder
    from equipoise.app.runs.choose_split import GivenSamples
    from equipoise.app.runs.run_options import RunOptions
    from equipoise.app.runs.train import RunResult, train_run
    from equipoise.app.runs.trained_run import RunModel

__all__ = ["GivenSamples", "RunModel", "RunOptions", "RunResult", "new_folder", "train_run"]

HOMES = {
    "GivenSamples": "runs.choose_split",
    "RunModel": "runs.trained_run",
    "RunResult": "runs.train",
    "RunOptions": "runs.run_options",
    "new_folder": "run_folder",
    "train_run": "runs.train",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that options and folders are checked before torch is imported."""
    if name not in HOMES:
        raise AttributeError(f"module 'equipoise.app.runs' has no attribute {name!r}")
    return getattr(import_module(f"equipoise.app.{HOMES[name]}"), name)
