"""What is claimed is worked out from records made by hand, with figures that can be checked on paper."""

import pytest

from equipoise.compare import METHODS
from equipoise.reproduce.claims import against_resampling, orders

NAMES = ("f1", "g_mean", "iba")


def cells(method, *values, deviation=0.1):
    """A record a seed; every score is the value, every deviation over the classes the other."""
    return [
        {
            "case": "made",
            "method": method,
            "seed": seed,
            "fold": 0,
            "scores": {"accuracy": value, "balanced_accuracy": value, "recall_product": value}
            | {name: {"mean": value, "deviation": deviation} for name in NAMES},
        }
        for seed, value in enumerate(values)
    ]


def test_a_difference_has_the_sign_of_the_first_and_students_interval():
    records = cells("cross_entropy", 0.70, 0.60, 0.50) + cells("uncertainty_margin", 0.71, 0.63, 0.52)
    (said,) = orders(records)
    # differences 1, 3, 2 points: mean 2, standard deviation 1, t(2) = 4.3027, half 4.3027 / sqrt(3) = 2.4841
    assert said == (
        "class + sample level against cross-entropy: balanced accuracy +2.00 (-0.48 to +4.48), not told apart; "
        "geometric mean of recalls +2.00 (-0.48 to +4.48), not told apart."
    )


@pytest.mark.parametrize(("second", "verdict"), [([0.8, 0.71, 0.6], "better"), ([0.6, 0.51, 0.4], "worse")])
def test_better_and_worse_are_said(second, verdict):
    records = cells("arcface", 0.70, 0.60, 0.50) + cells("arcface_uncertainty", *second)
    (said,) = orders(records)
    assert said.startswith("ArcFace, margins by uncertainty against ArcFace: balanced accuracy ")
    assert said.count(f", {verdict}") == 2


def test_folds_that_share_training_samples_widen_the_interval():
    records = cells("cross_entropy", 0.70, 0.60, 0.50) + cells("uncertainty_margin", 0.71, 0.63, 0.52)
    (said,) = orders(records, test_to_train=0.5)
    assert "(-1.93 to +5.93)" in said  # 4.3027 * sqrt(1/3 + 1/2) = 3.9278


def test_a_single_pair_tells_nothing():
    (said,) = orders(cells("cross_entropy", 0.7) + cells("uncertainty_margin", 0.8))
    assert said.count("of one pair, which tells nothing") == 2


def test_pairs_which_the_table_lacks_are_left_out():
    assert list(orders(cells("cross_entropy", 0.7, 0.6) + cells("focal", 0.8, 0.7))) == []
    lost = [{"case": "made", "method": "uncertainty_margin", "seed": 0, "fold": 0, "cannot_run": "no"}]
    assert list(orders(cells("cross_entropy", 0.7) + lost)) == []


@pytest.mark.parametrize("failed", ["uncertainty_margin", "cross_entropy"])
def test_a_method_that_could_not_run_everywhere_is_compared_with_none(failed):
    records = cells("cross_entropy", 0.7, 0.6) + cells("uncertainty_margin", 0.8, 0.7) + cells("smote", 0.9, 0.9)
    records[-1] = {"case": "made", "method": "smote", "seed": 1, "fold": 0, "cannot_run": "too few"}
    assert against_resampling(records) == []
    lost = [r for r in records if (r["method"], r["seed"]) != (failed, 1)]
    lost += [{"case": "made", "method": failed, "seed": 1, "fold": 0, "cannot_run": "too few"}]
    assert list(orders(lost)) == []


def test_rivals_that_are_not_behind_are_named():
    ours = cells("uncertainty_margin", 0.8, 0.7, deviation=0.1)
    (said,) = against_resampling(
        ours + cells("smote", 0.7, 0.7, deviation=0.2) + cells("svm_linear", 0.1, 0.1, deviation=0.3)
    )
    assert "accuracy 75.0, higher than all 2;" in said
    assert "deviation of IBA over the classes 10.0, smaller than all 2." in said
    assert "not " not in said
    (said,) = against_resampling(
        ours + cells("smote", 0.8, 0.8, deviation=0.05) + cells("adasyn", 0.1, 0.1, deviation=0.2)
    )
    assert "G-mean 75.0, not higher than SMOTE 80.0 (not told apart);" in said  # behind by 0 and by 10
    assert "deviation of F1 over the classes 10.0, not smaller than SMOTE 5.0;" in said
    assert METHODS["adasyn"].label not in said


def test_losses_are_no_resampling():
    assert against_resampling(cells("uncertainty_margin", 0.8) + cells("vs", 0.9)) == []
    assert against_resampling(cells("smote", 0.8)) == []
