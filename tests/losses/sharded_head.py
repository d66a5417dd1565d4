"""A whole and a sharded head on the same batch: for groups of processes."""

from typing import Any

import torch
import torch.distributed as dist

from equipoise.losses import LOSSES
from equipoise.losses.class_parallel import ClassParallelHead
from equipoise.uncertainty import class_uncertainty, margins_from_uncertainty

CLASSES, FEATURES, BATCH = 11, 6, 4
"""Classes that two or three processes share unevenly, and samples of each process."""


def compare(name: str, options: dict[str, Any], weighted: bool = False) -> dict[str, Any]:
    """The largest differences of loss, gradients, uncertainty, margins and predictions on this process."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    counts = torch.arange(1.0, CLASSES + 1)
    whole = LOSSES[name](FEATURES, CLASSES, class_counts=counts, **options).double()
    if name == "uncertainty_margin":
        whole.margins, whole.strength = torch.linspace(1, 3, CLASSES), torch.tensor(0.7)
    whole.eval()  # no dropout, whose masks would differ
    features = torch.randn(size * BATCH, FEATURES, dtype=torch.float64).mul(3).requires_grad_()
    target = torch.randint(CLASSES, (size * BATCH,))
    weight = torch.rand(size * BATCH, dtype=torch.float64) if weighted else None
    loss = whole(features, target, sample_weight=weight)
    loss.backward()
    head = ClassParallelHead.of(whole)
    mine = slice(rank * BATCH, (rank + 1) * BATCH)
    own = features.detach()[mine].clone().requires_grad_()
    found = head(own, target[mine], sample_weight=None if weight is None else weight[mine])
    found.backward()
    assert features.grad is not None
    assert own.grad is not None
    assert whole.weight.grad is not None
    part = slice(head.first, head.first + head.shard.classes)
    draws = torch.randn(5, 20, FEATURES, dtype=torch.float64)
    uncertainty = head.class_uncertainty(draws)
    expected = class_uncertainty(whole.project(draws).softmax(-1))
    margins = head.own_part(margins_from_uncertainty(uncertainty))
    predicted = head.predict(features.detach())
    dist.destroy_process_group()
    return {
        "classes": head.shard.classes,
        "loss": float((found - loss).detach().abs()),
        "vectors": float((head.shard.weight.grad - whole.weight.grad[part]).abs().max()),
        "features": float((own.grad - features.grad[mine]).abs().max()),
        "slope": float(features.grad.abs().max()),
        "uncertainty": float((uncertainty - expected).abs().max()),
        "margins": float((margins - margins_from_uncertainty(expected)[part]).abs().max()),
        "predicted": bool((predicted == whole.logits(features.detach()).argmax(-1)).all()),
    }


def refused() -> list[str]:
    dist.init_process_group("gloo")
    told = []
    for make in (
        lambda: ClassParallelHead(LOSSES["focal"](4, 5), 10),
        lambda: ClassParallelHead(LOSSES["cross_entropy"](4, 3), 10),
        lambda: ClassParallelHead(LOSSES["cross_entropy"](4, 5), 10)(torch.zeros(2, 4), torch.tensor([0, 10])),
    ):
        try:
            make()
        except ValueError as error:
            told.append(str(error))
    dist.destroy_process_group()
    return told
