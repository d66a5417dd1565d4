r"""Scaling of logits to calibrate probabilities on held-out samples (temperature and vector scaling).

Logits :math:`z` that aim at a class prior :math:`a` (a balanced one with margins) become probabilities at the
class prior :math:`\pi` by

.. math:: p_c \propto \frac{\pi_c}{a_c} \exp(s_c z_c + b_c) .

The simplest method is s = 1 and b = 0: logits unchanged. Temperature scaling has one s for all classes and b = 0 (Guo
et al. 2017); further methods let b, and then s as well, differ by class (vector scaling). A more complex one is chosen
only if its log loss, on samples left out of its fit, is smaller by more than one standard error.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from equipoise.errors import InvalidInputError

FOLDS = 5
FEWEST_SAMPLES = 50
"""Fewest samples for any scaling: with fewer, a single number is off by a third or more."""
SAMPLES_PER_CLASS = 20
"""Samples per class, on average, from which on classes get their own parameters."""
NUMBERS, NUMBERS_OF_MANY = 2**22, 2**20
"""Most logits used: more samples hardly change a temperature. With many classes, fewer samples."""
MANY_CLASSES = 25
"""Most classes with their own scales: fitting those of 200 classes took as long as boosted trees."""
WIDEST = 5.0
"""Scales are searched from e^−5 to e^5: for perfectly separated samples the best one is infinite."""
SMALLEST_SHARE = 1e-12
"""Smallest share of a class among the samples that a scaling is fitted on."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """s and b for each class, (classes,) or (attributes, 2)."""

    scale: Tensor
    bias: Tensor

    def __call__(self, logits: Tensor, odds: Tensor) -> Tensor:
        """Return logits, (batch, classes) or (batch, attributes, 2), whose softmax gives the probabilities.

        Args:
            logits: z, of the same shape.
            odds: π/a, the ratio of the wanted class prior to the one that the logits aim at; of any scale.
        """
        shift = odds.to(logits.dtype).log()  # a class of prior 0 is ruled out
        return logits * self.scale.to(logits.dtype) + self.bias.to(logits.dtype) + shift

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> "Scaling":
        """Return a scaling that leaves logits unchanged."""
        return cls(torch.ones(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64))


class HeldOutLogits(NamedTuple):
    """The samples that a scaling is fitted to.

    Args:
        logits: z, (samples, classes) or (samples, attributes, 2).
        labels: y, (samples,) or (samples, attributes).
        weight: number of samples that each counts as, (samples,).
        shift: log of these samples' class prior over the one that the logits aim at, shaped like a sample.
        widest: logarithm of the largest scale allowed.
    """

    logits: Array
    labels: NDArray[Any]
    weight: Array
    shift: Array
    widest: float

    def take(self, rows: NDArray[Any]) -> "HeldOutLogits":
        """Return some of the samples."""
        return self._replace(logits=self.logits[rows], labels=self.labels[rows], weight=self.weight[rows])


def fit_scaling(
    logits: Tensor,
    target: Tensor,
    odds: Tensor,
    *,
    sharpen: bool = True,
    sample_weight: Tensor | None = None,
    method: str | None = None,
) -> Scaling:
    """Fit the scaling with the smallest log loss on held-out samples; the identity if none helps.

    Args:
        logits: (batch, classes), or (batch, attributes, 2), as used for predictions.
        target: (batch,), or (batch, attributes).
        odds: ratio of these samples' class prior to the one that the logits aim at, (classes,) or (attributes, 2).
        sharpen: whether scales above 1 are allowed; not before further training, which makes a network more confident.
        sample_weight: number of samples that each counts as, (batch,); None counts each once.
        method: one of ``SCALINGS`` to fit whether it helps or not; None chooses.
    """
    if len(logits) == 0 or logits.shape[:-1] != target.shape:
        raise InvalidInputError(
            f"a scaling needs as many logits as labels, at least one, got logits {tuple(logits.shape)} and labels "
            f"{tuple(target.shape)}."
        )
    classes = logits.shape[-1]
    numbers = NUMBERS_OF_MANY if classes > MANY_CLASSES else NUMBERS
    most = max(SAMPLES_PER_CLASS * classes, numbers // logits[0].numel())
    if len(logits) > most:  # evenly spaced: the samples are in no order
        some = torch.linspace(0, len(logits) - 1, most, dtype=torch.float64).long()
        logits, target = logits[some], target[some]
        sample_weight = None if sample_weight is None else sample_weight[some]
    if len(logits) < FEWEST_SAMPLES and method is None:
        return Scaling.identity(tuple(logits.shape[1:]))
    samples = HeldOutLogits(
        logits.detach().double().cpu().numpy(),
        target.cpu().numpy(),
        np.ones(len(logits)) if sample_weight is None else sample_weight.double().cpu().numpy(),
        # nothing can be learnt about a class without samples
        np.log(odds.double().cpu().clamp_min(SMALLEST_SHARE).numpy()),
        WIDEST if sharpen else 0.0,
    )
    return SCALINGS[method or _best_method(samples)].fit(samples)


def _best_method(samples: HeldOutLogits) -> str:
    """Choose a method by log loss on held-out folds; a later one must gain a standard error."""
    size, classes = len(samples.logits), samples.logits.shape[-1]
    fits = {
        name: method.fit
        for name, method in SCALINGS.items()
        if size >= method.samples_per_class * classes and classes <= method.most_classes
    }
    fold, w = _folds(samples.labels), samples.weight
    losses = {name: _left_out_losses(samples, fold, fit) for name, fit in fits.items()}
    best, *others = fits
    for name in others:
        gain = losses[best] - losses[name]
        if float(w @ gain / w.sum()) > _standard_error(gain, w):
            best = name
    return best


def _standard_error(values: Array, w: Array) -> float:
    """Return the standard error of a weighted mean of independent rows (which copies of a row would not be)."""
    squares = np.square(w * (values - w @ values / w.sum())).sum()
    return float(np.sqrt(squares * len(w) / (len(w) - 1)) / w.sum())


def _left_out_losses(samples: HeldOutLogits, fold: NDArray[Any], fit: Callable[[HeldOutLogits], Scaling]) -> Array:
    """Return each sample's log loss under a scaling fitted without it: (batch,)."""
    found = np.empty(len(fold))
    for number in range(FOLDS):
        out = fold == number
        fitted, left = fit(samples.take(~out)), samples.take(out)
        scaled = left.logits * fitted.scale.numpy() + fitted.bias.numpy() + samples.shift
        of_truth = np.take_along_axis(log_softmax(scaled, -1), left.labels[..., None], -1)
        found[out] = -of_truth.reshape(out.sum(), -1).mean(-1)
    return found


