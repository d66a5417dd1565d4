"""The paper's tables on a handful of real samples: every piece in place, no figure to quote."""

import os
from pathlib import Path

import numpy as np
import pytest

from equipoise.app.compare import METHODS
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.tables import TABLES, run_table, table_page
from equipoise.paper.tables import printed_results as paper
from equipoise.paper.tables.table_cases import Case
from equipoise.paper.tables.table_runner import TableResult
from equipoise.paper.tables.table_samples import Material, Source
from tests.paper.sets.layouts import cifar100_binary

DATA = os.environ.get("EQUIPOISE_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="EQUIPOISE_DATA is not set")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One for all tests: archives are unpacked once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(cache))


@pytest.mark.parametrize(
    "figures",
    [
        *(paper.CIFAR10, paper.MARGINS, paper.CELEBA, *paper.MNIST.values(), *paper.SKIN.values()),
        *(figures for ratios in paper.LONG_TAILED.values() for figures in ratios.values()),
    ],
)
def test_the_papers_rows_are_methods(figures):
    assert set(figures) <= set(METHODS)
    assert all(0 < value <= 100 for row in figures.values() for value in row.values())


def test_the_papers_own_gain():
    ours, softmax = (paper.CIFAR10[name]["accuracy"] for name in ("uncertainty_margin", "cross_entropy"))
    assert ours - softmax == pytest.approx(3.8)


def test_an_unknown_table_and_an_unknown_row_are_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"table must be one of cifar10, .*, got 'imagenet'"):
        run_table("imagenet", None, tmp_path)
    with pytest.raises(InvalidInputError, match=r"methods must be some of .*, got 'magic'"):
        run_table("mnist", None, tmp_path, methods=("magic",))


def test_missing_data_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    with pytest.raises(InvalidInputError, match="MNIST was not found"):
        run_table("mnist", tmp_path, tmp_path / "out")


@needs_data
@pytest.mark.slow
def test_mnist_stops_and_goes_on_and_makes_a_page(tmp_path):
    some = {"seeds": 2, "smoke": True, "methods": ("cross_entropy", "uncertainty_margin")}
    told = []
    first = run_table("mnist", Path(DATA), tmp_path, **some, progress=lambda *news: told.append(news))
    assert len(first.records) == 2 * 2 * 3 == len(told)  # seeds, methods, dropout rates
    again = run_table("mnist", Path(DATA), tmp_path, **some, progress=lambda *news: told.append(news))
    assert again.records == first.records
    assert len(told) == 12  # nothing ran twice
    page = table_page(again)
    assert "| Equipoise |" in page
    assert "over 2 seeds" in page
    assert "A trial with few samples and epochs" in page
    assert "| 98.7 |" not in page  # the paper's figure is of all samples and epochs
    assert "difference" not in page.partition("## ")[2].lower().replace("differences between methods are judged", "")
    assert "Differences between methods are judged only with at least 3 runs of each." in page
    assert "--seeds 2 --smoke" in page
    fewer = run_table("mnist", Path(DATA), tmp_path, **some | {"seeds": 1, "methods": ("cross_entropy",)})
    assert table_page(fewer) == page  # nothing that is stored is left out


@needs_data
def test_a_step_draws_its_half_from_the_seed_and_spares_the_test_part():
    case = TABLES["mnist"].cases(Source(Path(DATA), smoke=True))["dropout=0.5"]
    y = case.material.samples.y
    for seed in (0, 1):
        train, test = case.split(seed, 0)
        assert sorted(np.bincount(y[train]).tolist()) == [1] * 5 + [12] * 5
        assert np.bincount(y[test]).tolist() == [12] * 10
    assert case.split(0, 0)[0].tolist() != case.split(1, 0)[0].tolist()


@needs_data
def test_attributes_of_digits_are_several_labels(tmp_path):
    some = ("cross_entropy", "weighted", "logit_adjustment_post_hoc", "random_over", "random_under")
    result = run_table("attributes", Path(DATA), tmp_path, seeds=1, smoke=True, methods=some)
    assert [record["method"] for record in result.records] == list(some)
    assert all(0.5 < record["scores"]["bca"]["mean"] <= 1 for record in result.records)
    page = table_page(result)
    assert "BCA" in page
    assert (
        "over- and under-sampling repeat or drop rows, in proportion to the mean inverse share of their labels" in page
    )
    assert "k-means" not in page


