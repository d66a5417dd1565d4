"""Shifts of the classes that networks measure on rows they were not trained on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import UncertaintyBalancedClassifier
from equipoise.estimators.network_training import class_correction, out_of_fold_logits
from equipoise.estimators.options_to_settings import curriculum_for
from equipoise.estimators.training_options import default_sample_level
from equipoise.losses import LogitLoss
from equipoise.training import ArrayData, Network
from equipoise.training.margin_strength import class_shift

SMALL = {"epochs": 4, "width": 16, "random_state": 0}


def blobs(counts=(40, 20, 6), columns=4):
    y = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).normal(size=(len(y), columns)) + 0.7 * y[:, None], y


class RowsSeen(nn.Module):
    """Logits that say whether a row, known by its only column, was trained on."""

    def __init__(self, seen: torch.Tensor) -> None:
        super().__init__()
        self.seen, self.out_features = seen, 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.isin(x, self.seen).float().expand(-1, 2)


def test_no_network_predicts_a_row_that_it_was_trained_on_and_each_fold_has_its_folder():
    folders: list[Path | None] = []

    def fit(part: ArrayData, folder: Path | None) -> Network:
        folders.append(folder)
        head = LogitLoss(2, 2)
        head.weight.data.fill_(1.0)
        return Network(RowsSeen(part.__getitems__(range(len(part)))[0]), head)

    data = ArrayData(torch.arange(30.0)[:, None], torch.arange(30) % 2)
    rows, logits = out_of_fold_logits(data, fit, seed=0, folder=Path("run"))
    assert sorted(rows.tolist()) == list(range(30))
    assert float(logits.abs().max()) == 0, "a row was seen"
    assert folders == [Path("run/fold-1"), Path("run/fold-2"), Path("run/fold-3")]


def test_a_row_that_is_alone_in_its_class_is_left_out():
    def fit(part: ArrayData, folder: Path | None) -> Network:  # noqa: ARG001
        torch.manual_seed(0)
        return Network(nn.Identity(), LogitLoss(1, 3))

    data = ArrayData(torch.randn(13, 1), torch.tensor([0] * 6 + [1] * 6 + [2]))
    assert sorted(out_of_fold_logits(data, fit, seed=0, folder=None)[0].tolist()) == list(range(12))
    shift, _ = class_correction(data, fit, seed=0, folder=None)
    assert shift.shape == (3,)
    assert bool(shift.isfinite().all())


@pytest.mark.parametrize("several", [False, True])
def test_a_shift_is_found_if_there_are_samples_enough_and_stays_near_zero_if_not(several):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6000, 3, 2, generator=generator).double() if several else torch.randn(6000, 3).double()
    missing = torch.tensor([0.0, 0.8]) if several else torch.tensor([0.0, 0.3, 0.8])
    y = torch.distributions.Categorical(logits=logits).sample()
    found = class_shift(logits - missing, y, spread=10.0)
    torch.testing.assert_close(found, missing.double().expand_as(found), atol=0.12, rtol=0)
    few = class_shift((logits - missing)[:20], y[:20])
    assert float(few.max()) < 0.5


def test_weights_count_as_copies():
    logits, y = torch.randn(40, 3, generator=torch.Generator().manual_seed(1)).double(), torch.arange(40) % 3
    weight = torch.arange(40) % 2 + 1
    copies = torch.repeat_interleave(torch.arange(40), weight)
    by_weight, by_copies = class_shift(logits, y, sample_weight=weight), class_shift(logits[copies], y[copies])
    assert (by_weight - by_copies).abs().max() < 0.03  # each row's own weight lowers the effective number a little


@pytest.mark.filterwarnings("ignore:training is short")
def test_the_estimator_shifts_predictions_and_saves_what_it_shifted_by(tmp_path):
    x, y = blobs()
    plain, moved = (UncertaintyBalancedClassifier(margins=own, **SMALL).fit(x, y) for own in ("counts", "out_of_fold"))
    assert float(plain.network_.head.shift.max()) == 0
    assert float(moved.network_.head.shift.max()) > 0
    moved.save(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(x), moved.predict_proba(x))


@pytest.mark.filterwarnings("ignore:training is short")
def test_a_second_fit_takes_the_finished_folds_from_their_folders(tmp_path):
    x, y = blobs()
    options = SMALL | {"margins": "out_of_fold", "run_dir": tmp_path}
    first = UncertaintyBalancedClassifier(**options).fit(x, y)
    assert sorted(path.name for path in tmp_path.glob("fold-*")) == ["fold-1", "fold-2", "fold-3"]
    again = UncertaintyBalancedClassifier(**options).fit(x, y)
    assert np.array_equal(first.predict_proba(x), again.predict_proba(x))


@pytest.mark.filterwarnings("ignore:training is short")
@pytest.mark.parametrize(("columns", "level", "held_back"), [(8, "none", 0.1), (64, "mixing", 0.0)])
def test_samples_of_many_numbers_are_mixed_by_default_and_then_none_is_held_back(columns, level, held_back):
    model = UncertaintyBalancedClassifier(**SMALL).fit(*blobs(columns=columns))
    assert model.network_.head.sample_level == level
    assert curriculum_for(model, 6, mixing=level == "mixing").held_back == held_back
    assert default_sample_level(columns, mixable=False) == "none"
