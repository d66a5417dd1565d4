"""A fitted network, and what it answers for rows that have been checked already."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.data.images import Images
from equipoise.errors import InvalidInputError
from equipoise.evaluation.calibrated import Calibrated
from equipoise.evaluation.conformal import unanswered
from equipoise.tensors import new_tensor
from equipoise.training import Network
from equipoise.training.defaults import rows_at_once
from equipoise.uncertainty import mc_dropout

Rows = NDArray[Any] | Images


@dataclass(frozen=True)
class Fitted:
    """What :class:`UncertaintyBalancedClassifier` answers with.

    Args:
        network: trained, in evaluation mode.
        classes: labels by their place; for several labels the places themselves.
        calibrated: from logits to probabilities and sets.
        seed: of stochastic passes.
    """

    network: Network
    classes: NDArray[Any]
    calibrated: Calibrated
    seed: int

    @property
    def multilabel(self) -> bool:
        return bool(self.network.head.multilabel)

    def logits(self, x: Rows) -> Tensor:
        """(rows, classes), or (rows, attributes, 2)."""
        return self._each_batch(x, self.network)

    def probabilities(self, x: Rows, target_prior: ArrayLike | None = None, *, passes: int = 0) -> NDArray[np.float64]:
        """Calibrated, shaped as the logits: of one deterministic pass, or the mean of stochastic ones."""

        def answer(part: Tensor) -> Tensor:
            if not passes:
                return self.calibrated.probabilities(self.network(part), target_prior)
            return self.calibrated.probabilities(self._drawn(part, passes), target_prior).mean(0)

        found: NDArray[np.float64] = self._each_batch(x, answer, passes=passes).numpy()
        return found

    def predict(self, logits: Tensor, target_prior: ArrayLike | None) -> NDArray[Any]:
        """The label with the largest logit, or the most probable one at a class mix; for several labels 0 and 1."""
        aimed = logits if target_prior is None else self.calibrated.probabilities(logits, target_prior)
        return self._labels(aimed.argmax(-1).numpy())

    def predict_or_abstain(self, logits: Tensor, target_prior: ArrayLike | None, abstain: float) -> Any:
        """The only label that remains possible, masked where there is not exactly one."""
        if not 0 < abstain < 1:
            raise InvalidInputError(
                f"abstain is the share of each class that may be missed, from 0 to 1, got {abstain}."
            )
        possible = self.calibrated.sets(logits, 1 - abstain)
        self._tell_of_never_ruled_out(abstain)
        certain = ~unanswered(possible)
        told = np.where(certain, self._labels(possible.argmax(-1)), self.predict(logits, target_prior))
        return np.ma.masked_array(told, mask=~certain)

    def spread(self, x: Rows, *, passes: int, total: bool) -> NDArray[np.float64]:
        """The variance of the predicted label, Σ_c p_c(1 − p_c), or its part by which the passes differ: (rows,)."""

        def traces(part: Tensor) -> Tensor:
            drawn = self._drawn(part, passes).softmax(-1).double()
            mean = drawn.mean(0)
            found = mean * (1 - mean) if total else drawn.var(0, correction=0)
            return found.flatten(1).sum(-1)

        found: NDArray[np.float64] = self._each_batch(x, traces, passes=passes).numpy()
        return found

    def _labels(self, places: NDArray[Any]) -> NDArray[Any]:
        return places if self.multilabel else self.classes[places]

    def _drawn(self, x: Tensor, passes: int) -> Tensor:
        """Logits of stochastic passes, (passes, batch, ...), the same for the same rows."""
        return mc_dropout(self.network, x, passes, torch.Generator().manual_seed(self.seed))

    def _each_batch(self, x: Rows, answer: Callable[[Tensor], Tensor], *, passes: int = 1) -> Tensor:
        step = rows_at_once(x[0].size + passes * self.calibrated.prior.numel())
        parts = (new_tensor(x[start : start + step]) for start in range(0, len(x), step))
        with torch.no_grad():
            return torch.cat([answer(part) for part in parts])

    def _tell_of_never_ruled_out(self, abstain: float) -> None:
        """A class that is possible everywhere leaves every row open, which must not come as a surprise."""
        thresholds = self.calibrated.thresholds
        assert thresholds is not None
        never = np.argwhere(np.isinf(thresholds.thresholds(1 - abstain)))
        if len(never) == 0:
            return
        few = ", ".join(str(self.classes[place[0]]) for place in never[:5]) + (", …" if len(never) > 5 else "")
        fewest = min(int(thresholds.counts[tuple(place)]) for place in never)
        warnings.warn(
            f"too few calibration samples ({fewest} of the rarest) "
            f"to ever rule out {few} at abstain={abstain:g}, so that rows stay open; calibrate on more, or allow more "
            "mistakes.",
            stacklevel=4,
        )
