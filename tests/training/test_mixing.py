"""Mixed samples: the formula, who is drawn how often, and the same bits on any number of processes and after a stop."""

import math

import numpy as np
import pytest
import torch

from equipoise import UncertaintyBalancedClassifier
from equipoise.data.labels import class_counts
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, EpochBatches, Network, Settings, train
from equipoise.training.margin_strength import class_steps
from equipoise.training.mixing import DrawnData, Pairs, draw_partners, mixed, partner_prior
from tests.marks import mostly_slow
from tests.reference.losses import mixed_loss

COUNTS = torch.tensor([60, 30, 6])
Y = torch.repeat_interleave(torch.arange(3), COUNTS)
EPOCHS = 6


def blobs(weight: torch.Tensor | None = None) -> ArrayData:
    noise = torch.randn(len(Y), 4, generator=torch.Generator().manual_seed(0))
    return ArrayData(noise + 2 * Y[:, None], Y, weight)


def mixing_network(**options) -> Network:
    torch.manual_seed(0)
    head = LOSSES["uncertainty_margin"](8, 3, dropout=0.5, sample_level="mixing", class_counts=COUNTS, **options)
    return Network(MLP(4, (8,)), head)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_loss_of_mixed_samples_is_the_loop_over_both_labels_under_the_class_prior(power):
    generator = torch.Generator().manual_seed(1)
    x, vectors = (torch.randn(rows, 5, generator=generator, dtype=torch.float64) for rows in (6, 3))
    pairs = Pairs(np.array([0, 1, 2, 3]), np.array([5, 4, 2, 0]), np.array([0.9, 0.5, 0.2, 1.0]))
    y, weight = torch.tensor([0, 2, 1, 1, 0, 2]), torch.tensor([1.0, 2.0, 0.5, 1.0, 4.0, 0.0], dtype=torch.float64)
    head = UncertaintyMarginLoss(5, 3, sample_level="mixing", class_counts=COUNTS).double()
    head.weight.data = vectors
    curriculum = Curriculum(3, margins="counts", partner_power=power)
    curriculum.set_uncertainty(torch.ones(3), head)
    curriculum.start_epoch(1, head)
    found = Network(torch.nn.Identity(), head)(*DrawnData(ArrayData(x, y, weight)).__getitems__(pairs))
    drawn = (each.tolist() for each in pairs)
    expected = mixed_loss(x.tolist(), y.tolist(), vectors.tolist(), COUNTS.tolist(), *drawn, weight.tolist())
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)


def test_classes_weigh_the_mean_of_both_priors_over_many_draws_with_weights_and_without():
    weight = torch.linspace(0.5, 3.0, len(Y)).double()
    for each in (None, weight):
        data = blobs(each)
        prior = class_counts(Y, 3, each).double()
        prior = prior / prior.sum()
        partners = partner_prior(prior)
        rows = torch.arange(len(Y)).repeat(200)
        drawn, shares = draw_partners(rows, Y, partners, seed=[0])
        _, target, own, partner, rest = DrawnData(data).__getitems__(Pairs(rows.numpy(), drawn, shares))
        found = torch.bincount(target, own.double()) + torch.bincount(partner, rest.double())
        torch.testing.assert_close(found / found.sum(), (prior + partners) / 2, atol=0.012, rtol=0)
        torch.testing.assert_close(torch.bincount(Y[drawn]) / len(drawn), partners.float(), atol=0.012, rtol=0)
    assert abs(shares.mean() - 0.5) < 0.012
    assert abs(shares.var() - 1 / (4 * 1.8)) < 0.005  # of Beta(0.4, 0.4)


def test_partners_come_from_the_rows_that_take_part_and_from_no_class_without_any():
    kept = torch.cat((torch.arange(10), torch.arange(90, 92)))  # of the classes 0 and 2
    drawn = draw_partners(kept, Y, torch.tensor([0.2, 0.5, 0.3]), seed=[3])[0]
    assert set(drawn) <= set(kept.tolist())
    several = torch.stack((Y == 0, Y == 1), 1).long()  # has no classes to draw by
    assert set(draw_partners(kept, several, torch.ones(2, 2) / 2, seed=[3])[0]) <= set(kept.tolist())


def listed(batches):
    """Each batch as its list of (row, partner, share)."""
    return [[*zip(*(each.tolist() for each in pairs), strict=True)] for pairs in batches]


def test_pairs_are_a_function_of_seed_and_visit_and_processes_share_them_out():
    batches = EpochBatches(Y, 20, seed=4)
    plain = list(batches)
    batches.partners = torch.tensor([0.4, 0.3, 0.3])
    whole = listed(batches)
    assert [[pair[0] for pair in batch] for batch in whole] == plain  # samples come in the order that they had
    batches.start = 2
    assert listed(batches) == whole[2:]  # after a resume
    batches.start, batches.epoch = 0, 1
    assert listed(batches)[0] != whole[0]
    batches.epoch = 0
    halves = []
    for process in (0, 1):
        shared = EpochBatches(Y, 20, seed=4, process=process, processes=2)
        shared.partners = batches.partners
        halves.append(listed(shared))
    assert [a + b for a, b in zip(*halves, strict=True)] == whole


