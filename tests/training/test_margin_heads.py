"""A curriculum for heads with margins of their own, and the paper to the letter."""

from functools import partial

import pytest
import torch

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, CosineMarginLoss, UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, train

EPOCHS = 6
PRINTED = partial(UncertaintyMarginLoss, form="angular", placement="target", normalize=False, sample_level="printed")


def rare_data():
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 60 + [1] * 60 + [2] * 8)
    centres = torch.eye(3)
    return ArrayData(centres[y] + 0.7 * torch.randn(len(y), 3, generator=generator), y, None)


def watched(head, **options):
    """What the head's buffers are in each epoch."""
    torch.manual_seed(0)
    network = Network(MLP(3, (16,), dropout=0.3), head(16, 3, dropout=0.3))
    seen = []

    class Look:
        def step(self, epoch, stage, steps):  # noqa: ARG002
            if len(seen) == epoch:
                buffers = ("margins", "strength", "sample_strength")
                seen.append({name: getattr(network.head, name, torch.zeros(())).clone() for name in buffers})

        def epoch(self, record):
            pass

    settings = Settings(epochs=EPOCHS, batch_size=16, seed=0)
    with pytest.warns(UserWarning, match="training is short"):
        train(network, rare_data(), settings, curriculum=Curriculum(EPOCHS, **options), watcher=Look())
    return seen


@pytest.mark.parametrize(("kind", "own"), [("am_softmax", 0.35), ("arcface", 0.5)])
def test_a_cosine_heads_margins_follow_from_uncertainty_and_rise_over_the_class_stage(kind, own):
    seen = watched(partial(CosineMarginLoss, kind=kind), strength="head")
    assert [round(float(epoch["strength"]), 4) for epoch in seen] == [0, 0.3333, 0.6667, 1, 1, 1]
    late = seen[1]["margins"]
    assert all(torch.equal(epoch["margins"], late) for epoch in seen[2:])  # once, and kept
    assert late.min() == 0
    assert late.max() == pytest.approx(own)
    assert late.argmax() == 2  # the rare class


def test_without_a_kind_margins_stay_as_the_head_was_built():
    seen = watched(LOSSES["l_softmax"], strength="head", kind=None)
    assert [round(float(epoch["strength"]), 4) for epoch in seen] == [0, 0.0556, 0.1111, 0.1667, 0.1667, 0.1667]
    assert all(torch.equal(epoch["margins"], torch.full((3,), 4.0)) for epoch in seen)


def test_an_angular_heads_margins_lie_between_one_and_its_own():
    late = watched(LOSSES["sphereface"], strength="head")[-1]["margins"]
    assert (late.min(), late.max(), late.argmax()) == (1, 4, 2)


def test_the_paper_as_printed_has_whole_margins_at_full_strength_and_the_sample_level_last():
    seen = watched(PRINTED, strength=1.0, kind="own", rule="paper", held_back=0.0)
    assert [float(epoch["strength"]) for epoch in seen] == [0, 1, 1, 1, 1, 1]
    assert [float(epoch["sample_strength"]) for epoch in seen] == [0, 0, 0, 0, 1, 1]
    margins = seen[-1]["margins"]
    assert set(margins.tolist()) <= {1.0, 2.0, 3.0}
    assert margins.max() == 3


def test_a_strength_that_does_not_fit_the_head_is_refused():
    settings, data = Settings(epochs=EPOCHS, batch_size=16), rare_data()
    for method, strength, message in (
        ("focal", "head", "a curriculum needs a head with margins, got LogitLoss"),
        ("arcface", "uncertainty", "built with one of its own; leave out either"),
        ("uncertainty_margin", "head", "needs a head built with its own margin"),
    ):
        network = Network(MLP(3, (16,)), LOSSES[method](16, 3))
        with pytest.raises(InvalidInputError, match=message):
            train(network, data, settings, curriculum=Curriculum(EPOCHS, strength=strength))
    for strength in ("late", 0.0, -1.0, True, float("nan")):
        with pytest.raises(InvalidInputError, match="strength must be one of uncertainty, feedback, head, or a number"):
            Curriculum(EPOCHS, strength=strength)
    with pytest.raises(InvalidInputError, match="kind must be one of"):
        Curriculum(EPOCHS, kind=None)


@pytest.mark.filterwarnings("ignore:training is short")
def test_an_interrupted_run_of_a_cosine_head_resumes_to_the_same_bits(tmp_path):
    class StopAt(Exception):  # noqa: N818
        pass

    class Killer:
        steps = 0

        def step(self, epoch, stage, steps):  # noqa: ARG002
            self.steps += 1
            if self.steps == 21:
                raise StopAt

        def epoch(self, record):
            pass

    def network():
        torch.manual_seed(0)
        return Network(MLP(3, (16,), dropout=0.3), LOSSES["arcface"](16, 3, dropout=0.3))

    settings, data = Settings(epochs=EPOCHS, batch_size=16, seed=0, checkpoint_steps=1), rare_data()
    whole, resumed = network(), network()
    staged = partial(Curriculum, EPOCHS, strength="head")
    train(whole, data, settings, curriculum=staged())
    with pytest.raises(StopAt):
        train(network(), data, settings, curriculum=staged(), folder=tmp_path, watcher=Killer())
    train(resumed, data, settings, curriculum=staged(), folder=tmp_path)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_the_estimator_brings_in_a_methods_margins_by_stages():
    data = rare_data()
    found = UncertaintyBalancedClassifier("am_softmax", epochs=EPOCHS, strength="head", random_state=0)
    with pytest.warns(UserWarning, match="training is short"):
        found.fit(data.x.numpy(), data.y.numpy())
    assert found.margins_.argmax() == found.class_uncertainty_.argmax() == 2
    assert [record["stage"] for record in found.history_["epochs"]] == ["softmax"] + ["class"] * 3 + ["sample"] * 2
    plain = UncertaintyBalancedClassifier("am_softmax", epochs=2, random_state=0).fit(data.x.numpy(), data.y.numpy())
    assert plain.class_uncertainty_ is None
    assert plain.margins_ == pytest.approx(0.35)
