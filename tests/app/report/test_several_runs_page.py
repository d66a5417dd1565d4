"""Several runs on one page."""

import json
import re

import numpy as np
import pytest

from equipoise.app.report import write_comparison
from equipoise.app.report.several_runs_page import difference
from equipoise.app.stored_run import read_run
from equipoise.errors import InvalidInputError
from tests.app.report.runs import dump, made_up, made_up_attributes, write_run
from tests.app.report.test_numbers import one_hot


def answered(folder, predicted, labels, **options):
    names = [f"class {place}" for place in range(3)]
    options = {"counts": [900, 100, 10], "names": names, "before": None} | options
    return write_run(folder, probabilities=one_hot(predicted, 3), labels=labels, **options)


@pytest.fixture
def labels():
    return np.repeat(np.arange(3), [300, 60, 40])


@pytest.fixture
def good_and_bad(tmp_path, labels):
    bad = labels.copy()
    bad[300:330] = 0  # half of the second class
    bad[360:390] = 0  # three quarters of the third
    good = bad.copy()
    good[360:380] = 2
    good[0:3] = 1
    return answered(tmp_path / "good", good, labels), answered(tmp_path / "bad", bad, labels, method="cross_entropy")


def text_of(path):
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")).split())


def test_the_difference_is_that_of_the_scores(good_and_bad):
    good, bad = map(read_run, good_and_bad)
    found = difference(good, bad)
    assert found.value == pytest.approx(good.scores["balanced_accuracy"] - bad.scores["balanced_accuracy"])
    assert 0 < found.low < found.value < found.high
    assert found.clear
    back = difference(bad, good)
    assert back.value == pytest.approx(-found.value)
    assert back.high < 0
    assert back.clear


def test_the_interval_is_that_of_drawing_samples_anew(good_and_bad):
    good, bad = (read_run(folder) for folder in good_and_bad)
    rng = np.random.default_rng(1)
    gain = (good.held_out.predicted == good.held_out.labels).astype(float) - (
        bad.held_out.predicted == bad.held_out.labels
    )
    groups = [gain[good.held_out.labels == which] for which in range(3)]
    draws = [np.mean([rng.choice(group, len(group)).mean() for group in groups]) for _ in range(3000)]
    found = difference(good, bad)
    np.testing.assert_allclose([found.low, found.high], np.quantile(draws, [0.025, 0.975]), atol=0.01)


def test_the_difference_of_attributes_is_that_of_the_scores(tmp_path):
    folder = made_up_attributes(tmp_path / "a")
    good = read_run(folder)
    with np.load(folder / "held_out.npz") as file:
        held = {name: file[name] for name in file.files}
    options = {"counts": good.counts.tolist(), "names": list(good.classes), "before": None}
    worse = np.where(held["labels"] == 1, held["probabilities"] * 0.6, held["probabilities"])
    bad = read_run(write_run(tmp_path / "b", probabilities=worse, labels=held["labels"], **options))
    found = difference(good, bad)
    assert found.value == pytest.approx(good.scores["balanced_accuracy"] - bad.scores["balanced_accuracy"])
    assert found.value > 0.05


def test_a_run_is_level_with_itself(good_and_bad, tmp_path):
    good = read_run(good_and_bad[0])
    found = difference(good, good)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert not found.clear
    page = text_of(write_comparison([good_and_bad[0]] * 2, tmp_path / "page.html"))
    assert "not clearly worse: the difference may be chance" in page


def test_the_best_is_named_and_the_lead_judged(good_and_bad, tmp_path):
    path = write_comparison(good_and_bad, tmp_path / "page.html")
    page = text_of(path)
    assert "good has the highest balanced accuracy, 74.7%, and its lead is more than these samples would give" in page
    assert "All runs were scored on the same 400 held-out samples." in page
    assert path.stat().st_size < 300_000
    raw = path.read_text(encoding="utf-8")
    assert re.search(r'<td class="n best">75\.0%</td><td class="n">25\.0%</td>', raw)  # recall of the rare class
    assert "Content-Security-Policy" in raw
    good, bad = map(read_run, good_and_bad)
    row = re.search(r'<tr><th scope="row">good</th>.*?</tr>', raw)[0]
    assert f'<td class="n best">{good.scores["balanced_accuracy"]:.1%}</td>' in row
    errors = [record.scores["calibration"]["ece"] for record in (good, bad)]
    assert errors[0] > errors[1]  # of the calibration error the smaller is the better
    assert f'<td class="n">{errors[0]:.1%}</td>' in row
    assert f'<td class="n best">{errors[1]:.1%}</td>' in raw


def test_other_samples_are_said_to_be(good_and_bad, tmp_path, labels):
    shuffled = answered(tmp_path / "other", labels[::-1], labels[::-1])
    assert difference(read_run(good_and_bad[0]), read_run(shuffled)) is None
    page = text_of(write_comparison([good_and_bad[0], shuffled], tmp_path / "page.html"))
    assert "not all scored on the same samples" in page
    assert "other has the highest balanced accuracy, 100.0%." in page


def test_runs_that_differ_in_their_seed_are_summed_up(tmp_path, labels):
    folders = []
    for seed, right in enumerate((10, 20, 30)):
        predicted = labels.copy()
        predicted[360 + right :] = 0
        folders.append(answered(tmp_path / f"seed{seed}", predicted, labels, seed=seed))
    balanced = np.array([(2 + right / 40) / 3 for right in (10, 20, 30)])
    page = text_of(write_comparison(folders, tmp_path / "page.html"))
    assert f"{balanced.mean():.1%} ± {100 * balanced.std(ddof=1):.1f}" in page
    assert "Over seeds" not in text_of(write_comparison(folders[:1] * 2, tmp_path / "same.html"))


def test_classes_that_a_run_does_not_know(tmp_path, labels, good_and_bad):
    other = answered(tmp_path / "other", labels, labels, names=["class 0", "class 1", "<i>new</i>"])
    path = write_comparison([good_and_bad[0], other], tmp_path / "page.html")
    row = re.search(r"<tr><th scope=\"row\">class 2</th>.*?</tr>", path.read_text(encoding="utf-8"))[0]
    assert row.count("–") == 2
    assert "<i>" not in path.read_text(encoding="utf-8")


def test_folders_of_the_same_name_are_told_apart(tmp_path, labels):
    folders = [answered(tmp_path / parent / "run", labels, labels) for parent in ("first", "second")]
    page = text_of(write_comparison(folders, tmp_path / "page.html"))
    assert "first/run" in page
    assert "second/run" in page


def test_what_cannot_be_compared(tmp_path, good_and_bad):
    with pytest.raises(InvalidInputError, match="at least two runs, got 1"):
        write_comparison([good_and_bad[0]], tmp_path / "page.html")
    attributes = made_up_attributes(tmp_path / "attributes")
    with pytest.raises(InvalidInputError, match="classes and runs with attributes cannot be compared"):
        write_comparison([good_and_bad[0], attributes], tmp_path / "page.html")


def test_scores_without_calibration(tmp_path, good_and_bad):
    folder = made_up(tmp_path / "run", 3)
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    dump(folder / "scores.json", scores | {"calibration": None})
    assert "–" in text_of(write_comparison([folder, good_and_bad[0]], tmp_path / "page.html"))
