"""A fitted network, and what it answers for rows that have been checked already."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.calibration.calibrated import Calibrated
from equipoise.calibration.conformal import unanswered
from equipoise.data.images import Images
from equipoise.decisions.prediction import PredictionModule
from equipoise.errors import InvalidInputError
from equipoise.tensors import check_finite, new_tensor
from equipoise.training import Network
from equipoise.training.settings import rows_at_once
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
        """The most probable label at a class mix, by default the one which the loss aims at; for several labels 0/1."""
        return self._labels(self.calibrated.decided(logits, target_prior).numpy())

    def predict_or_abstain(self, logits: Tensor, target_prior: ArrayLike | None, abstain: float) -> Any:
        """What :meth:`predict` names, masked where another label remains possible."""
        if not 0 < abstain < 1:
            raise InvalidInputError(
                f"abstain is the share of each class that may be missed, from 0 to 1, got {abstain}."
            )
        possible = self.calibrated.sets(logits, 1 - abstain, target_prior)
        self._tell_of_never_ruled_out(abstain)
        return np.ma.masked_array(self.predict(logits, target_prior), mask=unanswered(possible))

    def uncertainty(self, x: Rows, target_prior: ArrayLike | None) -> NDArray[np.float64]:
        """The variance of the decided label in closed form, see :mod:`equipoise.decisions.prediction`: (rows,)."""
        module = PredictionModule(self.network, self.calibrated, target_prior=target_prior)
        found: NDArray[np.float64] = self._each_batch(
            x, lambda part: module.logits_and_uncertainty(part)[1].double()
        ).numpy()
        return found

    def disagreement(self, x: Rows, target_prior: ArrayLike | None, *, passes: int) -> NDArray[np.float64]:
        """The trace of the covariance of the stochastic passes' decision probabilities: (rows,)."""

        def traces(part: Tensor) -> Tensor:
            drawn = self.calibrated.decision(self._drawn(part, passes), target_prior).softmax(-1)
            return drawn.var(0, correction=0).flatten(1).sum(-1)

        found: NDArray[np.float64] = self._each_batch(x, traces, passes=passes).numpy()
        return found

    def _labels(self, places: NDArray[Any]) -> NDArray[Any]:
        return places if self.multilabel else self.classes[places]

    def _drawn(self, x: Tensor, passes: int) -> Tensor:
        """Logits of stochastic passes, (passes, batch, ...), by the same sub-networks for all rows."""
        return mc_dropout(self.network, x, passes, torch.Generator().manual_seed(self.seed))

    def _each_batch(self, x: Rows, answer: Callable[[Tensor], Tensor], *, passes: int = 1) -> Tensor:
        step = rows_at_once(x[0].size + passes * self.calibrated.prior.numel())
        parts = (new_tensor(x[start : start + step]) for start in range(0, len(x), step))
        with torch.no_grad():
            found = torch.cat([answer(part) for part in parts])
        check_finite(found.isfinite().flatten(1).all(1).numpy() if found.ndim > 1 else found.isfinite().numpy())
        return found

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
