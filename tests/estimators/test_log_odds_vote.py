"""The vote of a text's own models: against a slow search, with missing classes, and inside the default blend."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from equipoise import BalancedClassifier, TableEncoder
from equipoise.data.encoded_rows import EncodedRows, log_odds_columns
from equipoise.estimators.families import as_estimators
from equipoise.estimators.log_odds_vote import LogOddsVote

WORDS = ["refund money", "late parcel", "broken screen", "forgot password", "close account", "change address"]


def made(rows=400, classes=4, seed=0):
    """Two models' log-odds of the classes, the first better, and a column that tells nothing."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(classes), rng.integers(classes, size=rows - classes)]
    good, poor = (rng.normal(size=(rows, classes)) + strength * np.eye(classes)[y] for strength in (3.0, 1.0))
    return np.concatenate((good, rng.normal(size=(rows, 1)), poor), axis=1), y, ((0, 1, 2, 3), (5, 6, 7, 8))


def test_its_weights_have_the_smallest_log_loss_of_a_grid():
    x, y, columns = made(rows=120)
    weight = np.random.default_rng(1).uniform(0.2, 3, size=len(y))
    found = LogOddsVote(columns).fit(x, y, weight)
    own = np.array([found.coef_[0, 0], found.coef_[5, 0]])

    def loss(t):
        z = t[0] * x[:, :4] + t[1] * x[:, 5:]
        return -sum(w * log_softmax(row)[label] for w, row, label in zip(weight, z, y, strict=True))

    grid = [(a, b) for a in own[0] * np.linspace(0.9, 1.1, 5) for b in own[1] * np.linspace(0.9, 1.1, 5)]
    assert loss(own) <= min(map(loss, grid)) + 1e-6
    assert own[0] > own[1] > 0  # the better one counts for more
    assert found.coef_[4].tolist() == [0, 0, 0, 0]


def test_of_two_classes_the_only_column_speaks_for_the_second():
    x = np.array([[-3.0], [-2.0], [1.0], [2.0], [-0.5]])
    p = LogOddsVote(((0,),)).fit(x, [0, 0, 1, 1, 1]).predict_proba(x)[:, 1]
    assert (np.diff(p[[0, 1, 4, 2, 3]]) > 0).all()


def test_a_class_that_a_fold_lacks_is_left_out():
    x, y, columns = made()
    part = y != 2
    found = LogOddsVote(columns).fit(x[part], y[part])
    assert found.classes_.tolist() == [0, 1, 3]
    assert (found.predict(x[part]) == y[part]).mean() > 0.8


def test_rows_that_are_separated_leave_its_weights_finite():
    y = np.repeat([0, 1, 2], 5)
    found = LogOddsVote(((0, 1, 2),)).fit(10 * np.eye(3)[y], y)
    assert np.isfinite(found.coef_).all()
    assert np.isfinite(found.predict_proba(1e6 * np.eye(3))).all()


@pytest.fixture(scope="module")
def tickets():
    """Texts of six classes, two of them rare, in which one word decides."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), (20, 20, 20, 20, 8, 8))
    texts = [f"please help with my {WORDS[k]} order {rng.integers(99)} {rng.choice(['now', 'soon'])}" for k in y]
    return pd.DataFrame({"text": texts, "days": rng.normal(size=len(y))}), np.array(["abcdef"[k] for k in y])


def test_the_encoder_says_where_the_log_odds_are(tickets):
    frame, y = tickets
    encoder = TableEncoder(text_encoder="none")
    rows = encoder.fit_transform(frame, y)
    (columns,) = encoder.log_odds_
    assert [encoder.column_names_[place] for place in columns] == [f"text for {name}" for name in "abcdef"]
    assert isinstance(rows, EncodedRows)
    assert log_odds_columns(rows[3:9]) == log_odds_columns(np.clip(rows, -9, 9)) == encoder.log_odds_
    assert TableEncoder(text_encoder="none").fit(frame).log_odds_ == ()  # without labels


@pytest.mark.slow
def test_the_default_blend_lets_a_text_vote_and_keeps_it(tickets, tmp_path):
    frame, y = tickets
    model = BalancedClassifier(members=2, encoder=TableEncoder(text_encoder="none"), random_state=0).fit(frame, y)
    assert [type(each[0]).__name__ for each in model.members_][-1] == "LogOddsVote"
    assert (model.predict(frame) == y).mean() > 0.95
    encoded = model.encoder_.transform_training(frame, y)
    from_rows = BalancedClassifier(members=2, random_state=0).fit(encoded, y)
    np.testing.assert_allclose(from_rows.out_of_fold_, model.out_of_fold_, atol=1e-6)
    model.save(tmp_path / "model")
    again = BalancedClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_only_the_default_of_rows_with_log_odds_of_all_classes_has_it():
    names = [type(each).__name__ for each, _ in as_estimators("auto", 100, 4, ((0, 1, 2, 3), (4, 5)))]
    assert names[-1] == "LogOddsVote"
    assert "LogOddsVote" not in [type(each).__name__ for each, _ in as_estimators("auto", 100, 4, ((4, 5),))]
    assert "LogOddsVote" not in [type(each).__name__ for each, _ in as_estimators(["forest"], 100, 2, ((3,),))]