def test_a_run_with_mixing_resumes_to_the_same_bits(tmp_path):
    settings = Settings(epochs=EPOCHS, batch_size=16, epoch_batches=4, seed=3, checkpoint_steps=1)
    data = blobs(torch.linspace(1, 2, len(Y)))

    class StopAt:
        def __init__(self) -> None:
            self.left = 14

        def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
            self.left -= 1
            if self.left == 0:
                raise InterruptedError("the machine went down")

        def epoch(self, record: dict) -> None: ...

    def run(network: Network, **options) -> Network:
        with pytest.warns(UserWarning, match="training is short"):
            train(network, data, settings, curriculum=Curriculum(EPOCHS, margins="corrected"), **options)
        return network

    whole = run(mixing_network())
    with pytest.raises(InterruptedError, match="went down"):
        run(mixing_network(), folder=tmp_path, watcher=StopAt())
    resumed = run(mixing_network(), folder=tmp_path)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_samples_are_mixed_from_the_class_stage_on_and_only_for_a_head_that_asks():
    curriculum, loss = Curriculum(EPOCHS, margins="counts"), mixing_network().head
    curriculum.set_uncertainty(torch.ones(3), loss)
    stages = [curriculum.partners(epoch, loss) is not None for epoch in range(EPOCHS)]
    assert stages == [False] + [True] * 5
    torch.testing.assert_close(curriculum.partners(1, loss), partner_prior(COUNTS / COUNTS.sum()).double())
    assert curriculum.partners(1, UncertaintyMarginLoss(8, 3, class_counts=COUNTS)) is None
    late = Curriculum(EPOCHS, margins="counts", mix_from="sample")
    late.set_uncertainty(torch.ones(3), loss)
    assert [late.partners(epoch, loss) is not None for epoch in range(EPOCHS)] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("margins", "steps"),
    [("counts", [0, math.log(2), math.log(10)]), ("uncertainty", [0, 0, math.log(30)])],
)
def test_margins_hold_classes_back_by_what_their_source_says(margins, steps):
    curriculum = Curriculum(3, margins=margins, held_back=0.0)
    loss = UncertaintyMarginLoss(8, 3, class_counts=COUNTS)
    curriculum.set_uncertainty(torch.tensor([1.0, 1.0, 30.0]), loss)
    curriculum.start_epoch(1, loss)
    torch.testing.assert_close(loss.strength * (loss.margins - 1), torch.tensor(steps))
    with pytest.raises(InvalidInputError, match="needs class counts; build the loss with class_counts"):
        class_steps("corrected", torch.ones(3), None)


def test_bytes_are_mixed_as_bytes_and_a_whole_share_changes_nothing():
    images = torch.randint(256, (4, 3, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(mixed(images, images.flip(0), torch.ones(4)), images)
    half = mixed(images, images.flip(0), torch.full((4,), 0.5))
    assert half.dtype == torch.uint8
    assert (half.float() - (images.float() + images.flip(0).float()) / 2).abs().max() <= 0.5


@pytest.mark.filterwarnings("ignore:training is short")
@pytest.mark.parametrize("several", mostly_slow([False, True]))
def test_the_estimator_mixes_reproducibly_and_learns(several):
    x, y = blobs().x.numpy(), Y.numpy()
    y = np.stack((y == 0, y == 2), 1).astype(int) if several else y
    options = {"sample_level": "mixing", "margins": "corrected", "epochs": 25, "width": 32, "random_state": 0}
    first, again = (UncertaintyBalancedClassifier(**options).fit(x, y) for _ in range(2))
    assert np.array_equal(first.predict_proba(x), again.predict_proba(x))
    plain = UncertaintyBalancedClassifier(**options | {"sample_level": "none"}).fit(x, y)
    assert not np.array_equal(first.predict_proba(x), plain.predict_proba(x))
    assert (first.predict(x) == y).mean() > 0.8


@pytest.mark.parametrize("placement", ["all", "target"])
@pytest.mark.parametrize("members", [1, 2])
def test_mixed_attributes_weigh_both_labels_and_their_classes(placement, members):
    class_weight = torch.tensor([[1.0, 3.0], [0.5, 2.0]])
    head = UncertaintyMarginLoss(
        4, 2, multilabel=True, sample_level="mixing", placement=placement, members=members, class_weight=class_weight
    )
    head.margins, head.strength = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor(0.5)
    features, share = torch.randn(5, 4), torch.linspace(0, 1, 5)
    labels = torch.randint(2, (2, 5, 2), generator=torch.Generator().manual_seed(0))
    expected = 0.0
    for target, weight in zip(labels, (share, 1 - share), strict=True):
        losses = head.sample_losses(features, target)
        for row, attribute in np.ndindex(5, 2):
            own = class_weight[attribute, target[row, attribute]]
            expected += weight[row] * own * losses[row, attribute] / 5
    torch.testing.assert_close(head.mixed_loss(features, tuple(labels), (share, 1 - share)), expected)


def test_margins_of_the_target_alone_follow_each_of_the_two_labels():
    head = UncertaintyMarginLoss(4, 3, sample_level="mixing", placement="target", margin=2.0, strength=0.5)
    features, own, partner = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]), torch.tensor([1, 1, 0, 2, 2])
    share = torch.linspace(0, 1, 5)
    expected = sum(
        (weight * UncertaintyMarginLoss.sample_losses(head, features, labels)).sum()
        for labels, weight in ((own, share), (partner, 1 - share))
    )
    torch.testing.assert_close(head.mixed_loss(features, (own, partner), (share, 1 - share)), expected / 5)
    with pytest.raises(InvalidInputError, match="LogitLoss does not support mixing"):
        LOSSES["focal"](4, 3).mixed_loss(features, (own, partner), (share, share))
