"""One readable loop on Accelerate, the curriculum, and checkpoints that survive anything."""

from equipoise.training.batches import ArrayData, EpochBatches
from equipoise.training.curriculum import Curriculum
from equipoise.training.loop import NonFiniteLossError, train
from equipoise.training.network import Network
from equipoise.training.prepare import Settings
from equipoise.training.progress import Bar
from equipoise.training.recipe import Recipe, feature_length
from equipoise.training.resume import Stopped

__all__ = [
    "ArrayData",
    "Bar",
    "Curriculum",
    "EpochBatches",
    "Network",
    "NonFiniteLossError",
    "Recipe",
    "Settings",
    "Stopped",
    "feature_length",
    "train",
]
