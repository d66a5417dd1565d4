"""Margins added to a cosine or an angle of unit features: AM-Softmax, ArcFace, LDAM with deferred re-weighting."""

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses.class_vector_loss import ClassVectorLoss, Reduction, Shard
from equipoise.losses.class_weights import ClassWeight, effective_number_weights, needed_counts, positive_counts
from equipoise.losses.psi import shifted_cosine
from equipoise.losses.softmax_loss import gather_classes, softmax_loss
from equipoise.options import check_choice

CosineMargin = Literal["am_softmax", "arcface", "ldam"]
PAPERS_MARGIN: dict[CosineMargin, float] = {"am_softmax": 0.35, "arcface": 0.5, "ldam": 0.5}


def am_softmax_cosine(cosine: Tensor, margins: Tensor) -> Tensor:
    """Return cos α − m (AM-Softmax, Wang et al. 2018)."""
    return cosine - margins


def arcface_cosine(cosine: Tensor, margins: Tensor) -> Tensor:
    """Return cos(α + m) (ArcFace, Deng et al. 2019), continued beyond π so that it keeps decreasing."""
    return shifted_cosine(cosine, margins)


def ldam_margins(class_counts: Tensor, largest: float = 0.5) -> Tensor:
    r"""Return LDAM's margins, ``largest`` for the rarest class (Cao et al. 2019).

    .. math:: \Delta_c \propto n_c^{-1/4}

    Args:
        class_counts: training samples per class, (classes,).
        largest: margin of the rarest class, a cosine.

    >>> ldam_margins(torch.tensor([160.0, 10.0]))
    tensor([0.2500, 0.5000])
    """
    margins = positive_counts(class_counts).pow(-0.25)
    return margins * (largest / margins.max())


def feature_scale(classes: int, probability: float = 0.999) -> float:
    r"""Return a scale for unit features: twice that which gives ``probability`` at cosine 1, with rivals at cosine 0.

    .. math:: s = 2 \log \frac{(C - 1) \, P}{1 - P}, \qquad \frac{e^{s/2}}{e^{s/2} + C - 1} = P

    The other half leaves room for the margin.

    Args:
        classes: C.
        probability: P, below 1.

    >>> round(feature_scale(10), 1), round(feature_scale(8631), 1)
    (18.2, 31.9)
    """
    return 2 * math.log(max(classes - 1, 1) * probability / (1 - probability))


