"""Free text as numbers: n-grams, an SVD, and log-odds that are honest for the rows they were learnt from."""

import base64
import os

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from equipoise import BalancedClassifier
from equipoise.data.columns import text_features
from equipoise.data.columns.text_features import CHARACTERS, MOST_DIMENSIONS, WORDS, TextFeatures
from equipoise.data.encoder import TableEncoder
from equipoise.errors import InvalidInputError

RNG = np.random.default_rng(0)
RARE = RNG.random(300) < 0.2
GOOD, BAD = ["thanks", "great", "fine", "address", "question"], ["refund", "cancel", "angry", "late", "broken"]


def message(bad, rng=RNG):
    words = [*rng.choice(BAD if bad else GOOD, 2), *rng.choice(["the", "and", "customer", "called", "us"], 4)]
    return " ".join(rng.permutation(words))


TEXTS = [message(bad) for bad in RARE]
Y = np.where(RARE, "left", "stayed")


def weighed(options, texts, fitted_to):
    made = TfidfVectorizer(sublinear_tf=True, min_df=2, **options).fit(fitted_to)
    return made.transform(texts).toarray()


def test_counts_are_tfidf_of_words_and_characters():
    found = TextFeatures.fit(TEXTS)
    expected = np.hstack([weighed(options, TEXTS[:9], TEXTS) for options in (WORDS, CHARACTERS)])
    np.testing.assert_allclose(found.counts(TEXTS[:9]).toarray(), expected, atol=1e-6)


def test_the_svd_keeps_as_much_as_any_projection_of_its_size():
    found = TextFeatures.fit(TEXTS)
    counts = found.counts(TEXTS).toarray().astype(float)
    made = found.transform(TEXTS)
    assert made.shape == (300, 30)  # a tenth of the texts
    kept = np.sort(np.linalg.svd(counts, compute_uv=False))[::-1][:30]
    assert np.square(made).sum() == pytest.approx(np.square(kept).sum(), rel=0.02)
    assert TextFeatures.fit(TEXTS * 4).dimensions == MOST_DIMENSIONS


@pytest.mark.parametrize(("limit", "most"), [("LEARNT_FROM", 30), ("MOST_CHARACTERS", 1000)])
def test_n_grams_are_learnt_from_a_bounded_part(limit, most, monkeypatch):
    whole = TextFeatures.fit(TEXTS)
    monkeypatch.setattr(text_features, limit, most)
    part = TextFeatures.fit(TEXTS)
    assert len(part.characters) < len(whole.characters)
    assert part.dimensions <= 3
    assert part.transform(TEXTS).shape == (300, part.dimensions)


def rarely(bad, number):
    """A text whose only telling word is one of many, which few texts share."""
    return f"the customer {'bad' if bad else 'good'}{number % 41:02d}"


RARELY = [rarely(bad, number) for number, bad in enumerate(RARE)]


@pytest.fixture
def bounded(monkeypatch):
    """Features of texts most of which the n-grams are not learnt from."""
    monkeypatch.setattr(text_features, "LEARNT_FROM", 30)
    monkeypatch.setattr(text_features, "BUCKETS", 2**10)
    monkeypatch.setattr(text_features, "CHARACTERS", CHARACTERS | {"ngram_range": (1, 1)})  # no word by its parts
    return TextFeatures.fit(RARELY, Y)


def test_log_odds_learn_from_words_that_the_n_grams_lack(bounded):
    assert len({word for word in bounded.words if word.startswith(("bad", "good"))}) < 10  # of 82
    assert bounded.buckets == 2**10
    honest = bounded.transform_training(RARELY, Y)[:, -1]
    assert roc_auc_score(Y == "stayed", honest) > 0.8
    alone = TextFeatures.fit(RARELY)  # without labels there are no log-odds to gain
    assert alone.buckets == 0
    assert not (bounded.transform(RARELY)[:, :-1] - alone.transform(RARELY)).any()


