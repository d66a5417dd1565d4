"""A run's answers at another class prior, and sets of possible classes beside them."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.app.runs import RunModel
from equipoise.app.runs import unlabelled_data as sources
from equipoise.app.runs.evaluate import evaluate_run
from equipoise.app.runs.predict import predict_to
from equipoise.app.runs.unlabelled_data import estimated_prior
from equipoise.errors import InvalidInputError
from tests.app.runs.made import digits_frame, pictures


@pytest.fixture(scope="module")
def model(table_run):
    return RunModel.load(table_run)


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    digits_frame().drop(columns="digit").to_csv(path, index=False)
    return path


def predicted(model, source, out, **options):
    told = []
    found = predict_to(model, str(source), out, kind="csv", threshold=np.inf, tell=told.append, **options)
    return found, pd.read_csv(out, keep_default_na=False), told


def test_a_mix_is_named_typed_or_read(model, tmp_path):
    prior, size = model.calibrated.prior.numpy(), len(model.classes)
    np.testing.assert_array_equal(model.read_prior("natural"), prior)
    np.testing.assert_array_equal(model.read_prior("balanced"), np.full(size, 1 / size))
    shares = {name: (place + 1) / 55 for place, name in enumerate(model.classes)}
    wanted = np.arange(1, size + 1) / 55
    text = ", ".join(f"{name}={share}" for name, share in reversed(shares.items()))
    np.testing.assert_allclose(model.read_prior(text), wanted)
    (tmp_path / "mix.json").write_text(json.dumps(shares))
    np.testing.assert_allclose(model.read_prior(str(tmp_path / "mix.json")), wanted)
    some = model.read_prior("<digit> 1=0.01")
    assert some[1] == pytest.approx(0.01)
    others = np.arange(size) != 1
    np.testing.assert_allclose(some[others] / 0.99, prior[others] / prior[others].sum())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("unknown", "--prior must be natural, balanced, estimate, a .json file, or CLASS=NUMBER"),
        ("<digit> 0=a half", "--prior must be natural, balanced, estimate"),
        ("<digit> 0=1,<digit> 0=2", "--prior must be natural, balanced, estimate"),
        ("<digit> 0=1", "--prior leaves no share for the other classes, got"),
        ("digit 0=0.1", "unknown class 'digit 0'; did you mean '<digit> 0'"),
        ("gone.json", r"gone\.json cannot be read \(No such file or directory\); write an object of shares by class"),
    ],
)
def test_a_mix_that_is_none_is_one_sentence(model, text, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=sentence):
        model.read_prior(text)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extra": 1}, "unknown class 'extra'"),
        ({"<digit> 3": -1}, "--prior must hold shares that are not negative"),
        ({"<digit> 3": 0.5}, r"the shares of --prior must add up to 1 if every class is listed, got 1\.4"),
        ({"<digit> 3": "1"}, r"no valid field .*: expected a number, got text; write an object of shares"),
        ({"<digit> 3": True}, r"no valid field .*: expected a number, got true or false; write"),
        ({"<digit> 3": float("nan")}, "--prior must be finite numbers, got nan for"),
        ({"<digit> 3": 10**400}, "no valid field .*: number out of range; write"),
        ({"<digit> 3": 1e308, "<digit> 4": 1e308}, "must add up to 1"),
    ],
)
def test_a_file_of_a_mix_is_checked(model, tmp_path, change, sentence):
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(dict.fromkeys(model.classes, 0.1) | change))
    with pytest.raises(InvalidInputError, match=sentence):
        model.read_prior(str(path))
    for broken in ("[1]", "{", "[" * 10**5):
        path.write_text(broken)
        with pytest.raises(InvalidInputError, match=r"mix\.json (cannot be read|is invalid: expected an object)"):
            model.read_prior(str(path))


def test_a_mix_moves_probabilities_by_bayes_rule_and_the_class_with_them(model, new, tmp_path):
    frame = digits_frame().drop(columns="digit")
    names = [f"p_{name}" for name in model.classes]
    mix = model.read_prior("balanced")
    natural = predicted(model, new, tmp_path / "natural.csv")[1]
    moved = predicted(model, new, tmp_path / "balanced.csv", prior=mix)[1]
    expected = natural[names].to_numpy() / model.calibrated.prior.numpy()
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(moved[names], expected, atol=1e-4)
    assert natural["class"].tolist() == model.predict(frame)
    best = [model.classes[place] for place in moved[names].to_numpy().argmax(1)]
    assert moved["class"].tolist() == best == model.predict(frame, mix)
    at_home = predicted(model, new, tmp_path / "home.csv", prior=model.read_prior("natural"))[1]
    np.testing.assert_array_equal(at_home[names], natural[names])
    best = [model.classes[place] for place in natural[names].to_numpy().argmax(1)]
    assert at_home["class"].tolist() == best != natural["class"].tolist()


def test_a_mix_is_estimated_from_the_data_part_by_part(model, new, monkeypatch):
    frame = digits_frame()
    whole = model.estimate_prior(model.predict_proba(frame))
    true = frame["digit"].value_counts(normalize=True).reindex(model.classes)
    assert np.abs(whole - true).max() < 0.08
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 90)
    np.testing.assert_allclose(estimated_prior(model, str(new)), whole, atol=1e-4)
    monkeypatch.setattr(sources, "MOST_NUMBERS", 10 * 200)  # 200 rows drawn of 600
    few = estimated_prior(model, str(new))
    assert np.abs(few - whole).max() < 0.1
    assert np.abs(few - model.estimate_prior(model.predict_proba(frame.iloc[:200]))).max() > 0.02  # not just the first
    assert model.named_shares(few)["<digit> 3"] == few[3]
    sure = np.zeros((50, 10), dtype=np.float32)
    sure[:, 0] = 1
    np.testing.assert_allclose(
        model.estimate_prior(sure), np.array([51] + [1] * 9) / 60
    )  # one of each is taken for granted
    with pytest.raises(InvalidInputError, match="reads the data twice, and standard input can be read only once"):
        estimated_prior(model, "-")
    with pytest.raises(InvalidInputError, match="--prior estimate needs at least one readable sample, got none"):
        model.estimate_prior(model.predict_proba(frame.iloc[:0]))


def test_sets_of_possible_classes_and_who_is_left_unanswered(model, new, tmp_path):
    found, rows, told = predicted(model, new, tmp_path / "a.csv", abstain=0.1)
    sets = model.calibrated.sets(model.predictions(digits_frame()).logits, 0.9)
    names = np.array(model.classes)
    assert rows["set"].tolist() == ["|".join(names[own]) for own in sets]
    assert rows["abstain"].tolist() == (sets.sum(1) != 1).tolist()
    assert found.abstained == (sets.sum(1) != 1).sum() > 0
    alone = sets.sum(1) == 1
    assert rows["class"][alone].tolist() == names[sets[alone].argmax(1)].tolist()
    assert told[0].startswith(f"{found.abstained} of {len(rows)} samples")
    few = [name for name, count in zip(names, model.calibrated.thresholds.counts, strict=True) if count < 9]
    assert few
    assert told[-1].startswith("too few calibration samples to be ruled out at 0.9, so possible for every sample: ")
    assert all(name in told[-1] for name in few)
    fewest = int(model.calibrated.thresholds.counts.min())
    assert fewest
    share = float(told[-1].split("; with --abstain ")[1].split()[0])
    assert abs(share - 1 / (fewest + 1)) <= 0.01
    assert not any("too few" in line for line in predicted(model, new, tmp_path / "d.csv", abstain=share)[2])
    assert any("too few" in line for line in predicted(model, new, tmp_path / "e.csv", abstain=share - 0.02)[2])
    assert predicted(model, new, tmp_path / "b.csv")[0].abstained is None
    for share in (0, 1, float("nan")):
        with pytest.raises(InvalidInputError, match="--abstain must be above 0 and below 1"):
            predicted(model, new, tmp_path / "c.csv", abstain=share)
    assert not (tmp_path / "c.csv").exists()


def test_images_that_cannot_be_read_have_every_class_left(image_run, tmp_path):
    photos = pictures(tmp_path / "photos", {"night": 3, "day": 2})
    (photos / "night" / "broken.png").write_bytes(b"none")
    model = RunModel.load(image_run)
    mix = model.read_prior("natural")
    found, rows, told = predicted(model, photos, tmp_path / "a.csv", abstain=0.2, prior=mix)
    assert found.abstained == rows["abstain"].sum() > 0
    assert any(line.startswith(f"{found.abstained} of 6 samples") for line in told)
    row = rows[rows["file"] == "night/broken.png"].iloc[0]
    assert (row["set"], row["abstain"], row["class"]) == ("|".join(model.classes), True, "")


def test_several_labels_have_a_set_each(several_run, tmp_path):
    model, source = RunModel.load(several_run), several_run.parent / "several.csv"
    mix = model.read_prior("up=0.5,right=0.1")
    np.testing.assert_allclose(mix, [[0.5, 0.5], [0.9, 0.1]])
    with pytest.raises(InvalidInputError, match="--prior must hold shares of ones from 0 to 1"):
        model.read_prior("up=2,right=1")
    _, rows, _ = predicted(model, source, tmp_path / "a.csv", abstain=0.1, prior=mix)
    assert set(rows["set_up"].astype(str)) <= {"", "0", "1", "0|1"}
    open_ones = ~rows["set_up"].astype(str).isin(["0", "1"]) | ~rows["set_right"].astype(str).isin(["0", "1"])
    assert rows["abstain"].tolist() == open_ones.tolist()
    assert estimated_prior(model, str(source))[1, 1] == pytest.approx(0.5, abs=0.08)


def test_evaluating_tells_coverage_class_by_class(model, tmp_path):
    digits_frame().to_csv(tmp_path / "all.csv", index=False)
    found = evaluate_run(model, str(tmp_path / "all.csv"), prior="estimate", abstain=0.2)
    answered = model.predictions(digits_frame(), list(found.prior.values()))
    sets = model.calibrated.sets(answered.logits, 0.8, list(found.prior.values()))
    places = np.array([model.classes.index(name) for name in digits_frame()["digit"]])
    for place, covered in enumerate(found.sets["classes"].values()):
        assert covered["coverage"] == pytest.approx(sets[places == place, place].mean())
    told = found.sets
    assert told["abstained"] == pytest.approx((sets.sum(1) > 1).mean())
    own = sets[places == 3]
    assert told["classes"]["<digit> 3"]["abstained"] == pytest.approx((own.sum(1) > 1).mean())
    assert told["mean_size"] == pytest.approx(sets.sum(1).mean())
    expected = (np.array(model.classes)[answered.predicted] == digits_frame()["digit"]).mean()
    assert found.scores.accuracy == pytest.approx(expected)
    assert found.prior == pytest.approx(model.named_shares(model.estimate_prior(model.predict_proba(digits_frame()))))
