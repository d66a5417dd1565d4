"""Optimiser and loader: two learning rates for images, workers for those on disk, exact resume with augmentation."""

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise import UncertaintyBalancedClassifier
from equipoise.data.images import Images
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES
from equipoise.models import MLP, Augment, ImageBackbone, ImageInput, LeNet, image_backbone
from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from equipoise.training.accelerate_setup import make_accelerator, make_loader
from equipoise.training.optimizer import Stepper, make_optimizer

SETTINGS = Settings(epochs=2, batch_size=8, learning_rate=0.01, seed=3)


def grey_network(*, body_rate: float = 1.0, augment: Augment | None = None) -> Network:
    torch.manual_seed(0)
    backbone = ImageBackbone(ImageInput(1, augment=augment), LeNet(), MLP(500, (16,)), body_rate=body_rate)
    return Network(backbone, LOSSES["cross_entropy"](16, 2, dropout=0.5))


@pytest.fixture
def images(tmp_path) -> tuple[Images, np.ndarray]:
    """Bright and dark squares on disk."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    for place, label in enumerate(y):
        pixels = rng.integers(0, 100, (28, 28), dtype=np.uint8) + np.uint8(120 * label)
        Image.fromarray(pixels).save(tmp_path / f"{place:02}.png")
    return Images(tmp_path, [f"{place:02}.png" for place in range(40)], size=(28, 28), channels=1), y


def test_what_was_trained_before_learns_more_slowly():
    network = grey_network(body_rate=0.1)
    optimizer, scheduler = make_optimizer(network, SETTINGS, steps=10)
    before, after = optimizer.param_groups
    assert (before["lr"], after["lr"]) == (pytest.approx(0.001), 0.01)
    assert {id(p) for p in before["params"]} == {id(p) for p in network.backbone.body.parameters()}
    together = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(together) == sorted(id(p) for p in network.parameters())
    for _ in range(5):
        optimizer.step()
        scheduler.step()
    assert before["lr"] / after["lr"] == pytest.approx(0.1)  # the schedule moves both alike
    assert after["lr"] == pytest.approx(0.005)


def test_steps_by_torch_alone_have_the_bits_of_those_by_accelerate():
    accelerator, ends = make_accelerator(SETTINGS, None, None), []
    for by_accelerate in (False, True):
        torch.manual_seed(0)
        network = Network(MLP(4, (8,)), LOSSES["cross_entropy"](8, 2))
        model, optimizer, scheduler = accelerator.prepare(network, *make_optimizer(network, SETTINGS, steps=10))
        stepper = Stepper(accelerator, model, optimizer, scheduler)
        assert stepper.every_batch
        if by_accelerate:
            stepper.every_batch, stepper.optimizer, stepper.scheduler = False, optimizer, scheduler
        for _ in range(5):
            with stepper.batch():
                stepper.step(model(torch.randn(6, 4), torch.arange(6) % 2))
            assert stepper.complete
        ends.append((network.state_dict(), scheduler.get_last_lr()))
    (one, rate), (other, other_rate) = ends
    assert rate == other_rate == [pytest.approx(0.005)]
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_interrupted_accumulation_does_not_hold_up_the_next_training(accumulate):
    accelerator = make_accelerator(SETTINGS, None, None)
    accelerator.gradient_state._set_sync_gradients(False)  # as a training that ended between two batches leaves it
    network = Network(MLP(4, (8,)), LOSSES["cross_entropy"](8, 2))
    before = network.head.weight.detach().clone()
    settings = Settings(epochs=1, batch_size=8, accumulate=accumulate)
    train(network, ArrayData(torch.randn(32, 4), torch.arange(32) % 2), settings)
    assert not torch.equal(before, network.head.weight)


@pytest.mark.parametrize("network", [grey_network(), Network(MLP(4, (8,)), LOSSES["cross_entropy"](8, 2))])
def test_one_rate_for_everything_else(network):
    assert [group["lr"] for group in make_optimizer(network, SETTINGS, steps=10)[0].param_groups] == [0.01]


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(InvalidInputError, match="body_rate must be a share of the learning rate from 0 to 1"):
        ImageBackbone(ImageInput(1), LeNet(), body_rate=rate)


def test_images_on_disk_are_decoded_by_workers_and_those_in_memory_are_not(images):
    x, y = images
    accelerator = make_accelerator(SETTINGS, None, None)
    assert make_loader(ArrayData(x, y), SETTINGS, accelerator)[0].num_workers > 0
    assert make_loader(ArrayData(x.cached(), y), SETTINGS, accelerator)[0].num_workers == 0
    assert make_loader(ArrayData(torch.zeros(40, 3), y), SETTINGS, accelerator)[0].num_workers == 0


def test_workers_memory_and_an_array_train_to_the_same_bits(images):
    x, y = images
    ends = []
    for source in (x, x.cached(), np.asarray(x)):
        network = grey_network(augment=Augment())
        train(network, ArrayData(source, y), SETTINGS)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]))
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


@pytest.mark.filterwarnings("ignore:training is short")
def test_images_on_disk_are_mixed_as_those_in_memory_are(images):
    x, y = images
    ends = []
    for source in (x, np.asarray(x)):
        network = grey_network()
        network.head = LOSSES["uncertainty_margin"](16, 2, dropout=0.5, sample_level="mixing")
        torch.manual_seed(1)
        network.head.reset_parameters()
        train(network, ArrayData(source, y), SETTINGS, curriculum=Curriculum(2))
        ends.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]))
    assert torch.equal(*ends)


class Stop(Exception):  # noqa: N818
    pass


class After:
    """Ends a run after so many steps, as a power cut would."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, *_):
        self.left -= 1
        if self.left == 0:
            raise Stop

    def epoch(self, record):
        pass


@pytest.mark.slow
def test_a_resumed_run_repeats_the_augmentation_too(images, tmp_path):
    x, y = images
    settings = Settings(epochs=3, batch_size=8, seed=3, checkpoint_steps=1)
    whole, cut = grey_network(augment=Augment()), grey_network(augment=Augment())
    train(whole, ArrayData(x, y), settings, folder=tmp_path / "whole")
    with pytest.raises(Stop):
        train(cut, ArrayData(x, y), settings, folder=tmp_path / "cut", watcher=After(7))
    again = grey_network(augment=Augment())
    train(again, ArrayData(x, y), settings, folder=tmp_path / "cut")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_the_estimator_takes_images_on_disk(images):
    x, y = images
    labels = np.where(y == 1, "bright", "dark")
    backbone = image_backbone("lenet", images=x)
    model = UncertaintyBalancedClassifier(backbone=backbone, epochs=6, batch_size=8, random_state=0).fit(x, labels)
    assert (model.predict(x) == labels).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(x), model.predict_proba(np.asarray(x)), atol=1e-6)
    assert model.uncertainty(x.take([0, 1, 2])).shape == (3,)


def test_images_need_a_backbone_and_their_own_channels(images):
    x, y = images
    with pytest.raises(InvalidInputError, match="images need a backbone"):
        UncertaintyBalancedClassifier(epochs=1, random_state=0).fit(x, y)
    model = UncertaintyBalancedClassifier(backbone=image_backbone("lenet"), epochs=1, random_state=0).fit(x, y)
    with pytest.raises(InvalidInputError, match="fitted to images of 1 channels, got 3; read them with channels=1"):
        model.predict(Images.of_table(x.table, size=(28, 28), channels=3))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y[:-1])
