"""The scikit-learn face: everything a user of scikit-learn would try with it."""

import signal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import make_pipeline as make_imblearn_pipeline
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import step
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses import LOSSES, LogitLoss, UncertaintyMarginLoss
from equipoise.losses.logit_losses import focal
from tests.marks import mostly_nightly, mostly_slow


def quick(method="uncertainty_margin", **options):
    return UncertaintyBalancedClassifier(
        method, **({"epochs": 9, "width": 64, "batch_size": 16, "random_state": 0} | options)
    )


def blobs(classes=3, per_class=40, columns=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), per_class)
    centres = rng.normal(size=(classes, columns)) * 3
    return (centres[y] + rng.normal(size=(len(y), columns))).astype(np.float32), y


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.network_.state_dict().items()}


@parametrize_with_checks(
    [UncertaintyBalancedClassifier(epochs=3, batch_size=16, width=64, members=2, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": (
            "copies count as a weight does, but fall into other mini-batches, under other dropout masks"
        )
    },
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_works_in_pipelines_searches_and_clones():
    x, y = blobs(per_class=20)
    search = GridSearchCV(quick(), {"dropout": [0.2, 0.5]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), quick()), x, y, cv=2).mean() > 0.9
    resampled = make_imblearn_pipeline(RandomOverSampler(random_state=0), quick("cross_entropy"))
    assert resampled.fit(x, y).score(x, y) > 0.9
    copy = clone(quick(dropout=0.25, backbone=nn.Linear(8, 4)))
    assert copy.dropout == 0.25
    assert isinstance(copy.backbone, nn.Linear)


def test_data_frames_and_words_as_labels():
    x, y = blobs()
    frame = pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])])
    words = pd.Series(np.array(["plain", "<b>rare</b>", "日本"], dtype=object)[y])
    model = quick().fit(frame, words)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert set(model.predict(frame)) == set(words)
    assert model.score(frame, words) > 0.9
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"column 0": "other"}))


@pytest.mark.slow
@pytest.mark.parametrize("method", LOSSES)
def test_every_method_learns_separable_classes(method):
    x, y = blobs(per_class=24)
    model = quick(method, epochs=12).fit(x, y)
    assert balanced_accuracy_score(y, model.predict(x)) > 0.9
    margin_heads = ("uncertainty_margin", "l_softmax", "sphereface", "am_softmax", "arcface", "ldam_drw")
    assert (model.margins_ is None) == (method not in margin_heads)


def test_arrays_that_cannot_be_written_to_are_read():
    x, y = blobs()
    x.flags.writeable = False
    assert quick(epochs=1).fit(x, y).predict(x).shape == y.shape


def test_the_passes_run_together_behind_the_first_dropout():
    model = quick(epochs=1).fit(*blobs())
    calls = []
    model.network_.backbone[1].layers[0].register_forward_hook(lambda *_: calls.append(1))
    model.uncertainty(blobs()[0], kind="passes", passes=10)
    assert len(calls) == 2  # of one row, which tells the masks' shapes, and of all of them


def test_probabilities_sum_to_one_and_agree_with_the_prediction():
    x, y = blobs()
    model = quick().fit(x, y)
    probabilities = model.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (probabilities.argmax(1) == model.predict(x)).all()
    averaged = model.predict_proba(x, passes=20)
    np.testing.assert_allclose(averaged.sum(1), 1)
    assert not np.allclose(averaged, probabilities)


