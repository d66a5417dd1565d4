"""The three stages, and the strength that follows from class uncertainty."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import UncertaintyMarginLoss, psi
from equipoise.training import Curriculum

UNCERTAINTY = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)


def stages(**options):
    curriculum = Curriculum(**options)
    return [curriculum.stage(epoch) for epoch in range(options["epochs"])]


def test_half_of_the_epochs_are_the_class_stage_by_default_and_whole_numbers_count_epochs():
    assert stages(epochs=12) == ["softmax"] * 2 + ["class"] * 6 + ["sample"] * 4
    assert stages(epochs=50, sample_level=10) == ["softmax"] * 10 + ["class"] * 30 + ["sample"] * 10
    assert stages(epochs=5, softmax=2, class_level=2, sample_level=1) == ["softmax"] * 2 + ["class"] * 2 + ["sample"]
    assert stages(epochs=4, softmax=1.0, class_level=0.0, sample_level=0.0) == ["softmax"] * 4
    assert stages(epochs=6, softmax=0.5, class_level=0.5, sample_level=0.0) == ["softmax"] * 3 + ["class"] * 3
    assert stages(epochs=50, sample_level=np.int64(10)) == stages(epochs=50, sample_level=10)
    assert stages(epochs=1) == ["softmax"]
    assert stages(epochs=2) == ["softmax", "class"]


@given(
    epochs=st.integers(1, 200),
    shares=st.tuples(*[st.one_of(st.floats(0, 1), st.integers(1, 20))] * 3).filter(lambda s: sum(s) > 0),
)
def test_stages_always_come_in_order_and_begin_with_softmax(epochs, shares):
    counted = sum(share for share in shares if isinstance(share, int))
    if counted > epochs or (counted < epochs and not any(share for share in shares if isinstance(share, float))):
        with pytest.raises(InvalidInputError, match="but there are"):
            Curriculum(epochs, softmax=shares[0], class_level=shares[1], sample_level=shares[2])
        return
    curriculum = Curriculum(epochs, softmax=shares[0], class_level=shares[1], sample_level=shares[2])
    found = [curriculum.stage(epoch) for epoch in range(epochs)]
    assert found[0] == "softmax"
    assert found == sorted(found, key=["softmax", "class", "sample"].index)
    if epochs > 1 and shares[1] + shares[2] > 0 and not isinstance(shares[0], int):
        assert found[-1] != "softmax"
    assert sum(curriculum.wants_uncertainty(epoch) for epoch in range(epochs)) == (found[-1] != "softmax")


def test_at_full_strength_a_class_is_held_back_by_the_logarithm_of_its_uncertainty():
    loss, curriculum = UncertaintyMarginLoss(4, 3), Curriculum(9)
    curriculum.start_epoch(0, loss)
    curriculum.set_uncertainty(UNCERTAINTY, loss)
    strengths = []
    for epoch in range(3, 9):
        curriculum.start_epoch(epoch, loss)
        strengths.append(float(loss.strength))
    shift = strengths[-1] * (loss.margins - 1)
    torch.testing.assert_close(shift, (UNCERTAINTY / 0.5).log().float())
    assert strengths == sorted(strengths)


def test_the_strength_rises_step_by_step_and_the_sample_level_comes_last():
    loss, curriculum = UncertaintyMarginLoss(4, 3), Curriculum(36)
    seen = []
    for epoch in range(36):
        curriculum.start_epoch(epoch, loss)
        seen.append((float(loss.strength), float(loss.sample_strength)))
        if curriculum.wants_uncertainty(epoch):
            curriculum.set_uncertainty(UNCERTAINTY, loss)
    full = math.log(8) / 2
    assert [s for s, _ in seen[:6]] == [0.0] * 6
    rising = torch.tensor([0.2, 0.4, 0.6, 0.8, 1, 1])
    torch.testing.assert_close(torch.tensor([s for s, _ in seen[6:12]]), full * rising)
    assert [t for _, t in seen] == [0.0] * 24 + [1.0] * 12


def test_equally_uncertain_classes_get_no_margin_at_all():
    loss, curriculum = UncertaintyMarginLoss(4, 3), Curriculum(3)
    curriculum.set_uncertainty(torch.full((3,), 0.7), loss)
    curriculum.start_epoch(2, loss)
    assert float(loss.strength) == 0
    assert torch.equal(loss.margins, torch.ones(3))


def test_a_stage_without_its_uncertainty_is_refused():
    with pytest.raises(InvalidStateError, match="call set_uncertainty at the end of epoch 1"):
        Curriculum(9).start_epoch(3, UncertaintyMarginLoss(4, 3))


def test_feedback_moves_the_strength_towards_what_is_lacking():
    loss = UncertaintyMarginLoss(3, 3)
    with torch.no_grad():
        loss.weight.copy_(torch.eye(3))
    curriculum = Curriculum(9, strength="feedback")
    curriculum.set_uncertainty(UNCERTAINTY, loss)
    target = torch.arange(3).repeat(50)
    features = 2 * torch.eye(3)[target] + torch.randn(150, 3)
    features[:, 2] -= 1.5  # the most uncertain class is underrated
    lacking = curriculum.adapt(loss, features, target)
    assert lacking > 0
    assert float(loss.strength) == pytest.approx(lacking / 2)
    features[:, 2] += 50  # and now far overrated
    curriculum.adapt(loss, features, target)
    assert float(loss.strength) == 0


def test_feedback_of_an_angle_is_measured_in_angles():
    loss = UncertaintyMarginLoss(6, 3, form="angular")
    curriculum = Curriculum(9, strength="feedback")
    curriculum.set_uncertainty(UNCERTAINTY, loss)
    target = torch.arange(3).repeat(40)
    features = 5 * torch.nn.functional.normalize(loss.weight.detach())[target] + 2 * torch.randn(120, 6)
    lacking = curriculum.adapt(loss, features - 2 * torch.nn.functional.normalize(loss.weight.detach())[2], target)
    assert lacking > 0
    assert curriculum.angle != 1
    assert float(loss.strength) == pytest.approx(0.5 * curriculum.angle * lacking)


def test_an_angle_is_given_the_strength_that_moves_logits_as_far_as_the_shift():
    loss = UncertaintyMarginLoss(6, 3, form="angular")
    curriculum = Curriculum(9)
    curriculum.set_uncertainty(UNCERTAINTY, loss)
    assert curriculum.wants_features(2, loss)
    assert not Curriculum(9).wants_features(2, UncertaintyMarginLoss(6, 3))
    target = torch.arange(3).repeat(40)
    features = 5 * torch.nn.functional.normalize(loss.weight.detach())[target] + torch.randn(120, 6)
    curriculum.adapt(loss, features, target)
    curriculum.start_epoch(8, loss)
    plain = loss.logits(features).detach()
    cosine = plain / features.norm(dim=1, keepdim=True)
    moved = float(loss.strength) * features.norm(dim=1, keepdim=True) * (cosine - psi(cosine, loss.margins))
    own = moved.gather(1, target[:, None]).mean()
    wanted = (UNCERTAINTY / 0.5).log()[target].mean()
    assert float(own) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.parametrize(
    ("options", "rejoin_epoch"),
    [
        ({}, 6),
        ({"held_back": 0}, 0),
        ({"sample_level": 0}, 0),  # nobody could give them back
        ({"class_level": 0}, 0),  # there are no margins before
        ({"class_level": 2, "sample_level": 3}, 6),
    ],
)
def test_samples_are_held_back_from_all_stages_but_the_last(options, rejoin_epoch):
    curriculum = Curriculum(9, **options)
    assert curriculum.rejoin_epoch == rejoin_epoch
    wanted = [epoch for epoch in range(9) if curriculum.wants_correction(epoch)]
    assert wanted == ([rejoin_epoch - 1] if rejoin_epoch else [])


def test_a_prediction_is_moved_by_what_held_out_samples_lack_and_no_loss_is():
    curriculum, loss = Curriculum(9), UncertaintyMarginLoss(3, 3)
    with pytest.raises(InvalidStateError, match="no margins to correct yet; call set_uncertainty first"):
        curriculum.correct(loss, torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1]))
    with torch.no_grad():
        loss.weight.copy_(torch.eye(3))  # logits are the features themselves
    curriculum.set_uncertainty(torch.tensor([1.0, 1.0, math.e]), loss)
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(3).repeat(200)
    features = torch.randn(600, 3, generator=generator) + torch.nn.functional.one_hot(target, 3)
    features[:, 2] -= 1.5  # class 2 is found too seldom
    before, plain = loss(features, target), loss.logits(features)
    found = curriculum.correct(loss, features, target)
    assert found == pytest.approx(1.5, abs=0.4)
    torch.testing.assert_close(loss.shift, torch.tensor([0.0, 0.0, found]))
    torch.testing.assert_close(loss.logits(features), plain + loss.shift)
    assert loss(features, target) == before
    assert curriculum.correct(loss, features, target) == pytest.approx(found), "it is measured without itself"
    curriculum.start_epoch(0, loss)
    assert loss.shift.tolist() == [0, 0, 0], "a softmax stage starts from nothing"


def test_its_state_survives_a_checkpoint():
    loss, curriculum = UncertaintyMarginLoss(4, 3), Curriculum(9)
    curriculum.set_uncertainty(UNCERTAINTY, loss)
    curriculum.angle = 0.25
    other = Curriculum(9)
    other.load_state_dict(curriculum.state_dict())
    assert torch.equal(other.uncertainty, UNCERTAINTY)
    assert other.angle == 0.25
    fresh = Curriculum(9)
    fresh.load_state_dict(Curriculum(9).state_dict())
    assert fresh.uncertainty is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
        ({"epochs": 3, "softmax": -1.0}, "a share of the epochs from 0 to 1, or a whole number of epochs, got -1.0"),
        ({"epochs": 30, "sample_level": 10.0}, "a whole number of epochs, got 10.0"),
        ({"epochs": 3, "softmax": True}, "a whole number of epochs, got True"),
        ({"epochs": 3, "softmax": 0, "class_level": 0, "sample_level": 0}, "must not all be 0"),
        ({"epochs": 3, "kind": "varians"}, "kind must be one of relative, unresolved"),
        ({"epochs": 3, "sample_level": 5}, "the stages take 5 epochs but there are only 3"),
        (
            {"epochs": 9, "softmax": 1, "class_level": 2, "sample_level": 3},
            "the stages take 6 epochs but there are 9; use 6 epochs, or leave out the length of one stage",
        ),
        ({"epochs": 3, "feedback": 0.0}, r"feedback must lie in \(0, 1\]"),
        ({"epochs": 3, "m_max": 1.0}, "m_max must be a finite number above 1"),
        ({"epochs": 3, "held_back": 1.0}, r"held_back must lie in \[0, 1\), got 1.0"),
        ({"epochs": 3, "held_back": True}, "held_back must lie in"),
        ({"epochs": 3, "strength": "strong"}, "strength must be one of uncertainty, feedback, head, or a number"),
    ],
)
def test_bad_settings_get_one_sentence(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Curriculum(**options)


COUNTS = torch.tensor([80.0, 15.0, 5.0])


def known(**options):
    """A curriculum whose margins are known before training, and its loss."""
    loss = UncertaintyMarginLoss(4, 3, dropout=0.5, class_counts=COUNTS, **options)
    return loss, Curriculum(12, margins="counts", from_start=True)


@pytest.mark.parametrize("sample_level", ["none", "mixing"])
def test_known_margins_act_from_the_first_epoch_at_full_strength(sample_level):
    loss, curriculum = known(sample_level=sample_level)
    assert [curriculum.start_epoch(epoch, loss) for epoch in range(2)] == ["class", "class"]
    curriculum.start(loss)
    prior = COUNTS.double() / COUNTS.sum()
    if sample_level == "mixing":
        share = prior.sqrt() / prior.sqrt().sum()
        torch.testing.assert_close(curriculum.partners(0, loss), share)
    shift = (loss.strength * (loss.margins - 1)).double()
    torch.testing.assert_close(shift, (prior.max() / prior).log(), atol=1e-6, rtol=1e-6)
    assert [curriculum.wants_uncertainty(epoch) for epoch in range(3)] == [False, True, False]


def test_known_margins_are_left_out_where_class_uncertainty_is_measured():
    loss, curriculum = known()
    features = torch.randn(5, 4)
    curriculum.start(loss)
    plain = loss.eval().logits(features)
    with curriculum.at_training_prior(loss):
        moved = loss.logits(features) - plain
    torch.testing.assert_close(moved - moved[:, :1], (COUNTS / COUNTS[0]).log().expand(5, 3))
    assert torch.equal(loss.logits(features), plain)
    staged = Curriculum(12, margins="counts")
    with staged.at_training_prior(loss):
        assert torch.equal(loss.logits(features), plain)


def test_the_class_stage_of_known_margins_has_the_steps_of_the_softmax_stage_too():
    assert Curriculum(12, margins="counts").short_stage([40] * 12, full_pass=40) is not None
    assert Curriculum(12, margins="counts", from_start=True).short_stage([40] * 12, full_pass=40) is None


@pytest.mark.parametrize("options", [{}, {"margins": "corrected"}, {"margins": "counts", "strength": 1.0}])
def test_margins_that_are_not_known_cannot_act_from_the_start(options):
    with pytest.raises(InvalidInputError, match="from_start needs margins that are known before training"):
        Curriculum(12, from_start=True, **options)