def test_the_long_tail_follows_the_order_of_the_classes(tmp_path):
    cifar100_binary(tmp_path, train=100)
    cases = TABLES["cifar100_lt"].cases(Source(tmp_path))
    assert list(cases) == ["ratio=100", "ratio=50", "ratio=10"]
    case, labels = cases["ratio=10"], cases["ratio=10"].material.samples.y
    train, test = case.split(0, 0)
    counts = np.unique(labels[train], return_counts=True)[1]
    assert counts.tolist() == [round(100 * 10 ** (-place / 99)) for place in range(100)]
    assert np.unique(labels[test], return_counts=True)[1].tolist() == [1] * 100
    assert case.paper["ldam_drw"] == {"accuracy": 58.7}
    assert case.options.epochs == 200


@pytest.mark.nightly
def test_long_tailed_cifar100_runs_on_a_few_images(tmp_path):
    cifar100_binary(tmp_path / "data", train=12, test=12)
    some = ("cross_entropy", "uncertainty_margin")
    result = run_table("cifar100_lt", tmp_path / "data", tmp_path, seeds=1, smoke=True, methods=some)
    assert [record["method"] for record in result.records] == [*some] * 3
    assert "CIFAR-100, long tail 1:50" in table_page(result)


@needs_data
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(
            name,
            marks=pytest.mark.nightly
            if name in ("cifar10", "cifar10_lt", "cifar10_lite0", "expressions", "margins", "skin")
            else pytest.mark.slow,
        )
        for name in TABLES
        if name != "cifar100_lt"
    ],
)
def test_every_table_runs(table, tmp_path):
    result = run_table(table, Path(DATA), tmp_path, seeds=1, smoke=True)
    assert all(("scores" in record) != ("cannot_run" in record) for record in result.records)
    page = table_page(result)
    assert all(METHODS[method].label in page for case in result.cases.values() for method in case.methods)
    ran = {record["method"] for record in result.records if "scores" in record}
    assert {"cross_entropy", "uncertainty_margin"} <= ran
    assert table != "cifar10" or {"svm_linear", "random_over", "random_under", "neighbourhood_cleaning"} <= ran


def _record(method, seed, each):
    deviation = {"mean": float(np.mean(each)), "deviation": float(np.std(each)), "each": each}
    plain = dict.fromkeys(("accuracy", "balanced_accuracy", "recall_product"), float(np.mean(each)))
    scores = plain | dict.fromkeys(("precision", "recall", "f1", "g_mean", "iba", "bca"), deviation)
    return {"case": "made", "method": method, "seed": seed, "fold": 0, "scores": scores}


def _page(case, records, seeds=2):
    header = {"versions": {"torch": "2"}}
    return table_page(TableResult("cifar10", {"made": case}, records, header, seeds, tune=False, hours=0.1))


@pytest.mark.parametrize(("seeds", "shown"), [(1, "75.0"), (2, "75.0 ± 0.0"), (3, "75.0 ± 0.0")])
def test_a_single_run_has_no_deviation_and_fewer_than_three_decide_nothing(seeds, shown):
    samples = Samples(np.zeros((4, 1)), np.arange(4) % 2, partition=np.array(["train", "train", "test", "test"]))
    case = Case("made", Material(samples, "", "columns"), "official", ("cross_entropy", "weighted"))
    page = _page(case, [_record(name, seed, [0.7, 0.8]) for name in case.methods for seed in range(seeds)], seeds)
    assert f"| class weights | {shown} |" in page
    assert "nan" not in page
    assert ("at the last epoch, one seed." in page) == (seeds == 1)
    assert ("Best by balanced accuracy" in page) == (seeds == 3)
    assert "This took 6.0 min of one core" in page


