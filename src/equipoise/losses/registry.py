"""``LOSSES``, where a new loss is one line."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from equipoise.losses import logit_losses
from equipoise.losses.added_margin import CosineMarginLoss
from equipoise.losses.class_vector_loss import ClassVectorLoss
from equipoise.losses.cosen import CoSenLoss
from equipoise.losses.logit_losses import LogitLoss
from equipoise.losses.multiplied_margin import l_softmax, sphereface
from equipoise.losses.uncertainty_margin import UncertaintyMarginLoss
from equipoise.options import check_choice

LossBuilder = Callable[..., ClassVectorLoss]
LOSSES: dict[str, LossBuilder] = {
    "cross_entropy": partial(LogitLoss, criterion=logit_losses.cross_entropy),
    "weighted": partial(LogitLoss, criterion=logit_losses.cross_entropy, class_weight="balanced"),
    "focal": partial(LogitLoss, criterion=logit_losses.focal),
    "class_balanced": partial(LogitLoss, criterion=logit_losses.cross_entropy, class_weight="effective"),
    "ldam_drw": partial(CosineMarginLoss, kind="ldam", scale=30.0, defer=0.8),
    "balanced_softmax": partial(LogitLoss, criterion=logit_losses.balanced_softmax),
    "logit_adjustment": partial(LogitLoss, criterion=logit_losses.logit_adjustment),
    "vs": partial(LogitLoss, criterion=logit_losses.vector_scaling),
    "cosen": CoSenLoss,
    "am_softmax": partial(CosineMarginLoss, kind="am_softmax"),
    "arcface": partial(CosineMarginLoss, kind="arcface"),
    "l_softmax": l_softmax,
    "sphereface": sphereface,
    "uncertainty_margin": UncertaintyMarginLoss,
}
"""All losses by name, with one signature: ``LOSSES[name](in_features, classes, class_counts=counts)``, then
``loss(features, target, sample_weight=None)`` and ``loss.logits(features)``."""


def loss_builder(method: str | LossBuilder) -> LossBuilder:
    """Return the builder of a loss by its name in ``LOSSES``; return a builder unchanged.

    >>> loss_builder("focal")(in_features=4, classes=3).class_vectors().shape
    torch.Size([3, 4])
    """
    if callable(method):
        return method
    check_choice("method", method, LOSSES)
    return LOSSES[method]


def fixed_options(builder: LossBuilder) -> Mapping[str, Any]:
    """Return the options that an entry of ``LOSSES`` sets itself.

    >>> dict(fixed_options(LOSSES["arcface"]))
    {'kind': 'arcface'}
    """
    fixed: Mapping[str, Any] = getattr(builder, "keywords", {})  # of a partial
    return fixed
