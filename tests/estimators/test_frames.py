"""Both estimators take frames as people have them, by the same encoder, and keep what they learnt of them in a file."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise import BalancedClassifier, TableEncoder, UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError

RNG = np.random.default_rng(0)
ROWS = 240
WORDS = {True: ["cancel", "refund", "angry", "late"], False: ["thanks", "great", "question", "address"]}
PLACES = ["Oslo", "Rome", "Lima"]


def churn(rows=ROWS, seed=0):
    """Customers who leave or stay; only the notes say which."""
    rng = np.random.default_rng(seed)
    left = rng.random(rows) < 0.25
    notes = [
        " ".join(["the customer wrote", *rng.choice(WORDS[bool(gone)], 3), f"no {i}"]) for i, gone in enumerate(left)
    ]
    frame = pd.DataFrame(
        {
            "paid": [f"{value:,.2f} €" for value in rng.uniform(0, 5000, rows)],
            "town": pd.Categorical(rng.choice(PLACES, rows)),
            "member": rng.random(rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D"),
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(50, 9, rows)),
            "notes": notes,
        }
    )
    return frame, np.where(left, "left", "stayed")


MODELS = {
    "network": lambda: UncertaintyBalancedClassifier(epochs=20, random_state=0),
    "blend": lambda: BalancedClassifier("boosting", members=2, random_state=0),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request):
    return MODELS[request.param]().fit(*churn())


def test_the_notes_of_a_churn_table_are_used(fitted):
    frame, y = churn(seed=1)
    assert (fitted.predict(frame) == y).mean() > 0.95
    shuffled = frame.assign(notes=RNG.permutation(frame["notes"]))
    assert (fitted.predict(shuffled) == y).mean() < 0.8
    assert isinstance(fitted.encoder_, TableEncoder)
    assert [guess.kind for guess in fitted.encoder_.guesses_] == [
        "number",
        "category",
        "number",
        "date",
        "number",
        "text",
    ]
    assert fitted.n_features_in_ == 6
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()


def test_a_saved_model_predicts_frames_alike(fitted, tmp_path):
    frame, _ = churn(60, seed=2)
    fitted.save(tmp_path)
    again = type(fitted).load(tmp_path)
    assert np.array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert "notes" in (tmp_path / "model.json").read_text()


def test_columns_must_be_those_of_training(fitted):
    frame, _ = churn(10)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"notes": "remarks"}))


def test_an_encoding_of_another_model_is_refused(tmp_path):
    model = MODELS["network"]().fit(*churn())
    model.save(tmp_path)
    record = json.loads((tmp_path / "model.json").read_text())
    record["encoder"]["columns"].pop()
    (tmp_path / "model.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match="holds a table encoding of another model"):
        UncertaintyBalancedClassifier.load(tmp_path)


def test_a_network_takes_several_labels_of_a_frame():
    frame, y = churn()
    both = np.stack([y == "left", frame["town"] == "Rome"], axis=1).astype(int)
    model = MODELS["network"]().fit(frame, both)
    assert (model.predict(frame) == both).mean() > 0.9


def test_a_frame_of_numbers_needs_no_encoder():
    x = pd.DataFrame(RNG.normal(size=(60, 3)), columns=list("abc"))
    assert UncertaintyBalancedClassifier(epochs=1, random_state=0).fit(x, x["a"] > 0.5).encoder_ is None
