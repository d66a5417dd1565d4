"""How long a training is if its stages have lengths of their own."""

import numpy as np
import pytest

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.estimators.options_to_settings import settings_for


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
    with pytest.raises(InvalidInputError, match=r"stages take 5 epochs, but epochs is 8; set epochs=5, or leave out"):
        short(class_epochs=2, sample_epochs=3, epochs=8).fit(*rows())


def test_epochs_with_a_stage_of_their_own_are_passes_over_the_data():
    x = np.zeros((60_000, 1), dtype=np.float32)
    model = short(epochs=3, sample_epochs=1, batch_size=64)
    settings = settings_for(model, len(x), 0)
    assert (settings.epochs, settings.epoch_batches) == (3, None)