def _folds(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return a fold for each sample, stratified by class (of the first attribute)."""
    first = y if y.ndim == 1 else y[:, 0]
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.argsort(first, kind="stable")] = np.arange(len(y)) % FOLDS
    return fold


def _fit(samples: HeldOutLogits, *, offsets: bool = False, scales: bool = False) -> Scaling:
    """Fit a temperature and, if asked, each class's own offset and scale; offsets and log scales have normal priors."""
    z, y, w, shift, widest = samples
    shape = z.shape[1:]
    size = int(np.prod(shape))
    own = size if offsets else 0
    strength = len(y) / y.size / max(w.sum(), np.finfo(float).tiny)
    each = w * strength
    by_class, odds = np.ascontiguousarray(z.T), shift.T[..., None]  # (classes, batch) or (2, attributes, batch)
    true = y.T.ravel() * y.size + np.arange(y.size)  # places of the true classes in ``by_class``

    def numbers(values: Array) -> tuple[Array, Array]:
        """Return the logarithm of the scale, before bounding, and the offset of each class."""
        scale = values[0] + (values[1 + own :].reshape(shape) if scales else np.zeros(shape))
        return scale, values[1 : 1 + own].reshape(shape) if own else np.zeros(shape)

    def loss(values: Array) -> tuple[float, Array]:
        log_scale, bias = numbers(values)
        scaled = by_class * np.exp(log_scale.clip(-WIDEST, widest)).T[..., None]
        moved = scaled + (bias.T[..., None] + odds)
        moved -= moved.max(0)
        slope = np.exp(moved)
        total = slope.sum(0)
        found = float((each * (np.log(total) - moved.ravel()[true].reshape(total.shape))).sum())
        slope *= each / total  # d loss / d logits: p − [y = c]
        slope.ravel()[true] -= np.broadcast_to(each, total.shape).ravel()
        inside = (log_scale >= -WIDEST) & (log_scale <= widest)
        by_scale = (slope * scaled).sum(-1).T * inside
        parts = [by_scale.sum(keepdims=True).ravel(), slope.sum(-1).T.ravel() if own else np.empty(0)]
        gradient = np.concatenate([*parts, by_scale.ravel() if scales else np.empty(0)])
        return found + float(strength / 2 * values @ values), gradient + strength * values

    start = np.zeros(1 + own + (size if scales else 0))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-7, "ftol": 1e-12}).x
    log_scale, bias = numbers(found)
    return Scaling(torch.from_numpy(np.exp(log_scale.clip(-WIDEST, widest))), torch.from_numpy(bias.copy()))


class ScalingMethod(NamedTuple):
    """A calibration method.

    Args:
        fit: returns s and b for held-out samples.
        samples_per_class: minimum average number of samples per class for it to be tried.
        most_classes: maximum number of classes for it to be tried.
    """

    fit: Callable[[HeldOutLogits], Scaling]
    samples_per_class: int = 0
    most_classes: int = sys.maxsize


SCALINGS: dict[str, ScalingMethod] = {
    "none": ScalingMethod(lambda samples: Scaling.identity(samples.logits.shape[1:])),
    "temperature": ScalingMethod(_fit),
    "offsets": ScalingMethod(partial(_fit, offsets=True), SAMPLES_PER_CLASS),
    "vector": ScalingMethod(partial(_fit, offsets=True, scales=True), SAMPLES_PER_CLASS, MANY_CLASSES),
}
"""Methods by their number of parameters: 0, 1, 1 + C, 1 + 2C. A new one is a line here."""
