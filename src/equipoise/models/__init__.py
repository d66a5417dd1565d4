"""Backbones, x -> features, in plain torch. Each tells its feature length as ``out_features``."""

from equipoise.models.dropout import Dropout
from equipoise.models.mlp import MLP
from equipoise.models.resnet import ResNet, resnet18, resnet50
from equipoise.models.standardize import Standardize

__all__ = ["MLP", "Dropout", "ResNet", "Standardize", "resnet18", "resnet50"]
