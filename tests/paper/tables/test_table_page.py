"""What is claimed is worked out from records made by hand, with figures that can be checked on paper."""

import numpy as np
import pytest

from equipoise.app.compare import METHODS
from equipoise.data.samples import Samples
from equipoise.paper.tables.claims import against_resampling, orders
from equipoise.paper.tables.table_cases import Case, Material
from equipoise.paper.tables.table_page import table_page
from equipoise.paper.tables.table_runner import TableResult

NAMES = ("precision", "recall", "f1", "g_mean", "iba")


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


def rows(records, **options):
    """A table's rows, without its head."""
    return orders(records, **options)[2:]


def test_a_difference_has_the_sign_of_the_first_and_students_interval():
    records = cells("cross_entropy", 0.70, 0.60, 0.50) + cells("uncertainty_margin", 0.71, 0.63, 0.52)
    # differences 1, 3, 2 points: mean 2, standard deviation 1, t(2) = 4.3027, half 4.3027 / sqrt(3) = 2.4841
    found = "+2.00 (-0.48 to +4.48), not significantly different"
    assert orders(records) == [
        "| comparison | balanced accuracy | G-mean | geometric mean of recalls |",
        "|---|---|---|---|",
        f"| Equipoise against cross-entropy | {found} | {found} | {found} |",
    ]


@pytest.mark.parametrize(("second", "verdict"), [([0.8, 0.71, 0.6], "better"), ([0.6, 0.51, 0.4], "worse")])
def test_better_and_worse_are_said(second, verdict):
    records = cells("arcface", 0.70, 0.60, 0.50) + cells("arcface_uncertainty", *second)
    (said,) = rows(records)
    assert said.startswith("| ArcFace, margins by uncertainty against ArcFace | ")
    assert said.count(f", {verdict}") == 3


def test_folds_that_share_training_samples_widen_the_interval():
    records = cells("cross_entropy", 0.70, 0.60, 0.50) + cells("uncertainty_margin", 0.71, 0.63, 0.52)
    (said,) = rows(records, test_to_train=0.5)
    assert "(-1.93 to +5.93)" in said  # 4.3027 * sqrt(1/3 + 1/2) = 3.9278


def test_a_single_pair_tells_nothing():
    (said,) = rows(cells("cross_entropy", 0.7) + cells("uncertainty_margin", 0.8))
    assert said.count("too few pairs (1) for an interval") == 3


def test_pairs_which_the_table_lacks_are_left_out():
    assert orders(cells("cross_entropy", 0.7, 0.6) + cells("focal", 0.8, 0.7)) == []
    lost = [{"case": "made", "method": "uncertainty_margin", "seed": 0, "fold": 0, "cannot_run": "no"}]
    assert orders(cells("cross_entropy", 0.7) + lost) == []


@pytest.mark.parametrize("failed", ["uncertainty_margin", "cross_entropy"])
def test_a_method_that_did_not_run_everywhere_is_compared_with_none(failed):
    records = cells("cross_entropy", 0.7, 0.6) + cells("uncertainty_margin", 0.8, 0.7) + cells("smote", 0.9, 0.9)
    unable = {"case": "made", "method": "smote", "seed": 1, "fold": 0, "cannot_run": "too few"}
    assert against_resampling([*records[:-1], unable]) == []
    assert against_resampling(records[:-1]) == []
    lost = [r for r in records if (r["method"], r["seed"]) != (failed, 1)]
    assert orders(lost) == []
    assert orders([*lost, unable | {"method": failed}]) == []


def test_the_best_of_the_rivals_stands_beside_ours():
    ours = cells("uncertainty_margin", 0.8, 0.7, 0.75, deviation=0.1)
    weak, weaker = cells("smote", 0.7, 0.5, 0.6, deviation=0.2), cells("svm_linear", 0.1, 0.1, 0.1, deviation=0.3)
    head, _, *said = against_resampling(ours + weak + weaker)
    assert head == "| score | Equipoise | the best of 2, picked afterwards | difference |"
    assert said[0].startswith("| accuracy | 75.0 | 60.0 (SMOTE) | +15.00 (")
    assert "| deviation of IBA over the classes | 10.0 | 20.0 (SMOTE) | -10.00 (-10.00 to -10.00), better |" in said
    assert len(said) == 4 + 5  # the scores, and the deviations
    near = cells("smote", 0.8, 0.8, 0.8, deviation=0.05)
    _, _, *said = against_resampling(ours + near + cells("adasyn", 0.1, 0.1, 0.1, deviation=0.2))
    assert said[2].startswith("| G-mean | 75.0 | 80.0 (SMOTE) | -5.00 (")
    assert said[2].endswith(", not significantly different |")  # behind by 0, 10 and 5
    assert "| deviation of F1 over the classes | 10.0 | 5.0 (SMOTE) | +5.00 (+5.00 to +5.00), worse |" in said
    assert not any(METHODS["adasyn"].label in line for line in said)


def test_losses_are_no_resampling():
    assert against_resampling(cells("uncertainty_margin", 0.8) + cells("vs", 0.9)) == []
    assert against_resampling(cells("smote", 0.8)) == []


def test_a_wide_interval_is_neither_a_tie_nor_an_equivalence():
    samples = Samples(np.zeros((4, 1)), np.arange(4) % 2, partition=np.array(["train", "train", "test", "test"]))
    methods = ("cross_entropy", "weighted", "focal", "vs")
    case = Case("made", Material(samples, "", "columns"), "official", methods)
    records = cells("cross_entropy", 0.98, 0.97, 0.99) + cells("weighted", 0.979, 0.969, 0.990)
    records += cells("focal", 0.99, 0.60, 0.70) + cells("vs", 0.90, 0.89, 0.91)
    page = table_page(TableResult("cifar10", {"made": case}, records, {"versions": {}}, 3, tune=False, hours=0.1))
    (said,) = [line for line in page.splitlines() if line.startswith("- Best by balanced accuracy")]
    best, equal, unclear = said.split(". ", 2)[0], *said.partition(". Equivalent")[2].split(". Neither")
    assert best == "- Best by balanced accuracy: cross-entropy 98.0 ± 1.0"
    assert equal == " to it within ±1 point: class weights 97.9 ± 1.1"
    # differences +1, -37, -29 points: mean -21.7, deviation 20.03, half 4.3027 * 20.03 / sqrt(3) = 49.77
    assert unclear.removeprefix(" equivalent nor significantly behind: ") == "focal -21.7 [-71.4, +28.1]."
    assert "VS" not in said
