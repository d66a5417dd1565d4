"""What is said of results made by hand: each verdict, and nothing that the runs cannot bear."""

import pytest

from equipoise.app.compare import rank, recommend
from tests.app.compare.test_leaderboard import records

LABELS = {
    "boosting": "plain gradient boosting",
    "shifted": "plain gradient boosting with a moved threshold",
    "cross_entropy": "plain cross-entropy",
    "smote": "SMOTE",
}
PLAIN, MOVED = ("boosting", "cross_entropy"), ("shifted",)


def around(mean, *, spread=0.001, runs=5):
    """Scores of that mean which vary a little."""
    return [mean + spread * (seed - (runs - 1) / 2) for seed in range(runs)]


def advice(scores, **options):
    ranking = rank(records(**scores), baseline=PLAIN)
    return recommend(ranking, LABELS, **{"plain": PLAIN, "moved": MOVED} | options)


@pytest.mark.parametrize(
    ("scores", "verdict", "details"),
    [
        (
            {"boosting": around(0.9), "shifted": around(0.8, spread=0.002), "smote": around(0.7, spread=0.003)},
            "No remedy is needed: plain gradient boosting is the best method.",
            "Use plain gradient boosting: 90.0 % balanced accuracy. Every other method is significantly worse.",
        ),
        (
            {"boosting": around(0.9), "smote": [0.88, 0.92, 0.89, 0.9, 0.9], "shifted": around(0.8)},
            "No remedy is needed: plain gradient boosting is the best method.",
            "SMOTE is not significantly different.",
        ),
        (
            {"boosting": around(0.9), "smote": [0.90, 0.92, 0.88, 0.91, 0.91], "shifted": around(0.8)},
            "No remedy is needed: plain gradient boosting is not significantly worse than the best method, SMOTE.",
            "Use plain gradient boosting: 90.0 % balanced accuracy, 0.4 points (between −2",
        ),
        (
            {"boosting": around(0.9), "smote": [0.90, 0.99, 0.88, 0.97, 0.91]},
            "No remedy is shown to be needed: plain gradient boosting is not significantly worse than the best method",
            "To narrow this down, give more seeds; until then",
        ),
        (
            {"boosting": around(0.7), "shifted": around(0.9), "smote": around(0.8, spread=0.002)},
            "No remedy is needed: plain gradient boosting with a moved threshold is the best method.",
            "90.0 % balanced accuracy",
        ),
        (
            {"boosting": around(0.7), "shifted": around(0.9), "smote": [0.90, 0.92, 0.88, 0.91, 0.91]},
            "No remedy is needed: plain gradient boosting with a moved threshold is not significantly worse than the "
            "best method, SMOTE.",
            "The threshold matters: plain gradient boosting, the best without it, is 20.4 points (between 1",
        ),
        (
            {"boosting": around(0.6), "shifted": around(0.7, spread=0.002), "smote": around(0.8, spread=0.003)},
            "A remedy is needed: SMOTE is 10.0 points (between 9.",
            "Use SMOTE: 80.0 % balanced accuracy.",
        ),
        (
            {"cross_entropy": around(0.6), "boosting": around(0.75), "smote": around(0.8, spread=0.002)},
            "A remedy is needed: SMOTE is 5.0 points (between 4.",
            "Use SMOTE",
        ),
        (
            {"smote": around(0.9), "vs": around(0.6, spread=0.002)},
            "Whether a remedy is needed is unknown, because no plain method was compared.",
            "Use SMOTE: 90.0 % balanced accuracy.",
        ),
        (
            {"smote": [0.9, 0.8, 0.9], "vs": [0.8, 0.85, 0.9]},
            "Whether a remedy is needed is unknown",
            "SMOTE came first, but no other method is significantly worse: use the one that suits you, or give more",
        ),
        ({"boosting": [0.5], "smote": [0.9]}, "1 fit of each method is too few to tell whether", "Give more seeds."),
        ({"boosting": [0.5, 0.6], "smote": [0.9, 0.9]}, "2 fits of each method are too few", "Give more seeds."),
        ({"smote": [0.9, 0.9]}, "Only SMOTE was run, so there is nothing to compare it with.", ""),
        ({}, "No method could run on these data, so there is nothing to recommend.", ""),
    ],
)
def test_every_verdict(scores, verdict, details):
    found = advice(scores)
    assert found.verdict.startswith(verdict)
    assert details in found.details
    assert str(found) == f"{found.verdict} {found.details}".strip()
    assert found.verdict.count(". ") == 0  # one sentence


def test_where_runs_are_few_the_better_of_plain_and_moved_is_named():
    """The plain one may be level with the best, for all that is known; the moved one nearly is."""
    scores = {"boosting": [0.95, 0.8, 0.9], "shifted": [0.94, 0.95, 0.96], "smote": [0.951, 0.949, 0.963]}
    found = advice(scores)
    assert found.verdict == (
        "No remedy is needed: plain gradient boosting with a moved threshold is not significantly worse than the best "
        "method, SMOTE."
    )
    assert "The threshold matters" not in found.details  # nothing is shown of it
    found = advice(scores | {"shifted": [0.86, 0.99, 0.94]})
    assert found.verdict.startswith("No remedy is shown to be needed: plain gradient boosting with a moved threshold")


def test_a_remedy_is_measured_against_the_best_method_without_one():
    found = advice({"boosting": around(0.7), "shifted": around(0.6), "smote": around(0.8, spread=0.003)})
    assert "above plain gradient boosting, the best method without one." in found.verdict


def test_a_lead_that_picking_among_many_may_explain_is_no_reason_for_a_remedy():
    lead = [0.01, 0.02, 0.03, 0.002, 0.02]
    rivals = {f"m{number}": [0.4] * 5 for number in range(39)}
    alone = {"boosting": [0.5] * 5, "smote": [0.5 + step for step in lead]}
    assert advice(alone).verdict.startswith("A remedy is needed: SMOTE")
    assert advice(alone | rivals).verdict.startswith("No remedy is")


def test_methods_level_with_the_winner_are_named():
    scores = {"boosting": [0.5, 0.6, 0.7], "smote": [0.6, 0.71, 0.8], "vs": [0.61, 0.70, 0.79]}
    assert str(advice(scores)).endswith("Vs is no worse as far as these runs show.")


def test_what_to_do_is_said_where_runs_are_few():
    found = advice({"boosting": [0.5], "smote": [0.9]}, more="give more minutes: about 3")
    assert found.details == "Give more minutes: about 3."
