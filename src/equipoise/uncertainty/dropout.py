"""Section 3: an ensemble of sub-networks by dropout at prediction time (Gal & Ghahramani)."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.tensors import required_tensor

DropoutTypes = tuple[type[nn.Module], ...]
DROPOUT_TYPES: DropoutTypes = (_DropoutNd, nn.MultiheadAttention, nn.RNNBase)
"""Modules with dropout of their own: every ``nn.*Dropout*``, attention weights, and layers between RNN cells."""

_FUSED: DropoutTypes = (
    nn.MultiheadAttention,
    nn.RNNBase,
)  # drop inside one kernel, where vmap sees no randomness


def mc_dropout(
    model: nn.Module,
    x: Tensor,
    passes: int = 10,
    generator: torch.Generator | None = None,
    *,
    dropout_types: DropoutTypes = DROPOUT_TYPES,
) -> Tensor:
    """Outputs of ``passes`` stochastic forward passes: (passes, batch, ...), without gradients.

    Only dropout is live; BatchNorm and everything else stay in eval mode, and every module's mode is restored, also
    after an exception. What comes before the first dropout runs once; what lies behind it runs for all passes
    together.

    Args:
        model: any module whose forward takes ``x`` and returns a tensor.
        x: one batch, (batch, ...).
        passes: how many sub-networks are drawn, N of the paper.
        generator: makes the masks repeatable; None draws from torch's global generator.
        dropout_types: which modules count as dropout; add your own (stochastic depth, say) to the tuple.

    >>> model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
    >>> outputs = mc_dropout(model, torch.ones(2, 4), passes=20, generator=torch.Generator().manual_seed(0))
    >>> outputs.shape, bool((outputs.var(0) > 0).all())
    (torch.Size([20, 2, 3]), True)
    """
    _check_call(x, passes, generator)
    dropouts = [m for m in model.modules() if isinstance(m, dropout_types) and _rate(m) > 0]
    with (
        torch.no_grad(),
        _seeded(generator, x),
        _only_dropout_live(model, dropouts),
        _count_calls(dropouts) as fired,
    ):
        outputs = _all_passes(model, x, passes, whole=any(isinstance(m, _FUSED) for m in dropouts))
    if not fired:
        raise InvalidStateError(
            f"no dropout fired in {type(model).__name__}, so every pass is the same; put nn.Dropout with p > 0 before "
            "its last layer, or name your own dropout class in dropout_types."
        )
    return outputs


def _check_call(x: object, passes: object, generator: object) -> None:
    required_tensor(x, "x")
    if not isinstance(passes, Integral) or int(passes) < 1:
        raise InvalidInputError(f"passes must be at least 1, got {passes!r}; give a whole number.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InvalidInputError(
            f"generator must be a torch.Generator, got {type(generator).__name__}; pass "
            "torch.Generator().manual_seed(...)."
        )


def _all_passes(model: nn.Module, x: Tensor, passes: int, *, whole: bool) -> Tensor:
    if not whole:
        try:
            # Under vmap a tensor gains the passes' dimension where the first mask is drawn, and not before.
            batched = torch.vmap(lambda _: _forward(model, x), randomness="different")
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")  # an operator looped over inside vmap
                outputs: Tensor = batched(torch.empty(passes, device=x.device))
            return outputs
        except RuntimeError:
            pass  # an operation vmap does not know; if the model itself is at fault, the next line says so
    return torch.stack([_forward(model, x) for _ in range(passes)])


def _forward(model: nn.Module, x: Tensor) -> Tensor:
    output = model(x.clone())  # a model that works in place must not change the next pass's input
    if not isinstance(output, Tensor):
        raise InvalidInputError(
            f"the model must return a tensor, got {type(output).__name__}; wrap it so that it gives the logits alone."
        )
    return output


def _rate(module: nn.Module) -> float:
    """The module's own dropout rate; 1 for a foreign class that does not tell."""
    if isinstance(module, nn.RNNBase) and module.num_layers == 1:
        return 0.0  # it drops between layers only
    rate = getattr(module, "p", getattr(module, "dropout", 1.0))
    return float(rate) if isinstance(rate, int | float) else 1.0


@contextmanager
def _only_dropout_live(model: nn.Module, dropouts: list[nn.Module]) -> Iterator[None]:
    modes = [(m, m.training) for m in model.modules()]
    in_place = [m for m in dropouts if getattr(m, "inplace", False)]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # it would skip the dropout of an encoder in eval mode
        model.eval()
        for module in dropouts:
            module.training = True  # the flag alone: train() would reach a container's BatchNorm
        for module in in_place:
            module.inplace = False  # type: ignore[assignment]  # a mask in place cannot differ between passes
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for module in in_place:
            module.inplace = True  # type: ignore[assignment]
        for module, training in modes:
            module.training = training


@contextmanager
def _count_calls(modules: list[nn.Module]) -> Iterator[list[nn.Module]]:
    fired: list[nn.Module] = []
    handles = [m.register_forward_pre_hook(lambda module, _: fired.append(module)) for m in modules]
    try:
        yield fired
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _seeded(generator: torch.Generator | None, x: Tensor) -> Iterator[None]:
    """Dropout reads torch's global generator: lend it a seed from ours, and give its state back afterwards."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.manual_seed(seed)
        yield
