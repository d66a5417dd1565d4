"""What the pictures show, against slow loops that share no code with it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.app.report.sections.before_after import group_changes, sign_test
from equipoise.app.report.sections.class_table import class_rows, group_note
from equipoise.app.report.sections.confusion import matrix, rivals, worst_pairs
from equipoise.app.report.sections.hardness import hardness
from equipoise.app.report.sections.human_review import sending, sent_rows, sent_sentence
from equipoise.app.report.sections.reliability_diagrams import reliability
from equipoise.app.stored_run import read_run
from equipoise.calibration.reliability import BINS
from equipoise.evaluation.intervals import wilson
from tests.app.report.runs import made_up, made_up_attributes, write_run


@pytest.fixture(scope="module")
def record(seven):
    return read_run(seven)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return read_run(made_up_attributes(tmp_path_factory.mktemp("runs") / "attributes"))


def one_hot(predicted, classes):
    """Probabilities that lead to these predictions."""
    return np.where(np.asarray(predicted)[:, None] == np.arange(classes), 0.8, 0.2 / (classes - 1))


@pytest.fixture
def small(tmp_path):
    """Ten samples of each of a common and a rare class, of which a third class has none."""
    labels = np.array([0] * 10 + [1] * 10)
    before = [0] * 9 + [1] + [0] * 7 + [1] * 3
    after = [0] * 8 + [1] * 2 + [0] * 2 + [2] + [1] * 7
    options = {"counts": [1000, 10, 900], "names": ["common", "rare", "untested"]}
    options["before"] = one_hot(before, 3)
    return read_run(write_run(tmp_path, probabilities=one_hot(after, 3), labels=labels, **options))


def test_abstention_is_what_counting_gives(record):
    held, found = record.held_out, sending(record).steps
    pairs = sorted(range(len(held.labels)), key=lambda place: -held.uncertainty[place])
    assert len(found) == 100
    for number in (0, 1, 10, 50, 99):
        sent, rest = pairs[: number * 9], pairs[number * 9 :]
        right = [held.labels[place] == held.predicted[place] for place in rest]
        recalls = []
        for which in range(7):
            mine = [held.predicted[place] == which for place in rest if held.labels[place] == which]
            if mine:
                recalls.append(sum(mine) / len(mine))
        step = found[number]
        assert (step.sent, step.samples, step.share) == (len(sent), 900, number / 100)
        assert step.accuracy == pytest.approx(sum(right) / len(right))
        assert step.balanced_accuracy == pytest.approx(sum(recalls) / len(recalls))
        assert (step.left, step.tested) == (len(recalls), 7)
        assert step.rare_sent == sum(held.labels[place] >= 5 for place in sent)
        assert step.rare == sum(held.labels >= 5)
        assert step.wrong_sent == sum(held.labels[place] != held.predicted[place] for place in sent)
        assert step.wrong == sum(held.labels != held.predicted)


def test_abstention_of_attributes(several):
    held, found = several.held_out, sending(several).steps
    assert found[0].accuracy == pytest.approx(several.scores["accuracy"])
    assert found[0].balanced_accuracy == pytest.approx(several.scores["balanced_accuracy"])
    order = np.argsort(-held.uncertainty, kind="stable")
    rare = [place for place, group in enumerate(several.groups) if group == "rare"]
    sent = order[: found[20].sent]
    assert found[20].sent == 100
    assert found[20].rare_sent == sum(any(held.labels[row, place] for place in rare) for row in sent)
    assert found[20].wrong_sent == sum((held.labels[row] != held.predicted[row]).any() for row in sent)


def test_abstention_at_zero_is_the_score_and_always_leaves_a_sample(small):
    found = sending(small).steps
    assert found[0].accuracy == pytest.approx(small.scores["accuracy"])
    assert found[0].balanced_accuracy == pytest.approx(small.scores["balanced_accuracy"])
    assert found[99].sent == 19


def test_the_classes_sent_are_what_counting_gives(record):
    held, found = record.held_out, sending(record)
    rows = sent_rows(record, found)
    order = sorted(range(900), key=lambda place: -held.uncertainty[place])
    for row in rows:
        which = record.classes.index(row["name"])
        mine, sent = (sum(held.labels[place] == which for place in part) for part in (order, order[:90]))
        wrong, after = (
            sum(held.labels[place] == which != held.predicted[place] for place in part) for part in (order, order[90:])
        )
        assert (row["support"], row["group"]) == (mine, record.groups[which])
        assert row["sent"] == pytest.approx(sent / mine)
        assert row["error"] == pytest.approx(wrong / mine)
        assert row["left"] == pytest.approx(after / (mine - sent))
    assert [row["sent"] for row in rows] == sorted((row["sent"] for row in rows), reverse=True)
    assert {row["name"] for row in rows} == set(record.classes)


def test_a_class_left_to_the_human_is_named(tmp_path):
    labels = np.repeat([0, 1, 2], [880, 80, 40])
    uncertainty = np.where(labels == 2, 1.0, 0.0)
    uncertainty[labels == 1] = np.linspace(0.1, 0.2, 80)
    options = {"counts": [900, 90, 10, 5], "names": list("abcd"), "before": None, "uncertainty": uncertainty}
    record = read_run(write_run(tmp_path, probabilities=one_hot(labels, 4), labels=labels, **options))
    found = sending(record)
    assert [(row["name"], row["sent"], row["verdict"]) for row in sent_rows(record, found)] == [
        ("c", 1.0, "abstained away"),
        ("b", 0.75, "abstained away"),
        ("a", 0.0, "in proportion"),
    ]
    assert math.isnan(sent_rows(record, found)[0]["left"])
    said = "With 10% sent, 2 of 4 classes are left to the human far more often than the rest: c (100%), b (75%)."
    assert sent_sentence(record, found) == said


def test_no_class_left_to_the_human(small):
    said = "With 10% sent, no class is sent far more often than the rest."
    assert sent_sentence(small, sending(small)) == said


def test_attributes_sent_are_those_that_samples_have(several):
    held, found = several.held_out, sending(several)
    order = sorted(range(500), key=lambda place: -held.uncertainty[place])
    for row in sent_rows(several, found):
        which = several.classes.index(row["name"])
        mine, sent = (sum(held.labels[place, which] for place in part) for part in (order, order[:50]))
        assert (row["support"], row["sent"]) == (mine, pytest.approx(sent / mine))
        assert row["error"] == pytest.approx(1 - several.each("recall")[which])


def test_reliability_is_what_counting_gives(record):
    held, found = record.held_out, reliability(record)
    assert [part.title for part in found] == [
        "All answers",
        "Predictions of rare classes",
        "Predictions of common classes",
    ]
    for part, named in zip(found, (range(7), (5, 6), (0, 1, 2)), strict=True):
        rows = [row for row in range(900) if held.predicted[row] in named]
        bins = {}
        for row in rows:
            confidence = float(held.probabilities[row, held.predicted[row]])
            bins.setdefault(max(math.ceil(confidence * BINS), 1), []).append(
                (confidence, held.labels[row] == held.predicted[row])
            )
        expected = [np.mean(bins[key], axis=0) for key in sorted(bins)]
        np.testing.assert_allclose(np.column_stack([part.diagram.confidence, part.diagram.right]), expected)
        assert part.diagram.count.tolist() == [len(bins[key]) for key in sorted(bins)]
        ece = sum(len(bins[key]) * abs(pair[0] - pair[1]) for key, pair in zip(sorted(bins), expected, strict=True))
        assert part.diagram.ece == pytest.approx(ece / len(rows))
        assert (part.low <= part.diagram.right).all()
        assert (part.diagram.right <= part.high).all()
        assert part.diagram.count.sum() == len(rows)
    assert found[0].diagram.ece == pytest.approx(record.scores["calibration"]["ece"], abs=1e-6)


def test_reliability_of_attributes(several):
    found = reliability(several)
    assert found[0].diagram.count.sum() == several.held_out.labels.size
    assert found[0].diagram.ece == pytest.approx(several.scores["calibration"]["ece"], abs=1e-6)
    assert [part.title for part in found[1:]] == ["About rare attributes", "About common attributes"]
    assert found[1].diagram.count.sum() == 2 * len(several.held_out.labels)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_share_that_the_score_test_does_not_reject(trials, data):
    hits = data.draw(st.integers(0, trials))
    for end in wilson(np.array(float(hits)), np.array(float(trials))):
        if 1e-9 < end < 1 - 1e-9:
            score = (hits / trials - end) / math.sqrt(end * (1 - end) / trials)
            assert abs(score) == pytest.approx(1.96, rel=1e-6)


def test_the_matrix_is_the_scores_own_in_the_order_of_size(small):
    found = matrix(small)
    assert found.heads == ["common", "untested", "rare"]
    assert found.counts.tolist() == [[8, 0, 2], [0, 0, 0], [2, 1, 7]]
    assert found.levels.tolist() == [[8, 0, 2], [0, 0, 0], [2, 1, 7]]
    assert (found.blocks, found.numbers) == (False, True)


def test_the_matrix_without_answers_is_the_scores_own(small):
    (small.folder / "held_out.npz").unlink()
    kept = read_run(small.folder)
    assert kept.held_out is None
    assert matrix(kept).counts.tolist() == matrix(small).counts.tolist()
    assert worst_pairs(kept) == worst_pairs(small)


def test_many_classes_are_joined_in_blocks(tmp_path):
    record = read_run(made_up(tmp_path, 90, samples=3000))
    found, held = matrix(record), record.held_out
    assert found.blocks
    assert not found.numbers
    assert found.counts.shape == (40, 40)
    place = [which * 40 // 90 for which in range(90)]  # made up from the largest to the smallest
    expected = np.zeros((40, 40), dtype=int)
    for true, predicted in zip(held.labels, held.predicted, strict=True):
        expected[place[true], place[predicted]] += 1
    np.testing.assert_array_equal(found.counts, expected)
    assert found.heads[0] == "class 000 … class 002"
    assert found.heads[-1] == "class 088 … class 089"


def test_levels_tell_an_empty_cell_from_a_rare_one(tmp_path):
    labels = np.zeros(2000, dtype=np.int64)
    labels[0] = 1
    predicted = np.zeros(2000, dtype=np.int64)
    predicted[1] = 1
    options = {"counts": [9, 3], "names": ["a", "b"], "before": None}
    record = read_run(write_run(tmp_path, probabilities=one_hot(predicted, 2), labels=labels, **options))
    assert matrix(record).levels.tolist() == [[10, 1], [10, 0]]


def test_worst_pairs_and_rivals(small):
    pairs = worst_pairs(small)
    assert [(pair.true, pair.predicted, pair.count, pair.share) for pair in pairs] == [
        ("common", "rare", 2, 0.2),
        ("rare", "common", 2, 0.2),
        ("rare", "untested", 1, 0.1),
    ]
    assert rivals(small) == {0: 1, 1: 0}
    assert len(worst_pairs(small, most=1)) == 1


def test_attributes_have_no_matrix(several):
    assert matrix(several) is None
    assert worst_pairs(several) == []


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (5, 2), (2, 5), (30, 12), (400, 300)])
def test_the_sign_test_adds_up_binomials(gained, lost):
    total = gained + lost
    tail = sum(math.comb(total, few) for few in range(min(gained, lost) + 1)) / 2**total
    assert sign_test(gained, lost) == pytest.approx(min(1, 2 * tail))


def test_changes_of_groups(small):
    many, rare, total = group_changes(small)
    assert [many.name, rare.name, total.name] == ["common", "rare", "all"]
    assert (many.classes, rare.classes) == (("common", "untested"), ("rare",))
    assert (many.samples, rare.samples, total.samples) == (10, 10, 20)
    assert (many.before, many.after) == (0.9, 0.8)  # the class without a sample is left out
    assert (rare.before, rare.after) == (0.3, 0.7)
    assert (rare.gained, rare.lost, many.gained, many.lost) == (4, 0, 0, 1)
    assert rare.chance == 0.125
    assert not rare.clear
    assert rare.precision == (3 / 4, 7 / 9)
    assert total.after == pytest.approx(small.scores["balanced_accuracy"])


def test_changes_of_attributes_count_positives_alone(several):
    held, rare = several.held_out, group_changes(several)[-2]
    places = [place for place, group in enumerate(several.groups) if group == "rare"]
    gained, lost = (
        sum(
            bool(held.labels[row, place] and now[row, place] and not then[row, place])
            for row in range(len(held.labels))
            for place in places
        )
        for now, then in ((held.predicted, held.before), (held.before, held.predicted))
    )
    assert rare.name == "rare"
    assert rare.gained == gained > 0
    assert rare.lost == lost
    assert ((held.predicted != held.before) & (held.labels == 0))[:, places].any()  # new false alarms are none of these
    assert rare.samples == held.labels[:, places].sum()


def test_hard_or_merely_rare(tmp_path):
    """Four classes, one of each kind, a fifth with too few samples to tell, and one without any."""
    labels = np.repeat(np.arange(5), [20, 20, 20, 20, 5])
    predicted = labels.copy()
    predicted[0:12] = 1  # common, and taken for another
    predicted[40:52] = 0  # rare, and missed
    options = {"counts": [1000, 900, 12, 10, 11, 800], "names": list("abcdef"), "before": None}
    record = read_run(write_run(tmp_path, probabilities=one_hot(predicted, 6), labels=labels, **options))
    found = hardness(record)
    assert found.kinds == ("overlaps", "learnt", "needs data", "distinct", "unclear", "unclear")
    assert found.rivals == (1, None, 0, None, None, None)
    np.testing.assert_allclose(found.missed, [0.6, 0, 0.6, 0, 0, np.nan])
    assert found.often_above == pytest.approx(0.24)
    assert found.few_below == pytest.approx(math.sqrt(12 * 800))


def test_a_class_missed_more_often_than_a_tenth_is_not_called_learnt(tmp_path):
    labels = np.repeat([0, 1, 2], 50)
    predicted = labels.copy()
    predicted[0:14], predicted[50:90], predicted[100:104] = 1, 0, 1  # 28 %, 80 % and 8 % missed
    options = {"counts": [100, 90, 80], "names": list("abc"), "before": None}
    found = hardness(read_run(write_run(tmp_path, probabilities=one_hot(predicted, 3), labels=labels, **options)))
    assert found.kinds == ("middling", "overlaps", "learnt")


def test_in_a_good_model_no_class_is_hard(tmp_path):
    labels = np.repeat([0, 1], 50)
    predicted = labels.copy()
    predicted[0:4] = 1
    options = {"counts": [100, 90], "names": ["a", "b"], "before": None}
    found = hardness(read_run(write_run(tmp_path, probabilities=one_hot(predicted, 2), labels=labels, **options)))
    assert found.kinds == ("learnt", "learnt")  # 8 % is more than the mean, and not often
    assert (found.often_above, found.few_below) == (0.1, None)


def test_rows_of_the_class_table(small):
    rows = class_rows(small)
    assert [row["name"] for row in rows] == ["common", "untested", "rare"]
    assert [row["group"] for row in rows] == ["common", "common", "rare"]
    assert rows[0] | {"uncertainty": 0, "margin": 0} == {
        "name": "common",
        "group": "common",
        "count": 1000,
        "support": 10,
        "recall": 0.8,
        "precision": 0.8,
        "f1": pytest.approx(0.8),
        "uncertainty": 0,
        "margin": 0,
    }
    assert math.isnan(rows[1]["recall"])
    assert math.isnan(rows[0]["margin"])
    assert "rare classes have at most 10 samples, all others at least 900." in group_note(small)


def test_of_too_many_classes_the_ends_are_listed(tmp_path):
    labels = np.zeros(2, dtype=np.int64)
    size = 2101
    options = {"counts": list(range(size, 0, -1)), "names": [str(place) for place in range(size)], "before": None}
    rows = class_rows(read_run(write_run(tmp_path, probabilities=one_hot(labels, size), labels=labels, **options)))
    assert [row["name"] for row in rows] == [str(place) for place in (*range(1000), *range(1101, 2101))]


def test_of_equal_confusions_that_which_takes_more_of_its_class_is_first(tmp_path):
    labels = np.repeat([0, 1], [40, 10])
    predicted = labels.copy()
    predicted[:2], predicted[-2:] = 1, 0
    options = {"counts": [40, 10], "names": ["large", "small"], "before": None}
    record = read_run(write_run(tmp_path, probabilities=one_hot(predicted, 2), labels=labels, **options))
    assert [(pair.true, pair.share) for pair in worst_pairs(record)] == [("small", 0.2), ("large", 0.05)]


def test_reliability_is_not_split_where_no_class_is_rare(tmp_path):
    labels = np.repeat([0, 1], 20)
    options = {"counts": [40, 40], "names": ["a", "b"], "before": None}
    record = read_run(write_run(tmp_path, probabilities=one_hot(labels, 2), labels=labels, **options))
    assert [part.title for part in reliability(record)] == ["All answers"]
