"""A run: from a user's data to a folder with a trained model and everything needed to repeat it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.runs.division import GivenSamples
    from equipoise.runs.folder import new_folder
    from equipoise.runs.model import RunModel
    from equipoise.runs.options import TrainOptions
    from equipoise.runs.train import RunResult, train_run

__all__ = ["GivenSamples", "RunModel", "RunResult", "TrainOptions", "new_folder", "train_run"]

HOMES = {
    "GivenSamples": "division",
    "RunModel": "model",
    "RunResult": "train",
    "TrainOptions": "options",
    "new_folder": "folder",
    "train_run": "train",
}


def __getattr__(name: str) -> Any:
    """A name on its first use: options and folders are checked before torch is imported."""
    if name not in HOMES:
        raise AttributeError(f"module 'equipoise.runs' has no attribute {name!r}")
    return getattr(import_module(f"equipoise.runs.{HOMES[name]}"), name)
