"""The section of all scores: what scores.json has, its intervals, and why there are none."""

import numpy as np
import pytest

from equipoise.app.report.sections.all_scores import OVERALL, TITLES, about, class_ranks, overall_rows, section
from equipoise.app.stored_run import read_run
from equipoise.evaluation import scores
from tests.app.report.runs import dump, made_up, made_up_attributes


def with_intervals(folder, **options):
    """Score the run's answers again, with intervals."""
    held = np.load(folder / "held_out.npz")
    p = held["probabilities"].astype(float)
    p = p / p.sum(1, keepdims=True) if held["labels"].ndim == 1 else p
    found = scores(
        held["labels"], held["predicted"], probabilities=p, classes=range(p.shape[1]), intervals=True, **options
    )
    dump(folder / "scores.json", found.as_dict())
    return read_run(folder), found


@pytest.fixture
def two(tmp_path):
    return with_intervals(made_up(tmp_path / "two", 2, samples=2500, names=["no", "yes"]), costs=[[0, 1], [50, 0]])


def test_every_score_has_its_value_and_interval(two):
    run, found = two
    rows = {name: rest for name, *rest in overall_rows(run)}
    assert set(rows) == {TITLES[name] for name in OVERALL}
    low, high = found.intervals["matthews"]
    assert rows["Matthews correlation"] == [f"{found.matthews:.3f}", f"{low:.3f} to {high:.3f}"]
    low, high = found.intervals["f1"]["mean"]
    assert rows["macro F1"] == [f"{found.f1.mean:.1%}", f"{low:.1%} to {high:.1%}"]
    low, high = found.intervals["macro_average_precision"]
    assert rows["average precision"] == [f"{found.average_precision.each[1]:.3f}", f"{low:.3f} to {high:.3f}"]
    assert rows["expected cost"][0] == f"{found.expected_cost:.4f}"
    assert about(run).endswith("resamples of the held-out samples, in which each class keeps its count.")
    assert "among the 250 held-out samples ranked first for each class" in about(run)


def test_each_class_has_its_ranking(two):
    run, found = two
    rare = next(row for row in class_ranks(run, spans=True) if row["name"] == "yes")
    low, high = found.intervals["auc"]["each"][1]
    assert rare["auc"][1] == f"{found.auc.each[1]:.3f} ({low:.3f} to {high:.3f})"
    assert rare["lift"] == found.top.lift.each[1]
    assert rare["share"] == found.support[1] / 2500
    assert class_ranks(run, spans=False)[0]["auc"][1].count("to") == 0


def test_few_samples_have_no_interval_and_it_is_said_why(tmp_path):
    run, found = with_intervals(made_up_attributes(tmp_path / "run"))
    assert min(found.support) == 9
    assert about(run).endswith(
        "only 9 samples of the rarest attribute were held out; one more or less moves its recall by 11.1%."
    )
    assert "95% interval" not in section(run).body
    assert "95% interval" not in section(read_run(made_up(tmp_path / "plain"))).body  # none were computed
