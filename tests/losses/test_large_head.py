"""A head of thousands of identities: worked out in parts, within the memory of softmax, and safe in half precision."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from equipoise.losses import LOSSES, UncertaintyMarginLoss, sample_level_logits
from equipoise.models.resnet import BasicBlock
from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from equipoise.uncertainty import dropout_error_moments, dropout_error_variance, margins_from_uncertainty
from equipoise.uncertainty import sample_level as samples

ROOT = Path(__file__).parents[2]
FULL = {"expected": "additive", "complement": "angular", "printed": "additive"}


def long_tailed_head(classes, features=16, sample_level="expected"):
    head = UncertaintyMarginLoss(
        features, classes, form=FULL[sample_level], sample_level=sample_level, dropout=0.5, reduction="none"
    )
    head.margins = margins_from_uncertainty(torch.linspace(1, 9, classes))
    head.strength = 0.5
    return head


@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_moments_in_parts_are_the_moments(monkeypatch, rows):
    features, vectors = torch.randn(6, 16, dtype=torch.float64), torch.randn(50, 16, dtype=torch.float64)
    target = torch.tensor([0, 6, 7, 48, 49, 20])
    difference = vectors - vectors[target].unsqueeze(1)  # (batch, classes, D)
    expected = (difference.square() * features.square().unsqueeze(1)).sum(-1)
    monkeypatch.setattr(samples, "NUMBERS_AT_ONCE", rows * 16)
    torch.testing.assert_close(dropout_error_variance(features, vectors, target, rate=0.5), expected)
    mean, variance = dropout_error_moments(features, vectors, target, rate=0.5)
    torch.testing.assert_close(variance, expected)
    torch.testing.assert_close(mean, (difference * features.unsqueeze(1)).sum(-1))


def test_moments_in_parts_have_gradients(monkeypatch):
    features, vectors = (torch.randn(n, 5, dtype=torch.float64, requires_grad=True) for n in (3, 9))
    target = torch.tensor([0, 4, 8])
    monkeypatch.setattr(samples, "NUMBERS_AT_ONCE", 20)
    assert torch.autograd.gradcheck(
        lambda f, v: tuple(dropout_error_moments(f, v, target, rate=0.3)), (features, vectors)
    )


@pytest.mark.parametrize("sample_level", FULL)
def test_a_loss_in_parts_is_the_loss(monkeypatch, sample_level):
    features, target = torch.randn(9, 16), torch.randint(40, (9,))
    found = {}
    for numbers in (2**18, 80):  # at once, and two samples or five classes at a time
        monkeypatch.setattr(sample_level_logits, "NUMBERS_AT_ONCE", numbers)
        monkeypatch.setattr(samples, "NUMBERS_AT_ONCE", numbers)
        torch.manual_seed(0)
        head = long_tailed_head(40, sample_level=sample_level)
        own = features.clone().requires_grad_()
        losses = head(own, target)
        losses.sum().backward()
        found[numbers] = losses, own.grad, head.weight.grad
    for whole, parts in zip(*found.values(), strict=True):
        torch.testing.assert_close(parts, whole)


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is measured on Linux only")
def test_the_full_methods_head_stays_within_twice_the_memory_of_softmax():
    def peak(head):
        command = [sys.executable, str(ROOT / "benchmarks" / "face_head.py"), "--peak-of", head]
        environment = {"MALLOC_MMAP_THRESHOLD_": "1048576", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return float(re.fullmatch(r"([\d.]+)\n", done.stdout)[1])

    softmax = peak("softmax")
    assert softmax > 25  # MB: the gradient of the weights and the logits twice
    assert peak("Equipoise") < 2 * softmax


class SmallFaces(nn.Module):
    out_features = 32

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), BasicBlock(16, 32, 2))

    def forward(self, x):
        return self.layers(x).mean((-2, -1))


@pytest.mark.parametrize("sample_level", ["expected", "complement"])
def test_a_step_in_bfloat16_is_near_that_in_float32(sample_level):
    images, target = torch.randn(16, 1, 16, 16), torch.randint(1_000, (16,))
    found = []
    for half in (False, True):
        torch.manual_seed(0)
        body, head = SmallFaces(), long_tailed_head(1_000, 32, sample_level)
        head.reduction = "mean"
        torch.manual_seed(1)  # the same dropout
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            features = body(images)
            loss = head(features, target)
        assert (features.dtype == torch.bfloat16) == half
        assert loss.dtype == torch.float32
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in (*body.parameters(), *head.parameters())])
        assert gradient.isfinite().all()
        found.append((loss.detach(), gradient))
    (plain, plain_gradient), (rough, rough_gradient) = found
    torch.testing.assert_close(rough, plain, rtol=1e-2, atol=0)
    assert torch.cosine_similarity(rough_gradient, plain_gradient, dim=0) > 0.99


@pytest.mark.slow
def test_training_in_bfloat16_goes_through_all_stages_on_a_long_tail():
    counts = torch.linspace(12, 2, 30).round().long()
    y = torch.arange(30).repeat_interleave(counts)
    centres = torch.randn(30, 1, 16, 16)
    x = centres[y] + 0.5 * torch.randn(len(y), 1, 16, 16)
    network = Network(SmallFaces(), LOSSES["uncertainty_margin"](32, 30, sample_level="expected", dropout=0.5))
    settings = Settings(epochs=3, batch_size=32, precision="bf16")
    history = train(network, ArrayData(x, y), settings, curriculum=Curriculum(3))
    assert [record["stage"] for record in history] == ["softmax", "class", "sample"]
    assert history[-1]["loss"] < history[0]["loss"] + 1
    assert float(network.head.strength) > 0
    assert network.head.margins.max() == 3
    assert all(parameter.isfinite().all() for parameter in network.parameters())
