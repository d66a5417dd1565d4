"""What users pass as X, y and sample_weight: it works, or one sentence says why not."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch import nn

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import numeric_tensor
from equipoise.training import ArrayData

ROWS = 40
Y = np.array([0] * 28 + [1] * 12)
X = np.random.default_rng(0).normal(size=(ROWS, 3)) + 2 * Y[:, None]
WORDS = np.where(Y, "rare", "common").astype(object)


def model(**options):
    return UncertaintyBalancedClassifier(epochs=1, width=8, random_state=0, **options)


@pytest.fixture(scope="module")
def plain():
    return model().fit(X, Y)


def unwritable(values):
    values = values.copy()
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    ("x", "same"),
    [
        (X[::-1].copy()[::-1], True),
        (X[:, ::-1].copy()[:, ::-1], True),
        (np.asfortranarray(X), True),
        (X.astype(">f8"), True),
        (unwritable(X), True),
        (X.astype(object), True),
        (X.tolist(), True),
        (torch.tensor(X), True),
        (np.ma.masked_array(X, mask=False), True),
        (X.astype(np.longdouble), True),
        (X.astype("f4")[::-1].copy()[::-1], False),
        (X.astype("f2"), False),
        (X > 1, False),
        (
            pd.DataFrame({"a": pd.array(range(ROWS), dtype="Int64"), "b": pd.array([True, False] * 20, "boolean")}),
            False,
        ),
    ],
)
def test_rows_in_any_form_are_taken(plain, x, same):
    fitted = model().fit(x, Y)
    found = fitted.predict_proba(x)
    if same:
        np.testing.assert_array_equal(found, plain.predict_proba(X))
    assert np.isfinite(fitted.uncertainty(x)).all()


def test_a_backbone_gets_reversed_rows_as_well(plain):
    reversed_rows = X.astype("f4")[::-1]
    fitted = model(backbone=nn.Linear(3, 5)).fit(reversed_rows, Y[::-1])
    assert len(fitted.predict(reversed_rows)) == ROWS
    plain.calibrate(X[::-1], Y[::-1])


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (Y[::-1], [0, 1]),
        (Y.astype(">i8"), [0, 1]),
        (unwritable(Y), [0, 1]),
        (torch.tensor(Y), [0, 1]),
        (pd.Series(Y, dtype="Int64"), [0, 1]),
        (pd.array(Y == 1, dtype="boolean"), [False, True]),
        (pd.Series(WORDS, dtype="string"), ["common", "rare"]),
        (pd.Categorical(WORDS), ["common", "rare"]),
        (Y.astype(object), [0, 1]),
        (np.where(Y == 1, 2.0, Y.astype(object)), [0, 2]),
        (np.stack([Y, 1 - Y, Y], 1)[::-1, ::-1], [0, 1, 2]),
        (np.stack([Y == 0, Y == 1], 1), [0, 1]),
    ],
)
def test_labels_in_any_form_are_taken(y, classes):
    fitted = model().fit(X, y)
    assert fitted.classes_.tolist() == classes
    assert fitted.predict(X).dtype.kind in (np.asarray(classes).dtype.kind, "O", "f")


def without(label, missing, kind=object):
    values = pd.Series(np.where(Y, label, WORDS), dtype=object)
    values[3] = missing
    return values.astype(kind)


@pytest.mark.parametrize(
    "y",
    [
        without("rare", None),
        without("rare", np.nan),
        without("rare", pd.NA),
        without("rare", pd.NA, "string"),
        without("rare", None, "category"),
        without("rare", None).tolist(),
        pd.Series([0, 1, 0, None] + [0, 1] * 18, dtype="Int64"),
        pd.Series([True, False, True, None] + [True, False] * 18, dtype="boolean"),
        np.where(np.arange(ROWS) == 3, np.nan, Y),
        np.where(np.arange(ROWS) == 3, np.datetime64("NaT"), np.datetime64("2020-01-01")),
        np.where((np.arange(ROWS) == 3)[:, None], np.nan, np.stack([Y, Y], 1)),
    ],
)
def test_a_missing_label_is_one_sentence(plain, y):
    for call in (model().fit, plain.calibrate):
        with pytest.raises(InvalidInputError, match=r"^y has no label in 1 of 40 rows, the first of them row 3; leave"):
            call(X, y)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (np.array([1, "a"] * 20, dtype=object), "^y mixes numbers .1. and text .'a'.; make all labels text"),
        ([1, "a"] * 20, "^y mixes numbers"),
        ([b"a", "a"] * 20, "^y mixes bytes"),
        ([{1}, {2}] * 20, "^labels must be text or numbers of up to 64 bits, got {1}"),
        (np.array([2**70, 1] * 20, dtype=object), "^labels must be text or numbers of up to 64 bits"),
        ([[1], [1, 2]] * 20, "^y must have the same number of labels in each row"),
        (3, "^y must have a label for each row of X, got a single one: 3"),
        (torch.ones(ROWS, requires_grad=True), r"^y requires gradients, which are not used here; pass y.detach"),
        (np.ma.masked_array(Y, mask=Y == 1), "^y has 12 masked values"),
        (Y + 0j, "^Complex data not supported: y must hold real numbers"),
        (np.zeros(ROWS, int), "^y must have at least two classes"),
    ],
)
def test_labels_that_cannot_be_used_are_one_sentence(y, sentence):
    with pytest.raises(InvalidInputError, match=sentence) as refused:
        model().fit(X, y)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.tensor(X, requires_grad=True), r"^X requires gradients, which are not used here; pass X.detach"),
        (torch.tensor(X).bfloat16(), r"^X has the type bfloat16, which numpy lacks; pass X.float"),
        (np.ma.masked_array(X, mask=X > 3), "^X has [0-9]+ masked values; fill them in or leave their rows out"),
        (X + 0j, "^Complex data not supported: X must hold real numbers"),
        (X[:, 0], "^X must have rows and columns, got the shape .40,.. Reshape your data"),
        (np.float64(3), "^X must have rows and columns, got the shape ..[.]"),
        (scipy.sparse.csr_array(X), "^Sparse data was passed for X"),
    ],
)
def test_rows_that_cannot_be_used_are_one_sentence(plain, x, sentence):
    for call in (lambda: model().fit(x, Y), lambda: plain.predict(x)):
        with pytest.raises((InvalidInputError, TypeError), match=sentence) as refused:
            call()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (torch.ones(ROWS, requires_grad=True), "^sample_weight requires gradients"),
        (np.full(ROWS, np.nan), "NaN"),
        (np.zeros(ROWS), "non-zero"),
        (-np.ones(ROWS), "not negative"),
        (np.ones(4), "shape"),
    ],
)
def test_weights_that_cannot_be_used_are_one_sentence(weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        model().fit(X, Y, sample_weight=weight)


def test_weights_may_be_reversed():
    assert len(model().fit(X, Y, sample_weight=np.linspace(1, 2, ROWS, dtype="f4")[::-1]).classes_) == 2


def test_training_data_take_reversed_arrays_and_refuse_gradients():
    data = ArrayData(X[::-1], Y[::-1], np.linspace(1, 2, ROWS)[::-1])
    x, y, weight = data.__getitems__([0])
    assert (x[0].tolist(), int(y), float(weight)) == (X[-1].tolist(), 1, 2.0)
    with pytest.raises(InvalidInputError, match=r"^x requires gradients.*x.detach"):
        ArrayData(torch.tensor(X, requires_grad=True), Y)
    assert numeric_tensor(np.arange(3)[::-1], "margin").tolist() == [2, 1, 0]
