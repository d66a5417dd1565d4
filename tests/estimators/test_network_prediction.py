"""The closed-form uncertainty against slow loops, against dropout itself, and in its limits."""

import math

import pytest
import torch
from torch import nn

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import Scaling
from equipoise.estimators.network_prediction import PredictionModule, error_variance, mean_probabilities
from equipoise.losses import LOSSES
from equipoise.training import Network
from equipoise.uncertainty.sample_level import dropout_error_variance
from tests.marks import mostly_slow

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


def plain(trained: Network) -> Calibrated:
    """At a balanced mix, logits as they are."""
    shape = trained.head.class_shape
    even = torch.full(shape, 1 / shape[-1], dtype=torch.float64)
    return Calibrated(even, even, Scaling.identity(shape))


def uneven(*, multilabel: bool = False) -> Calibrated:
    """Scaled class by class, aimed at one mix, trained at another."""
    shape, generator = (4, 2) if multilabel else (4,), torch.Generator().manual_seed(7)
    drawn = torch.rand(4, *shape, generator=generator, dtype=torch.float64) + 0.3
    prior, aimed = (part / part.sum(-1, keepdim=True) for part in drawn[:2])
    return Calibrated(prior, aimed, Scaling(drawn[2], drawn[3]))


def slow_uncertainty(
    trained: Network, f: torch.Tensor, rate: float, calibrated: Calibrated, prior: torch.Tensor | None = None
) -> list[float]:
    """The module's formula, a number at a time, for one label per sample."""
    found, scale, bias = [], calibrated.scaling.scale, calibrated.scaling.bias
    at = calibrated.aimed if prior is None else prior
    for row in f:
        logits = trained.head.logits(row[None])[0] * scale + bias + (at / calibrated.aimed).log()
        best = int(logits.argmax())
        vectors = trained.head.class_vectors(torch.float64)
        shrunk = []
        for j in range(len(logits)):
            difference = scale[j] * vectors[j] - scale[best] * vectors[best]
            variance = sum(float(difference[d]) ** 2 * float(row[d]) ** 2 for d in range(len(row))) * rate / (1 - rate)
            shrunk.append(float(logits[j] - logits[best]) / math.sqrt(1 + math.pi / 8 * variance))
        weights = [math.exp(value) for value in shrunk]
        found.append(sum(w / sum(weights) * (1 - w / sum(weights)) for w in weights))
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
@torch.no_grad()
def test_it_is_the_formula(rate):
    trained = network(dropout=rate)
    answer = PredictionModule(trained, plain(trained))(features())
    expected = slow_uncertainty(trained, features(), rate, plain(trained))
    torch.testing.assert_close(answer.uncertainty, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(answer.probabilities, trained.head.logits(features()).softmax(-1))


@pytest.mark.parametrize("prior", [None, (0.7, 0.1, 0.1, 0.1)])
@torch.no_grad()
def test_class_and_uncertainty_are_of_the_calibrated_decision(prior):
    trained, calibrated = network(), uneven()
    given = None if prior is None else torch.tensor(prior, dtype=torch.float64)
    answer = PredictionModule(trained, calibrated, target_prior=prior)(features())
    logits = trained.head.logits(features())
    expected = slow_uncertainty(trained, features(), 0.5, calibrated, given)
    torch.testing.assert_close(answer.uncertainty, torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(answer.predicted, calibrated.decided(logits, prior))
    torch.testing.assert_close(answer.probabilities, calibrated.probabilities(logits, prior))


@torch.no_grad()
def test_without_dropout_it_is_the_variance_of_the_label_that_is_decided_by_the_calibrated_probabilities():
    trained, calibrated = network("cross_entropy", dropout=0.0, multilabel=True), uneven(multilabel=True)
    answer = PredictionModule(trained, calibrated)(features())
    decided = calibrated.probabilities(trained.head.logits(features()), calibrated.aimed)
    torch.testing.assert_close(answer.uncertainty, (decided * (1 - decided)).flatten(1).sum(-1))
    assert torch.equal(answer.predicted, decided.argmax(-1))


@torch.no_grad()
def test_a_class_that_a_mix_rules_out_is_never_decided_on_and_leaves_the_answer_finite():
    trained = network()
    answer = PredictionModule(trained, plain(trained), target_prior=[0, 0, 1, 1])(features())
    assert bool((answer.predicted >= 2).all())
    assert bool(answer.uncertainty.isfinite().all())


@torch.no_grad()
def test_the_network_is_left_in_its_mode():
    trained = network().train()
    PredictionModule(trained, plain(trained))
    assert all(module.training for module in trained.modules())


@pytest.mark.parametrize("multilabel", [False, True])
@torch.no_grad()
def test_its_variance_is_that_of_the_sample_level_against_the_predicted_class(multilabel):
    trained = network(multilabel=multilabel)
    logits = trained.head.logits(features())
    vectors = trained.head.class_vectors(torch.float64)
    vectors = vectors.unflatten(0, (4, 2)) if multilabel else vectors
    expected = dropout_error_variance(features(), vectors, logits.argmax(-1), rate=0.5)
    found = error_variance(trained.head, features(), logits.argmax(-1), torch.ones_like(logits[0]))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("method", mostly_slow(["uncertainty_margin", "cross_entropy", "arcface"]))
@torch.no_grad()
def test_it_is_close_to_dropout_itself(method):
    trained = network(method, dropout=0.3)
    f = torch.rand(64, DIMENSIONS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.manual_seed(4)
    trained.head.train()  # as a stochastic pass is made
    mean = torch.stack([trained.head.logits(f) for _ in range(4000)]).softmax(-1).mean(0)
    drawn = (mean * (1 - mean)).sum(-1)
    answer = PredictionModule(trained.eval(), plain(trained))(f)
    of_one_pass = (answer.probabilities * (1 - answer.probabilities)).sum(-1)
    assert (answer.uncertainty - drawn).abs().mean() < 0.6 * (of_one_pass - drawn).abs().mean()
    assert torch.corrcoef(torch.stack((answer.uncertainty, drawn)))[0, 1] > 0.93


@torch.no_grad()
def test_without_dropout_it_is_the_variance_of_the_label():
    trained = network("cross_entropy", dropout=0.0)
    answer = PredictionModule(trained, plain(trained))(features())
    torch.testing.assert_close(answer.uncertainty, 1 - answer.probabilities.square().sum(-1))


@torch.no_grad()
def test_several_labels_are_added_up():
    trained = network(multilabel=True)
    answer = PredictionModule(trained, plain(trained))(features())
    assert answer.probabilities.shape == (BATCH, 4)
    logits = trained.head.logits(features())
    torch.testing.assert_close(answer.probabilities, logits.softmax(-1)[..., 1])
    variance = error_variance(trained.head, features(), logits.argmax(-1), torch.ones_like(logits[0]))
    mean = mean_probabilities(logits, variance)
    torch.testing.assert_close(answer.uncertainty, 2 * (mean[..., 0] * mean[..., 1]).sum(-1))


def test_for_two_classes_it_is_mackays_formula():
    logits, variance = torch.tensor([[2.0, 0.5]], dtype=torch.float64), torch.tensor([[0.0, 3.0]], dtype=torch.float64)
    expected = torch.sigmoid(torch.tensor(1.5 / math.sqrt(1 + math.pi * 3 / 8), dtype=torch.float64))
    torch.testing.assert_close(mean_probabilities(logits, variance)[0, 0], expected)


@torch.no_grad()
def test_a_row_is_answered_alike_in_any_batch():
    answers = PredictionModule(network(), plain(network()))
    together, alone = answers(features()), answers(features()[2:3])
    torch.testing.assert_close(together.uncertainty[2:3], alone.uncertainty, rtol=1e-12, atol=0)


@torch.no_grad()
def test_features_of_any_size_give_finite_answers():
    answers = PredictionModule(network().float(), plain(network()))
    for size in (0.0, 1e-30, 1e6):
        answer = answers(features().float() * size)
        assert bool(answer.uncertainty.isfinite().all())
        assert bool(((answer.uncertainty >= 0) & (answer.uncertainty <= 0.75 + 1e-6)).all())
