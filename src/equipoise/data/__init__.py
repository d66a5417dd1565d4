"""Where samples come from: arrays, tables, image folders, the paper's sets, and protocols of imbalance."""

from equipoise.data.samples import Samples
from equipoise.data.sources import open_data

__all__ = ["Samples", "open_data"]