def test_words_beyond_the_n_grams_are_weighted_by_tfidf(bounded):
    """Count the words by hand, then sum what falls into one bucket."""
    texts = ["the bad01 bad01 good07", "the customer", "", None]
    learnt, documents = set(bounded.words), [set(text.split()) for text in RARELY]
    made = bounded.counts(texts).toarray()[:, -bounded.buckets :]
    hashing = HashingVectorizer(n_features=bounded.buckets, norm=None, alternate_sign=False)
    bucket = {word: hashing.transform([word]).indices[0] for word in {*"".join(f"{t} " for t in texts[:2]).split()}}
    expected = np.zeros_like(made)
    for row, text in enumerate(texts):
        words = [word for word in (text or "").split() if word not in learnt]
        for word in set(words):
            sharing = sum(any(hashing.transform([w]).indices[0] == bucket[word] for w in d - learnt) for d in documents)
            idf = 1 + np.log((1 + len(documents)) / (1 + sharing))
            expected[row, bucket[word]] += (1 + np.log(words.count(word))) * idf
        expected[row] /= np.linalg.norm(expected[row]) or 1
    assert np.count_nonzero(expected[0]) == 2
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_features_with_buckets_survive_a_file_and_a_broken_one_is_refused(bounded):
    assert bounded.sound
    again = msgspec.json.decode(msgspec.json.encode(bounded), type=TextFeatures)
    np.testing.assert_array_equal(again.transform(RARELY), bounded.transform(RARELY))
    for buckets in (0, 2**10 - 1):
        assert not msgspec.structs.replace(bounded, buckets=buckets).sound


@pytest.mark.slow
def test_more_texts_than_the_n_grams_are_learnt_from_train_save_and_load(tmp_path):
    rng = np.random.default_rng(1)
    bad = rng.random(21_000) < 0.1
    texts = [f"{message(False, rng)} {'bad' if b else 'good'}{rng.integers(4000)}" for b in bad]
    frame = pd.DataFrame({"notes": texts})
    y = np.where(bad, "left", "stayed")
    model = BalancedClassifier(LogisticRegression(max_iter=500), random_state=0).fit(frame[:20_500], y[:20_500])
    asked = frame[20_500:]
    model.save(tmp_path / "model")
    loaded = BalancedClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(asked), model.predict_proba(asked), atol=1e-6)
    assert roc_auc_score(bad[20_500:], model.predict_proba(asked)[:, 0]) > 0.7


def test_log_odds_are_those_of_logistic_regression():
    found = TextFeatures.fit(TEXTS, Y)
    assert found.scores == ("stayed",)
    model = LogisticRegression(C=10, max_iter=500, tol=1e-6).fit(found.counts(TEXTS), Y)
    expected = model.decision_function(found.counts(TEXTS))
    np.testing.assert_allclose(found.transform(TEXTS)[:, -1], expected, atol=0.1)
    assert set(found.speaking_for(0)) <= set(GOOD)


def test_log_odds_of_training_rows_have_not_seen_them():
    """Labels that have nothing to do with the texts can be memorised, but not foretold."""
    chance = RNG.permutation(Y)
    found = TextFeatures.fit(TEXTS, chance)
    seen, honest = found.transform(TEXTS), found.transform_training(TEXTS, chance)
    assert roc_auc_score(chance == "stayed", seen[:, -1]) > 0.9
    assert roc_auc_score(chance == "stayed", honest[:, -1]) < 0.6
    assert np.array_equal(seen[:, :-1], honest[:, :-1])


def test_rows_of_one_group_do_not_see_each_other():
    texts, labels = TEXTS * 2, np.tile(RNG.random(300) < 0.5, 2)
    found = TextFeatures.fit(texts, labels)
    assert roc_auc_score(labels, found.transform_training(texts, labels)[:, -1]) > 0.7  # its copy is in another fold
    groups = np.tile(np.arange(300), 2)
    assert roc_auc_score(labels, found.transform_training(texts, labels, groups)[:, -1]) < 0.65


def test_three_classes_and_a_class_of_one():
    labels = np.where(RARE, "left", np.where(np.arange(300) % 2, "a", "b")).astype("U6")
    labels[0] = "once"
    found = TextFeatures.fit(TEXTS, labels)
    assert found.scores == ("a", "b", "left", "once")
    honest = found.transform_training(TEXTS, labels)
    assert np.isfinite(honest).all()
    assert roc_auc_score(labels == "left", honest[:, -2]) > 0.95


def test_several_labels():
    labels = np.stack([RARE, np.arange(300) % 2, np.ones(300)], axis=1).astype(int)
    found = TextFeatures.fit(TEXTS, labels)
    assert found.scores == ("0", "1", "2")
    honest = found.transform_training(TEXTS, labels)
    assert roc_auc_score(RARE, honest[:, -3]) > 0.95
    assert np.ptp(honest[:, -1]) == 0  # the same in every row: nothing to learn


@pytest.mark.parametrize("y", [np.linspace(0, 1, 300), np.arange(300)])
def test_targets_that_are_no_classes_have_no_log_odds(y):
    assert TextFeatures.fit(TEXTS, y).scores == ()


