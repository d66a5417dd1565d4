"""Section 3: an ensemble of sub-networks from dropout at prediction time (Gal & Ghahramani)."""

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from equipoise.errors import InvalidInputError, InvalidStateError, Muted
from equipoise.models.evaluation_copy import eval_replica
from equipoise.models.layers import Dropout
from equipoise.tensor_checks import required_tensor

DropoutTypes = tuple[type[nn.Module], ...]
Inputs = Tensor | Mapping[str, Any]
"""A model's arguments: one tensor, or several by name; tensors have one row per sample."""


DROPOUT_TYPES: DropoutTypes = (_DropoutNd, nn.MultiheadAttention, nn.RNNBase)
"""Modules with dropout inside: every ``nn.*Dropout*``, attention weights, and layers between RNN cells."""
_GLOBAL_GENERATOR = threading.Lock()
_LOOPS = Muted("There is a performance drop")
"""vmap's warning that it loops over an operator."""


def mc_dropout(
    model: nn.Module,
    x: Inputs,
    passes: int = 10,
    generator: torch.Generator | None = None,
    *,
    dropout_types: DropoutTypes = DROPOUT_TYPES,
) -> Tensor:
    """Return the outputs of ``passes`` stochastic forward passes: (passes, batch, ...), without gradients.

    Their mean over the passes is the paper's expected output, which ``predict_proba(X, passes=N)`` returns; their
    variance is its equation 7, :func:`~equipoise.uncertainty.predictive_covariance`.

    Each pass uses one sub-network for all rows, so a row's outputs do not depend on other rows, and a generator with
    the same seed gives the next batch the same sub-networks. Only dropout is active; BatchNorm and all else are in
    eval mode. The passes run on a copy of the modules that shares the weights, so the model is never modified and any
    number of threads may call this at once. Layers before the first dropout run once; layers behind it run for all
    passes together.

    Dropout inside another kernel (``nn.MultiheadAttention``, layers of an ``nn.RNNBase``), a subclass, or a custom
    module cannot be given a mask. Such a model runs pass by pass, one thread at a time; these modules draw a new mask
    for every row from torch's global generator, which is seeded for the call and restored afterwards.

    Args:
        model: any module whose forward takes ``x`` and returns a tensor.
        x: one batch, (batch, ...); or a dict of arguments by name, as models of Hugging Face take them.
        passes: number of sub-networks, the paper's N.
        generator: makes the masks reproducible; None draws from torch's global generator.
        dropout_types: modules that count as dropout; add your own, such as stochastic depth, to the tuple.

    >>> model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
    >>> outputs = mc_dropout(model, torch.ones(2, 4), passes=20, generator=torch.Generator().manual_seed(0))
    >>> outputs.shape, bool((outputs.var(0) > 0).all()), bool((outputs[:, 0] == outputs[:, 1]).all())
    (torch.Size([20, 2, 3]), True, True)
    """
    _check_call(x, passes, generator)
    twin, masks = eval_replica(model), Masks(int(passes), generator)
    dropouts = [m for m in twin.modules() if isinstance(m, dropout_types) and _rate(m) > 0]
    own = [m for m in dropouts if type(m) not in MASKED]
    fired: list[nn.Module] = []
    for module in dropouts:
        module.register_forward_pre_hook(lambda module, _: fired.append(module))
        if module not in own:
            masks.take_over(module)
    for module in twin.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.training = True  # the flag only: in eval mode a fast path would skip its dropout
    with torch.no_grad():
        _forward(twin, input_rows(x, slice(1)))  # one row shows which dropout modules are called, and with which shapes
        if not fired:
            raise InvalidStateError(
                f"no dropout fired in {type(model).__name__}, so every pass is the same; put nn.Dropout with p > 0 "
                "before its last layer, or name your own dropout class in dropout_types."
            )
        _let_drop(twin, own)
        return _all_passes(twin, x, masks, own=any(module in own for module in fired))


def input_rows(x: Inputs, rows: slice | Tensor) -> Inputs:
    """Return some rows of a model's arguments; arguments without rows are unchanged.

    >>> input_rows({"ids": torch.arange(3), "scale": 2.0}, slice(1))
    {'ids': tensor([0]), 'scale': 2.0}
    """
    if isinstance(x, Mapping):
        return {name: input_rows(value, rows) if isinstance(value, Tensor) else value for name, value in x.items()}
    return x[rows] if x.ndim else x


def to_device(x: Inputs, device: torch.device) -> Inputs:
    """Return a model's arguments on a device."""
    if isinstance(x, Mapping):
        return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in x.items()}
    return x.to(device)


def _device(x: Inputs) -> torch.device:
    tensors = x.values() if isinstance(x, Mapping) else [x]
    return next(each.device for each in tensors if isinstance(each, Tensor))


def _check_call(x: object, passes: object, generator: object) -> None:
    if not isinstance(x, Mapping) or not any(isinstance(each, Tensor) for each in x.values()):
        required_tensor(x, "x")
    if not isinstance(passes, Integral) or int(passes) < 1:
        raise InvalidInputError(f"passes must be at least 1, got {passes!r}; give a whole number.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InvalidInputError(
            f"generator must be a torch.Generator, got {type(generator).__name__}; pass "
            "torch.Generator().manual_seed(...)."
        )


def _let_drop(twin: nn.Module, own: list[nn.Module]) -> None:
    """Switch on dropout that takes no masks by its flag only, as train() would reach a container's BatchNorm."""
    for module in twin.modules():
        if module in own:
            module.training = True
        elif isinstance(module, nn.MultiheadAttention):
            module.training, module.dropout = True, 0.0  # its fast path does not support vmap


