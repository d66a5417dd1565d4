"""The verdict says what happened: gain, loss, nothing, or that the samples are too few to tell."""

import numpy as np
import pytest

from equipoise.report.record import read_record
from equipoise.report.verdict import verdict
from tests.report.runs import made_up, made_up_attributes, write_run
from tests.report.test_numbers import one_hot


@pytest.fixture
def told(tmp_path):
    """The verdict on 100 common and 100 rare samples of which so many are found before and after."""

    def make(common, rare, *, counts=(1000, 10), size=100, names=("common", "rare"), **options):
        labels = np.repeat([0, 1], size)

        def predicted(found):
            return [int(row >= hits) ^ which for which, hits in enumerate(found) for row in range(size)]

        (early, late), (first, last) = common, rare
        before = one_hot(predicted((early, first)), 2)
        options = {"before": before, "counts": list(counts), "names": list(names)} | options
        after = one_hot(predicted((late, last)), 2)
        return verdict(read_record(write_run(tmp_path / "run", probabilities=after, labels=labels, **options)))

    return make


def test_rare_classes_gain_and_common_ones_lose(told):
    found = told((95, 90), (40, 80))
    assert found.headline == (
        "The rare class rare is found more often: recall 40.0% before, 80.0% after (+40.0 points); the common one "
        "loses 5.0 points, which may be chance."
    )
    assert found.sentences == [
        "Balanced accuracy, the mean over the classes, went from 67.5% to 85.0%; accuracy, the share of right answers, "
        "went from 67.5% to 85.0%.",
        "Precision of the rare class, how often an answer that names one is right, stayed at 88.9%.",
        "Of the rare class's samples 40 are newly right and 0 newly wrong; chance alone splits them as unevenly in "
        "less than 0.1% of cases.",
        "This rests on 200 held-out samples, 100 of them of the rare class.",
        "Before is the same network at the end of its softmax stage, after 3 of 9 epochs: a part of the change may "
        "come from longer training alone.",
    ]
    assert [change.name for change in found.changes] == ["many", "rare", "all"]


def test_a_loss_is_called_one(told):
    assert told((95, 95), (80, 40)).headline == (
        "The rare class rare is found less often: recall 80.0% before, 40.0% after (−40.0 points); the common one "
        "stays as it was."
    )


def test_a_clear_loss_of_the_common_is_not_excused(told):
    assert told((95, 70), (40, 80)).headline.endswith("; the common one loses 25.0 points.")
    assert told((70, 95), (40, 80)).headline.endswith("; the common one gains 25.0 points.")


def test_no_gain_at_the_cost_of_the_common_is_no_small_thing(told):
    assert told((95, 65), (60, 60)).headline == (
        "The rare class rare is found as often as before (60.0%); the common one loses 30.0 points."
    )


def test_no_difference(told):
    found = told((90, 90), (60, 60))
    assert found.headline == (
        "The rare class rare is found as often as before (60.0%): it made no difference; the common one "
        "stays as it was."
    )
    assert "Not one held-out sample changed between found and missed." in found.sentences
    assert "Balanced accuracy, the mean over the classes, stayed at 75.0%" in found.sentences[0]
    assert not any("newly right" in sentence or "longer training" in sentence for sentence in found.sentences)


def test_too_few_samples_to_tell(told):
    found = told((9, 9), (4, 7), size=10)
    assert found.headline.startswith(
        "The rare class rare shows no clear difference: recall 40.0% before, 70.0% after, "
    )
    assert "which may be chance" in found.headline
    assert any(
        "3 are newly right and 0 newly wrong" in sentence and "25.0% of cases" in sentence
        for sentence in found.sentences
    )
    assert any(
        "One rare sample more or less moves this recall by about 10.0 points." in text for text in found.sentences
    )


def test_without_a_rare_class(told):
    found = told((90, 95), (60, 90), counts=(100, 90))
    assert found.headline == (
        "No class is rare here; all classes together are found more often: recall 75.0% before, 92.5% after "
        "(+17.5 points)."
    )
    assert [change.name for change in found.changes] == ["many"]


def test_without_a_softmax_stage(told):
    found = told((90, 95), (60, 90), before=None, method="cross_entropy", epochs=[])
    assert found.headline == "The rare class rare is found 90.0% of the time, the common one 95.0%."
    assert found.sentences[0] == "Balanced accuracy, the mean over the classes, is 92.5% and accuracy 92.5%."
    assert "cross_entropy has none, or there were too few epochs" in found.sentences[1]
    assert told((90, 95), (60, 90), before=None, counts=(9, 9)).headline.startswith(
        "A sample is found 92.5% of the time"
    )


def test_without_the_answers_before_nothing_is_said_of_chance(tmp_path):
    folder = made_up(tmp_path, 7)
    with np.load(folder / "held_out.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "before"}
    np.savez(folder / "held_out.npz", **arrays)
    found = verdict(read_record(folder))
    assert found.headline.startswith("The rare classes are found more often")
    assert not any("chance" in sentence for sentence in [found.headline, *found.sentences])


def test_classes_without_a_sample_are_named(tmp_path):
    labels = np.zeros(30, dtype=np.int64)
    options = {"counts": [1000] + [10] * 8, "names": list("abcdefghi"), "before": one_hot(labels, 9)}
    found = verdict(read_record(write_run(tmp_path, probabilities=one_hot(labels, 9), labels=labels, **options)))
    assert found.headline.startswith("No rare class could be tested; all classes together are found as often")
    assert "Nothing can be said of b, c, d, e, f and 3 more: no held-out sample." in found.sentences


def test_attributes(tmp_path):
    found = verdict(read_record(made_up_attributes(tmp_path)))
    assert found.headline.startswith("The rare attributes ")
    assert any("500 held-out samples, with 26 positives of the 2 rare attributes" in text for text in found.sentences)


@pytest.mark.parametrize(
    ("found", "odds"), [(46, "in 3.1% of cases"), (50, "in 0.2% of cases"), (60, "in less than 0.1%")]
)
def test_how_likely_chance_is_is_said(told, found, odds):
    (sentence,) = [text for text in told((95, 95), (40, found)).sentences if "newly right" in text]
    assert odds in sentence
