"""The paper's data sets and their stand-ins, each read from its official files on disk."""

from equipoise.paper.sets.dataset import DataSet
from equipoise.paper.sets.registry import DATASETS, find_set, load_set, locate_set

__all__ = ["DATASETS", "DataSet", "find_set", "load_set", "locate_set"]
