"""Many small networks of one case trained at once by batched products, for searches over training options.

A network is the library's for tables: standardised columns, two hidden layers, dropout between them and in front of the
class vectors, AdamW and a cosine. What differs between :class:`Spec` is the loss, the class vectors and the samples.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.losses import ldam_margins
from equipoise.losses.class_weights import effective_number_weights
from equipoise.training.mixing import ALPHA, partner_prior
from equipoise.training.stages import CLASS_LEVEL, SAMPLE_LEVEL, SOFTMAX, stage_boundaries

EPOCHS, BATCH, RATE, DECAY = 40, 64, 1e-3, 0.5
LDAM_SCALE, DEFER = 30.0, 0.8


@dataclass(frozen=True)
class Spec:
    """How a network is trained.

    Args:
        head: ``"linear"`` with a bias, ``"unit"`` class vectors, or ``"cosine"``: features of length ``scale`` too,
            without dropout in front of them.
        tau: logits are shifted by tau · log prior.
        gamma: logits are scaled by (n_c / max n)^gamma, as VS does.
        staged: plain softmax for a sixth of the epochs, then the shift rises over a sixth of the others.
        mixing: partners drawn by prior^mixing, shares by Beta(alpha, alpha); None mixes nothing.
        layer: what is mixed: inputs (0), the first hidden layer (1) or the features (2).
        whole: margins of the counts while mixing, not of the prior that is left over.
        drawn: samples are drawn by prior^drawn instead of one visit each; margins follow the prior that is left over.
        ldam: LDAM's margins and deferred weights.
        held: share left out before the sample stage.
        folds: member k trains without the k-th of so many folds; 0 trains on all rows.
        shared: members of a seed see the same batches.
        width, dropout, decay, epochs, inputs: of the network; inputs are dropped too.
    """

    head: str = "unit"
    tau: float = 1.0
    gamma: float = 0.0
    staged: bool = False
    mixing: float | None = None
    alpha: float = ALPHA
    layer: int = 0
    whole: bool = False
    drawn: float = 1.0
    ldam: bool = False
    scale: float = 30.0
    held: float = 0.0
    folds: int = 0
    shared: bool = False
    width: int = 128
    dropout: float = 0.5
    decay: float = DECAY
    epochs: int = EPOCHS
    inputs: float = 0.0


def standardised(x: np.ndarray, others: np.ndarray) -> tuple[Tensor, Tensor]:
    mean, scale = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    scale = np.where(scale > 1e-9, scale, 1.0)
    return tuple(torch.from_numpy(((each - mean) / scale).clip(-20, 20).astype(np.float32)) for each in (x, others))


class Packed:
    """So many networks of one shape; ``forward`` takes (networks, batch, columns)."""

    def __init__(self, count: int, columns: int, classes: int, spec: Spec, generator: torch.Generator) -> None:
        self.spec, width = spec, spec.width

        def drawn(*shape: int, fan: int) -> Tensor:
            return (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(fan)

        self.w1, self.b1 = drawn(count, columns, width, fan=columns), drawn(count, 1, width, fan=columns)
        self.w2, self.b2 = drawn(count, width, width, fan=width), drawn(count, 1, width, fan=width)
        self.w3, self.b3 = drawn(count, width, classes, fan=width), torch.zeros(count, 1, classes)
        self.parameters = [self.w1, self.b1, self.w2, self.b2, self.w3]
        self.parameters += [self.b3] if spec.head == "linear" else []
        for each in self.parameters:
            each.requires_grad_()

    def forward(self, x: Tensor, *, training: bool, share: Tensor | None = None) -> Tensor:
        """Logits; with shares, the second half of the batch is mixed into the first where ``spec.layer`` says."""
        p = self.spec.dropout
        x = F.dropout(x, self.spec.inputs, training) if self.spec.inputs else x
        h = torch.relu(torch.baddbmm(self.b1, self._mixed(x, share, 0), self.w1))
        h = F.dropout(self._mixed(h, share, 1), p, training)
        f = self._mixed(torch.relu(torch.baddbmm(self.b2, h, self.w2)), share, 2)
        if self.spec.head == "linear":
            return torch.baddbmm(self.b3, F.dropout(f, p, training), self.w3)
        vectors = F.normalize(self.w3, dim=1)
        if self.spec.head == "unit":
            return torch.bmm(F.dropout(f, p, training), vectors)
        return self.spec.scale * torch.bmm(F.normalize(f, dim=-1), vectors)

    def _mixed(self, x: Tensor, share: Tensor | None, layer: int) -> Tensor:
        if share is None or layer != self.spec.layer:
            return x
        own, mate = x.chunk(2, 1)
        return torch.lerp(mate, own, share[..., None])


def class_values(spec: Spec, counts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shift without and with mixing, scale, and partners' prior of each network: (networks, classes)."""
    steps = (counts.amax(-1, keepdim=True) / counts.clamp_min(1)).log()
    prior = counts.double() / counts.sum(-1, keepdim=True)
    partners = partner_prior(prior, 1.0 if spec.mixing is None else spec.mixing)
    left_over = (prior + partners).clamp_min(1e-12)
    mixed = steps if spec.whole else (left_over.amax(-1, keepdim=True) / left_over).log().float()
    scale = (counts / counts.amax(-1, keepdim=True)).clamp_min(1e-6).pow(spec.gamma)
    plain = steps if spec.whole else spec.drawn * steps
    return -spec.tau * plain, -spec.tau * mixed, scale, partners