def test_each_attribute_stands_in_the_order_of_its_imbalance():
    y = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]])
    names = ("always", "half", "more", "rare")
    parts = np.array(["train"] * 5 + ["test"] * 5)
    samples = Samples(np.zeros((10, 1)), np.concatenate([y, y]), attributes=names, partition=parts)
    case = Case("made", Material(samples, "", "columns"), "official", ("cross_entropy", "weighted"))
    records = [_record("cross_entropy", seed, [0.5, 0.6, 0.7, 0.8 + seed / 10]) for seed in (0, 1)]
    for record in records:  # undefined where no test sample has it, or none lacks it
        record["scores"]["bca"] = record["scores"]["bca"] | {"each": [None, *record["scores"]["bca"]["each"][1:]]}
    records += [_record("weighted", seed, [0.9, 0.9, 0.9, 0.95]) for seed in (0, 1)]
    lines = _page(case, records).splitlines()
    at = lines.index("| attribute | positive | cross-entropy | class weights |")
    assert lines[at + 2 : at + 6] == [
        "| always | 100.0 % | – | 90.0 |",
        "| rare | 20.0 % | 85.0 | 95.0 |",
        "| half | 60.0 % | 60.0 | 90.0 |",
        "| more | 60.0 % | 70.0 | 90.0 |",
    ]


def test_every_score_which_the_paper_prints_has_its_difference():
    samples = Samples(np.zeros((4, 1)), np.arange(4) % 2, partition=np.array(["train", "train", "test", "test"]))
    printed = {"uncertainty_margin": paper.CIFAR10["uncertainty_margin"], "cross_entropy": {"accuracy": 76.8}}
    case = Case(
        "made", Material(samples, "", "columns"), "official", ("cross_entropy", "uncertainty_margin"), paper=printed
    )
    records = [_record(name, seed, [0.7, 0.8]) for name in case.methods for seed in (0, 1, 2)]
    page = _page(case, records)
    row = "| Equipoise | 80.6, 75.0, -5.6 | 80.8 (6.1), 75.0 (5.0), -5.8 | 80.6 (9.3), 75.0 (5.0), -5.6 |"
    row += " 80.4 (6.3), 75.0 (5.0), -5.4 | 88.7 (5.2), 75.0 (5.0), -13.7 | 77.6 (9.6), 75.0 (5.0), -2.6 |"
    assert row in page
    assert "| cross-entropy | 75.0 ± 0.0 |" in page
    assert "| 76.8 | -1.8 |" in page
    assert page.count("| cross-entropy |") == 1
    assert "Every method has the same network, epochs, batches and rows. No method was tuned: " in page
    assert "2 training and 2 test samples; columns, two layers of 128 units, dropout 0.5, " in page


def test_a_row_that_lacks_a_seed_is_not_run():
    samples = Samples(np.zeros((4, 1)), np.arange(4) % 2, partition=np.array(["train", "train", "test", "test"]))
    case = Case("made", Material(samples, "", "columns"), "official", ("cross_entropy", "focal", "vs", "weighted"))
    records = [_record(name, seed, [0.7, 0.8]) for name in ("cross_entropy", "weighted") for seed in (0, 1, 2)]
    page = _page(case, [*records, _record("focal", 0, [0.9, 0.9])])
    assert "| focal | not run |" in page
    assert "| VS | not run |" in page
    assert (
        "- Best by G-mean: cross-entropy 75.0 ± 0.0. Equivalent to it within ±1 point: class weights 75.0 ± 0.0."
        in page
    )


def test_a_mean_that_is_nought_for_most_tells_nothing():
    samples = Samples(np.zeros((4, 1)), np.arange(4) % 2, partition=np.array(["train", "train", "test", "test"]))
    case = Case("made", Material(samples, "", "columns"), "official", ("cross_entropy", "focal", "vs"))
    records = [_record(name, seed, [0.7, 0.8]) for name in case.methods for seed in (0, 1, 2)]
    for record in records[:-1]:
        record["scores"]["recall_product"] = 0.0
    assert "- By geometric mean of recalls nothing can be concluded: it is 0 if a class is never found" in _page(
        case, records
    )


@pytest.mark.parametrize(("protocol", "ratio"), [("step", 0), ("official", 0), ("grouped", 1 / 2), ("held_out", 3 / 7)])
def test_runs_that_draw_from_the_same_samples_have_wider_intervals(protocol, ratio):
    case = Case("made", Material(Samples(np.zeros((4, 1)), np.arange(4) % 2), "", "columns"), protocol, ())
    assert case.test_to_train == pytest.approx(ratio)
