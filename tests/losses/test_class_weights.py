"""Weights from class counts."""

import pytest
import torch

from equipoise.errors import InvalidInputError
from equipoise.losses import effective_number_weights, inverse_frequency_weights
from equipoise.losses.class_weights import class_weights, needed_counts, positive_counts
from tests.losses.cases import COUNTS, PAIR_COUNTS, f64
from tests.reference import losses as reference

SEEN_AND_UNSEEN = [COUNTS, torch.tensor([500.0, 0.0, 20.0, 3.0])]


@pytest.mark.parametrize("counts", SEEN_AND_UNSEEN, ids=["seen", "one unseen"])
def test_inverse_frequency_weights_equal_their_loop(counts):
    expected = f64(reference.inverse_frequency_weights(counts.tolist()))
    torch.testing.assert_close(inverse_frequency_weights(counts.double()), expected)


def test_inverse_frequency_weights_make_every_class_count_alike():
    weighed = inverse_frequency_weights(COUNTS) * COUNTS
    torch.testing.assert_close(weighed, torch.full_like(COUNTS, 125 / 5))


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.999, 0.9999])
@pytest.mark.parametrize("counts", SEEN_AND_UNSEEN, ids=["seen", "one unseen"])
def test_effective_number_weights_equal_their_loop(counts, beta):
    expected = f64(reference.effective_number_weights(counts.tolist(), beta))
    torch.testing.assert_close(effective_number_weights(counts.double(), beta), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(effective_number_weights(counts, beta), expected.float())


def test_effective_number_weights_run_from_equal_to_inverse_frequency():
    torch.testing.assert_close(effective_number_weights(COUNTS, 0.0), torch.ones(5))
    inverse = inverse_frequency_weights(COUNTS)
    torch.testing.assert_close(effective_number_weights(COUNTS, 1 - 1e-12), inverse / inverse.mean(), rtol=1e-4, atol=0)


def test_the_default_beta_is_the_one_for_data_sets_of_ten_thousands():
    assert torch.equal(effective_number_weights(COUNTS), effective_number_weights(COUNTS, 0.9999))


@pytest.mark.parametrize("function", [inverse_frequency_weights, effective_number_weights])
def test_several_labels_are_weighed_an_attribute_at_a_time(function):
    rows = torch.stack([function(row) for row in PAIR_COUNTS])
    torch.testing.assert_close(function(PAIR_COUNTS), rows)


def test_the_choice_of_weights():
    given = torch.ones(5)
    assert class_weights(None, None) is None
    assert class_weights(given, None) is given
    assert torch.equal(class_weights("balanced", COUNTS), inverse_frequency_weights(COUNTS))
    assert torch.equal(class_weights("effective", COUNTS), effective_number_weights(COUNTS))


def test_an_unseen_class_counts_as_one_sample():
    assert positive_counts(torch.tensor([0.0, 1.0, 7.0])).tolist() == [1, 1, 7]
    assert needed_counts(COUNTS, "it") is COUNTS


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: effective_number_weights(COUNTS, 1.0), r"beta must lie in \[0, 1\), got 1.0"),
        (lambda: effective_number_weights(COUNTS, -0.1), r"beta must lie in \[0, 1\)"),
        (lambda: class_weights("inverse", COUNTS), "class_weight must be a tensor, 'balanced' or 'effective'"),
        (lambda: class_weights("balanced", None), r"class_weight='balanced' needs .* pass class_counts"),
        (lambda: class_weights("effective", None), r"class_weight='effective' needs .* pass class_counts"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
