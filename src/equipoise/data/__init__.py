"""Where samples come from: arrays, tables, image folders, the paper's sets, and protocols of imbalance."""

from equipoise.data.open import open_data
from equipoise.data.samples import Samples

__all__ = ["Samples", "open_data"]
