"""From a network's logits to calibrated probabilities at any class prior, and to prediction sets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.calibration.class_prior import class_shares
from equipoise.calibration.conformal import ClassThresholds
from equipoise.calibration.scaling import SMALLEST_SHARE, Scaling, fit_scaling
from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError
from equipoise.losses import ClassVectorLoss


@dataclass(frozen=True)
class Calibrated:
    """Calibration of a network: turns logits, (rows, classes) or (rows, attributes, 2), into probabilities.

    Args:
        prior: class prior of the training samples, (classes,) or (attributes, 2), and of the probabilities.
        aimed: class prior that the logits aim at, of the same shape.
        scaling: fitted on held-out samples; leaves the logits unchanged if there were none.
        thresholds: for prediction sets, from samples that no epoch has seen; None if there were none.
    """

    prior: Tensor
    aimed: Tensor
    scaling: Scaling
    thresholds: ClassThresholds | None = None

    @classmethod
    def of_loss(cls, loss: ClassVectorLoss, counts: Tensor, scaling: Scaling | None = None) -> "Calibrated":
        """Build a calibration from the prior that a trained loss aims at.

        Args:
            loss: declares the class prior that its logits aim at.
            counts: training samples of each class, (classes,) or (attributes, 2), of any scale.
            scaling: None leaves the logits unchanged.
        """
        prior = counts.double().cpu() / counts.double().cpu().sum(-1, keepdim=True)
        aimed = loss.aimed_prior(prior.clamp_min(SMALLEST_SHARE)).clamp_min(SMALLEST_SHARE)
        return cls(prior, aimed, scaling or Scaling.identity(tuple(prior.shape)))

    @classmethod
    def of_plain_softmax(cls, prior: Tensor) -> "Calibrated":
        """Build a calibration for logits at the training samples' class prior, like those of the softmax stage."""
        return cls(prior, prior.clamp_min(SMALLEST_SHARE), Scaling.identity(tuple(prior.shape)))

    def fit_on(
        self, logits: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, unseen: bool = True
    ) -> "Calibrated":
        """Return a calibration fitted on held-out samples, whatever their class prior.

        Args:
            logits: (rows, classes), or (rows, attributes, 2).
            target: class indices, (rows,), or 0 and 1, (rows, attributes).
            sample_weight: number of samples that a row counts as in the scaling, (rows,); sets ignore it.
            unseen: whether the model was chosen without these samples, which sets require.
        """
        counts = class_counts(target, logits.shape[-1], sample_weight).double()
        odds = counts / counts.sum(-1, keepdim=True) / self.aimed
        scaled = replace(self, scaling=fit_scaling(logits, target, odds, sample_weight=sample_weight))
        return scaled.with_thresholds(logits, target) if unseen else scaled

    def with_thresholds(self, logits: Tensor, target: Tensor) -> "Calibrated":
        """Return the same calibration with prediction sets from samples that no epoch has seen."""
        return replace(self, thresholds=ClassThresholds.fit(self._unscaled(logits), target.numpy()))

    def probabilities(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """Return probabilities shaped like the logits, at the training samples' class prior or at another."""
        return self.scaling(logits.double(), self.odds(target_prior)).softmax(-1)

    def decision(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """Return logits of the same shape whose softmax gives the probabilities that decide the class.

        Args:
            logits: (rows, classes), or (rows, attributes, 2).
            target_prior: the class prior where the model is used; None takes the prior that the loss aims at, which is
                balanced for the default method.
        """
        odds = torch.ones_like(self.aimed) if target_prior is None else self.odds(target_prior)
        return self.scaling(logits.double(), odds)

    def decided(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """Return the index of the most probable class, (rows,), or 0 and 1, (rows, attributes), by :meth:`decision`."""
        return self.decision(logits, target_prior).argmax(-1)

    def balanced(self) -> NDArray[np.float64]:
        """Return the balanced class prior, (classes,) or (attributes, 2)."""
        return np.full(tuple(self.prior.shape), 1 / self.prior.shape[-1])

    def odds(self, target_prior: ArrayLike | None = None) -> Tensor:
        """Return the ratio of the wanted class prior to the one that the logits aim at."""
        wanted = self.prior if target_prior is None else torch.from_numpy(self.checked(target_prior))
        return wanted.double() / self.aimed.double()

    def checked(self, target_prior: ArrayLike) -> NDArray[np.float64]:
        """Return a class prior as shares; with attributes, the share of each attribute's ones is enough."""
        wanted, shape = np.asarray(target_prior, dtype=np.float64), tuple(self.prior.shape)
        if len(shape) == 2 and wanted.shape == shape[:1]:
            wanted = np.stack((1 - wanted, wanted), axis=-1)
        return class_shares(wanted, shape)

    def sets(
        self,
        logits: Tensor,
        level: float,
        target_prior: ArrayLike | None = None,
        *,
        predicted: NDArray[np.int64] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which classes cannot be ruled out, shaped like the logits.

        Each sample's set contains its own class with at least the probability ``level``, whatever the class, and always
        the predicted class. Needs samples that no epoch has seen; see :class:`ClassThresholds`.

        Args:
            logits: (rows, classes), or (rows, attributes, 2).
            level: coverage of each class, above 0 and below 1.
            target_prior: class prior of the decision, as in :meth:`decided`.
            predicted: predicted class indices, (rows,), or 0 and 1, (rows, attributes), if another rule decides; None
                takes those of :meth:`decided`.
        """
        if self.thresholds is None:
            raise InvalidInputError(
                "prediction sets need samples that no epoch has seen; fit with calibration='validation', "
                "or call calibrate(X, y) with labelled samples that were not trained on."
            )
        predicted = self.decided(logits, target_prior).numpy() if predicted is None else predicted
        return self.thresholds.sets(self._unscaled(logits), level, predicted=predicted)

    def _unscaled(self, logits: Tensor) -> NDArray[np.float64]:
        """Return probabilities at a balanced prior without the scaling, which was fitted on the thresholds' samples."""
        return np.asarray((logits.double() + (1 / self.aimed.double()).log()).softmax(-1).numpy())

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to store in a file."""
        kept = {"prior": self.prior, "aimed": self.aimed, "scale": self.scaling.scale, "bias": self.scaling.bias}
        arrays = {} if self.thresholds is None else self.thresholds.arrays()
        return kept | {name: torch.from_numpy(values) for name, values in arrays.items()}

    @classmethod
    def from_tensors(cls, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> "Calibrated":
        """Restore a calibration from :meth:`tensors`, which may come from an untrusted file."""
        for name in ("prior", "aimed", "scale", "bias"):
            found = tensors.get(name)
            if found is None or tuple(found.shape) != shape or not bool(found.isfinite().all()):
                raise InvalidInputError(f"a tensor {name!r} of finite numbers, {shape}, was expected; save it again.")
        prior, aimed = tensors["prior"].double(), tensors["aimed"].double()
        for name, holds in (("prior", (prior >= 0).all() & (prior.sum(-1) > 0).all()), ("aimed", (aimed > 0).all())):
            if not bool(holds):
                raise InvalidInputError(f"the tensor {name!r} is not a class prior; save the model again.")
        arrays = {name: tensor.numpy() for name, tensor in tensors.items() if name.startswith("conformal")}
        thresholds = ClassThresholds.of_arrays(arrays) if arrays else None
        if thresholds is not None and thresholds.counts.shape != shape:
            raise InvalidInputError(f"conformal scores of {shape} classes were expected; save the model again.")
        return cls(prior, aimed, Scaling(tensors["scale"].double(), tensors["bias"].double()), thresholds)
