"""Backbones, x -> features, in plain torch. Each has its feature length as ``out_features``."""

from equipoise.models.augment import Augment
from equipoise.models.backbones import BACKBONES, build_backbone
from equipoise.models.efficientnet_lite import EfficientNetLite
from equipoise.models.feature_extraction import extract_features
from equipoise.models.image_network import ImageBackbone, ImageInput, image_backbone
from equipoise.models.layers import Dropout, Standardize
from equipoise.models.lenet import LeNet
from equipoise.models.mlp import MLP
from equipoise.models.picture_features import PictureFeatures
from equipoise.models.pretrained_weights import load_weights
from equipoise.models.resnet import ResNet, SmallResNet, resnet18, resnet32, resnet50, se_resnet50
from equipoise.models.vgg import VGG16

__all__ = [
    "BACKBONES",
    "MLP",
    "VGG16",
    "Augment",
    "Dropout",
    "EfficientNetLite",
    "ImageBackbone",
    "ImageInput",
    "LeNet",
    "PictureFeatures",
    "ResNet",
    "SmallResNet",
    "Standardize",
    "build_backbone",
    "extract_features",
    "image_backbone",
    "load_weights",
    "resnet18",
    "resnet32",
    "resnet50",
    "se_resnet50",
]
