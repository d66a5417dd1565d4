"""Names of losses, networks and compared methods, known without torch: a misspelt one is refused at once."""

import sys
from collections.abc import Collection, Sequence

from equipoise.errors import InvalidInputError

LOSS_NAMES = (
    "cross_entropy",
    "weighted",
    "focal",
    "class_balanced",
    "ldam_drw",
    "balanced_softmax",
    "logit_adjustment",
    "vs",
    "am_softmax",
    "arcface",
    "l_softmax",
    "sphereface",
    "uncertainty_margin",
)
"""Those of ``equipoise.losses.LOSSES``."""

BACKBONE_NAMES = (
    "lenet",
    "vgg16",
    "vgg16_plain",
    "resnet18",
    "resnet50",
    "se_resnet50",
)
"""Those of ``equipoise.models.BACKBONES``."""

METHOD_NAMES = (
    "cross_entropy",
    "uncertainty_margin",
    "logit_adjustment",
    "balanced_softmax",
    "vs",
    "logit_adjustment_post_hoc",
    "ldam_drw",
    "weighted",
    "class_balanced",
    "focal",
    "random_over",
    "smote",
    "svm_linear",
    "random_under",
    "adasyn",
    "neighbourhood_cleaning",
    "svm_rbf",
    "cluster_centroids",
    "near_miss",
    "instance_hardness",
    "am_softmax",
    "arcface",
    "l_softmax",
    "sphereface",
    "am_softmax_uncertainty",
    "arcface_uncertainty",
    "l_softmax_uncertainty",
    "sphereface_uncertainty",
    "uncertainty_class_level",
    "uncertainty_uncorrected",
    "uncertainty_angular",
    "uncertainty_angular_complement",
    "uncertainty_angular_class_level",
    "paper_as_printed",
)
"""Those of ``equipoise.app.compare.METHODS``."""

TIMM = "timm:"
"""In front of the name of a network of timm's."""

PRECISIONS = ("no", "fp16", "bf16")
"""Those of ``equipoise.training.settings.Precision``."""


def loss_names() -> Collection[str]:
    """All losses; where ``LOSSES`` is loaded, also those that its user has added."""
    return _live("equipoise.losses", "LOSSES", LOSS_NAMES)


def backbone_names() -> Collection[str]:
    """All backbones, as :func:`loss_names`."""
    return _live("equipoise.models", "BACKBONES", BACKBONE_NAMES)


def method_names() -> Collection[str]:
    """All methods of a comparison, as :func:`loss_names`."""
    return _live("equipoise.app.compare", "METHODS", METHOD_NAMES)


def check_methods(methods: Sequence[str]) -> None:
    """Refuse names that no comparison knows, and an empty list of them."""
    unknown = [name for name in methods if name not in method_names()]
    if unknown or not methods:
        got = ", ".join(map(repr, unknown)) or "none"
        raise InvalidInputError(f"methods must be some of {', '.join(method_names())}, got {got}.")


def _live(module: str, table: str, names: tuple[str, ...]) -> Collection[str]:
    found: Collection[str] = getattr(sys.modules.get(module), table, names)
    return found
