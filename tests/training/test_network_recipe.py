"""Backbone and head as one module, built from plain values, the same one every time."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.models import MLP, Standardize
from equipoise.training import ArrayData, Curriculum, Network, Recipe, Settings, feature_length, train
from equipoise.training.network_recipe import head_logits

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


Y = torch.tensor([0, 1, 2, 0, 1, 2])


def network() -> Network:
    return Network(MLP(4, (8,)), UncertaintyMarginLoss(8, 3, dropout=0.5))


def test_without_target_it_gives_logits_with_one_the_loss():
    whole = network().eval()
    features = whole.backbone(X)
    torch.testing.assert_close(whole(X), whole.head.logits(features))
    torch.testing.assert_close(whole(X, Y), whole.head(features, Y))


def test_sample_weights_reach_the_head():
    whole = network().eval()
    weight = torch.tensor([6.0, 0, 0, 0, 0, 0])
    torch.testing.assert_close(whole(X, Y, weight), whole(X[:1], Y[:1]))


def test_head_logits_are_deterministic_and_restore_the_mode():
    whole = network().train()
    features = whole.backbone(X).detach()
    assert torch.equal(head_logits(whole.head, features), head_logits(whole.head, features))
    assert whole.head.training
    assert whole.head.dropout.training
    assert not torch.equal(whole.head.logits(features), whole.head.logits(features))
    with pytest.raises(ValueError, match="features must have the shape"):
        head_logits(whole.head, features[:, :3])
    assert whole.head.training


@pytest.mark.parametrize("method", LOSSES)
def test_every_loss_trains_in_the_loop_without_a_curriculum(method):
    head = LOSSES[method](8, 3, class_counts=torch.tensor([2, 2, 2]), dropout=0.2)
    history = train(Network(MLP(4, (8,)), head), ArrayData(X, Y), Settings(epochs=2, batch_size=3))
    assert [record["stage"] for record in history] == ["train", "train"]
    assert all(record["loss"] >= 0 for record in history)


def test_a_backbone_with_batch_norm_never_meets_a_batch_of_one():
    backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    data = ArrayData(torch.randn(7, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0]))
    history = train(Network(backbone, LOSSES["cross_entropy"](8, 3)), data, Settings(epochs=2, batch_size=3))
    assert len(history) == 2


def test_one_process_may_train_in_several_precisions():
    for precision in ("no", "bf16", "no"):
        settings = Settings(epochs=1, batch_size=3, precision=precision)
        assert len(train(network(), ArrayData(X, Y), settings)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
        ({"batch_size": True}, "batch_size must be a whole number of at least 1, got True"),
        ({"accumulate": 0}, "accumulate must be a whole number of at least 1"),
        ({"cap": 0}, "cap must be a whole number of at least 1"),
        ({"passes": 1}, "passes must be a whole number of at least 2, got 1"),
        ({"seed": -1}, "seed must be a whole number that is not negative"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"checkpoint_steps": -3}, "checkpoint_steps must be a whole number of at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number that is not negative, got nan"),
        ({"learning_rate": "a"}, "learning_rate must be a finite number that is not negative, got 'a'"),
        ({"weight_decay": -1}, "weight_decay must be a finite number that is not negative, got -1"),
        ({"order": "random"}, "order must be one of shuffled, balanced, got 'random'"),
        ({"precision": "fp8"}, "precision must be one of no, fp16, bf16, got 'fp8'"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Settings(**({"epochs": 1, "batch_size": 1} | change))


def test_numbers_of_numpy_become_pythons():
    settings = Settings(epochs=np.int64(2), batch_size=np.int32(3), learning_rate=np.float32(0.5))
    assert [type(value) for value in (settings.epochs, settings.batch_size, settings.learning_rate)] == [
        int,
        int,
        float,
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curriculum": Curriculum(5)}, "the curriculum has 5 epochs and the settings 1"),
        ({"curriculum": Curriculum(1, strength="feedback")}, "strength='feedback' is measured on held-out samples"),
    ],
)
def test_what_does_not_fit_together_is_said_before_the_first_step(options, message):
    with pytest.raises(ValueError, match=message):
        train(network(), ArrayData(X, Y), Settings(epochs=1, batch_size=3), **options)
    with pytest.raises(ValueError, match="patience needs held-out samples"):
        train(network(), ArrayData(X, Y), Settings(epochs=1, batch_size=3, patience=2))
    plain = Network(MLP(4, (8,)), LOSSES["cross_entropy"](8, 3))
    with pytest.raises(ValueError, match="a curriculum needs a head with margins, got LogitLoss"):
        train(plain, ArrayData(X, Y), Settings(epochs=1, batch_size=3), curriculum=Curriculum(1))
    fixed = Network(MLP(4, (8,)), LOSSES["sphereface"](8, 3))
    with pytest.raises(ValueError, match="a curriculum sets the strength of margins, but the head was built with one"):
        train(fixed, ArrayData(X, Y), Settings(epochs=1, batch_size=3), curriculum=Curriculum(1))


def test_a_trained_network_is_ready_to_predict():
    trained = network()
    train(trained, ArrayData(X, Y), Settings(epochs=1, batch_size=3))
    assert not trained.training


def test_float64_samples_go_through_a_float32_network():
    assert len(train(network(), ArrayData(X.double().numpy(), Y), Settings(epochs=1, batch_size=3))) == 1


def test_a_tracker_without_a_folder_is_refused():
    with pytest.raises(ValueError, match="tracker='tensorboard' needs a folder to write to; pass folder as well"):
        train(network(), ArrayData(X, Y), Settings(epochs=1, batch_size=3), tracker="tensorboard")


@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_tensorboard_gets_every_epoch(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = train(
        network(), ArrayData(X, Y), Settings(epochs=3, batch_size=3), folder=tmp_path, tracker="tensorboard"
    )
    events = EventAccumulator(str(tmp_path / "tracking")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [0, 1, 2]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([record["loss"] for record in history])
    with pytest.raises(ValueError, match="tracker must be one of tensorboard, wandb, got 'tb'"):
        train(network(), ArrayData(X, Y), Settings(epochs=1, batch_size=3), folder=tmp_path / "other", tracker="tb")


RECIPE = Recipe(
    method="uncertainty_margin",
    classes=3,
    multilabel=False,
    dropout=0.4,
    form="angular",
    sample_level="complement",
    columns=5,
    width=16,
)


@pytest.mark.parametrize("method", LOSSES)
@pytest.mark.parametrize("multilabel", [False, True])
def test_every_method_builds_a_network_that_comes_back_from_json(method, multilabel):
    recipe = dataclasses.replace(RECIPE, method=method, multilabel=multilabel)
    counts = torch.arange(1, 1 + torch.Size(recipe.class_shape).numel()).view(recipe.class_shape)
    network = Network(recipe.table_backbone(), recipe.head(counts, features=16)).eval()
    assert network(torch.randn(7, 5)).shape == (7, *recipe.class_shape)
    again = Recipe(**json.loads(json.dumps(dataclasses.asdict(recipe))))
    assert again == recipe
    other = Network(again.table_backbone(), again.head(counts, features=16)).eval()
    other.load_state_dict(network.state_dict())
    x = torch.randn(4, 5)
    assert torch.equal(other(x), network(x))


def test_the_papers_loss_gets_its_own_options():
    head = RECIPE.head(torch.ones(3), features=16)
    assert isinstance(head, UncertaintyMarginLoss)
    assert (head.form, head.sample_level, head.dropout.p) == ("angular", "complement", 0.4)


def test_the_table_backbone_standardises_first():
    standardize = Standardize(5)
    backbone = RECIPE.table_backbone(standardize)
    assert backbone[0] is standardize
    assert feature_length(backbone, torch.zeros(2, 5)) == 16


def test_an_unknown_method_is_refused():
    with pytest.raises(InvalidInputError, match=r"method must be one of cross_entropy, .*, got 'softmaxx'"):
        dataclasses.replace(RECIPE, method="softmaxx")


def test_feature_length_is_told_or_found_out():
    assert feature_length(MLP(3, (4, 6)), torch.zeros(0)) == 6
    assert feature_length(nn.Sequential(nn.Flatten(), nn.Linear(6, 9)), torch.zeros(2, 3, 2)) == 9


def test_finding_the_feature_length_out_changes_nothing():
    backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    assert feature_length(backbone, torch.randn(2, 3)) == 4
    assert backbone.training
    for name, value in backbone.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("backbone", "shape"),
    [(nn.Identity(), r"\(2, 3, 4\)"), (nn.LSTM(4, 2, batch_first=True), "tuple")],
    ids=["not pooled", "a tuple"],
)
def test_a_backbone_without_features_is_refused(backbone, shape):
    with pytest.raises(InvalidInputError, match=rf"features of shape \(batch, D\), got {shape}; pool or flatten"):
        feature_length(backbone, torch.zeros(2, 3, 4))