class CosineMarginLoss(ClassVectorLoss):
    r"""s·cos α for every class, with a margin on the true class's cosine (AM-Softmax, LDAM) or angle (ArcFace).

    .. math:: \hat z_j = s \cos \alpha_j, \qquad
              \hat z_y = s \, (\cos \alpha_y - m_y) \quad\text{or}\quad \hat z_y = s \cos(\alpha_y + m_y)

    The buffer ``margins`` holds one margin per class. For margins from uncertainty, assign
    ``margins_from_uncertainty(u, m_min=0.0, m_max=...)`` to it. ``strength``, (), scales all margins; it starts at 1
    and is not part of the ``state_dict``.

    Args:
        in_features, classes: D, the length of a feature vector, and C.
        kind: ``"am_softmax"``, ``"arcface"`` or ``"ldam"``, whose margins follow from ``class_counts``.
        margin: margin of every class or, for LDAM, of the rarest; None takes the original papers': 0.35, 0.5, 0.5.
        scale: s, the length of the features; None sets it from the number of classes by :func:`feature_scale`.
        defer: share of the epochs after which samples are weighted by their class's effective number; None: never.
            The training loop reports the progress through :meth:`set_progress`.
        dropout: share of the unit features dropped in stochastic passes, for the uncertainty. Training drops none:
            dropout before or after the normalisation costs these heads accuracy.
        multilabel, members, class_counts, class_weight, reduction: as in :class:`ClassVectorLoss`.

    >>> loss = CosineMarginLoss(2, 2, kind="ldam", scale=10.0, defer=0.8, class_counts=torch.tensor([160.0, 10.0]))
    >>> loss.weight.data = torch.eye(2)
    >>> loss.margins, loss.logits(torch.tensor([[5.0, 0.0]])).detach()
    (tensor([0.2500, 0.5000]), tensor([[10.,  0.]]))
    >>> loss.with_margin(torch.tensor([10.0]), torch.tensor([0]))  # the true class's logit: 10 · (1 - 0.25)
    tensor([7.5000])
    >>> loss.class_weight  # before four fifths of the epochs are over
    tensor([1., 1.])
    >>> loss.set_progress(0.8)
    >>> loss.class_weight
    tensor([0.1185, 1.8815])
    """

    margins: Tensor
    strength: Tensor

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        kind: CosineMargin = "am_softmax",
        margin: float | None = None,
        scale: float | None = None,
        defer: float | None = None,
        multilabel: bool = False,
        dropout: float = 0.0,
        members: int = 1,
        class_counts: Tensor | None = None,
        class_weight: ClassWeight = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            in_features,
            classes,
            multilabel=multilabel,
            normalize=True,
            bias=False,
            dropout=dropout,
            members=members,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        check_choice("kind", kind, get_args(CosineMargin))
        if scale is not None and not (scale > 0 and math.isfinite(scale)):
            raise InvalidInputError(f"scale must be positive, got {scale}; None sets it from the number of classes.")
        if defer is not None and not 0 <= defer <= 1:
            raise InvalidInputError(f"defer must be a share of the epochs from 0 to 1, got {defer}; None never defers.")
        self.kind, self.defer = kind, defer
        self.scale = feature_scale(self.class_shape[-1]) if scale is None else scale
        if defer is not None:  # weights that will change are a buffer from the start, so that checkpoints include them
            self._weight_before = self.class_weight
            self.register_buffer("class_weight", torch.ones(self.class_shape))
            self.set_progress(0.0)
        self._margin = most = PAPERS_MARGIN[kind] if margin is None else margin
        equal = torch.full(self.class_shape, most)
        self.register_buffer("strength", torch.ones(()), persistent=False)
        self.register_buffer("margins", torch.zeros(self.class_shape))
        self.margins = ldam_margins(needed_counts(self.class_counts, "ldam"), most) if kind == "ldam" else equal

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "margins" and name in self._buffers:
            value = self._class_values(value, "margins").to(self.weight.device)
            if bool((value > math.pi).any()):
                raise InvalidInputError(f"margins must lie in [0, π], got {float(value.max()):g}.")
        super().__setattr__(name, value)

    def set_progress(self, share: float) -> None:
        """Weigh classes by their effective number of samples once the ``share`` of the epochs reaches ``defer``."""
        if self.defer is None:
            return
        counts = needed_counts(self.class_counts, f"defer={self.defer}")
        weights = effective_number_weights(counts) if share >= self.defer else torch.ones_like(counts)
        self.class_weight = weights if self._weight_before is None else weights * self._weight_before.to(weights)

    @property
    def margin_range(self) -> tuple[float, float]:
        return 0.0, self._margin

    @property
    def own_strength(self) -> float:
        return 1.0

    @property
    def divisible(self) -> bool:
        return True

    def clear_margins(self) -> None:
        self.strength = torch.zeros_like(self.strength)

    def set_strength(self, strength: float, *, sample_strength: float) -> None:  # noqa: ARG002
        self.strength = torch.full_like(self.strength, strength)

    def met_features(self, features: Tensor) -> Tensor:
        return self.scale * self.training_features(features)  # dropout follows the normalisation

    def training_features(self, features: Tensor) -> Tensor:
        return F.normalize(features.unflatten(-1, (self.members, -1)), dim=-1).flatten(-2)  # each member's of length 1

    def dropped(self, features: Tensor) -> Tensor:
        return super().dropped(self.training_features(features))

    def project(self, features: Tensor) -> Tensor:
        return self.scale * super().project(features)  # s·cos α_j, for features of unit length

    def member_logits(self, features: Tensor) -> Tensor:
        found = super().member_logits(features)
        return found if self.members == 1 else self.scale * found

    def sample_losses(self, features: Tensor, target: Tensor) -> Tensor:
        logits = self.member_logits(self.training_features(features))
        target = self.by_member(target)
        own = target.unsqueeze(-1)
        moved = self.with_margin(logits.gather(-1, own).squeeze(-1), target)
        return self.over_members(softmax_loss(logits.scatter(-1, own, moved.unsqueeze(-1)), target))

    def shard_logits(self, features: Tensor, undropped: Tensor, shard: Shard) -> Tensor:
        logits, true = super().shard_logits(features, undropped, shard), (shard.here, shard.place)
        return logits.index_put(true, self.with_margin(logits[true], shard.place))

    def with_margin(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the true classes' logits s·cos α_y with their margins; logits and target have the same shape."""
        margins = gather_classes((self.strength * self.margins).to(logits.dtype), target)
        move = arcface_cosine if self.kind == "arcface" else am_softmax_cosine
        return self.scale * move(logits / self.scale, margins)
