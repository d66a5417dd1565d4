"""Explicit dropout masks: N sub-networks that are the same for every row, and for every batch of one seed."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from equipoise.models.dropout import Dropout

MASKED = (
    nn.Dropout,
    Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
"""Modules that can be given a mask, these very types: what a subclass does is its own affair."""
_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_BATCHED: dict[type[nn.Module], int] = {nn.Dropout1d: 3, nn.Dropout3d: 5}
"""Dimensions of a batch; one fewer is a single sample, (channels, ...)."""
_NEGATIVE_SATURATION = -1.7580993408473766
"""Of SELU, to which alpha dropout sets what it drops."""


class Masks:
    """Masks for every dropout call of a model, in the order of the calls.

    They are drawn for the shapes that a single row has at each call, so that they depend neither on how many rows there
    are nor on their values. A batch dimension, wherever the model keeps it, is 1 then and is broadcast; one that
    is flattened into another, as in (batch · length, D), repeats the mask.

    Args:
        passes: how many there are of each.
        generator: where they are drawn from; None is torch's global one.
    """

    def __init__(self, passes: int, generator: torch.Generator | None) -> None:
        self.passes, self.generator = passes, generator
        self.kept: list[Tensor] = []  # of each call, (passes, *shape for one row): whether a value stays
        self.recording = True
        self.now: Tensor | int = 0  # the pass; under vmap all of them
        self.turn = 0

    def take_over(self, module: nn.Module) -> None:
        """Have a dropout module, of a type in ``MASKED``, use these masks from now on."""
        module.forward = partial(self._dropped, module)

    def start(self, now: Tensor | int) -> None:
        """Begin a forward pass of the sub-network ``now``."""
        self.recording, self.now, self.turn = False, now, 0

    def _dropped(self, module: nn.Module, x: Tensor) -> Tensor:
        shape = _mask_shape(module, x)
        if self.recording:
            self.kept.append(self._drawn(module, shape))
            return x
        place, self.turn = self.turn, self.turn + 1
        known = self.kept[place] if place < len(self.kept) else None
        repeats = None if known is None else _repeats(known.shape[1:], shape)
        if known is None or repeats is None:  # its shape follows from the other rows: a mask for these alone
            if isinstance(self.now, Tensor):
                raise RuntimeError("under vmap nothing can be drawn for all passes; run them one by one.")
            known, repeats = self._drawn(module, shape), None
            self.kept[place : place + 1] = [known]
        mask = known[self.now].to(x.device)
        return _with_mask(module, x, mask if repeats is None else mask.repeat(repeats))

    def _drawn(self, module: nn.Module, shape: tuple[int, ...]) -> Tensor:
        device = "cpu" if self.generator is None else self.generator.device
        return torch.rand((self.passes, *shape), generator=self.generator, device=device) >= _rate(module)


def _rate(module: nn.Module) -> float:
    rate = module.p
    assert isinstance(rate, int | float)
    return float(rate)


def _mask_shape(module: nn.Module, x: Tensor) -> tuple[int, ...]:
    """One entry a value, or one a channel."""
    if type(module) not in _CHANNELS:
        return tuple(x.shape)
    leading = 1 if x.ndim + 1 == _BATCHED.get(type(module)) else 2  # (channels, ...) or (batch, channels, ...)
    return (*x.shape[:leading], *[1] * (x.ndim - leading))


def _repeats(known: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """How often a mask is repeated along each dimension; None where it does not go into the shape."""
    if len(known) > len(wanted):
        return None
    known = (1,) * (len(wanted) - len(known)) + known
    if any(own == 0 or whole % own for own, whole in zip(known, wanted, strict=True)):
        return None
    return tuple(1 if own == 1 else whole // own for own, whole in zip(known, wanted, strict=True))


def _with_mask(module: nn.Module, x: Tensor, kept: Tensor) -> Tensor:
    """What the module would give of x, had it drawn this mask."""
    rate = _rate(module)
    mask = kept.to(x.dtype)
    if rate == 1:
        return x * mask
    if type(module) not in _ALPHA:
        return x * (mask / (1 - rate))
    scale = 1 / math.sqrt((_NEGATIVE_SATURATION**2 * rate + 1) * (1 - rate))
    dropped = _NEGATIVE_SATURATION * (1 - mask)
    return (x * mask + dropped) * scale - scale * _NEGATIVE_SATURATION * rate
