"""Calibration before and after, and sets of possible classes, against slow loops that share no code with them."""

import json
import math
import re

import numpy as np
import pytest

from equipoise.app.report import write_report
from equipoise.app.report.sections.human_review import set_rows, set_sentence
from equipoise.app.report.sections.reliability_diagrams import (
    calibrated_how,
    calibration_rows,
    calibrations,
    few_sentence,
)
from equipoise.app.stored_run import read_run
from equipoise.errors import InvalidInputError
from tests.app.report.runs import made_up, made_up_attributes


@pytest.fixture(scope="module")
def seven_record(seven):
    return read_run(seven)


@pytest.fixture(scope="module")
def several(attributes):
    return read_run(attributes)


def moved(row, old, new):
    """Bayes' rule, a number at a time."""
    odds = [float(p) * n / o for p, o, n in zip(row, old, new, strict=True)]
    return [value / sum(odds) for value in odds]


def slow_figures(answers):
    """Slow figures of answers as (probabilities, predicted place, true place, weight)."""
    total = sum(answer[3] for answer in answers)
    size = len(answers[0][0])

    def binned(pairs):
        bins = {}
        for confidence, right, weight in pairs:
            key = max(1, math.ceil(confidence * 15 - 1e-9))
            bins[key] = bins.get(key, 0) + weight * (confidence - right)
        return sum(map(abs, bins.values())) / sum(weight for _, _, weight in pairs)

    ece = binned([(p[said], said == true, weight) for p, said, true, weight in answers])
    each = [binned([(p[c], true == c, weight) for p, _, true, weight in answers]) for c in range(size)]
    brier = sum(w * sum((p[c] - (c == t)) ** 2 for c in range(size)) for p, _, t, w in answers) / total
    loss = sum(-w * math.log(p[t]) for p, _, t, w in answers) / total
    return {"ece": ece, "mean_class_ece": sum(each) / size, "brier": brier, "log_loss": loss}


@pytest.mark.parametrize("mix", ["natural", "balanced"])
@pytest.mark.parametrize("after", [False, True])
def test_calibration_is_what_counting_gives(seven_record, mix, after):
    held = seven_record.held_out
    prior = held.trust.prior.tolist()
    wanted = prior if mix == "natural" else [1 / 7] * 7
    given = held.probabilities if after else held.trust.uncalibrated
    counts = [int((held.labels == c).sum()) for c in range(7)]
    answers = [
        (moved(row, prior, wanted), int(said), int(true), wanted[true] / counts[true])
        for row, said, true in zip(given, held.predicted, held.labels, strict=True)
    ]
    found, expected = calibrations(seven_record)[mix][after], slow_figures(answers)
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-4), name
    row = dict(calibration_rows(calibrations(seven_record)))["log loss"]
    assert row[2 * (mix == "balanced") + after] == f"{found.log_loss:.3f}"


def test_calibration_of_attributes_is_what_counting_gives(several):
    held, size = several.held_out, len(several.classes)
    prior = held.trust.prior
    answers, each = [], []
    for c in range(size):
        ones = held.labels[:, c].mean()
        own = []
        for p, said, true in zip(held.probabilities[:, c], held.predicted[:, c], held.labels[:, c], strict=True):
            pair = moved((1 - p, p), prior[c], (0.5, 0.5))
            own.append((pair, int(said), int(true), 0.5 / (ones if true else 1 - ones)))
        each.append(slow_figures(own)["mean_class_ece"])  # of a pair both classes have the same error
        answers += own
    found, expected = calibrations(several)["balanced"][1], slow_figures(answers)
    assert found.ece == pytest.approx(expected["ece"], rel=1e-4)
    assert found.log_loss == pytest.approx(expected["log_loss"], rel=1e-4)
    assert found.brier == pytest.approx(expected["brier"] / 2, rel=1e-4)
    assert found.mean_class_ece == pytest.approx(np.mean(each), rel=1e-3)