def _all_passes(twin: nn.Module, x: Inputs, masks: "Masks", *, own: bool) -> Tensor:
    def one(now: Tensor | int) -> Tensor:
        masks.start(now)
        return _forward(twin, x)

    if not own:
        try:
            # Under vmap a tensor gains the passes' dimension where it meets the first mask, not earlier.
            with _LOOPS:
                outputs: Tensor = torch.vmap(one, randomness="different")(torch.arange(masks.passes, device=_device(x)))
            return outputs
        except RuntimeError:
            pass  # an operation that vmap does not support; if the model itself is at fault, the next line raises
    with _seeded(masks.generator, _device(x)) if own else nullcontext():
        return torch.stack([one(now) for now in range(masks.passes)])


def _forward(model: nn.Module, x: Inputs) -> Tensor:
    # copies: a model that works in place must not change the next pass's input
    if isinstance(x, Mapping):
        output = model(**{name: each.clone() if isinstance(each, Tensor) else each for name, each in x.items()})
    else:
        output = model(x.clone())
    if not isinstance(output, Tensor):
        raise InvalidInputError(
            f"the model must return a tensor, got {type(output).__name__}; wrap it so that it returns only the logits."
        )
    return output


def _rate(module: nn.Module) -> float:
    """Return the module's own dropout rate; 1 for a foreign class that does not report one."""
    if isinstance(module, nn.RNNBase) and module.num_layers == 1:
        return 0.0  # drops between layers only
    rate = getattr(module, "p", getattr(module, "dropout", 1.0))
    return float(rate) if isinstance(rate, int | float) else 1.0


@contextmanager
def _seeded(generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator from ours and restore its state afterwards; one thread at a time."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    with _GLOBAL_GENERATOR, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


MASKED = (nn.Dropout, Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
"""Modules that can be given a mask, by exact type: a subclass may behave differently."""


_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_BATCHED: dict[type[nn.Module], int] = {nn.Dropout1d: 3, nn.Dropout3d: 5}
"""Dimensions of a batch; one fewer is a single sample, (channels, ...)."""
_NEGATIVE_SATURATION = -1.7580993408473766
"""SELU's negative saturation value, which alpha dropout assigns to dropped units."""


class Masks:
    """Masks for every dropout call of a model, in the order of the calls.

    They are drawn for the shapes that a single row has at each call, so they depend neither on the number of rows nor
    on their values. A batch dimension, wherever the model has it, then has size 1 and is broadcast; if it is flattened
    into another, as in (batch · length, D), the mask is repeated.

    Args:
        passes: number of masks for each call.
        generator: source of randomness; None is torch's global generator.
    """

    def __init__(self, passes: int, generator: torch.Generator | None) -> None:
        self.passes, self.generator = passes, generator
        self.kept: list[Tensor] = []  # for each call, (passes, *shape of one row): whether a value is kept
        self.recording = True
        self.now: Tensor | int = 0  # the current pass; under vmap all of them
        self.turn = 0

    def take_over(self, module: nn.Module) -> None:
        """Make a dropout module, of a type in ``MASKED``, use these masks from now on."""
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
        if known is None or repeats is None:  # its shape depends on the other rows: draw a mask for this call only
            if isinstance(self.now, Tensor):
                raise RuntimeError("under vmap nothing can be drawn for all passes; run them one by one.")
            known, repeats = self._drawn(module, shape), None
            self.kept[place : place + 1] = [known]
        known = known.to(x.device)
        # index_select, because vmap of torch 2.6 refuses to index by a tensor without dimensions
        mask = known.index_select(0, self.now[None])[0] if isinstance(self.now, Tensor) else known[self.now]
        return _with_mask(module, x, mask if repeats is None else mask.repeat(repeats))

    def _drawn(self, module: nn.Module, shape: tuple[int, ...]) -> Tensor:
        device = "cpu" if self.generator is None else self.generator.device
        return torch.rand((self.passes, *shape), generator=self.generator, device=device) >= _rate(module)


def _mask_shape(module: nn.Module, x: Tensor) -> tuple[int, ...]:
    """Return the shape of a mask: one entry per value, or one per channel."""
    if type(module) not in _CHANNELS:
        return tuple(x.shape)
    leading = 1 if x.ndim + 1 == _BATCHED.get(type(module)) else 2  # (channels, ...) or (batch, channels, ...)
    return (*x.shape[:leading], *[1] * (x.ndim - leading))


def _repeats(known: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return how often a mask is repeated along each dimension, or None if the shape is not a multiple of it."""
    if len(known) > len(wanted):
        return None
    known = (1,) * (len(wanted) - len(known)) + known
    if any(own == 0 or whole % own for own, whole in zip(known, wanted, strict=True)):
        return None
    return tuple(1 if own == 1 else whole // own for own, whole in zip(known, wanted, strict=True))


def _with_mask(module: nn.Module, x: Tensor, kept: Tensor) -> Tensor:
    """Return the module's output for x with this mask."""
    rate = _rate(module)
    mask = kept.to(x.dtype)
    if rate == 1:
        return x * mask
    if type(module) not in _ALPHA:
        return x * (mask / (1 - rate))
    scale = 1 / math.sqrt((_NEGATIVE_SATURATION**2 * rate + 1) * (1 - rate))
    dropped = _NEGATIVE_SATURATION * (1 - mask)
    return (x * mask + dropped) * scale - scale * _NEGATIVE_SATURATION * rate