@pytest.mark.parametrize("texts", [[], [None, None], ["abc", "xyz"], ["one text"]])
def test_texts_that_share_nothing(texts):
    assert TextFeatures.fit(texts) is None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=30)), max_size=30))
def test_any_texts_become_finite_numbers(texts):
    found = TextFeatures.fit([*texts, "a common line", "a common line"])
    assert np.isfinite(found.transform(texts)).all()
    assert found.sound


def frame(texts=TEXTS, rows=300):
    return pd.DataFrame({"notes": texts, "age": np.arange(rows) % 40})


def test_a_table_with_notes():
    encoder = TableEncoder()
    rows = encoder.fit_transform(frame(), Y)
    assert encoder.column_names_[:2] == ["notes text 1", "notes text 2"]
    assert encoder.column_names_[-2:] == ["notes for stayed", "age"]
    assert rows.shape == (300, len(encoder.column_names_))
    assert encoder.notes_[0].startswith("notes: free text (")
    said, words = encoder.notes_[1].removesuffix(".").split(": ", 2)[1:]
    assert said == "words that speak for 'left'"
    assert set(words.split(", ")) <= set(BAD)
    again = TableEncoder.from_json(encoder.to_json())
    assert np.array_equal(again.transform(frame()), encoder.transform(frame()))
    assert not np.array_equal(rows, encoder.transform(frame()))


def test_missing_notes():
    texts = [None if place % 10 == 0 else text for place, text in enumerate(TEXTS)]
    encoder = TableEncoder().fit(frame(texts))
    assert encoder.column_names_[-2] == "notes=(missing)"
    made = encoder.transform(frame(texts))
    assert not made[0, :-2].any()
    assert made[:3, -2].tolist() == [1, 0, 0]
    assert "notes: 30 missing texts treated as empty." in encoder.notes_


def test_a_pipeline_is_fitted_to_honest_rows():
    model = make_pipeline(TableEncoder(), LogisticRegression(max_iter=2000))
    chance = RNG.permutation(RARE)
    said = cross_val_predict(model, frame(), chance, cv=3, method="predict_proba")[:, 1]
    assert roc_auc_score(chance, said) < 0.65
    assert model.fit(frame(), RARE).score(frame(), RARE) > 0.95
    named = TableEncoder().set_output(transform="pandas").fit_transform(frame(), RARE)
    assert named.columns[-1] == "age"


def test_labels_must_be_as_many_as_rows():
    with pytest.raises(InvalidInputError, match="y must have a label for each of the 300 rows, got 299"):
        TableEncoder().fit(frame(), Y[1:])


def packed(values, kind):
    return base64.b64encode(np.array(values, dtype=kind).tobytes()).decode()


@pytest.mark.parametrize(
    "change",
    [
        {"words": ["a", "a"], "characters": []},
        {"weights": packed([1, 0], "<f4")},
        {"weights": packed([1, np.nan], "<f4")},
        {"weights": packed([1], "<f4")},
        {"weights": "no base64!"},
        {"maps": packed([1, np.inf], "<f2")},
        {"maps": packed([1, 2, 3], "<f2")},
        {"dimensions": 0},
        {"dimensions": 10**9},
        {"scores": ["left"]},
        {"offsets": [1.0]},
        {"words": ["a" * 101]},
    ],
)
def test_a_wrong_record_of_text_is_refused(change):
    text = {"words": ["a"], "characters": ["b"], "weights": packed([1, 2], "<f4"), "dimensions": 1}
    text |= {"scores": [], "maps": packed([1, 2], "<f2"), "offsets": []}
    column = {"name": "notes", "kind": "text", "fill": 0.0, "indicator": False, "levels": [], "other": False}
    assert TableEncoder.from_json({"format": 1, "columns": [column | {"text": text}]}).column_names_ == ["notes text 1"]
    with pytest.raises(InvalidInputError, match=r"the table encoding .*; train the model again"):
        TableEncoder.from_json({"format": 1, "columns": [column | {"text": text | change}]})


@pytest.mark.slow
def test_messages_of_the_sms_collection():
    path = os.path.join(os.environ.get("EQUIPOISE_DATA", ""), "text", "sms_spam.csv")
    if not os.path.exists(path):
        pytest.skip("needs text/sms_spam.csv below EQUIPOISE_DATA")
    table = pd.read_csv(path)[:1500]
    encoder = TableEncoder()
    rows = encoder.fit_transform(table[["text"]], table["label"])
    assert encoder.guesses_[0].kind == "text"
    assert roc_auc_score(table["label"] == "spam", rows[:, -1]) > 0.98
