"""The closed-form uncertainty against slow loops, against dropout itself, and in its limits."""

import math

import pytest
import torch
from torch import nn

from equipoise.losses import LOSSES
from equipoise.runs.answers import Answers, error_variance, mean_probabilities
from equipoise.training import Network
from equipoise.uncertainty.samples import dropout_error_variance

COUNTS = torch.tensor([40.0, 20.0, 10.0, 5.0])
DIMENSIONS, BATCH = 7, 5


def network(method: str = "uncertainty_margin", *, multilabel: bool = False, dropout: float = 0.5) -> Network:
    counts = torch.stack((COUNTS, COUNTS.flip(0)), dim=-1) if multilabel else COUNTS
    head = LOSSES[method](DIMENSIONS, 4, multilabel=multilabel, dropout=dropout, class_counts=counts).double()
    with torch.no_grad():
        head.weight.copy_(torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(1)))
    return Network(nn.Identity(), head).eval()


def features() -> torch.Tensor:
    return torch.randn(BATCH, DIMENSIONS, generator=torch.Generator().manual_seed(2), dtype=torch.float64).abs()


def slow_uncertainty(trained: Network, f: torch.Tensor, rate: float) -> list[float]:
    """The module's formula, a number at a time, for one label a sample."""
    found = []
    for row in f:
        logits = trained.head.logits(row[None])[0]
        best = int(logits.argmax())
        shrunk = []
        for j in range(len(logits)):
            difference = trained.head.class_vectors(torch.float64)[j] - trained.head.class_vectors(torch.float64)[best]
            variance = sum(float(difference[d]) ** 2 * float(row[d]) ** 2 for d in range(len(row))) * rate / (1 - rate)
            shrunk.append(float(logits[j] - logits[best]) / math.sqrt(1 + math.pi / 8 * variance))
        weights = [math.exp(value) for value in shrunk]
        found.append(sum(w / sum(weights) * (1 - w / sum(weights)) for w in weights))
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
@torch.no_grad()
def test_it_is_the_formula(rate):
    trained = network(dropout=rate)
    answer = Answers(trained)(features())
    expected = slow_uncertainty(trained, features(), rate)
    torch.testing.assert_close(answer.uncertainty, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(answer.probabilities, trained.head.logits(features()).softmax(-1))


@pytest.mark.parametrize("multilabel", [False, True])
@torch.no_grad()
def test_its_variance_is_that_of_the_sample_level_against_the_predicted_class(multilabel):
    trained = network(multilabel=multilabel)
    logits = trained.head.logits(features())
    vectors = trained.head.class_vectors(torch.float64)
    vectors = vectors.unflatten(0, (4, 2)) if multilabel else vectors
    expected = dropout_error_variance(features(), vectors, logits.argmax(-1), rate=0.5)
    torch.testing.assert_close(error_variance(trained.head, features(), logits), expected)


@pytest.mark.parametrize("method", ["uncertainty_margin", "cross_entropy", "arcface"])
@torch.no_grad()
def test_it_is_close_to_dropout_itself(method):
    trained = network(method, dropout=0.3)
    f = torch.rand(64, DIMENSIONS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.manual_seed(4)
    trained.head.train()  # as a stochastic pass is made
    mean = torch.stack([trained.head.logits(f) for _ in range(4000)]).softmax(-1).mean(0)
    drawn = (mean * (1 - mean)).sum(-1)
    answer = Answers(trained)(f)
    plain = (answer.probabilities * (1 - answer.probabilities)).sum(-1)
    assert (answer.uncertainty - drawn).abs().mean() < 0.6 * (plain - drawn).abs().mean()
    assert torch.corrcoef(torch.stack((answer.uncertainty, drawn)))[0, 1] > 0.93


@torch.no_grad()
def test_without_dropout_it_is_the_variance_of_the_label():
    trained = network("cross_entropy", dropout=0.0)
    answer = Answers(trained)(features())
    torch.testing.assert_close(answer.uncertainty, 1 - answer.probabilities.square().sum(-1))


@torch.no_grad()
def test_several_labels_are_added_up():
    trained = network(multilabel=True)
    answer = Answers(trained)(features())
    assert answer.probabilities.shape == (BATCH, 4)
    logits = trained.head.logits(features())
    torch.testing.assert_close(answer.probabilities, logits.softmax(-1)[..., 1])
    mean = mean_probabilities(logits, error_variance(trained.head, features(), logits))
    torch.testing.assert_close(answer.uncertainty, 2 * (mean[..., 0] * mean[..., 1]).sum(-1))


def test_for_two_classes_it_is_mackays_formula():
    logits, variance = torch.tensor([[2.0, 0.5]], dtype=torch.float64), torch.tensor([[0.0, 3.0]], dtype=torch.float64)
    expected = torch.sigmoid(torch.tensor(1.5 / math.sqrt(1 + math.pi * 3 / 8), dtype=torch.float64))
    torch.testing.assert_close(mean_probabilities(logits, variance)[0, 0], expected)


@torch.no_grad()
def test_a_row_is_answered_alike_in_any_batch():
    answers = Answers(network())
    together, alone = answers(features()), answers(features()[2:3])
    torch.testing.assert_close(together.uncertainty[2:3], alone.uncertainty, rtol=1e-12, atol=0)


@torch.no_grad()
def test_features_of_any_size_give_finite_answers():
    answers = Answers(network().float())
    for size in (0.0, 1e-30, 1e6):
        answer = answers(features().float() * size)
        assert bool(answer.uncertainty.isfinite().all())
        assert bool(((answer.uncertainty >= 0) & (answer.uncertainty <= 0.75 + 1e-6)).all())
