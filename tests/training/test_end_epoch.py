"""``Curriculum.end_epoch`` in a loop of one's own: the same margins, correction and strength as the library's loop."""

import copy

import pytest
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.training import ArrayData, Curriculum, Network, Settings
from equipoise.training.batches import rank_in_class
from equipoise.training.loader_samples import LoaderSamples
from equipoise.training.measurements import ArraySamples, labelled_features
from equipoise.uncertainty import class_uncertainty, mc_dropout

BUFFERS = ("margins", "strength", "sample_strength", "shift")


@pytest.fixture
def samples():
    """Three overlapping classes, the last of them rare."""
    torch.manual_seed(0)
    y = torch.arange(3).repeat_interleave(torch.tensor([60, 25, 10]))
    return torch.randn(len(y), 8) + 1.5 * torch.eye(3, 8)[y], y


def make(form="additive"):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.4))
    return model, UncertaintyMarginLoss(16, 3, form=form, dropout=0.5, sample_level="expected")


def batches(*parts, size=20):
    return list(zip(*(part.split(size) for part in parts), strict=True))


def train_epoch(model, loss, loader, optimizer):
    for x, y, *_ in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


class LibrarySamples(ArraySamples):
    """The measurements of the library's own loop, with the held-out samples where a loop of one's own has them."""

    def for_correction(self):
        return self.held_out


