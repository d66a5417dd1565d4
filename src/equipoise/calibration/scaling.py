r"""Logits scaled so that held-out samples confirm the probabilities (temperature and vector scaling).

Logits :math:`z` that are aimed at a class prior :math:`a` (a balanced one under margins) become probabilities at the
class prior :math:`\pi` by

.. math:: p_c \propto \frac{\pi_c}{a_c} \exp(s_c z_c + b_c) .

The simplest form is s = 1 and b = 0: logits unchanged. Temperature scaling has one s for all classes and b = 0 (Guo et
al. 2017); further forms let b, and then s as well, differ by class (vector scaling). A more complex form is chosen only
if its log loss, on samples left out of its fit, is smaller by more than one standard error.
"""

from dataclasses import dataclass
from typing import Any

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
SAMPLES_A_CLASS = 20
"""On average, from which on classes get numbers of their own."""
NUMBERS, NUMBERS_OF_MANY = 2**22, 2**20
"""Logits that are looked at: more samples than that hardly change a temperature. Fewer of many classes."""
MANY_CLASSES = 25
"""Above which classes get no scales of their own: with 200 of them these took as long to fit as boosted trees."""
WIDEST = 5.0
"""Scales are searched from e^−5 to e^5: perfectly separated samples would want infinity."""
SMALLEST_SHARE = 1e-12
"""Smallest share of a class among the samples that a scaling is fitted on."""
Array = NDArray[np.float64]
FORMS = ("none", "temperature", "offsets", "vector")
"""Forms in the order of the numbers they fit: 0, 1, 1 + C, 1 + 2C."""


@dataclass(frozen=True)
class Scaling:
    """s and b for each class, (classes,) or (attributes, 2)."""

    scale: Tensor
    bias: Tensor

    def __call__(self, logits: Tensor, odds: Tensor) -> Tensor:
        """Return logits, (batch, classes) or (batch, attributes, 2), whose softmax gives the probabilities.

        Args:
            odds: π/a, the ratio of the wanted class prior to the one that the logits are aimed at; of any scale.
        """
        shift = odds.to(logits.dtype).log()  # a class of prior 0 is ruled out
        return logits * self.scale.to(logits.dtype) + self.bias.to(logits.dtype) + shift

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Scaling":
        """Return a scaling that leaves logits unchanged."""
        return cls(torch.ones(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64))


