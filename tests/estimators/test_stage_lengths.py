"""How long a training is if its stages have lengths of their own."""

import re

import numpy as np
import pytest

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError, ShortTrainingWarning
from equipoise.estimators.options_to_settings import curriculum_for, settings_for


def short(**options):
    return UncertaintyBalancedClassifier(width=8, members=1, random_state=0, **options)


def rows():
    x = np.random.default_rng(0).normal(size=(90, 3))
    return x, (x[:, 0] > 1.2).astype(int)


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ({"class_epochs": 2, "sample_epochs": 3}, ["class"] * 2 + ["sample"] * 3),
        (
            {"softmax_epochs": 1, "class_epochs": 2, "sample_epochs": 3},
            ["softmax"] + ["class"] * 2 + ["sample"] * 3,
        ),
        (
            {"margins": "uncertainty", "softmax_epochs": 2, "class_epochs": 1, "sample_epochs": 1, "epochs": 4},
            ["softmax"] * 2 + ["class", "sample"],
        ),
    ],
)
def test_a_training_is_as_long_as_its_stages(options, stages):
    model = short(**options).fit(*rows())
    assert [each["stage"] for each in model.history_["epochs"]] == stages


def test_stages_that_do_not_fill_the_epochs_are_refused():
    said = r"class_epochs \+ sample_epochs is 5, but epochs is 8; leave epochs out, or set epochs=5\."
    with pytest.raises(InvalidInputError, match=said):
        short(class_epochs=2, sample_epochs=3, epochs=8).fit(*rows())


def test_a_stage_longer_than_the_training_is_refused():
    with pytest.raises(InvalidInputError, match=r"stages take 31 epochs but there are only 30; shorten a stage, or"):
        short(sample_epochs=31).fit(*rows())


@pytest.mark.parametrize("options", [{"epochs": 3, "sample_epochs": 1}, {"class_epochs": 2, "sample_epochs": 1}])
@pytest.mark.parametrize("method", ["uncertainty_margin", "cross_entropy"])
def test_with_stage_lengths_an_epoch_of_large_data_is_one_pass(method, options):
    settings = settings_for(short(method=method, batch_size=64, **options), 60_000, 0)
    assert (settings.epochs, settings.epoch_batches) == (3, None)


@pytest.mark.parametrize(("epochs", "length"), [(30, 20), (30, 2), (8, 2), (8, 8)])
def test_a_class_stage_of_a_given_length_has_exactly_that(epochs, length):
    curriculum = curriculum_for(short(class_epochs=length), epochs, mixing=False)
    stages = [curriculum.stage(epoch) for epoch in range(epochs)]
    assert stages == ["class"] * length + ["sample"] * (epochs - length)
    measured = [epoch for epoch in range(epochs) if curriculum.wants_uncertainty(epoch)]
    assert measured == [min(length, epochs // 6 or 1) - 1]


@pytest.mark.filterwarnings("error")
def test_a_class_stage_as_long_as_advised_is_long_enough():
    options = {"margins": "uncertainty", "batch_size": 32}
    with pytest.warns(ShortTrainingWarning) as told:
        short(class_epochs=2, **options).fit(*rows())
    (advised,) = re.findall(r"give the class stage (\d+) epochs or more", str(told[0].message))
    short(class_epochs=int(advised), **options).fit(*rows())