@pytest.mark.parametrize("form", ["additive", "angular"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_loop_of_ones_own_gets_what_the_librarys_loop_gets(samples, form, weighted):
    parts = (*samples, torch.rand(95, dtype=torch.float64) + 0.5) if weighted else samples
    back = rank_in_class(samples[1]) % 5 == 4
    seen, held = ([part[rows] for part in parts] for rows in (~back, back))
    model, loss = make(form)
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=1e-2)
    accelerator, settings = Accelerator(cpu=True), Settings(epochs=6, batch_size=8, seed=3)
    curriculum, own, records = Curriculum(6), Curriculum(6), []
    curriculum.start(loss)
    twin = copy.deepcopy(loss)
    for epoch in range(6):
        own.start_epoch(epoch, twin)
        for name in BUFFERS:
            torch.testing.assert_close(getattr(loss, name), getattr(twin, name), msg=name)
        train_epoch(model, loss, batches(*seen), optimizer)
        twin.weight = loss.weight
        network = Network(model, twin)
        features = labelled_features(accelerator, network, ArrayData(*held))
        expected = own.measure(
            epoch, twin, LibrarySamples(accelerator, network, ArrayData(*seen), None, features, settings)
        )
        records.append(curriculum.end_epoch(model, loss, batches(*seen), held_out=batches(*held), seed=3))
        assert records[-1] == pytest.approx({"epoch": epoch, "stage": own.stage(epoch), **expected})
    assert ["shift" in record for record in records] == [False] * 3 + [True] + [False] * 2
    torch.testing.assert_close(curriculum.uncertainty, own.uncertainty)
    torch.testing.assert_close(curriculum.scaling.scale, own.scaling.scale)
    assert float(loss.margins[2]) == 3.0
    assert float(loss.sample_strength) == 1.0


def test_the_model_is_left_in_its_mode_and_with_its_numbers(samples):
    model, loss = make()
    model.append(nn.BatchNorm1d(16))
    before = copy.deepcopy(model.state_dict())
    curriculum = Curriculum(3)
    curriculum.start(loss)
    for _ in range(3):
        curriculum.end_epoch(model, loss, batches(*samples), held_out=batches(*samples))
    assert all(module.training for module in model.modules())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_a_resumed_loop_ends_as_one_that_was_never_stopped(samples):
    def run(parts):
        model, loss = make("angular")
        curriculum, state = Curriculum(6), None
        for epochs in parts:
            optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
            if state is not None:  # into new objects, as after a restart
                (model, loss), curriculum = make("angular"), Curriculum(6)
                optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
                model.load_state_dict(state[0])
                loss.load_state_dict(state[1])
                curriculum.load_state_dict(state[2])
            curriculum.start(loss)
            for _ in range(epochs):
                torch.manual_seed(curriculum.epoch)
                train_epoch(model, loss, batches(*samples), optimizer)
                curriculum.end_epoch(model, loss, batches(*samples), held_out=batches(*samples))
            state = copy.deepcopy((model.state_dict(), loss.state_dict(), curriculum.state_dict()))
        return state

    whole, stopped = run([6]), run([2, 1, 3])
    for first, second in zip(whole, stopped, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, msg=name)
    assert int(whole[2]["epoch"]) == 6


class Named(nn.Module):
    """Features of two named arguments, as Hugging Face's models have them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *, values, mask):
        return self.model(values * mask.unsqueeze(-1))


def test_a_batch_may_be_a_dict_with_labels(samples):
    (x, y), results = samples, []
    mask = torch.rand(len(y)) + 0.5
    for dicts in (False, True):
        model, loss = make()
        curriculum = Curriculum(3)
        curriculum.start(loss)
        if dicts:
            names = ("values", "mask", "labels")
            loader = [dict(zip(names, batch, strict=True)) for batch in batches(x, mask, y)]
            curriculum.end_epoch(Named(model), loss, loader, held_out=loader)
            curriculum.end_epoch(Named(model), loss, loader, held_out=loader)
        else:
            loader = batches(x * mask[:, None], y)
            curriculum.end_epoch(model, loss, loader, held_out=loader)
            curriculum.end_epoch(model, loss, loader, held_out=loader)
        results.append((loss.margins, loss.shift))
    torch.testing.assert_close(*results)


def test_of_many_samples_a_few_of_each_class_are_measured_and_stand_for_all(samples):
    model, loss = make()
    x, y = (torch.cat([part] * 6) for part in samples)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
    all_of_them = LoaderSamples(model, loss, loader, None, passes=10, cap=1000, seed=0)
    few = LoaderSamples(model, loss, loader, None, passes=10, cap=40, seed=0)
    drawn = list(few._capped())
    target = torch.cat([batch[1] for batch in drawn])
    assert target.bincount().tolist() == [40, 40, 40]
    totals = target.bincount(weights=torch.cat([batch[2] for batch in drawn]))
    torch.testing.assert_close(totals, torch.tensor([360.0, 150.0, 60.0], dtype=torch.float64))
    whole = class_uncertainty(mc_dropout(Network(model, loss), x, 10, torch.Generator().manual_seed(0)).softmax(-1))
    torch.testing.assert_close(all_of_them.class_uncertainty("unresolved"), whole)
    torch.testing.assert_close(few.class_uncertainty("unresolved"), whole, rtol=0.1, atol=0)


def test_several_labels_are_measured_likewise():
    torch.manual_seed(0)
    x, y = torch.randn(90, 8), (torch.rand(90, 2) < torch.tensor([0.5, 0.1])).long()
    model = nn.Linear(8, 16)
    loss = LOSSES["uncertainty_margin"](16, 2, multilabel=True, dropout=0.5)
    curriculum = Curriculum(3)
    curriculum.start(loss)
    curriculum.end_epoch(model, loss, batches(x, y))
    outputs = mc_dropout(Network(model, loss), x, 10, torch.Generator().manual_seed(0)).softmax(-1)
    torch.testing.assert_close(curriculum.uncertainty, class_uncertainty(outputs))
    some = LoaderSamples(model, loss, batches(x, y), None, passes=2, cap=20, seed=0)
    assert sum(len(batch[1]) for batch in some._capped()) == 40


def test_the_margin_of_a_head_of_its_own_rises_from_none(samples):
    model = nn.Linear(8, 16)
    loss = LOSSES["am_softmax"](16, 3, dropout=0.5)
    assert float(loss.strength) > 0
    curriculum = Curriculum(6, strength="head")
    curriculum.start(loss)
    strengths = [curriculum.end_epoch(model, loss, batches(*samples))["strength"] for _ in range(6)]
    assert strengths[0] == 0
    assert strengths == sorted(strengths)
    assert strengths[-1] == loss.own_strength


def test_what_is_out_of_order_is_refused(samples):
    model, loss = make()
    loader, curriculum = batches(*samples), Curriculum(2)
    with pytest.raises(InvalidStateError, match=r"call start\(loss\) before the first step"):
        curriculum.end_epoch(model, loss, loader)
    curriculum.start(loss)
    curriculum.end_epoch(model, loss, loader)
    curriculum.end_epoch(model, loss, loader)
    with pytest.raises(InvalidStateError, match="all 2 epochs of the curriculum have ended"):
        curriculum.end_epoch(model, loss, loader)
    feedback = Curriculum(2, strength="feedback")
    feedback.start(loss)
    with pytest.raises(InvalidInputError, match="pass held_out"):
        feedback.end_epoch(model, loss, loader)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (iter([(torch.zeros(2, 8), torch.tensor([0, 1]))]), "can be read only once"),
        ([], "the loader yielded no samples to measure"),
        ([torch.zeros(2, 8)], r"a batch must be \(x, y\), \(x, y, weight\) or a dict with 'labels', got Tensor"),
        ([(torch.zeros(2, 8),)], "got 1 parts"),
        ([{"input_ids": torch.zeros(2, 8)}], "a batch that is a dict must have 'labels', got input_ids"),
        ([(torch.zeros(2, 8), torch.tensor([0, 7]))], "7"),
    ],
)
def test_a_loader_that_does_not_fit_is_named(loader, message):
    model, loss = make()
    curriculum = Curriculum(3)
    curriculum.start(loss)
    with pytest.raises(InvalidInputError, match=message):
        curriculum.end_epoch(model, loss, loader)
