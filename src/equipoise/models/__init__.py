"""Backbones, x -> features, in plain torch. Each tells its feature length as ``out_features``."""

from equipoise.models.mlp import MLP
from equipoise.models.resnet import ResNet, resnet18, resnet50
from equipoise.models.standardize import Standardize

__all__ = ["MLP", "ResNet", "Standardize", "resnet18", "resnet50"]
