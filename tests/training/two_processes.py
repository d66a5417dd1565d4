"""What two processes agree on: ``torchrun --nproc_per_node 2 -m tests.training.two_processes FOLDER``.

Every process writes what it saw to ``FOLDER/RANK.json``; alone it is the single process to compare with.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from equipoise.training.accelerate_setup import make_loader
from equipoise.training.measurements import estimate_class_uncertainty, gathered_features
from tests.training.digits_run import digits_network, imbalanced_digits, weights_sha256

SIZES = (1, 2, 7, 199)
"""Sizes of validation splits: fewer samples than processes, even, odd."""

CAP = 50
BATCH = 50
BALANCED_EPOCHS = 4


def measure_uncertainty(accelerator: Accelerator, network: Network, data: ArrayData, cap: int, passes: int) -> Tensor:
    return estimate_class_uncertainty(accelerator, network, data, passes=passes, cap=cap, seed=0, kind="relative")


def rows_seen(accelerator: Accelerator, cap: int) -> list[int]:
    """Which samples went through the network on this process; column 0 is their number."""
    data = imbalanced_digits().train
    x = data.x[data.rows].clone()
    x[:, 0] = torch.arange(len(x))
    network, seen = digits_network(), list[Tensor]()
    hook = network.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    measure_uncertainty(accelerator, network, ArrayData(x, data.y), cap, passes=2)
    hook.remove()
    # each batch comes after its first row alone, which tells the shapes of the masks
    times = Counter(int(number) for part in seen[1::2] for number in part[:, 0])
    assert len(set(times.values())) == 1, "each takes part in as many passes as the others"
    return list(times)


def features_of_split(accelerator: Accelerator, size: int) -> dict[str, Any]:
    data = imbalanced_digits().validation
    part = data.subset(torch.arange(size))
    features = gathered_features(accelerator, digits_network(), part)
    return {"features": features.tolist()}


def rows_of_batches(accelerator: Accelerator, samples: int) -> list[list[int]]:
    """The balanced order as training shares it out."""
    y = imbalanced_digits().train.y[:samples]
    data = ArrayData(torch.arange(samples).view(-1, 1), y)
    settings = Settings(epochs=BALANCED_EPOCHS, batch_size=BATCH, seed=3, order="balanced")
    loader, batches = make_loader(data, settings, accelerator)
    rows = []
    for batches.epoch in range(BALANCED_EPOCHS):
        rows += [x.flatten().tolist() for x, _ in loader]
    return rows


def trained(folder: Path) -> dict[str, Any]:
    digits, network = imbalanced_digits(), digits_network()
    data = digits.train.subset(torch.arange(len(digits.train) - 1))  # an odd number
    curriculum = Curriculum(6)
    history = train(
        network,
        data,
        Settings(epochs=6, batch_size=63, learning_rate=3e-3),
        curriculum=curriculum,
        validation=digits.validation,
        folder=folder,
    )
    assert curriculum.uncertainty is not None
    return {
        "history": history,
        "sha256": weights_sha256(network),
        "margins": network.head.margins.tolist(),
        "strength": float(network.head.strength),
        "uncertainty": curriculum.uncertainty.tolist(),
    }


def own_loop(accelerator: Accelerator) -> dict[str, Any]:
    """What two epochs of a loop of one's own measure, each process on its part of the batches."""
    digits, network, curriculum = imbalanced_digits(), digits_network(), Curriculum(3)
    parts = [data.__getitems__(torch.arange(accelerator.process_index, len(data), accelerator.num_processes))
             for data in (digits.train, digits.validation)]  # fmt: skip
    loader, held_out = (list(zip(*(tensor.split(BATCH) for tensor in part), strict=True)) for part in parts)
    curriculum.start(network.head)
    for _ in range(2):
        curriculum.end_epoch(network.backbone, network.head, loader, held_out=held_out, cap=10_000)
    assert curriculum.scaling is not None
    return {"margins": network.head.margins.tolist(), "scale": curriculum.scaling.scale.tolist()}


def everything(folder: Path) -> dict[str, Any]:
    first = trained(folder / "run")  # before anything else here has joined the processes
    accelerator = Accelerator(cpu=True)
    digits = imbalanced_digits()
    return {
        "processes": accelerator.num_processes,
        "seen": {cap: rows_seen(accelerator, cap) for cap in (10_000, CAP)},
        "features": {size: features_of_split(accelerator, size) for size in SIZES},
        "uncertainty": measure_uncertainty(accelerator, digits_network(), digits.train, 10_000, passes=100).tolist(),
        "few": measure_uncertainty(accelerator, digits_network(), digits.train.subset(torch.arange(1)), 5, 5).tolist(),
        "batches": rows_of_batches(accelerator, samples=500),
        "trained": first,
        "own_loop": own_loop(accelerator),
    }


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    seen = everything(folder)
    (folder / f"{Accelerator().process_index}.json").write_text(json.dumps(seen))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
