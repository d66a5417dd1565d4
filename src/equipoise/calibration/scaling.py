r"""Probabilities that mean what they say: logits scaled so that samples which were not trained on believe them.

Logits :math:`z` that are aimed at a class prior :math:`a` (a balanced one under margins) become probabilities at the
class prior :math:`\pi` by

.. math:: p_c \propto \frac{\pi_c}{a_c} \exp(s_c z_c + b_c) .

The simplest form is s = 1 and b = 0, logits as they are. Temperature scaling is one s for all classes and b = 0 (Guo et
al. 2017); further forms let b, and then s as well, differ by class (vector scaling). A form is taken instead of a
simpler one only if its log loss, on samples left out of its fit, is smaller by more than a standard error.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.errors import InvalidInputError

FOLDS = 5
FEWEST_SAMPLES = 50
"""From which on any scaling is fitted: of fewer, one number strays by a third or more."""
SAMPLES_A_CLASS = 20
"""On average, from which on classes get numbers of their own."""
NUMBERS = 2**22
"""Logits that are looked at: more samples than that hardly change a temperature."""
WIDEST = 5.0
"""Scales are sought from e^−5 to e^5: samples that are all told apart would want infinity."""
SMALLEST_SHARE = 1e-12
"""Of a class among the samples that a scaling is fitted to."""
FORMS = ("none", "temperature", "offsets", "vector")
"""In the order of how many numbers they fit: 0, 1, 1 + C, 1 + 2C."""


@dataclass(frozen=True)
class Scaling:
    """s and b for each class, (classes,) or (attributes, 2)."""

    scale: Tensor
    bias: Tensor

    def __call__(self, logits: Tensor, odds: Tensor) -> Tensor:
        """Return logits, (batch, classes) or (batch, attributes, 2), whose softmax are the probabilities.

        Args:
            odds: π/a, the class prior that is wanted over the one which the logits are aimed at; of any scale.
        """
        shift = odds.to(logits.dtype).log()  # a class of prior 0 is ruled out
        return logits * self.scale.to(logits.dtype) + self.bias.to(logits.dtype) + shift

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Scaling":
        """Return what leaves logits as they are."""
        return cls(torch.ones(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64))


def fit_scaling(
    logits: Tensor, target: Tensor, odds: Tensor, *, sharpen: bool = True, sample_weight: Tensor | None = None
) -> Scaling:
    """Fit the scaling with the least log loss on samples that were not trained on; none where none helps.

    Args:
        logits: (batch, classes), or (batch, attributes, 2), as a prediction is made from.
        target: (batch,), or (batch, attributes).
        odds: the class prior of these samples over the one the logits are aimed at, (classes,) or (attributes, 2).
        sharpen: whether scales above 1 are allowed. A network that is trained further becomes surer by itself.
        sample_weight: (batch,), how many samples each counts as; None is one.
    """
    if len(logits) == 0 or logits.shape[:-1] != target.shape:
        raise InvalidInputError(
            f"a scaling is fitted to samples and their labels, got logits {tuple(logits.shape)} and labels "
            f"{tuple(target.shape)}."
        )
    fewest = SAMPLES_A_CLASS * logits.shape[-1]
    most = max(fewest, NUMBERS // logits[0].numel())
    if len(logits) > most:  # evenly among the samples, which are in no order
        some = torch.linspace(0, len(logits) - 1, most, dtype=torch.float64).long()
        logits, target = logits[some], target[some]
        sample_weight = None if sample_weight is None else sample_weight[some]
    z, y = logits.detach().double().cpu(), target.cpu()
    w = torch.ones(len(z), dtype=torch.float64) if sample_weight is None else sample_weight.double().cpu()
    odds = odds.double().cpu().clamp_min(SMALLEST_SHARE)  # of a class without samples here nothing is learnt
    if len(z) < FEWEST_SAMPLES:
        return Scaling.none(tuple(z.shape[1:]))
    forms, widest = FORMS if len(z) >= fewest else FORMS[:2], WIDEST if sharpen else 0.0
    return _fit(z, y, w, odds, _best_form(z, y, w, odds, forms, widest), widest)


def _best_form(z: Tensor, y: Tensor, w: Tensor, odds: Tensor, forms: tuple[str, ...], widest: float) -> str:
    """Choose by the log loss on folds that were left out; more numbers must earn a standard error."""
    fold, best = _folds(y), forms[0]
    losses = {form: _left_out_losses(z, y, w, odds, fold, form, widest) for form in forms}
    for form in forms[1:]:
        gain = losses[best] - losses[form]
        if _mean(gain, w) > _standard_error(gain, w):
            best = form
    return best


def _mean(values: Tensor, w: Tensor) -> float:
    return float((w * values).sum() / w.sum())


def _standard_error(values: Tensor, w: Tensor) -> float:
    """Return that of a weighted mean: rows are independent, copies of a row would not be."""
    squares = (w * (values - _mean(values, w))).square().sum()
    return float((squares * len(w) / (len(w) - 1)).sqrt() / w.sum())


def _left_out_losses(z: Tensor, y: Tensor, w: Tensor, odds: Tensor, fold: Tensor, form: str, widest: float) -> Tensor:
    """Return the log loss of each sample under a scaling which it had no part in: (batch,)."""
    found = torch.empty(len(z), dtype=torch.float64)
    for number in range(FOLDS):
        out = fold == number
        found[out] = _losses(_fit(z[~out], y[~out], w[~out], odds, form, widest), z[out], y[out], odds)
    return found


def _folds(y: Tensor) -> Tensor:
    """Return a fold for each sample, each class (of the first attribute) shared out evenly."""
    first = y if y.ndim == 1 else y[:, 0]
    order = torch.argsort(first, stable=True)
    fold = torch.empty(len(y), dtype=torch.long)
    fold[order] = torch.arange(len(y)) % FOLDS
    return fold


def _losses(scaling: Scaling, z: Tensor, y: Tensor, odds: Tensor) -> Tensor:
    scaled = scaling(z, odds)
    losses = F.cross_entropy(scaled.flatten(0, -2), y.flatten(), reduction="none")
    return losses.view(len(z), -1).mean(-1)


@torch.enable_grad()
def _fit(z: Tensor, y: Tensor, w: Tensor, odds: Tensor, form: str, widest: float = WIDEST) -> Scaling:
    """Fit the numbers of a form, scales up to e^``widest``; offsets and logarithms of scales have normal priors."""
    if form == "none":
        return Scaling.none(tuple(z.shape[1:]))
    common = torch.zeros((), dtype=torch.float64, requires_grad=True)
    own = torch.zeros(2, *z.shape[1:], dtype=torch.float64, requires_grad=form != "temperature")
    total = w.sum().clamp_min(torch.finfo(torch.float64).tiny)
    free = torch.tensor([float(form == "vector"), 1.0], dtype=torch.float64).view(2, *[1] * (z.ndim - 1))
    optimizer = torch.optim.LBFGS(
        [common, own] if own.requires_grad else [common], max_iter=100, line_search_fn="strong_wolfe"
    )

    def scaling() -> Scaling:
        log_scale, bias = own * free
        return Scaling((common + log_scale).clamp(-WIDEST, widest).exp(), bias)

    def loss() -> Tensor:
        optimizer.zero_grad()
        size = common.square() + (own * free).square().sum()
        found = ((w * _losses(scaling(), z, y, odds)).sum() + size * len(y) / (2 * y.numel())) / total
        found.backward()
        return found

    optimizer.step(loss)
    found = scaling()
    return Scaling(found.scale.detach().expand(z.shape[1:]).clone(), found.bias.detach().clone())
