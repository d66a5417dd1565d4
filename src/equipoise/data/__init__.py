"""Sources of samples: arrays, tables, image folders, the paper's data sets, and imbalance protocols."""

from equipoise.data.samples import Samples
from equipoise.data.sources import open_data

__all__ = ["Samples", "open_data"]
