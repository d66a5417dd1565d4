"""The model card that ``save`` writes."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.decisions import RecallAtLeast
from equipoise.estimators.model_card import model_card

RNG = np.random.default_rng(0)
Y = np.repeat(["common", "ra|re"], [200, 25])
FRAME = pd.DataFrame({"size": RNG.normal(size=225) + 2 * (Y == "ra|re"), "k<i>nd": RNG.choice(["a", "b"], 225)})


@pytest.fixture(scope="module")
def blend():
    return BalancedClassifier(LogisticRegression(), random_state=0).fit(FRAME, Y)


def test_a_blend_says_what_it_was_trained_on_and_how_well_it_does(blend, tmp_path):
    blend.save(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card == model_card(blend)
    assert card.startswith("---\nlibrary_name: equipoise\n")
    assert "225 rows, 2 columns." in card
    assert "Columns: size, k&lt;i>nd." in card
    assert "| common | 88.89 % | 200 |\n| ra\\|re | 11.11 % | 25 |" in card
    recall = blend.decision_.expected.classes[1].recall
    assert f"| ra\\|re | 25 | {100 * recall.value:.1f} % [{100 * recall.low:.1f}, {100 * recall.high:.1f}] |" in card
    assert "Out-of-fold predictions for 225 rows" in card
    assert "fewer than 30 held-out samples are uncertain: ra\\|re (25)" in card
    assert re.search(r"equipoise \S+, python \S+, torch", card)


def test_scores_are_those_of_the_predictions_that_it_would_have_made(blend):
    recall = blend.decision_.expected.classes[1].recall
    members, single = (
        np.mean((p / blend.prior_).argmax(1)[Y == "ra|re"] == 1)  # the balanced decision
        for p in (blend.evidence_.answered, blend.out_of_fold_)
    )
    assert recall.value == pytest.approx(members)
    assert recall.low < single < recall.high


def test_the_rule_and_its_promise_are_part_of_the_card(blend):
    model = BalancedClassifier(LogisticRegression(), decision=RecallAtLeast({"ra|re": 0.6}), random_state=0)
    card = model_card(model.fit(FRAME, Y))
    assert "The rule RecallAtLeast" in card
    assert "With 95 % confidence it finds at least" in card
    assert "The most probable label at the class prior that the method aims at" in model_card(blend)


def test_a_network_without_held_out_rows_has_no_scores():
    x = FRAME[["size"]].to_numpy()
    network = UncertaintyBalancedClassifier(epochs=3, width=8, validation_fraction=0, random_state=0).fit(x, Y)
    card = model_card(network)
    assert "225 rows, 1 columns" in card
    assert "None. The model was fitted without held-out rows" in card
    assert "a network trained by uncertainty\\_margin" in card


def test_a_readme_of_somebody_else_is_left_alone_and_our_own_is_written_anew(blend, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# My project\n")
    blend.save(tmp_path)
    assert readme.read_text() == "# My project\n"
    readme.write_text("---\nlibrary_name: equipoise\n---\nold")
    blend.save(tmp_path)
    assert readme.read_text(encoding="utf-8") == model_card(blend)


def test_a_loaded_model_writes_the_same_card(blend, tmp_path):
    blend.save(tmp_path)
    assert model_card(BalancedClassifier.load(tmp_path)) == model_card(blend)
