"""Thousands of identities: trained from a folder, by one process or two, and at the real network's shape."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.losses import UncertaintyMarginLoss
from equipoise.models import image_backbone
from equipoise.paper.faces.face_encoders import RunEncoder, face_features, similarities
from equipoise.paper.faces.pair_files import read_pairs
from equipoise.paper.faces.verification_scores import verification
from equipoise.training import Network
from tests.training.processes import ENVIRONMENT, ROOT


def identities(root, people, *, most=12, fewest=3, side=16):
    """A folder a person, with fewer and fewer images: a natural long tail."""
    rng = np.random.default_rng(0)
    for person in range(people):
        folder = root / f"n{person:06}"
        folder.mkdir(parents=True)
        face = rng.integers(0, 256, (4, 4)).repeat(side // 4, 0).repeat(side // 4, 1)
        for number in range(max(fewest, round(most * (person + 1) ** -0.5))):
            pixels = (face + rng.normal(0, 15, face.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / folder / f"{number}.png")
    return root


@pytest.mark.nightly
def test_a_folder_of_a_thousand_identities_trains_and_verifies_others(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    faces = identities(tmp_path / "faces", 1_050)
    result = train_run(RunOptions(str(faces), epochs=3, backbone="lenet", augment=False), tmp_path / "run")
    assert len(result.classes) == 1_050
    assert all(np.isfinite(result.class_uncertainty))
    counts = np.array(json.loads((result.folder / "run.json").read_text())["train_counts"])
    uncertainty = np.array(result.class_uncertainty)
    assert np.median(uncertainty[counts >= 5]) < 0.9 * np.median(uncertainty[counts <= 2])  # the rarer, the less sure
    assert max(result.margins) == pytest.approx(3)
    strangers = identities(tmp_path / "strangers", 40, fewest=4)
    for folder in strangers.iterdir():
        folder.rename(strangers / f"other {folder.name}")
    pairs = read_pairs(tmp_path / "pairs.txt", strangers, protocol="folder", count=200)[1]
    similarity = similarities(face_features(RunEncoder(RunModel.load(result.folder)), pairs), pairs)
    assert verification(similarity, pairs.same, pairs.fold).accuracy > 0.6


@pytest.mark.nightly
def test_two_processes_train_on_a_folder_of_identities_and_end_alike(tmp_path):
    faces = identities(tmp_path / "faces", 60)
    module = ("-m", "tests.paper.faces.two_processes", str(faces), str(tmp_path))
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    done = subprocess.run([*launch, *module], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert (first["processes"], first["classes"]) == (2, 60)
    assert max(first["margins"]) == 3
    assert np.isfinite(first["losses"]).all()


@pytest.mark.slow
def test_se_resnet50_takes_a_step_with_the_head_of_vggface2():
    """112 × 112 pixels, 8,631 identities, features after global pooling and the two full layers behind it."""
    body = image_backbone("se_resnet50", images=np.random.default_rng(0).integers(0, 256, (2, 3, 112, 112)))
    head = UncertaintyMarginLoss(body.out_features, 8_631, sample_level="expected", dropout=0.5)
    head.margins, head.strength = torch.linspace(1, 3, 8_631), 0.5
    network = Network(body, head).train()
    loss = network(torch.randint(0, 256, (4, 3, 112, 112), dtype=torch.uint8), torch.tensor([0, 8_630, 17, 4_000]))
    loss.backward()
    assert 5 < loss.item() < 20  # log 8,631 is 9.1
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in network.parameters())
    assert body.body.out_features == 2_048
