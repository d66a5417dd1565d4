"""From a network's logits to probabilities one can act on, at any class mix, and to sets of classes."""

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
    """What turns logits, (rows, classes) or (rows, attributes, 2), into probabilities.

    Args:
        prior: the training samples' class mix, (classes,) or (attributes, 2), at which probabilities are given.
        aimed: the class mix which the logits are aimed at, likewise.
        scaling: fitted to samples that were not trained on; leaves logits as they are where there were none.
        thresholds: of samples that no epoch has seen; None where there were none.
    """

    prior: Tensor
    aimed: Tensor
    scaling: Scaling
    thresholds: ClassThresholds | None = None

    @classmethod
    def of_loss(cls, loss: ClassVectorLoss, counts: Tensor, scaling: Scaling | None = None) -> "Calibrated":
        """For the logits of a trained loss.

        Args:
            loss: which says what prior its logits are aimed at.
            counts: training samples of each class, (classes,) or (attributes, 2), of any scale.
            scaling: None leaves logits as they are.
        """
        prior = counts.double().cpu() / counts.double().cpu().sum(-1, keepdim=True)
        aimed = loss.aimed_prior(prior.clamp_min(SMALLEST_SHARE)).clamp_min(SMALLEST_SHARE)
        return cls(prior, aimed, scaling or Scaling.none(tuple(prior.shape)))

    @classmethod
    def of_plain_softmax(cls, prior: Tensor) -> "Calibrated":
        """For logits that keep the training samples' class mix, as the softmax stage's do."""
        return cls(prior, prior.clamp_min(SMALLEST_SHARE), Scaling.none(tuple(prior.shape)))

    def fitted(
        self, logits: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, unseen: bool = True
    ) -> "Calibrated":
        """The same, calibrated on samples that were not trained on, whatever their class mix.

        Args:
            sample_weight: (rows,), how many samples each counts as in the scaling; sets count rows, weighed or not.
            unseen: whether nothing of the model was chosen by these samples; sets need that.
        """
        mix = class_counts(target, logits.shape[-1], sample_weight).double()
        odds = mix / mix.sum(-1, keepdim=True) / self.aimed
        scaling = fit_scaling(logits, target, odds, sample_weight=sample_weight)
        if not unseen:
            return replace(self, scaling=scaling)
        return replace(self, scaling=scaling).with_thresholds(logits, target)

    def with_thresholds(self, logits: Tensor, target: Tensor) -> "Calibrated":
        """The same probabilities, and sets of classes from samples that no epoch has seen."""
        return replace(self, thresholds=ClassThresholds.fit(self._balanced(logits), target.numpy()))

    def probabilities(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """At the training samples' class mix, or at another: (rows, classes) or (rows, attributes, 2)."""
        odds = self.odds(target_prior)
        return self.scaling(logits.double(), odds).softmax(-1)

    def decision(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """Logits, shaped alike, whose softmax are the probabilities by which a class is decided.

        Args:
            target_prior: the class mix where the model is used; None is the one which the loss aims at, all classes
                equally common for the default method.
        """
        odds = torch.ones_like(self.aimed) if target_prior is None else self.odds(target_prior)
        return self.scaling(logits.double(), odds)

    def decided(self, logits: Tensor, target_prior: ArrayLike | None = None) -> Tensor:
        """The most probable class's place, (rows,), or 0 and 1, (rows, attributes), by :meth:`decision`."""
        return self.decision(logits, target_prior).argmax(-1)

    def balanced(self) -> NDArray[np.float64]:
        """The class mix of equally common classes, (classes,) or (attributes, 2)."""
        shape = tuple(self.prior.shape)
        return np.full(shape, 1 / shape[-1])

    def odds(self, target_prior: ArrayLike | None = None) -> Tensor:
        """The wanted class mix over the one which the logits are aimed at."""
        wanted = self.prior if target_prior is None else torch.from_numpy(self.checked(target_prior))
        return wanted.double() / self.aimed.double()

    def checked(self, target_prior: ArrayLike) -> NDArray[np.float64]:
        """A class mix in the order of the classes; for several labels the share of each attribute's ones is enough."""
        wanted = np.asarray(target_prior, dtype=np.float64)
        if self.prior.ndim == 2 and wanted.shape == tuple(self.prior.shape[:1]):
            wanted = np.stack((1 - wanted, wanted), axis=-1)
        return class_shares(wanted, tuple(self.prior.shape))

    def sets(self, logits: Tensor, level: float, target_prior: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Which classes cannot be ruled out: each sample's own is among them with at least this probability, whatever
        its class, and so is the class that is decided on. Needs samples that no epoch has seen; see
        :class:`ClassThresholds`.

        Args:
            target_prior: of the decision, as in :meth:`decided`.
        """
        if self.thresholds is None:
            raise InvalidInputError(
                "classes can be ruled out only by samples that no epoch has seen; fit with calibration='validation', "
                "or call calibrate(X, y) with labelled samples that were not trained on."
            )
        named = self.decided(logits, target_prior).numpy()
        return self.thresholds.sets(self._balanced(logits), level, named=named)

    def _balanced(self, logits: Tensor) -> NDArray[np.float64]:
        """At a balanced mix and without the scaling, which has seen the samples that thresholds are taken from."""
        odds = 1 / self.aimed.double()
        found: NDArray[np.float64] = Scaling.none(tuple(odds.shape))(logits.double(), odds).softmax(-1).numpy()
        return found

    def tensors(self) -> dict[str, Tensor]:
        """What to keep in a file."""
        kept = {"prior": self.prior, "aimed": self.aimed, "scale": self.scaling.scale, "bias": self.scaling.bias}
        arrays = {} if self.thresholds is None else self.thresholds.arrays()
        return kept | {name: torch.from_numpy(values) for name, values in arrays.items()}

    @classmethod
    def from_tensors(cls, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> "Calibrated":
        """The inverse of :meth:`tensors`, which may come from anywhere."""
        for name in ("prior", "aimed", "scale", "bias"):
            found = tensors.get(name)
            if found is None or tuple(found.shape) != shape or not bool(found.isfinite().all()):
                raise InvalidInputError(f"a tensor {name!r} of finite numbers, {shape}, was expected; save it again.")
        if not bool((tensors["prior"] >= 0).all()) or not bool((tensors["prior"].sum(-1) > 0).all()):
            raise InvalidInputError("the tensor 'prior' holds no class mix; save the model again.")
        if not bool((tensors["aimed"] > 0).all()):
            raise InvalidInputError("the tensor 'aimed' holds no class mix; save the model again.")
        scaling = Scaling(tensors["scale"].double(), tensors["bias"].double())
        kept = cls(tensors["prior"].double(), tensors["aimed"].double(), scaling)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items() if name.startswith("conformal")}
        if not arrays:
            return kept
        thresholds = ClassThresholds.of_arrays(arrays)
        if thresholds.counts.shape != shape:
            raise InvalidInputError(f"conformal scores of {shape} classes were expected; save the model again.")
        return replace(kept, thresholds=thresholds)