def test_sets_are_what_counting_gives(seven_record):
    held, rows = seven_record.held_out, set_rows(seven_record)
    assert [row["sent"] for row in rows] == sorted((row["sent"] for row in rows), reverse=True)
    for row in rows:
        place = seven_record.classes.index(row["name"])
        own = [sample for sample in range(len(held.labels)) if held.labels[sample] == place]
        sizes = [int(held.trust.sets[sample].sum()) for sample in own]
        assert row["support"] == len(own)
        assert row["coverage"] == pytest.approx(sum(bool(held.trust.sets[s][place]) for s in own) / len(own))
        assert row["sent"] == pytest.approx(sum(size != 1 for size in sizes) / len(own))
        assert row["size"] == pytest.approx(sum(sizes) / len(own))
    share = np.mean([kept.sum() != 1 for kept in held.trust.sets])
    assert set_sentence(seven_record, rows).startswith(f"For {share:.1%} of the held-out samples more than one class")


def test_sets_of_attributes_are_what_counting_gives(several):
    held = several.held_out
    for row in set_rows(several):
        place = several.classes.index(row["name"])
        own = np.flatnonzero(held.labels[:, place] == 1)
        assert row["coverage"] == pytest.approx(held.trust.sets[own, place, 1].mean())
        open_ones = [any(pair.sum() != 1 for pair in held.trust.sets[sample]) for sample in own]
        assert row["sent"] == pytest.approx(np.mean(open_ones))


def test_a_class_abstained_away_is_named(tmp_path):
    rng = np.random.default_rng(0)
    sets = np.zeros((900, 7), dtype=bool)
    folder = made_up(tmp_path / "run", 7)
    with np.load(folder / "held_out.npz") as file:
        stored = dict(file)
    sets[np.arange(900), stored["labels"]] = True
    rare = stored["labels"] == 5
    sets[rare, 0] = True
    sets[:, 6] = True  # never ruled out, and so nothing is settled but where it is the only one
    sets[rng.permutation(900)[:850], 6] = False
    np.savez(folder / "held_out.npz", **(stored | {"sets": sets}))
    record = read_run(folder)
    sentence = set_sentence(record, set_rows(record))
    assert "Too few" not in sentence
    assert "Left unanswered far more often than the rest: class 005 (100%)" in sentence


def test_a_class_that_is_never_ruled_out_is_named(tmp_path):
    told = {"source": "held_out", "samples": 900, "folds": 2, "level": 0.9, "never_ruled_out": ["class 004", "gone"]}
    folder = made_up(tmp_path / "run", 7, calibration=told)
    with np.load(folder / "held_out.npz") as file:
        stored = dict(file)
    stored["sets"][:, 5] = True  # by thresholds from a part of the samples, which are not the saved model's
    np.savez(folder / "held_out.npz", **stored)
    record = read_run(folder)
    rows = {row["name"]: row["always"] for row in set_rows(record)}
    assert [name for name, always in rows.items() if always] == ["class 004"]
    told = "Too few samples to be ruled out, and so possible for every sample: class 004."
    assert told in set_sentence(record, set_rows(record))


def test_sentences_tell_of_classes_that_are_not_listed(tmp_path, monkeypatch):
    from tests.app.runs.made import plain_pages  # shared by locks of POSIX

    plain_pages(monkeypatch)
    folder = made_up(tmp_path / "run", 130, samples=4000)
    with np.load(folder / "held_out.npz") as file:
        stored = dict(file)
    labels, sets = stored["labels"], np.zeros((4000, 130), dtype=bool)
    sets[np.arange(4000), labels] = True
    small = np.flatnonzero(np.bincount(labels, minlength=130) < 40)  # wholly unanswered, and by chance for the smallest
    sets[np.isin(labels, small)] = False
    told = {"source": "held_out", "samples": 4000, "folds": 2, "level": 0.8}
    told["never_ruled_out"] = [f"class {place:03d}" for place in range(130)]
    np.savez(folder / "held_out.npz", **(stored | {"sets": sets}))
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(about | {"calibration": told}))
    record = read_run(folder)
    sentence = set_sentence(record, set_rows(record))
    assert "class 000, class 001, class 002" in sentence
    assert "class 007 and 122 more." in sentence
    page = write_report(folder).read_text(encoding="utf-8")
    table = re.search(r'id="sets">.*?</table>', page, re.S).group()
    assert len(re.findall(r'<th scope="row">', table)) == 100
    left = len(set_rows(record)) - 100
    assert f"The 100 classes left unanswered most; {left} more are not listed. Never ruled out: fewer than 4 " in page
    assert "for at least 80% of its samples" in page


