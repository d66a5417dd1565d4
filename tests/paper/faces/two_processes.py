"""Train on a folder of identities in several processes: ``torchrun -m tests.paper.faces.two_processes FACES OUT``."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator

from equipoise.data.images import read_images
from equipoise.losses import LOSSES
from equipoise.models import image_backbone
from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from tests.training.digits_run import weights_sha256


def main() -> None:
    torch.set_num_threads(1)
    samples = read_images(sys.argv[1], size=16, check=False)
    people, y = np.unique(samples.y, return_inverse=True)
    torch.manual_seed(0)
    body = image_backbone("lenet", images=samples.x)
    network = Network(body, LOSSES["uncertainty_margin"](body.out_features, len(people), dropout=0.5))
    curriculum = Curriculum(3)
    history = train(network, ArrayData(samples.x, y), Settings(epochs=3, batch_size=32), curriculum=curriculum)
    accelerator = Accelerator()
    found = {
        "processes": accelerator.num_processes,
        "losses": [record["loss"] for record in history],
        "sha256": weights_sha256(network),
        "margins": network.head.margins.tolist(),
        "classes": len(people),
    }
    (Path(sys.argv[2]) / f"{accelerator.process_index}.json").write_text(json.dumps(found))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