def orders(rows: Sequence[np.ndarray], streams: Sequence[np.random.Generator], size: int) -> np.ndarray:
    """A visit of ``size`` rows of each network: (networks, size)."""
    return np.stack([rng.permutation(own)[:size] for own, rng in zip(rows, streams, strict=True)])


def partners_of(
    labels: np.ndarray, rows: Sequence[np.ndarray], prior: Tensor, streams: Sequence[np.random.Generator], size: int
) -> np.ndarray:
    found = []
    for y, own, q, rng in zip(labels, rows, prior.numpy(), streams, strict=True):
        mine = y[own]
        counts = np.bincount(mine, minlength=len(q))
        share = np.where(counts > 0, q, 0)
        classes = rng.choice(len(q), size=size, p=share / share.sum())
        first = counts.cumsum() - counts
        found.append(own[np.argsort(mine, kind="stable")[first[classes] + rng.integers(counts[classes])]])
    return np.stack(found)


class Training:
    """One training of a network on each selection of rows.

    Args:
        x, y: (seeds, samples, columns) and (seeds, samples).
        rows: of each network.
        place: which of the seeds' samples each network has, (networks,).
        spec: how they are trained.
        classes: C.
        seeds: of each network's order; equal ones see the same batches.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        rows: Sequence[np.ndarray],
        place: np.ndarray,
        spec: Spec,
        classes: int,
        seeds: Sequence[int],
    ) -> None:
        torch.manual_seed(2 + sum(seeds))
        self.x, self.y, self.spec, self.rows = x, y, spec, rows
        self.net = Packed(len(rows), x.shape[-1], classes, spec, torch.Generator().manual_seed(1 + sum(seeds)))
        self.streams = [np.random.default_rng([7, seed]) for seed in seeds]
        self.labels, self.at = y.numpy()[place], torch.from_numpy(place)[:, None]
        counts = [np.bincount(own[kept], minlength=classes) for own, kept in zip(self.labels, rows, strict=True)]
        self.counts = torch.from_numpy(np.stack(counts)).float()
        self.plain, self.mixed, self.scale, self.partners = class_values(spec, self.counts)
        self.class_start, self.sample_start = stage_boundaries(spec.epochs, SOFTMAX, CLASS_LEVEL, SAMPLE_LEVEL)
        self.part = list(rows)
        if spec.held:
            self.part = [without(own, self.labels[g], spec.held, self.streams[g]) for g, own in enumerate(rows)]
        self.drawn = partner_prior(self.counts.double() / self.counts.sum(-1, keepdim=True), spec.drawn)
        self.margins = torch.stack([ldam_margins(each) for each in self.counts])
        self.weights = torch.stack([effective_number_weights(each.clamp_min(1)) for each in self.counts])
        self.optimizer = torch.optim.AdamW(self.net.parameters, lr=RATE, weight_decay=spec.decay, fused=True)

    def run(self) -> Packed:
        """Train all epochs."""
        epochs, done = self.spec.epochs, 0
        steps = sum(batches(min(map(len, self._rows(epoch)))) for epoch in range(epochs))
        for epoch in range(epochs):
            part = self._rows(epoch)
            size = min(map(len, part))
            if self.spec.drawn == 1.0:
                order = orders(part, self.streams, size)
            else:
                order = partners_of(self.labels, part, self.drawn, self.streams, size)
            mixes = self.spec.mixing is not None and (epoch >= self.class_start or not self.spec.staged)
            other, share = order, np.ones(order.shape, np.float32)
            if mixes:
                other = partners_of(self.labels, part, self.partners, self.streams, size)
                drawn = [rng.beta(self.spec.alpha, self.spec.alpha, size) for rng in self.streams]
                share = np.stack(drawn).astype(np.float32)
            for b in range(batches(size)):
                cut = slice(b * BATCH, (b + 1) * BATCH)
                batch = [torch.from_numpy(each[:, cut]) for each in (order, other, share)]
                self._loss(*batch, epoch, mixes=mixes).backward()
                for group in self.optimizer.param_groups:
                    group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * done / steps))
                self.optimizer.step()
                self.optimizer.zero_grad()
                done += 1
        return self.net

    def _rows(self, epoch: int) -> Sequence[np.ndarray]:
        return self.part if epoch < self.sample_start else self.rows

    def _loss(self, own: Tensor, mate: Tensor, share: Tensor, epoch: int, *, mixes: bool) -> Tensor:
        spec, (x, y) = self.spec, (self.x[self.at, own], self.y[self.at, own])
        if mixes:
            x = torch.cat((x, self.x[self.at, mate]), 1)
        logits = self.net.forward(x, training=True, share=share if mixes else None)
        if spec.ldam:
            moved = -LDAM_SCALE * self.margins.gather(1, y)
            logits = logits.scatter_add(-1, y[..., None], moved[..., None])
        elif spec.tau:
            sixth, ramp = max(1, (spec.epochs - self.class_start) // 6), 1.0
            if spec.staged:
                ramp = min(1.0, max(0, epoch - self.class_start + 1) / sixth)
            logits = logits * self.scale[:, None] + (self.mixed if mixes else self.plain)[:, None] * ramp
        log_p = logits.log_softmax(-1)
        loss = -log_p.gather(-1, y[..., None])[..., 0]
        if mixes:
            loss = share * loss - (1 - share) * log_p.gather(-1, self.y[self.at, mate][..., None])[..., 0]
        if spec.ldam and epoch / spec.epochs >= DEFER:
            weight = self.weights.gather(1, y)
            return ((loss * weight).sum(1) / weight.sum(1)).sum()
        return loss.mean(1).sum()


def batches(size: int) -> int:
    full, rest = divmod(size, BATCH)
    return max(1, full + (rest > 1))


def without(own: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Leave out a share of each class that can spare a sample."""
    kept = []
    for c in np.unique(y[own]):
        mine = rng.permutation(own[y[own] == c])
        kept.append(mine[int(len(mine) * share) :])
    return np.concatenate(kept)


@torch.no_grad()
def outputs(net: Packed, x: Tensor, place: np.ndarray) -> np.ndarray:
    """Logits of each network for its seed's rows: (networks, rows, classes)."""
    found: list[Tensor] = []
    for at in range(0, x.shape[1], 500):
        found.append(net.forward(x[torch.from_numpy(place), at : at + 500], training=False))
    return torch.cat(found, 1).numpy()


def chunks(count: int, numbers: int, most: float = 6e6) -> Iterator[slice]:
    """Networks trained at once, so that their weights stay within reach of the caches."""
    at_once = max(1, int(most // numbers))
    return (slice(at, min(at + at_once, count)) for at in range(0, count, at_once))