def fit_scaling(
    logits: Tensor,
    target: Tensor,
    odds: Tensor,
    *,
    sharpen: bool = True,
    sample_weight: Tensor | None = None,
    form: str | None = None,
) -> Scaling:
    """Fit the scaling with the smallest log loss on held-out samples; the identity if none helps.

    Args:
        logits: (batch, classes), or (batch, attributes, 2), as predictions are made from.
        target: (batch,), or (batch, attributes).
        odds: ratio of these samples' class prior to the one the logits are aimed at, (classes,) or (attributes, 2).
        sharpen: whether scales above 1 are allowed. Further training makes a network more confident by itself.
        sample_weight: (batch,), how many samples each counts as; None counts each once.
        form: one of ``FORMS`` to fit without asking whether it helps; None chooses.
    """
    if len(logits) == 0 or logits.shape[:-1] != target.shape:
        raise InvalidInputError(
            f"a scaling is fitted to samples and their labels, got logits {tuple(logits.shape)} and labels "
            f"{tuple(target.shape)}."
        )
    fewest = SAMPLES_A_CLASS * logits.shape[-1]
    many = logits.shape[-1] > MANY_CLASSES
    most = max(fewest, (NUMBERS_OF_MANY if many else NUMBERS) // logits[0].numel())
    if len(logits) > most:  # evenly among the samples, which are in no order
        some = torch.linspace(0, len(logits) - 1, most, dtype=torch.float64).long()
        logits, target = logits[some], target[some]
        sample_weight = None if sample_weight is None else sample_weight[some]
    z, y = logits.detach().double().cpu().numpy(), target.cpu().numpy()
    w = np.ones(len(z)) if sample_weight is None else sample_weight.double().cpu().numpy()
    shift = np.log(
        odds.double().cpu().clamp_min(SMALLEST_SHARE).numpy()
    )  # nothing can be learnt about a class without samples
    if len(z) < FEWEST_SAMPLES and form is None:
        return Scaling.none(tuple(z.shape[1:]))
    forms, widest = FORMS[: 2 if len(z) < fewest else 3 if many else 4], WIDEST if sharpen else 0.0
    return _fit(z, y, w, shift, form or _best_form(z, y, w, shift, forms, widest), widest)


def _best_form(z: Array, y: NDArray[Any], w: Array, shift: Array, forms: tuple[str, ...], widest: float) -> str:
    """Choose a form by log loss on held-out folds; more parameters must gain a standard error."""
    fold, best = _folds(y), forms[0]
    losses = {form: _left_out_losses(z, y, w, shift, fold, form, widest) for form in forms}
    for form in forms[1:]:
        gain = losses[best] - losses[form]
        if float(w @ gain / w.sum()) > _standard_error(gain, w):
            best = form
    return best


def _standard_error(values: Array, w: Array) -> float:
    """Return the standard error of a weighted mean of independent rows (which copies of a row would not be)."""
    squares = np.square(w * (values - w @ values / w.sum())).sum()
    return float(np.sqrt(squares * len(w) / (len(w) - 1)) / w.sum())


def _left_out_losses(
    z: Array, y: NDArray[Any], w: Array, shift: Array, fold: NDArray[Any], form: str, widest: float
) -> Array:
    """Return each sample's log loss under a scaling fitted without it: (batch,)."""
    found = np.empty(len(z))
    for number in range(FOLDS):
        out = fold == number
        fitted = _fit(z[~out], y[~out], w[~out], shift, form, widest)
        scaled = z[out] * fitted.scale.numpy() + fitted.bias.numpy() + shift
        found[out] = -_of_truth(log_softmax(scaled, -1), y[out]).reshape(out.sum(), -1).mean(-1)
    return found


def _folds(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return a fold for each sample, stratified by class (of the first attribute)."""
    first = y if y.ndim == 1 else y[:, 0]
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.argsort(first, kind="stable")] = np.arange(len(y)) % FOLDS
    return fold


def _of_truth(values: Array, y: NDArray[Any]) -> Array:
    return np.take_along_axis(values, y[..., None], -1)[..., 0]


def _fit(z: Array, y: NDArray[Any], w: Array, shift: Array, form: str, widest: float = WIDEST) -> Scaling:
    """Fit a form's parameters, scales up to e^``widest``; offsets and log scales have normal priors."""
    shape = z.shape[1:]
    if form == "none":
        return Scaling.none(tuple(shape))
    size = int(np.prod(shape))
    own = 0 if form == "temperature" else size  # offsets, one a class
    strength = len(y) / y.size / max(w.sum(), np.finfo(float).tiny)
    each = w * strength
    by_class, odds = np.ascontiguousarray(z.T), shift.T[..., None]  # (classes, batch) or (2, attributes, batch)
    true = y.T.ravel() * y.size + np.arange(y.size)  # places of the true classes in ``by_class``

    def numbers(values: Array) -> tuple[Array, Array]:
        """Return the logarithm of the scale, before bounding, and the offset of each class."""
        scale = values[0] + (values[1 + own :].reshape(shape) if form == "vector" else np.zeros(shape))
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
        gradient = np.concatenate([*parts, by_scale.ravel() if form == "vector" else np.empty(0)])
        return found + float(strength / 2 * values @ values), gradient + strength * values

    start = np.zeros(1 + own + (size if form == "vector" else 0))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-7, "ftol": 1e-12}).x
    log_scale, bias = numbers(found)
    return Scaling(torch.from_numpy(np.exp(log_scale.clip(-WIDEST, widest))), torch.from_numpy(bias.copy()))
