"""Scores class by class, against slow counting, scikit-learn and imbalanced-learn."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imblearn.metrics import geometric_mean_score, make_index_balanced_accuracy
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    precision_recall_fscore_support,
)
from sklearn.metrics import log_loss as sklearn_log_loss

from equipoise.errors import InvalidInputError
from equipoise.evaluation import scores
from tests.reference import scores as reference

METRICS = ("precision", "recall", "f1", "g_mean", "iba", "bca")
LABELS = ["ant", "bee", "cat", "dog"]
pairs = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30)


def close(value, expected):
    return value == pytest.approx(expected, abs=1e-12, nan_ok=True)


def random_case(seed=0, samples=60, classes=4):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(samples, classes)) * 2
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    true = rng.integers(0, classes, samples)
    return true, p.argmax(1), p


# --- classes --------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(pairs)
def test_every_metric_is_what_counting_gives(answers):
    true, predicted = zip(*answers, strict=True)
    found = scores(true, predicted, classes=LABELS)
    expected = [reference.class_metrics(*reference.one_against_rest(true, predicted, label)) for label in LABELS]
    for name in METRICS:
        each = [metrics[name] for metrics in expected]
        mean, deviation = reference.mean_and_deviation(each)
        spread = getattr(found, name)
        assert close(list(spread.each), each), name
        assert close(spread.mean, mean), name
        assert close(spread.deviation, deviation), name
    recalls = [metrics["recall"] for metrics in expected if not math.isnan(metrics["recall"])]
    assert close(found.recall_product, math.prod(recalls) ** (1 / len(recalls)))
    assert close(found.accuracy, sum(t == p for t, p in answers) / len(answers))
    assert close(found.balanced_accuracy, sum(recalls) / len(recalls))
    assert list(found.support) == [true.count(label) for label in LABELS]
    assert [list(row) for row in found.confusion] == confusion_matrix(true, predicted, labels=LABELS).tolist()
    assert found.exact_match is None
    assert not found.multilabel
    assert found.calibration is None


def test_the_papers_metrics_are_those_of_imbalanced_learn():
    true, predicted, _ = random_case()
    found = scores(true, predicted)
    precision, recall, f1, support = precision_recall_fscore_support(true, predicted, zero_division=0)
    assert close(list(found.precision.each), precision.tolist())
    assert close(list(found.recall.each), recall.tolist())
    assert close(list(found.f1.each), f1.tolist())
    assert list(found.support) == support.tolist()
    g_mean = geometric_mean_score(true, predicted, average=None)
    iba = make_index_balanced_accuracy(alpha=0.1, squared=True)(geometric_mean_score)(true, predicted, average=None)
    assert close(list(found.g_mean.each), g_mean.tolist())
    assert close(list(found.iba.each), iba.tolist())
    assert close(found.recall_product, geometric_mean_score(true, predicted, average="multiclass"))
    assert close(found.balanced_accuracy, balanced_accuracy_score(true, predicted))
    assert close((found.iba.mean, found.iba.deviation), (iba.mean(), iba.std()))


def test_on_a_balanced_test_set_mean_recall_is_accuracy():
    true = np.repeat(np.arange(5), 20)
    predicted = np.where(np.arange(100) % 3 == 0, 0, true)
    found = scores(true, predicted)
    assert close(found.recall.mean, found.accuracy)


def test_a_class_that_is_never_predicted_counts_as_zero():
    found = scores(["a", "a", "b"], ["a", "a", "a"])
    assert found.precision.each == (2 / 3, 0.0)
    assert found.f1.each == (0.8, 0.0)
    assert found.recall_product == 0.0


def test_a_class_without_test_samples_is_left_out_of_the_means():
    found = scores(["a", "a", "b"], ["a", "c", "b"], classes=["a", "b", "c"])
    assert math.isnan(found.recall.each[2])
    assert math.isnan(found.precision.each[2])
    assert found.balanced_accuracy == 0.75
    assert found.as_dict()["recall"]["each"] == [0.5, 1.0, None]
    assert found.as_dict()["g_mean"]["each"][2] is None


def test_one_class_alone_has_no_specificity():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = scores([1, 1], [1, 1])
    assert found.recall.mean == 1.0
    assert math.isnan(found.g_mean.mean)
    assert found.as_dict()["g_mean"] == {"mean": None, "deviation": None, "each": [None]}


def test_classes_may_stand_in_any_order():
    true, predicted, p = random_case()
    order = [2, 0, 3, 1]
    names = np.array(["w", "x", "y", "z"])
    first = scores(names[true], names[predicted], probabilities=p, classes=names)
    second = scores(names[true], names[predicted], probabilities=p[:, order], classes=names[order])
    assert second.classes == ("y", "w", "z", "x")
    assert second.recall.each == tuple(first.recall.each[i] for i in order)
    assert close(second.calibration.log_loss, first.calibration.log_loss)
    assert np.array_equal(np.array(first.confusion)[np.ix_(order, order)], np.array(second.confusion))


def test_labels_from_a_data_frame_are_labels():
    frame = pd.DataFrame({"true": ["a", "b", "b"], "predicted": ["a", "b", "a"]})
    for kind in (object, frame["true"].dtype):
        given = frame.astype(kind)
        found = scores(given["true"], given["predicted"], classes=np.array(["a", "b"]))
        assert found.recall.each == (1.0, 0.5)
    assert scores(frame["true"], frame["predicted"]).classes == ("a", "b")


def test_of_thousands_of_classes_no_confusion_matrix_is_kept():
    true = np.arange(1001)
    assert scores(true, true).confusion is None
    assert scores(true[:1000], true[:1000]).confusion is not None


def test_recall_of_many_medium_and_few():
    true = [0, 0, 1, 1, 2, 2, 3, 3]
    predicted = [0, 0, 1, 0, 2, 0, 0, 0]
    found = scores(true, predicted, train_counts=[1000, 900, 100, 10])
    assert found.group_recall == {"common": 0.75, "medium": 0.5, "rare": 0.0}
    assert scores(true, predicted, train_counts=[10, 10, 10, 10]).group_recall == {"common": 0.5}
    assert scores(true, predicted).group_recall == {}
    absent = scores([0, 0], [0, 0], classes=[0, 1], train_counts=[100, 10])
    assert absent.group_recall == {"common": 1.0}, "nothing is known of a class without test samples"
    with pytest.raises(InvalidInputError, match="train_counts must be one number for each of 4 classes, got 3"):
        scores(true, predicted, train_counts=[1, 2, 3])


# --- attributes -----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 4))
def test_attributes_are_what_counting_gives(seed, samples, attributes):
    rng = np.random.default_rng(seed)
    true, predicted = rng.integers(0, 2, (2, samples, attributes))
    found = scores(true, predicted)
    columns = range(attributes)
    counts = [reference.one_against_rest(true[:, c].tolist(), predicted[:, c].tolist(), 1) for c in columns]
    expected = [reference.class_metrics(*each) for each in counts]
    for name in METRICS:
        assert close(list(getattr(found, name).each), [metrics[name] for metrics in expected]), name
    assert close(found.balanced_accuracy, reference.mean_and_deviation([m["bca"] for m in expected])[0])
    assert close(found.accuracy, sum(tp + tn for tp, _, _, tn in counts) / (samples * attributes))
    assert close(found.exact_match, sum(list(t) == list(p) for t, p in zip(true, predicted, strict=True)) / samples)
    for (tp, fp, fn, tn), table in zip(counts, found.confusion, strict=True):
        assert [list(row) for row in table] == [[tn, fp], [fn, tp]]
    assert found.multilabel


def test_attributes_have_names_and_groups():
    y = np.array([[1, 0], [1, 1], [0, 0]])
    found = scores(y, np.array([[1, 0], [0, 0], [0, 0]]), classes=["hat", "smile"], train_counts=[90, 10])
    assert found.classes == ("hat", "smile")
    assert found.group_recall == {"common": 0.5, "rare": 0.0}
    with pytest.raises(InvalidInputError, match="classes must name the 2 attributes, got 1 names"):
        scores(y, y, classes=["hat"])


def test_attributes_are_zero_and_one():
    with pytest.raises(InvalidInputError, match=r"a matrix y_pred must hold 0 and 1 only, got \[0.0, 0.7\]"):
        scores([[0, 1]], [[0, 0.7]])


# --- probabilities --------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 5))
def test_calibration_is_what_counting_gives(seed, samples, classes):
    true, predicted, p = random_case(seed, samples, classes)
    p = np.round(p * 15) / 15 if seed % 2 else p  # also exactly on the edges of bins
    p = np.where(p.sum(1, keepdims=True) == 0, 1 / classes, p)
    p /= p.sum(1, keepdims=True)
    found = scores(true, predicted, probabilities=p, classes=range(classes)).calibration
    confidence = [row[c] for row, c in zip(p.tolist(), predicted, strict=True)]
    right = (true == predicted).tolist()
    assert close(found.ece, reference.expected_calibration_error(confidence, right))
    each = [
        reference.expected_calibration_error(p[:, c].tolist(), [bool(t == c) for t in true]) for c in range(classes)
    ]
    assert close(list(found.class_ece), each)
    assert close(found.mean_class_ece, sum(each) / classes)
    assert close(found.brier, reference.brier(p.tolist(), true.tolist(), list(range(classes))))
    if (p[np.arange(samples), true] > 0).all():
        assert close(found.log_loss, reference.log_loss(p.tolist(), true.tolist(), list(range(classes))))
        assert found.log_loss == pytest.approx(sklearn_log_loss(true, p, labels=range(classes)), rel=1e-9, abs=1e-9)


def test_calibration_of_attributes():
    rng = np.random.default_rng(1)
    p, true = rng.random((50, 3)), rng.integers(0, 2, (50, 3))
    predicted = (p > 0.5).astype(int)
    found = scores(true, predicted, probabilities=p).calibration
    flat = np.where(predicted == 1, p, 1 - p).ravel().tolist()
    assert close(found.ece, reference.expected_calibration_error(flat, (true == predicted).ravel().tolist()))
    each = [reference.expected_calibration_error(p[:, c].tolist(), true[:, c].tolist()) for c in range(3)]
    assert close(list(found.class_ece), each)
    assert close(found.brier, float(np.mean((p - true) ** 2)))
    expected = -np.mean(true * np.log(p) + (1 - true) * np.log(1 - p))
    assert close(found.log_loss, expected)


def test_perfect_and_hopeless_probabilities():
    true = np.array([0, 1, 1])
    sure = np.eye(2)[true]
    perfect = scores(true, true, probabilities=sure).calibration
    assert (perfect.ece, perfect.brier, perfect.log_loss) == (0.0, 0.0, 0.0)
    wrong = scores(true, 1 - true, probabilities=1 - sure).calibration
    assert (wrong.ece, wrong.brier) == (1.0, 2.0)
    assert wrong.log_loss == pytest.approx(sklearn_log_loss(true, 1 - sure)), "finite, though a probability is 0"


def test_probabilities_in_float32_are_probabilities():
    true, predicted, p = random_case()
    found = scores(true, predicted, probabilities=p.astype(np.float32)).calibration
    assert found.log_loss == pytest.approx(scores(true, predicted, probabilities=p).calibration.log_loss, rel=1e-5)


@pytest.mark.parametrize(
    ("p", "sentence"),
    [
        ([[0.5, 0.5]], r"must have the shape \(2, 2\), samples and classes, got \(1, 2\)"),
        ([[2.0, -1.0], [0.5, 0.5]], "must lie between 0 and 1; apply softmax"),
        ([[float("nan"), 1.0], [0.5, 0.5]], "must lie between 0 and 1; apply softmax"),
        ([[0.5, 0.6], [0.5, 0.5]], "must sum to 1; apply softmax"),
    ],
)
def test_what_is_no_probability_is_refused(p, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        scores([0, 1], [0, 1], probabilities=p)


# --- input and record -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("true", "predicted"), [([0, 1], [0]), ([[0, 1]], [0, 1])])
def test_labels_must_be_of_the_same_samples(true, predicted):
    with pytest.raises(InvalidInputError, match="y_true and y_pred must be labels of the same samples, got shapes"):
        scores(true, predicted)


@pytest.mark.parametrize("labels", [[], 3])
def test_labels_must_be_labels(labels):
    with pytest.raises(InvalidInputError, match=r"y_true must be labels .* not empty; got an array of shape"):
        scores(labels, labels)


def test_labels_that_are_no_class_are_named():
    with pytest.raises(InvalidInputError, match=r"classes lacks the label .*'d'.* of y_true"):
        scores(["a", "d"], ["a", "b"], classes=["a", "b"])
    with pytest.raises(InvalidInputError, match=r"classes lacks the label .*2.* of y_pred"):
        scores([0, 1], [0, 2], classes=[0, 1])
    with pytest.raises(InvalidInputError, match=r"classes lacks the label .*'0'.* of y_true"):
        scores(["0", "1"], [0, 1], classes=[0, 1])
    with pytest.raises(InvalidInputError, match="classes has a class twice"):
        scores(["a", "b"], ["a", "b"], classes=["a", "b", "a"])


@pytest.mark.parametrize("labels", [[0, 1, 1], [True, False, True], ["u", "v", "u"]])
def test_the_record_is_plain_json(labels):
    p = [[0.5, 0.5]] * 3
    record = scores(labels, labels, probabilities=p, train_counts=[100, 10]).as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["classes"] == sorted(set(labels))
    assert record["accuracy"] == 1.0
    assert record["group_recall"] == {"common": 1.0, "rare": 1.0}
    assert set(record["calibration"]) == {"ece", "mean_class_ece", "class_ece", "brier", "log_loss"}


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("ties", [False, True])
def test_macro_average_precision_is_scikit_learns(classes, ties):
    rng = np.random.default_rng(classes)
    true = rng.choice(classes, 80, p=np.arange(classes, 0, -1) / (classes * (classes + 1) / 2))  # the last is rarest
    p = rng.dirichlet(np.ones(classes), 80)
    p = np.round(p * 4) + 1 if ties else p
    p /= p.sum(1, keepdims=True)
    found = scores(true, p.argmax(1), probabilities=p, classes=range(classes)).as_dict()
    each = [average_precision_score(true == c, p[:, c]) for c in range(classes)]
    assert found["macro_average_precision"] == pytest.approx(each[1] if classes == 2 else np.mean(each))
    assert found["log_loss"] == pytest.approx(sklearn_log_loss(true, p, labels=range(classes)))


def test_average_precision_leaves_out_a_class_without_samples():
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2]])
    true = np.array([0, 1, 1, 0])
    found = scores(true, p.argmax(1), probabilities=p, classes=range(3)).as_dict()
    each = [average_precision_score(true == c, p[:, c]) for c in (0, 1)]
    assert found["macro_average_precision"] == pytest.approx(np.mean(each))
    alone = scores([0, 0], [0, 1], probabilities=[[0.9, 0.1], [0.4, 0.6]], classes=[0, 1]).as_dict()
    assert alone["macro_average_precision"] is None  # the rarer class has none at all
    assert scores([0, 1], [0, 1]).as_dict()["macro_average_precision"] is None
    assert scores([0, 1], [0, 1]).as_dict()["log_loss"] is None


def test_of_two_classes_the_rarer_counts_whatever_its_place():
    p = np.array([[0.6, 0.4], [0.3, 0.7], [0.2, 0.8], [0.45, 0.55]])
    true = np.array([0, 1, 1, 1])
    found = scores(true, true, probabilities=p).as_dict()["macro_average_precision"]
    assert found == pytest.approx(average_precision_score(true == 0, p[:, 0])) == 1.0
    level = scores([0, 0, 1, 1], [0, 0, 1, 1], probabilities=p).as_dict()["macro_average_precision"]
    assert level == pytest.approx(average_precision_score([0, 0, 1, 1], p[:, 1]))


def test_attributes_have_the_mean_of_their_average_precision():
    rng = np.random.default_rng(2)
    true, p = rng.integers(0, 2, (40, 2)), rng.random((40, 2))
    found = scores(true, (p > 0.5).astype(int), probabilities=p).as_dict()["macro_average_precision"]
    assert found == pytest.approx(np.mean([average_precision_score(true[:, c], p[:, c]) for c in range(2)]))


def test_the_worst_recall_is_that_of_the_class_found_least():
    found = scores(["a", "a", "b", "b", "b"], ["a", "b", "b", "b", "b"], classes=["a", "b", "c"]).as_dict()
    assert found["worst_recall"] == 0.5
    assert scores(["a"], ["a"], classes=["a", "b"]).as_dict()["worst_recall"] == 1.0
