"""A run: from a user's data to a folder with a trained model and everything needed to repeat it."""

from equipoise.runs.division import GivenSamples
from equipoise.runs.folder import new_folder
from equipoise.runs.model import RunModel
from equipoise.runs.options import TrainOptions
from equipoise.runs.train import RunResult, train_run

__all__ = ["GivenSamples", "RunModel", "RunResult", "TrainOptions", "new_folder", "train_run"]
