r"""Small networks for tables; an ensemble's members are trained together by batched products.

Member k has its own rows, weights and batches; all members take their steps together. A member is

.. math:: z = W_3 h_2 + S x + b_3, \qquad h_2 = \phi(W_2 h_1 + b_2), \qquad h_1 = \phi(W_1 x + b_1),
          \qquad \phi(a) = a \, \sigma(a)

on standardised columns x, trained on cross-entropy with AdamW. The gradient is written out because, for networks of
this size, most of a step goes into bookkeeping: on one core a step takes about half as long as with autograd.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from equipoise.data.labels import encode_labels

Array = NDArray[Any]
WARM_UP = 0.1
"""Share of the steps over which the learning rate rises; afterwards it falls to 0 along a cosine."""
MOMENTUM, SECOND_MOMENT, TINY = 0.9, 0.95, 1e-8
SQUASHED = 3.0
"""Standard deviations beyond which a column is squashed towards a bound, so that outliers do not dominate."""
ROWS_AT_ONCE = 8192


class PackedNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A small network for tables; :meth:`fit_members` trains several at once.

    Args:
        width: units of each of the two hidden layers.
        steps: optimiser steps.
        batch_size: rows per step, at most as many as the smallest member has.
        learning_rate: its maximum.
        weight_decay: of AdamW.
        dropout: share of the units dropped in each step.
        random_state: seed.

    >>> X, y = np.array([[0.0], [0.1], [0.9], [1.0]]), np.array(["no", "no", "yes", "yes"])
    >>> PackedNetwork(steps=50, random_state=0).fit(X, y).predict([[0.05], [0.95]])
    array(['no', 'yes'], dtype='<U3')
    """

    def __init__(
        self,
        *,
        width: int = 64,
        steps: int = 500,
        batch_size: int = 128,
        learning_rate: float = 4e-3,
        weight_decay: float = 0.02,
        dropout: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.width = width
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "PackedNetwork":
        """Fit a single network to X (rows, columns) and labels y (rows,)."""
        x, labels = validate_data(self, X, y, dtype=np.float64)
        self.classes_, target = encode_labels(labels)
        rows = [np.arange(len(x))]
        self.layers_ = self._trained(x, target.numpy(), rows, sample_weight)[0]
        return self

    def fit_members(
        self, X: Array, y: NDArray[np.int64], rows: Sequence[Array], sample_weight: Array | None = None
    ) -> list["PackedNetwork"]:
        """Fit one network on each selection of rows, all in the same steps.

        Args:
            X: (rows, columns).
            y: class indices, (rows,).
            rows: the rows of each member.
            sample_weight: (rows,).
        """
        members = []
        for own, layers in zip(rows, self._trained(X, y, rows, sample_weight), strict=True):
            member = PackedNetwork(**self.get_params())
            member.classes_, member.n_features_in_ = np.unique(y[own]), X.shape[1]
            member.layers_ = _of_classes(layers, member.classes_)
            members.append(member)
        return members

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities (rows, classes)."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        return np.concatenate([self._forward(x[at : at + ROWS_AT_ONCE]) for at in range(0, len(x), ROWS_AT_ONCE)])

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        most = self.predict_proba(X).argmax(1)
        found: Array = self.classes_[most]
        return found

    def _forward(self, x: Array) -> NDArray[np.float64]:
        layers = self.layers_
        h = x = _standardised(x, layers["mean"], layers["scale"])
        for number in (1, 2):
            a = h @ layers[f"w{number}"] + layers[f"b{number}"]
            h = a * expit(a)
        found: NDArray[np.float64] = softmax((h @ layers["w3"] + x @ layers["skip"] + layers["b3"]).astype(float), -1)
        return found

    def _trained(
        self, x: Array, y: NDArray[np.int64], rows: Sequence[Array], sample_weight: ArrayLike | None
    ) -> list[dict[str, Array]]:
        """Return each member's layers, with its columns' mean and scale."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(seed)
        scales = [_mean_and_scale(x[own]) for own in rows]
        inputs = [torch.from_numpy(_standardised(x[own], *each)) for own, each in zip(rows, scales, strict=True)]
        targets = [torch.from_numpy(y[own]) for own in rows]
        weight = np.ones(len(x)) if sample_weight is None else _check_sample_weight(sample_weight, x, dtype=np.float64)
        relative = [torch.from_numpy(weight[own] / max(weight[own].mean(), TINY)).float() for own in rows]
        packed = _Packed(len(rows), x.shape[1], self.width, int(y.max()) + 1, generator)
        size = min(self.batch_size, *map(len, rows))
        batches = [_batches(len(own), size, generator) for own in rows]
        with torch.no_grad():
            for step in range(self.steps):
                chosen = [next(each) for each in batches]
                batch = [
                    torch.stack([each[own] for each, own in zip(part, chosen, strict=True)])
                    for part in (inputs, targets, relative)
                ]
                packed.gradient(batch[0], batch[1], batch[2], self.dropout, generator)
                packed.step(step, self.learning_rate * _rate(step / self.steps), self.weight_decay)
        return [{"mean": mean, "scale": scale} | packed.member(number) for number, (mean, scale) in enumerate(scales)]


class _Packed:
    """Weights of all members and their gradients, each in one flat tensor, so that a step takes few operations."""

    def __init__(self, members: int, columns: int, width: int, classes: int, generator: torch.Generator) -> None:
        self.shapes = {
            "w1": (members, columns, width),
            "b1": (members, 1, width),
            "w2": (members, width, width),
            "b2": (members, 1, width),
            "w3": (members, width, classes),
            "b3": (members, 1, classes),
            "skip": (members, columns, classes),
        }
        gains = {"w1": math.sqrt(2.0), "w2": math.sqrt(2.0), "w3": 0.3}
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.flat, self.slope, self.mean, self.square = (torch.zeros(sum(sizes)) for _ in range(4))
        self.weights, self.slopes = (
            {name: part.view(shape) for part, (name, shape) in zip(flat.split(sizes), self.shapes.items(), strict=True)}
            for flat in (self.flat, self.slope)
        )
        for name, gain in gains.items():
            drawn = torch.randn(self.shapes[name], generator=generator)
            self.weights[name].copy_(drawn * gain / math.sqrt(self.shapes[name][1]))
        decays = [float(not name.startswith("b")) for name in self.shapes]
        self.decay = torch.cat([torch.full((size,), each) for size, each in zip(sizes, decays, strict=True)])

    def gradient(self, x: Tensor, target: Tensor, weight: Tensor, dropout: float, generator: torch.Generator) -> None:
        """Write the gradient of each member's mean cross-entropy into ``slopes``.

        Args:
            x: (members, batch, columns).
            target: class indices, (members, batch); ``weight``: weight of each.
        """
        w, g = self.weights, self.slopes
        a1, h1, keep1 = _layer(x, w["w1"], w["b1"], dropout, generator)
        a2, h2, keep2 = _layer(h1, w["w2"], w["b2"], dropout, generator)
        slope = torch.baddbmm(w["b3"], h2, w["w3"]).baddbmm_(x, w["skip"]).softmax(-1)
        slope.scatter_add_(-1, target.unsqueeze(-1), torch.full_like(target, -1, dtype=slope.dtype).unsqueeze(-1))
        slope *= (weight / x.shape[1]).unsqueeze(-1)  # d loss / d logits
        torch.bmm(h2.mT, slope, out=g["w3"])
        torch.bmm(x.mT, slope, out=g["skip"])
        torch.sum(slope, 1, keepdim=True, out=g["b3"])
        for a, keep, below, above, number in ((a2, keep2, h1, "w3", 2), (a1, keep1, x, "w2", 1)):
            slope = _through(torch.bmm(slope, w[above].mT), a, keep)
            torch.bmm(below.mT, slope, out=g[f"w{number}"])
            torch.sum(slope, 1, keepdim=True, out=g[f"b{number}"])

    def step(self, number: int, rate: float, weight_decay: float) -> None:
        """Take a step of AdamW; ``number`` counts from 0."""
        self.mean.lerp_(self.slope, 1 - MOMENTUM)
        self.square.mul_(SECOND_MOMENT).addcmul_(self.slope, self.slope, value=1 - SECOND_MOMENT)
        first, second = 1 - MOMENTUM ** (number + 1), 1 - SECOND_MOMENT ** (number + 1)
        self.flat.mul_(1 - rate * weight_decay * self.decay)
        self.flat.addcdiv_(self.mean, (self.square / second).sqrt_().add_(TINY), value=-rate / first)

    def member(self, number: int) -> dict[str, Array]:
        """Return one member's weights, without the axis of the members."""
        own = {name: weight[number] for name, weight in self.weights.items()}
        return {name: (each[0] if name.startswith("b") else each).numpy().copy() for name, each in own.items()}


def _layer(
    x: Tensor, w: Tensor, b: Tensor, dropout: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return a layer before and after φ and dropout, and the dropout mask, drawn anew in each step for each member."""
    a = torch.baddbmm(b, x, w)
    h = a * a.sigmoid()
    if not dropout:
        return a, h, None
    keep = torch.rand((len(h), 1, h.shape[-1]), generator=generator).ge_(dropout).div_(1 - dropout)
    return a, h * keep, keep


def _through(slope: Tensor, a: Tensor, keep: Tensor | None) -> Tensor:
    """Propagate a gradient back through dropout and φ: φ'(a) = σ + a·σ(1 − σ)."""
    gate = a.sigmoid()
    inner = gate * (1 + a * (1 - gate))
    return slope * inner if keep is None else slope * inner * keep


def _batches(rows: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield batches of row indices without end; all rows are used once before any is used again."""
    order = torch.empty(0, dtype=torch.long)
    while True:
        while len(order) < size:
            order = torch.cat((order, torch.randperm(rows, generator=generator)))
        yield order[:size]
        order = order[size:]


def _rate(done: float) -> float:
    """Return the learning rate as a share of its maximum, after this share of the steps."""
    if done < WARM_UP:
        return (done + 1e-3) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


def _mean_and_scale(x: Array) -> tuple[Array, Array]:
    deviation = x.std(0, dtype=np.float64)
    return x.mean(0, dtype=np.float64), np.where(deviation > 0, deviation, 1.0)


def _standardised(x: Array, mean: Array, scale: Array) -> NDArray[np.float32]:
    """Standardise in float64, and squash outliers towards the bound."""
    z = (x - mean) / scale
    return np.asarray(z / np.sqrt(1 + np.square(z / SQUASHED)), dtype=np.float32)


def _of_classes(layers: dict[str, Array], classes: Array) -> dict[str, Array]:
    """Keep the outputs of the classes that a member has seen."""
    outputs = ("w3", "b3", "skip")
    return {name: weight[..., classes] if name in outputs else weight for name, weight in layers.items()}
