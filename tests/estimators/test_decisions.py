"""One decision: class, probabilities, sets and uncertainty of the estimator agree with each other."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict

from equipoise import UncertaintyBalancedClassifier
from equipoise.calibration.scaling import Scaling
from equipoise.errors import InvalidInputError, InvalidStateError
from tests.marks import mostly_slow

BALANCED = np.full(3, 1 / 3)


def table(samples=1200, seed=0):
    return make_classification(
        samples,
        8,
        n_informative=5,
        n_classes=3,
        weights=[0.8, 0.15, 0.05],
        class_sep=0.8,
        flip_y=0.02,
        random_state=seed,
    )


def quick(**options):
    return UncertaintyBalancedClassifier(**({"epochs": 4, "width": 64, "random_state": 0} | options))


@pytest.fixture(scope="module")
def calibrated():
    """Under-trained, then calibrated class by class, so that logits and decisions differ."""
    x, y = table(2400)
    clf = quick(epochs=3, calibration="none").fit(x[:600], y[:600])
    return clf.calibrate(x[600:], y[600:]), table(seed=1)[0]


def test_predict_follows_an_accepted_calibration(calibrated):
    clf, x = calibrated
    assert not torch.equal(clf.calibrated_.scaling.bias, torch.zeros(3, dtype=torch.float64))
    with torch.no_grad():
        raw = clf.classes_[clf.network_(torch.from_numpy(x)).argmax(-1).numpy()]
    assert (clf.predict(x) != raw).any(), "the calibration decides some rows otherwise"
    assert np.array_equal(clf.predict(x), clf.predict(x, target_prior=BALANCED))
    assert np.array_equal(clf.predict(x), clf.classes_[clf.predict_proba(x, target_prior=BALANCED).argmax(1)])


def test_a_method_that_keeps_the_training_prior_decides_there():
    x, y = table()
    clf = quick(method="cross_entropy").fit(x[:600], y[:600]).calibrate(x[600:], y[600:])
    assert np.array_equal(clf.predict(x), clf.classes_[clf.predict_proba(x).argmax(1)])
    assert (clf.predict(x) != clf.predict(x, target_prior=BALANCED)).any()


@pytest.mark.parametrize("prior", [None, BALANCED, np.array([0.7, 0.2, 0.1])])
def test_uncertainty_is_of_the_class_that_is_decided(calibrated, prior):
    clf, x = calibrated
    head, drop = clf.network_.head, clf.network_.head.dropout.p
    with torch.no_grad():
        features = clf.network_.backbone(torch.from_numpy(x)).double()
        scale, bias = clf.calibrated_.scaling.scale, clf.calibrated_.scaling.bias
        at = BALANCED if prior is None else prior
        vectors = head.class_vectors().double() * scale[:, None]
        logits = head.logits(features.float()).double() * scale + bias + torch.from_numpy(at / BALANCED).log()
    best = logits.argmax(1)
    difference = vectors[None] - vectors[best][:, None]  # (rows, classes, D)
    variance = (difference.square() * features.square()[:, None]).sum(-1) * drop / (1 - drop)
    mean = ((logits - logits.amax(1, keepdim=True)) / (1 + torch.pi / 8 * variance).sqrt()).softmax(1)
    expected = (mean * (1 - mean)).sum(1).numpy()
    np.testing.assert_allclose(clf.uncertainty(x, target_prior=prior), expected, rtol=1e-3, atol=1e-6)
    assert np.array_equal(clf.predict(x, target_prior=prior), clf.classes_[best.numpy()])


def test_uncertainty_without_dropout_is_the_variance_of_the_label():
    x, y = table()
    clf = quick(method="logit_adjustment", dropout=0.0).fit(x, y)
    p = clf.predict_proba(x, target_prior=BALANCED)
    np.testing.assert_allclose(clf.uncertainty(x), (p * (1 - p)).sum(1), rtol=1e-3, atol=1e-6)


def test_the_passes_disagreement_is_part_of_the_variance_of_the_label(calibrated):
    clf, x = calibrated
    p = clf.predict_proba(x, target_prior=BALANCED, passes=10)
    part = clf.uncertainty(x, kind="passes")
    assert ((part > 0) & (part <= (p * (1 - p)).sum(1) + 1e-9)).all()
    assert np.array_equal(part, clf.uncertainty(x, kind="passes", passes=10))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"passes": 5}, "kind='total' needs no passes, got passes=5; leave it out"),
        ({"passes": 0}, "kind='total' needs no passes, got passes=0; leave it out"),
        ({"kind": "passes", "passes": 0}, "passes must be at least 1, got 0; give a whole number"),
        ({"kind": "passes", "passes": 2.5}, "passes must be at least 1, got 2.5; give a whole number"),
        ({"kind": "both"}, "kind must be 'total', 'passes' or 'members', got 'both'"),
    ],
)
def test_passes_that_make_no_sense_are_refused(calibrated, options, sentence):
    clf, x = calibrated
    with pytest.raises(InvalidInputError, match=sentence):
        clf.uncertainty(x[:5], **options)


def test_a_set_has_the_predicted_class_and_less_certainty_never_leaves_more_open(calibrated):
    clf, x = calibrated
    shares = []
    for abstain in (0.05, 0.1, 0.3, 0.6, 0.9):
        sets = clf.prediction_sets(x, level=1 - abstain)
        assert sets[np.arange(len(x)), np.searchsorted(clf.classes_, clf.predict(x))].all()
        answer = clf.predict(x, abstain=abstain)
        assert np.array_equal(answer.mask, sets.sum(1) > 1)
        assert np.array_equal(answer.data, clf.predict(x))
        shares.append(answer.mask.mean())
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0
    elsewhere = clf.predict(x, target_prior=[0.1, 0.1, 0.8], abstain=0.1)
    assert np.array_equal(elsewhere.data, clf.predict(x, target_prior=[0.1, 0.1, 0.8]))


@pytest.mark.parametrize("method", mostly_slow(["uncertainty_margin", "cross_entropy", "vs"]))
def test_balanced_probabilities_decide_by_their_largest(method):
    x, y = table()
    clf = quick(method=method, probabilities="balanced").fit(x, y)
    p = clf.predict_proba(x)
    assert np.array_equal(clf.predict(x), clf.classes_[p.argmax(1)])
    np.testing.assert_allclose(p, clf.predict_proba(x, target_prior=BALANCED))
    natural = quick(method=method).fit(x, y)
    np.testing.assert_allclose(natural.predict_proba(x, target_prior=BALANCED), p)
    assert natural.predict_proba(x)[:, 0].mean() > p[:, 0].mean()
    np.testing.assert_allclose(clf.predict_proba(x, target_prior=clf.prior_), natural.predict_proba(x))
    np.testing.assert_allclose(clf.estimate_prior(x), natural.estimate_prior(x))


@pytest.mark.slow
def test_balanced_probabilities_keep_the_method_in_compositions():
    x, y = make_classification(1500, 8, n_informative=5, weights=[0.95], flip_y=0.01, random_state=0)
    x, y, new, truth = x[:900], y[:900], x[900:], y[900:]

    def scores(probabilities):
        one, other = (quick(epochs=10, probabilities=probabilities, random_state=seed) for seed in (0, 1))
        voting = VotingClassifier([("one", one), ("other", other)], voting="soft").fit(x, y)
        crossed = cross_val_predict(one, x, y, cv=3, method="predict_proba").argmax(1)
        return balanced_accuracy_score(truth, voting.predict(new)), balanced_accuracy_score(y, crossed)

    alone = balanced_accuracy_score(truth, quick(epochs=10).fit(x, y).predict(new))
    (voted, crossed), (voted_natural, crossed_natural) = scores("balanced"), scores("natural")
    assert voted > alone - 0.03
    assert voted > voted_natural
    assert crossed > crossed_natural + 0.1


def test_the_kind_of_probabilities_is_kept_and_checked(tmp_path):
    x, y = table(300)
    clf = quick(epochs=1, probabilities="balanced").fit(x, y)
    clf.save(tmp_path / "model")
    loaded = UncertaintyBalancedClassifier.load(tmp_path / "model")
    assert loaded.get_params()["probabilities"] == "balanced"
    assert np.array_equal(loaded.predict_proba(x), clf.predict_proba(x))
    with pytest.raises(InvalidInputError, match="probabilities must be one of natural, balanced, got 'true'"):
        quick(probabilities="true").fit(x, y)
    with pytest.raises(InvalidInputError, match="probabilities must be one of natural, balanced, got 'even'"):
        clf.set_params(probabilities="even").predict(x)


def test_several_labels_are_decided_by_the_calibration_as_well():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = (x[:, :2] + rng.normal(size=(300, 2)) > [1.0, 1.5]).astype(int)
    clf = quick().fit(x, y)
    shape = clf.calibrated_.prior.shape
    clf.calibrated_ = clf.calibrated_.__class__(
        clf.calibrated_.prior,
        clf.calibrated_.aimed,
        Scaling(torch.ones(shape, dtype=torch.float64), torch.tensor([[0.0, 1.0], [0.5, 0.0]], dtype=torch.float64)),
    )
    halves = np.full(2, 0.5)
    assert np.array_equal(clf.predict(x), (clf.predict_proba(x, target_prior=halves) > 0.5).astype(int))
    assert clf.uncertainty(x).shape == (300,)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded_nor_believed(tmp_path, value):
    import safetensors.torch

    x, y = table(300)
    clf = quick(epochs=1).fit(x, y)
    clf.save(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["network/head.weight"][0, 0] = value
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(InvalidInputError, match=r"holds NaN or infinity in 'head.weight'; train the model again"):
        UncertaintyBalancedClassifier.load(tmp_path / "model")
    with torch.no_grad():
        clf.network_.head.weight[:] = value
    sentence = r"non-finite values for 300 of 300 rows \(counted from 0: 0, 1, 2, 3, 4 and 295 more\)"
    for call in (clf.predict, clf.predict_proba, clf.uncertainty, clf.estimate_prior):
        with pytest.raises(InvalidInputError, match=sentence):
            call(x)
    with pytest.raises(InvalidStateError, match=r"has NaN or infinity in 'head.weight', so it was not saved"):
        clf.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()