def test_how_it_was_calibrated_is_said(seven_record, tmp_path):
    assert "each of 5 parts" in calibrated_how(seven_record)
    for source, words in (("held_back", "calibrated on training samples"), ("nothing", "are not calibrated")):
        told = {"source": source, "samples": 900, "folds": 5}
        assert words in calibrated_how(read_run(made_up(tmp_path / source, 3, calibration=told)))
    assert "are not calibrated" in calibrated_how(read_run(made_up(tmp_path / "none", 3, calibration=None)))
    with pytest.raises(
        InvalidInputError, match=r"no valid field 'calibration\.folds': expected a whole number, got text"
    ):
        read_run(made_up(tmp_path / "damaged", 3, calibration={"source": "held_out", "folds": "<b>"}))


def test_few_samples_are_pointed_out(seven_record, tmp_path):
    least = int(seven_record.support.min())
    name = seven_record.classes[int(seven_record.support.argmin())]
    assert few_sentence(seven_record).startswith(
        f"At a balanced class prior {name} counts as much as the largest class"
    )
    assert f"has {least} held-out sample" in few_sentence(seven_record)
    assert few_sentence(read_run(made_up(tmp_path / "many", 2, samples=5000))) == ""


def test_the_page_shows_these_numbers(seven, seven_record):
    page = (seven / "report.html").read_text(encoding="utf-8")
    table = re.search(r'<table id="calibration">.*?</table>', page, re.S).group()
    cells = re.findall(r'<td class="n">(.*?)</td>', table)
    found = calibrations(seven_record)
    numbers = [getattr(part, name) for name in ("ece",) for mix in found.values() for part in mix]
    assert cells[:4] == [f"{number:.1%}" for number in numbers]
    assert cells[12:] == [f"{part.log_loss:.3f}" for mix in found.values() for part in mix]
    table = re.search(r'id="sets">.*?</table>', page, re.S).group()
    assert len(re.findall(r'<th scope="row">', table)) == 7


def test_a_run_without_calibration_has_a_page_all_the_same(tmp_path):
    folder = made_up(tmp_path / "run", 3, trust=None)
    page = write_report(folder).read_text(encoding="utf-8")
    assert 'id="calibration"' not in page
    assert 'id="sets"' not in page
    assert calibrations(read_run(folder)) == {}
    assert set_rows(read_run(folder)) == []


@pytest.mark.parametrize("name", ["uncalibrated", "sets", "prior"])
@pytest.mark.parametrize("several_labels", [False, True])
def test_arrays_that_do_not_fit_are_refused(tmp_path, name, several_labels):
    folder = (made_up_attributes if several_labels else made_up)(tmp_path / "run")
    with np.load(folder / "held_out.npz") as file:
        stored = dict(file)
    wrong = {"prior": np.full_like(stored["prior"], np.nan)}
    wrong[name] = wrong.get(name, stored[name][:-1])
    np.savez(folder / "held_out.npz", **(stored | {name: wrong[name]}))
    with pytest.raises(InvalidInputError, match="do not fit each other"):
        read_run(folder)
    assert json.loads((folder / "run.json").read_text())["classes"]