@pytest.mark.parametrize("method", ["uncertainty_margin", "cross_entropy"])
def test_a_target_prior_moves_the_odds_as_bayes_rule_says(method):
    x, y = blobs(per_class=60)
    kept = np.r_[0:60, 60:80, 120:130]
    model = quick(method, epochs=3).fit(x[kept], y[kept])
    before, wanted = model.predict_proba(x), np.array([0.2, 0.3, 0.5])
    prior = np.bincount(y[kept]) / len(kept)
    np.testing.assert_allclose(model.prior_, prior)
    expected = before * wanted / prior
    after = model.predict_proba(x, target_prior=wanted * 7)  # any scale
    np.testing.assert_allclose(after, expected / expected.sum(1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(x, target_prior=prior), before)
    assert (model.predict(x, target_prior=wanted) == after.argmax(1)).all()
    with pytest.raises(InvalidInputError, match=r"one share per class, \(3,\)"):
        model.predict_proba(x, target_prior=[0.5, 0.5])
    with pytest.raises(InvalidInputError, match="none negative"):
        model.predict_proba(x, target_prior=[1, -1, 1])


def overlapping(seed, rows=3000):
    """Two classes, 9 : 1, whose probabilities are known: log odds 2x + log(1/9)."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.1).astype(int)
    x = rng.normal(2 * y - 1, np.sqrt(1.0), size=rows)
    return np.stack((x, rng.normal(size=rows)), axis=1).astype(np.float32), y, 1 / (1 + 9 * np.exp(-2 * x))


@pytest.mark.parametrize("calibration", mostly_slow(["held_back", "validation"]))
def test_probabilities_are_those_of_the_training_mix_and_the_prediction_is_balanced(calibration):
    x, y, _ = overlapping(0)
    new, _, wanted = overlapping(1)
    model = quick(calibration=calibration, batch_size=64).fit(x, y)
    found = model.predict_proba(new)[:, 1]
    assert np.abs(found - wanted).mean() < 0.03
    balanced = model.predict_proba(new, target_prior=[0.5, 0.5])[:, 1]
    assert np.abs(balanced - 9 * wanted / (8 * wanted + 1)).mean() < 0.08
    rare = model.predict(new).mean()
    assert rare == pytest.approx(9 * 0.1 * 0.16 + 0.1 * 0.84, abs=0.1)  # the boundary at x = 0, as if 1 : 1
    assert rare > (found > 0.5).mean()


def test_no_calibration_leaves_the_networks_own_probabilities():
    x, y, _ = overlapping(0, rows=500)
    model = quick(epochs=3, calibration="none").fit(x, y)
    raw = model.network_(torch.tensor(x)).detach().double().softmax(-1).numpy()
    np.testing.assert_allclose(model.predict_proba(x, target_prior=[1, 1]), raw, rtol=1e-6)


def test_every_class_is_in_its_set_as_often_as_asked_for_and_rows_between_are_left_open():
    x, y, _ = overlapping(0)
    new, truth, _ = overlapping(1)
    model = quick(calibration="validation", validation_fraction=0.5, batch_size=64).fit(x, y)
    sets = model.prediction_sets(new, level=0.9)
    assert sets.shape == (len(new), 2)
    for label in (0, 1):
        assert sets[truth == label, label].mean() == pytest.approx(0.9, abs=0.06)
    told = model.predict(new, abstain=0.1)
    assert (told.mask == (sets.sum(1) != 1)).all()
    assert (told.data[~told.mask] == sets.argmax(1)[~told.mask]).all()
    assert 0.05 < told.mask.mean() < 0.6


def test_a_model_can_be_calibrated_on_other_samples_and_keeps_it_when_saved(tmp_path):
    x, y, _ = overlapping(0, rows=400)
    model = quick("cross_entropy", epochs=3).fit(x, y)
    with pytest.raises(InvalidInputError, match=r"call calibrate\(X, y\)"):
        model.predict(x, abstain=0.1)
    new, truth, _ = overlapping(1, rows=800)
    before = model.predict(new)
    assert model.calibrate(new, truth) is model
    assert (model.predict(new) == before).all()
    model.save(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path)
    assert (loaded.predict_proba(x) == model.predict_proba(x)).all()
    assert (loaded.prediction_sets(x) == model.prediction_sets(x)).all()
    with pytest.raises(InvalidInputError, match="y has classes that training has not seen: 7; leave them out"):
        model.calibrate(new, np.full(len(new), 7))


def test_a_loss_of_ones_own_that_leaves_its_margins_open_trains_the_full_method(monkeypatch):
    """As the built-in one does, bit for bit where it has the same constants; what an entry sets itself, it keeps."""
    x, y, _ = overlapping(0, rows=200)
    own = quick(epochs=6, sample_level="expected").fit(x, y)
    for name, options in (("same", {}), ("other", {"kappa": 0.5}), ("angular", {"form": "angular"})):
        monkeypatch.setitem(LOSSES, name, partial(UncertaintyMarginLoss, **options))
        model = quick(name, epochs=6, sample_level="expected").fit(x, y)
        stages = [epoch["stage"] for epoch in model.history_["epochs"]]
        assert set(stages) == ({"softmax", "class", "sample"} if name == "angular" else {"class", "sample"})
        assert model.margins_.max() == pytest.approx(3), name
        head = model.network_.head
        assert torch.equal(head.weight, own.network_.head.weight) == (name == "same"), name
        assert (head.form, head.sample_level) == (options.get("form", "additive"), "expected")
        np.testing.assert_allclose(model.calibrated_.aimed, 0.5)


def test_a_loss_may_be_given_as_what_builds_it_and_is_saved_only_by_name(tmp_path):
    x, y, _ = overlapping(0, rows=200)
    named, built = (quick(method, epochs=3).fit(x, y) for method in ("focal", partial(LogitLoss, criterion=focal)))
    np.testing.assert_array_equal(built.predict_proba(x), named.predict_proba(x))
    other = quick(partial(LogitLoss, criterion=partial(focal, gamma=5.0)), epochs=3).fit(x, y)
    assert not np.allclose(other.predict_proba(x), named.predict_proba(x))
    with pytest.raises(InvalidInputError, match="a loss without a name cannot be saved"):
        built.save(tmp_path)


def test_a_loss_of_ones_own_that_needs_dropout_says_so(monkeypatch):
    monkeypatch.setitem(LOSSES, "mine", partial(UncertaintyMarginLoss, kappa=0.5))
    with pytest.raises(InvalidInputError, match="method 'mine' takes its uncertainty from dropout, got dropout=0"):
        quick("mine", dropout=0.0).fit(*blobs())


def test_asking_a_loss_draws_no_random_numbers():
    x, y, _ = overlapping(0, rows=200)
    torch.manual_seed(5)
    quick("cross_entropy", epochs=1).fit(x, y)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))


def test_weights_are_part_of_the_mix_that_probabilities_start_from():
    x, y, _ = overlapping(0)
    weight = np.where(y == 1, 9.0, 1.0)
    model = quick("cross_entropy", batch_size=64).fit(x, y, sample_weight=weight)
    shares = np.bincount(y, weights=weight) / weight.sum()
    np.testing.assert_allclose(model.prior_, shares)
    assert model.predict_proba(x, np.bincount(y))[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
    assert model.predict(x).mean() > 0.18


FEW = np.repeat([0, 1], [1500, 75])


WEIGHED_OFTEN = {"uncertainty_margin", "logit_adjustment", "vs", "ldam_drw", "cosen"}
WEIGHED = [
    "uncertainty_margin",
    "logit_adjustment",
    *mostly_nightly(["vs", "ldam_drw", "cosen", *sorted(LOSSES.keys() - WEIGHED_OFTEN)], slow=3),
]


def two_clouds(y, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(y), 6))
    x[:, 0] += 2.8 * y
    return x.astype(np.float32)


@pytest.mark.parametrize("method", WEIGHED)
def test_a_weight_of_twenty_is_twenty_copies(method):
    """Within the noise of masks and batches; both train for as many steps."""
    x, new = two_clouds(FEW, 0), two_clouds(np.repeat([0, 1], 2000), 1)
    weight = np.where(FEW == 1, 20, 1)
    copies = np.repeat(np.arange(len(FEW)), weight)
    options = {"epochs": 9, "width": 32, "dropout": 0.2, "learning_rate": 1e-2, "weight_decay": 0.01}
    weighed = quick(method, batch_size=63, **options).fit(x, FEW, sample_weight=weight)
    copied = quick(method, batch_size=120, **options).fit(x[copies], FEW[copies])
    np.testing.assert_allclose(weighed.prior_, copied.prior_)
    noise = 0.02 if method == "cosen" else 1e-6  # its costs are measured batch by batch
    np.testing.assert_allclose(weighed.calibrated_.aimed, copied.calibrated_.aimed, atol=noise)
    for known in (0, 1):
        share = [(model.predict(new)[2000 * known : 2000 * (known + 1)] == known).mean() for model in (weighed, copied)]
        assert share[0] == pytest.approx(share[1], abs=0.09), (known, share)
    mean = [model.predict_proba(new)[:, 1].mean() for model in (weighed, copied)]
    assert mean[0] == pytest.approx(mean[1], abs=0.07)
    if weighed.class_uncertainty_ is not None:
        step = [np.log(model.class_uncertainty_[1] / model.class_uncertainty_[0]) for model in (weighed, copied)]
        assert step[0] == pytest.approx(step[1], abs=0.25)


def test_a_calibration_takes_weights():
    x, y, _ = overlapping(0, rows=600)
    new, labels, _ = overlapping(1, rows=600)
    weight = np.where((new[:, 0] > 0) == labels, 1, 4)
    copies = np.repeat(np.arange(600), weight)
    model = quick(epochs=3, members=1, softmax_epochs=1).fit(x, y)
    weighed = model.calibrate(new, labels, sample_weight=weight).predict_proba(x)
    np.testing.assert_allclose(model.calibrate(new[copies], labels[copies]).predict_proba(x), weighed, atol=0.02)
    assert np.abs(model.calibrate(new, labels).predict_proba(x) - weighed).max() > 0.1


def test_only_ratios_of_weights_count_and_a_weight_of_zero_leaves_a_row_out():
    x, y = blobs()
    weight = 1.0 + np.arange(len(y)) % 3
    base = quick(epochs=6).fit(x, y, sample_weight=weight)
    small = quick(epochs=6).fit(x, y, sample_weight=weight / weight.sum())
    np.testing.assert_allclose(small.predict_proba(x), base.predict_proba(x), atol=1e-4)
    wild = np.concatenate((x, np.roll(x, 1, axis=0))), np.concatenate((y, 2 - y)), np.concatenate((weight, 0 * weight))
    without = quick(epochs=6).fit(*wild[:2], sample_weight=wild[2])
    np.testing.assert_allclose(without.predict_proba(x), base.predict_proba(x), atol=1e-4)


def test_samples_that_chose_the_epoch_rule_no_class_out():
    x, y, _ = overlapping(0, rows=600)
    model = quick(epochs=3, early_stopping=True, validation_fraction=0.3).fit(x, y)
    with pytest.raises(InvalidInputError, match="prediction sets need samples that no epoch has seen"):
        model.prediction_sets(x)


def test_an_impossible_share_to_abstain_at_is_refused():
    x, y, _ = overlapping(0, rows=300)
    model = quick(epochs=3).fit(x, y).calibrate(x, y)
    with pytest.raises(InvalidInputError, match=r"abstain must be the allowed error rate of each class, .* got 1.5"):
        model.predict(x, abstain=1.5)


def test_too_few_samples_to_rule_a_class_out_are_told_of():
    x, y, _ = overlapping(0, rows=500)
    few = np.r_[np.flatnonzero(y == 0)[:50], np.flatnonzero(y == 1)[:4]]
    model = quick(epochs=3, calibration="none").fit(x, y).calibrate(x[few], y[few])
    with pytest.warns(UserWarning, match=r"too few .* \(4 of the rarest\) to ever rule out 1 at abstain=0.1"):
        told = model.predict(x, abstain=0.1)
    assert not (told.data[~told.mask] == 0).any()


def test_the_class_mix_of_samples_without_labels_is_found():
    x, y, _ = overlapping(0)
    new, truth, _ = overlapping(1, rows=20_000)
    kept = np.r_[np.flatnonzero(truth == 1), np.flatnonzero(truth == 0)[:2000]]
    found = quick(batch_size=64).fit(x, y).estimate_prior(new[kept])
    assert found == pytest.approx(np.bincount(truth[kept]) / len(kept), abs=0.08)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": "maybe"}, "calibration must be one of held_back, validation, none, got 'maybe'"),
        ({"calibration": "validation", "validation_fraction": 0}, "calibration='validation' needs held-out samples"),
    ],
)
def test_calibrations_that_cannot_be_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        quick(**options).fit(*blobs())


def test_uncertainty_is_repeatable_and_larger_where_the_prediction_is_wrong():
    x, y = load_digits(return_X_y=True)
    model = quick(epochs=12).fit(x[:300], y[:300])
    uncertainty, wrong = model.uncertainty(x[300:]), model.predict(x[300:]) != y[300:]
    assert uncertainty.shape == wrong.shape
    assert (uncertainty >= 0).all()
    assert (uncertainty == model.uncertainty(x[300:])).all()
    assert roc_auc_score(wrong, uncertainty) > 0.8
    of_the_passes = model.uncertainty(x[300:], kind="passes")
    assert ((of_the_passes > 0) & (of_the_passes < uncertainty)).all()
    with pytest.raises(InvalidInputError, match="kind must be 'total', 'passes' or 'members'"):
        model.uncertainty(x, kind="all")


def test_the_same_seed_gives_the_same_weights_and_the_callers_random_numbers_are_left_alone():
    x, y = blobs()
    torch.manual_seed(5)
    first = state_of(quick().fit(x, y))
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    second = state_of(quick().fit(x, y))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = state_of(quick(random_state=1).fit(x, y))
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_history_says_what_was_chosen_and_how_the_stages_went():
    x, y = blobs(per_class=100)
    model = UncertaintyBalancedClassifier(random_state=0, epochs=9, margins="uncertainty").fit(x, y)
    assert model.history_["chosen"] | {"seed": 0} == {
        "epochs": 9,
        "epoch_batches": None,
        "steps": 6 * 9 + 3 * 10,  # a tenth of the samples is held back from the first two stages
        "batch_size": 32,
        "width": 256,
        "members": 4,
        "rows": 300,
        "held_out": 0,
        "seed": 0,
    }
    assert [record["stage"] for record in model.history_["epochs"]] == ["softmax"] * 2 + ["class"] * 4 + ["sample"] * 3
    assert model.history_["epochs"][1]["strength"] == 0
    assert model.history_["epochs"][-1]["strength"] > 0


def test_sample_weights_decide_between_contradicting_labels():
    x, y = blobs(classes=2)
    doubled, both = np.concatenate([x, x]), np.concatenate([y, 1 - y])
    weight = np.repeat([1.0, 0.01], len(x))
    assert quick().fit(doubled, both, sample_weight=weight).score(x, y) > 0.95
    assert quick().fit(doubled, both, sample_weight=weight[::-1]).score(x, 1 - y) > 0.95


def test_warm_start_goes_on_from_the_last_weights():
    x, y = blobs()
    model = quick(warm_start=True, epochs=3, learning_rate=1e-9, weight_decay=0.0).fit(x, y)
    first = state_of(model)
    again = state_of(model.fit(x, y))
    torch.testing.assert_close(first["head.weight"], again["head.weight"], atol=1e-6, rtol=0)
    assert not torch.allclose(first["head.weight"], state_of(quick(random_state=1).fit(x, y))["head.weight"], atol=1e-3)
    with pytest.raises(InvalidInputError, match="warm_start needs the last fit's classes"):
        model.fit(*blobs(classes=4))


def test_early_stopping_ends_before_the_last_epoch_with_the_best_weights():
    x, y = blobs(per_class=60)
    model = quick("cross_entropy", epochs=60, early_stopping=True, patience=3, batch_size=16).fit(x, y)
    scores = [record["balanced_accuracy"] for record in model.history_["epochs"]]
    assert len(scores) < 60
    assert len(scores) - 1 - int(np.argmax(scores)) == 3
    assert model.history_["chosen"]["held_out"] > 0


def test_feedback_holds_samples_out_and_sets_a_strength():
    x, y = blobs(per_class=60)
    kept = np.r_[0:60, 60:70, 120:126]
    model = quick(strength="feedback", epochs=12).fit(x[kept], y[kept])
    assert model.history_["chosen"]["held_out"] > 0
    assert {"balanced_accuracy", "recall_rare", "recall_common"} <= set(model.history_["epochs"][-1])


@pytest.mark.parametrize(
    ("form", "sample_level"),
    [
        *(("additive", "expected"), ("angular", "complement")),
        *(pytest.param("additive", level, marks=pytest.mark.slow) for level in ("none", "complement")),
        *(pytest.param("angular", level, marks=pytest.mark.slow) for level in ("none", "expected")),
    ],
)
def test_every_form_and_sample_level_learns(form, sample_level):
    x, y = blobs()
    kept = np.r_[0:40, 40:50, 80:85]
    model = quick(form=form, sample_level=sample_level, epochs=20).fit(x[kept], y[kept])
    assert balanced_accuracy_score(y, model.predict(x)) > 0.9


def test_classes_with_one_or_two_samples():
    x, y = blobs(classes=4)
    kept = np.r_[0:40, 40:80, 80:82, 120:121]
    model = quick(epochs=15).fit(x[kept], y[kept])
    assert np.isfinite(model.class_uncertainty_).all()
    assert np.isfinite(model.predict_proba(x)).all()
    assert quick(strength="feedback", epochs=3).fit(x[kept], y[kept]).predict(x).shape == y.shape


@pytest.mark.slow
def test_a_thousand_classes():
    x, y = blobs(classes=1000, per_class=3, columns=32)
    model = quick(epochs=4, width=128).fit(x, y)
    assert model.predict_proba(x[:7]).shape == (7, 1000)
    assert model.margins_.shape == (1000,)


def test_several_labels():
    x, y = blobs(classes=4)
    labels = np.stack([y == 0, y >= 2, y % 2 == 1], axis=1).astype(int)
    model = quick(epochs=14).fit(x, labels)
    assert model.predict(x).shape == labels.shape
    assert (model.predict(x) == labels).mean() > 0.95
    assert model.predict_proba(x).shape == labels.shape
    assert model.margins_.shape == (3, 2)
    assert model.class_uncertainty_[0, 1] > model.class_uncertainty_[0, 0]  # the rarer value is the less certain
    assert model.uncertainty(x).shape == (len(x),)
    ones = labels.mean(0)
    np.testing.assert_allclose(model.predict_proba(x, target_prior=ones), model.predict_proba(x))
    assert (model.predict(x) == (model.predict_proba(x, target_prior=[0.5, 0.5, 0.5]) > 0.5)).mean() > 0.97
    sets = model.calibrate(x, labels).prediction_sets(x, level=0.8)
    assert sets.shape == (*labels.shape, 2)
    assert model.predict(x, abstain=0.2).shape == labels.shape
    with pytest.raises(InvalidInputError, match="a matrix of 0 and 1 with 3 columns"):
        model.calibrate(x, y)


def test_images_through_a_backbone():
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2), nn.Flatten())

        def forward(self, x):
            return self.layers(x)

    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8)[:300] / 16
    backbone = Small()
    model = quick(backbone=backbone, epochs=10).fit(images, y[:300])
    assert model.predict(images).shape == (300,)
    assert model.score(images, y[:300]) > 0.8
    assert model.network_.backbone is not backbone  # a copy is trained
    assert model.uncertainty(images[:5]).shape == (5,)
    together, sizes = model.predict_proba(images[:5]), []
    model.network_.backbone.images_at_once = 2
    model.network_.backbone.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    np.testing.assert_allclose(model.predict_proba(images[:5]), together, atol=1e-6)
    assert sizes == [2, 2, 1]


def test_a_backbone_that_gives_no_features_is_told_what_to_give():
    with pytest.raises(InvalidInputError, match=r"features of shape \(batch, D\), got \(2, 8, 1\)"):
        quick(backbone=nn.Unflatten(1, (8, 1))).fit(*blobs())


def test_bad_input_gets_one_sentence():
    x, y = blobs()
    with pytest.raises(InvalidInputError, match=r"one of cross_entropy, .*, paper_as_printed, got 'focla'"):
        quick("focla").fit(x, y)
    with pytest.raises(InvalidInputError, match="at least two classes, got one class"):
        quick().fit(x, np.zeros(len(x)))
    with pytest.raises(InvalidInputError, match="several columns of other labels"):
        quick().fit(x, np.stack([y, y], axis=1))
    with pytest.raises(InvalidInputError, match="strength must be one of uncertainty, feedback, head, or a number"):
        quick(strength="strong").fit(x, y)
    with pytest.raises(InvalidInputError, match=r"validation_fraction must lie in \[0, 1\)"):
        quick(early_stopping=True, validation_fraction=1.0).fit(x, y)
    with pytest.raises(InvalidInputError, match="early_stopping=True needs held-out samples"):
        quick(early_stopping=True, validation_fraction=0.0).fit(x, y)
    with pytest.raises(InvalidInputError, match="takes its uncertainty from dropout, got dropout=0"):
        quick(dropout=0).fit(x, y)
    with pytest.raises(InvalidInputError, match="epochs must be a whole number of at least 1, got 0"):
        quick(epochs=0).fit(x, y)
    with pytest.raises(InvalidInputError, match=r"must hold 0 and 1 only, got \[0, 2\]"):
        quick().fit(x, np.stack([2 * (y == 0), 2 * (y == 1)], axis=1))


class StopAfter(nn.Linear):
    """A backbone that is interrupted in the middle of training."""

    def forward(self, x):
        if self.training:
            self.left = getattr(self, "left", 30) - 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return super().forward(x)


def test_an_interrupted_fit_goes_on_from_its_run_folder(tmp_path):
    x, y = blobs()
    torch.manual_seed(0)
    backbone = StopAfter(8, 8)
    with pytest.raises(KeyboardInterrupt, match=r"stopped in epoch \d as asked"):
        quick("cross_entropy", backbone=backbone, run_dir=tmp_path / "run").fit(x, y)
    backbone.left = 10**9
    resumed = state_of(quick("cross_entropy", backbone=backbone, run_dir=tmp_path / "run").fit(x, y))
    whole = state_of(quick("cross_entropy", backbone=backbone).fit(x, y))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_finished_fit_is_loaded_and_another_is_refused(tmp_path):
    x, y = blobs()
    whole = state_of(quick(run_dir=tmp_path / "whole").fit(x, y))
    assert len((tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()) == 9
    again = state_of(quick(run_dir=tmp_path / "whole").fit(x, y))  # finished: loaded, not trained
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    with pytest.raises(InvalidStateError, match=r"holds another run: data.samples was"):
        quick(run_dir=tmp_path / "whole").fit(x[:, ::-1].copy(), y)
    with pytest.raises(InvalidInputError, match="set random_state as well"):
        quick(run_dir=tmp_path / "whole", random_state=None).fit(x, y)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot hold a run"):
        quick(run_dir=tmp_path / "file").fit(x, y)
    with pytest.raises(InvalidInputError, match="cannot hold a model"):
        quick(epochs=1).fit(x, y).save(tmp_path / "file")


def test_numbers_of_numpy_are_numbers(tmp_path):
    x, y = blobs()
    model = quick(epochs=np.int64(3), width=np.int64(16), dropout=np.float32(0.5), random_state=np.int64(3)).fit(x, y)
    model.save(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path)
    assert (loaded.predict(x) == model.predict(x)).all()
    assert loaded.random_state == 3


def test_a_fit_that_fails_leaves_the_last_one_as_it_was():
    x, y = blobs()
    model = quick(warm_start=True, epochs=3).fit(x, y)
    before = model.predict_proba(x)
    with pytest.raises(InvalidInputError, match="warm_start needs the last fit's classes"):
        model.fit(x, np.array(["a", "b", "c"])[y])
    assert (model.predict_proba(x) == before).all()
    assert list(model.classes_) == [0, 1, 2]


@pytest.mark.parametrize("method", ["am_softmax", "arcface", "l_softmax", "sphereface", "focal"])
def test_methods_that_treat_classes_alike_keep_the_training_mix(method):
    x, y = blobs(per_class=60)
    kept = np.r_[0:60, 60:80, 120:130]
    model = quick(method, epochs=3).fit(x[kept], y[kept])
    np.testing.assert_allclose(model.predict_proba(x, target_prior=[60, 20, 10]), model.predict_proba(x))


def test_an_attribute_never_seen_has_finite_odds():
    x, y = blobs()
    labels = np.stack([y == 0, np.zeros_like(y)], axis=1).astype(int)
    model = quick("cross_entropy", epochs=3).fit(x, labels)
    assert np.isfinite(model.predict_proba(x, target_prior=[0.3, 0.1])).all()


@pytest.mark.nightly
def test_on_imbalanced_digits_rare_classes_are_more_uncertain_and_the_full_method_wins():
    x, y = load_digits(return_X_y=True)
    gains = []
    for seed in range(5):
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
        kept = step(y_train, rng=seed)
        counts = np.bincount(y_train[kept])
        rare = counts < np.sqrt(counts.min() * counts.max())
        scores = {}
        for method in ("cross_entropy", "uncertainty_margin"):
            model = UncertaintyBalancedClassifier(method, members=1, random_state=seed).fit(
                x_train[kept], y_train[kept]
            )
            scores[method] = balanced_accuracy_score(y_test, model.predict(x_test))
        assert model.class_uncertainty_[rare].min() > model.class_uncertainty_[~rare].max(), seed
        gains.append(scores["uncertainty_margin"] - scores["cross_entropy"])
    assert np.mean(gains) >= 0.01
    assert np.sum(np.array(gains) < 0) <= 1
