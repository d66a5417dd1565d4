"""One readable loop on Accelerate, the curriculum, and crash-safe checkpoints."""

from equipoise.training.batches import ArrayData
from equipoise.training.curriculum import Curriculum
from equipoise.training.epoch_order import EpochBatches
from equipoise.training.loop import NonFiniteLossError, train
from equipoise.training.network_recipe import Network, Recipe, feature_length
from equipoise.training.resumable_run import Stopped
from equipoise.training.settings import Settings
from equipoise.training.watchers import Bar

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
