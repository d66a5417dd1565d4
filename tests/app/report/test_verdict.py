"""The verdict says first whether the model is any good, then what changed and what it cost."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from msgspec import structs

from equipoise.app.report import write_report
from equipoise.app.report.model_grade import worth
from equipoise.app.report.sections.verdict import _went, run_skill, verdict
from equipoise.app.stored_run import read_run
from equipoise.data.leaks import leak_notes
from equipoise.data.samples import Samples
from equipoise.decisions import Evidence, RecallAtLeast, ReviewBudget, Situation
from equipoise.evaluation import scores
from tests.app.report.runs import made_up, made_up_attributes, softmax, staged, write_run
from tests.app.report.test_numbers import one_hot


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
        return verdict(read_run(write_run(tmp_path / "run", probabilities=after, labels=labels, **options)))

    return make


@pytest.fixture
def ranked(tmp_path):
    """The verdict on two Gaussians at a distance, one of them rare: natural answers before, balanced ones after."""

    def make(distance, *, share=0.032, samples=3000, balanced=True, before=True):
        rng = np.random.default_rng(0)
        labels = np.zeros(samples, dtype=np.int64)
        labels[: round(share * samples)] = 1
        x = rng.normal(size=samples) + distance * labels
        odds = distance * x - distance**2 / 2
        natural, even = (
            np.stack([1 - p, p], axis=1) for p in (1 / (1 + np.exp(-odds - shift)) for shift in (np.log(share), 0))
        )
        options = {"counts": [10_000, round(10_000 * share)], "names": ["False", "True"]}
        after = even if balanced else natural
        folder = write_run(
            tmp_path / "run", probabilities=after, labels=labels, before=natural if before else None, **options
        )
        return verdict(read_run(folder))

    return make


# --- what was asked for ----------------------------------------------------------------------------------------------


def asked(folder, rule, option, *, samples=3000):
    """A run of two classes, the rare one "yes", that answers by a rule chosen on samples such as these."""
    made_up(folder, 2, samples=samples, names=["no", "yes"])
    held, record = read_run(folder).held_out, json.loads((folder / "run.json").read_text())
    prior = held.trust.prior
    evidence = Evidence.of(held.probabilities.astype(float), held.labels)
    record["decision"] = rule.choose(Situation(("no", "yes"), prior, prior, evidence)).to_json()
    record["options"] |= option
    (folder / "run.json").write_text(json.dumps(record))
    return read_run(folder)


def test_the_verdict_says_what_was_asked_for_and_promised(tmp_path):
    run = asked(tmp_path / "run", RecallAtLeast({"yes": 0.5}), {"recall": "yes=0.5"})
    first, expected, promise = verdict(run).asked
    assert first == "You asked for --recall yes=0.5."
    assert expected.startswith("The decision finds ")
    assert promise.startswith("With 95 % confidence it finds at least 50 % of class 'yes'")
    page = write_report(run.folder).read_text()
    assert "<h3>What you asked for</h3>\n<p>You asked for --recall yes=0.5.</p>" in page
    assert str(escape(promise)) in page


def test_the_verdict_says_what_cannot_be_promised(tmp_path):
    run = asked(tmp_path / "run", RecallAtLeast({"yes": 0.99}), {"recall": "yes=0.99"}, samples=900)
    assert any("cannot be promised for class 'yes'" in sentence for sentence in verdict(run).asked)


def test_nothing_was_asked_for_by_default(tmp_path):
    folder = made_up(tmp_path / "run", 2, names=["no", "yes"])
    assert verdict(read_run(folder)).asked == []
    assert "What you asked for" not in write_report(folder).read_text()


@pytest.mark.parametrize(("cases", "blame"), [(4, "but 66.7% of its predictions"), (2, "but it misses ")])
def test_a_rule_is_not_blamed_for_what_was_asked(tmp_path, cases, blame):
    run = asked(tmp_path / "run", ReviewBudget(cases, per=1000), {"review": f"{cases}/1000"})
    held = run.held_out
    named = held.probabilities[:, 1] >= run.record.decision["claims"][0]["threshold"]
    if cases == 2:
        named &= held.labels == 1
    run = replace(run, held_out=replace(held, predicted=named.astype(np.int64)))
    found = verdict(run)
    assert ". The rule you asked for finds " in found.headline
    assert not re.search("misses|wrong|but", found.headline)
    assert found.next == ["Decide shows what another threshold than that of your rule would find and cost."]
    plain = verdict(replace(run, record=structs.replace(run.record, decision=None)))
    assert blame in plain.headline


# --- is it any good? -------------------------------------------------------------------------------------------------


def test_a_weak_ranking_is_called_weak_however_much_recall_rose(ranked):
    found = ranked(0.5)  # AUC 0.64, average precision 0.06 of 3.2 % positives, as of a churn table
    assert found.headline.startswith(
        "Weak: the model separates the rare class True from the rest only a little better than guessing (AUC 0.6"
    )
    assert found.headline.endswith("% of its predictions of this class are wrong.")
    precision, order, answers = found.worth
    assert precision.startswith("The rare class True makes up 3.2% of the held-out samples; ")
    assert "times the 0.032 of a random order; AUC is 0.6" in order
    assert "A constant answer has 0 points; random answers do as well in less than 0.1% of" in answers
    assert found.change[0].startswith("The rare class True is found more often: recall 0.0% before, ")
    assert found.change[1].startswith("False alarms, wrong predictions of this class, went from 0 to 1,")
    assert any("accuracy, the share of right answers, went from 96.8% to" in text for text in found.change)
    assert not any("Average precision" in text for text in found.change)  # the order is the same


@pytest.mark.parametrize("counts", [[2000, 20], [2000, 1900]])  # one rare class; none
def test_the_interval_of_the_auc_is_that_of_the_scores(tmp_path, counts):
    folder = made_up(tmp_path / "run", 2, samples=3000)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"train_counts": counts}))
    held = read_run(folder).held_out
    p = held.probabilities.astype(float)
    found = scores(held.labels, held.predicted, probabilities=p, classes=[0, 1], train_counts=counts, intervals=True)
    (folder / "scores.json").write_text(json.dumps(found.as_dict()))
    run = read_run(folder)
    ends = run.scores["intervals"]["auc"]
    low, high = ends["each"][1] if counts[1] == 20 else ends["mean"]
    assert f"(95% interval {low:.2f} to {high:.2f})" in verdict(run).worth[1]


def test_a_score_that_reads_the_same_has_not_changed():
    assert _went(0.6026, 0.6034, "{:.3f}".format) == "stayed at 0.603"


def test_a_useless_model_is_no_better_than_guessing(ranked):
    found = ranked(0.0)
    assert found.headline == (
        "No better than guessing: the model does not separate the rare class True from the rest (AUC 0.50; "
        "guessing gives 0.50)."
    )


def test_the_rare_class_as_the_answer_to_everything_is_no_better_than_guessing(tmp_path):
    labels = np.repeat([0, 1], [970, 30])
    options = {"counts": [9700, 300], "names": ["False", "True"], "before": one_hot(np.zeros(1000, dtype=int), 2)}
    always = np.tile([0.1, 0.9], (1000, 1))
    found = verdict(read_run(write_run(tmp_path, probabilities=always, labels=labels, **options)))
    assert found.headline.startswith("No better than guessing: ")
    assert "(95% interval −" in found.worth[2]
    assert found.worth[2].endswith("A constant answer has 0 points; random answers do as well every time.")
    assert found.change[0].startswith("The rare class True is found more often: recall 0.0% before, 100.0% after")
    (gap,) = [text for text in found.change if text.startswith("Recall minus false-alarm rate")]
    assert "changed by 0.0 points" in gap
    assert gap.endswith("which may be chance; a constant answer scores 0.")


def test_a_good_ranking_with_many_false_alarms(ranked):
    found = ranked(2.0)
    assert found.headline.startswith("The model separates the rare class True well from the rest (AUC 0.9")
    assert "but 8" in found.headline
    assert found.headline.endswith("% of its predictions of this class are wrong.")


def test_a_good_ranking_with_answers_that_miss_or_never_name_the_class(ranked):
    assert ", but it misses 7" in ranked(2.0, balanced=False).headline
    silent = ranked(1.3, balanced=False, share=0.02)
    assert silent.headline.endswith("(AUC 0.85; guessing gives 0.50), but it never predicts this class.")
    assert (
        silent.worth[0]
        == "The rare class True makes up 2.0% of the held-out samples; the model never predicts this class."
    )


def test_a_good_model_is_called_good(ranked):
    found = ranked(4.0, share=0.1, samples=1000)
    assert found.headline.startswith(
        "Good: the model separates the rare class True well from the rest (AUC 1.00; guessing gives 0.50), finds 9"
    )
    assert found.headline.endswith("% of its predictions of this class are right.")


def test_a_fair_model_is_called_fair(ranked):
    missing = ranked(2.7, share=0.1, balanced=False).headline  # ranked well, two thirds found
    assert missing.startswith("Fair: the model separates the rare class True well from the rest (AUC 0.97")
    assert ranked(1.0, share=0.36).headline.startswith("Fair: the model separates the rare class True fairly")


def test_few_positives_are_too_few_to_judge(ranked):
    found = ranked(0.6, share=0.04, samples=100)
    assert found.headline == (
        "Cannot be judged: 4 held-out samples of the rare class True are too few to show whether the model is better "
        "than guessing."
    )
    better = ranked(5.0, share=0.04, samples=150)
    assert better.headline.startswith(
        "Better than guessing, but 6 held-out samples of the rare class True cannot show how good it is (AUC 1.00"
    )


def test_a_wide_interval_is_not_called_good(ranked):
    assert ranked(1.1, share=0.1, samples=150).headline.startswith("Better than guessing, but 15 held-out samples")


def test_several_classes_are_judged_by_the_rare_ones(tmp_path):
    found = verdict(read_run(made_up(tmp_path, 7)))
    assert found.headline == (
        "The model separates the rare classes well from the rest (mean AUC 0.97; guessing gives 0.50) and finds "
        "6 of 10 of their samples at 1 false alarm in 105 others, but 63.5% of its predictions of these classes are "
        "wrong."
    )
    assert found.worth[0].startswith("On average each rare class makes up 0.9% of the held-out samples; 36.5% of the ")
    assert found.worth[2] == ("Balanced accuracy is 76.2% (95% interval 69.0% to 82.0%); a constant answer gets 14.3%.")


def test_classes_that_guessing_answers_as_well_are_named(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), [200, 100, 40, 40])
    scores = rng.normal(size=(len(labels), 4)) + 4 * (labels[:, None] == np.arange(4))
    scores[labels == 2] = [9, 0, 0, 0]
    options = {"counts": [2000, 1000, 40, 40], "names": list("abcd"), "before": None}
    found = verdict(read_run(write_run(tmp_path, probabilities=softmax(scores), labels=labels, **options)))
    assert found.worth[-1] == "Not shown to be better than guessing, class by class: c."


def test_attributes_are_judged_by_their_positives(tmp_path):
    found = verdict(read_run(made_up_attributes(tmp_path)))
    assert found.headline.startswith("The model separates the rare attributes well from the rest (mean AUC 0.99")
    assert found.worth[0].startswith("On average each rare attribute is present in 2.6% of the held-out samples; ")
    assert found.worth[2].endswith("; a constant answer gets 50.0%.")
    assert any("500 held-out samples, with 26 positives of the 2 rare attributes" in text for text in found.basis)


def test_a_run_that_kept_no_answers_is_judged_by_its_table(tmp_path):
    folder = made_up(tmp_path, 7)
    (folder / "held_out.npz").unlink()
    record = read_run(folder)
    found = verdict(record)
    assert found.headline == (
        "Better than guessing, but 16 held-out samples of the rare classes cannot show how good it is (AUC of the "
        "answers alone 0.80; guessing gives 0.50)."
    )
    assert not any("average precision is" in text for text in found.worth)
    record.scores["confusion"] = None
    assert verdict(record).headline == ("Cannot be judged: the run has kept no answers. Balanced accuracy is 76.2%.")


def test_the_answers_and_their_table_give_the_same_counts(tmp_path):
    for folder in (made_up(tmp_path / "one", 7), made_up_attributes(tmp_path / "several")):
        answers = run_skill(read_run(folder))
        (folder / "held_out.npz").unlink()
        table = run_skill(read_run(folder))
        for name in ("support", "named", "recall", "false_alarms", "gap_low", "gap_chance"):
            np.testing.assert_allclose(getattr(answers, name), getattr(table, name), err_msg=name)


def test_nothing_tested_cannot_be_judged(tmp_path):
    labels = np.zeros(30, dtype=np.int64)
    options = {"counts": [1000] + [10] * 8, "names": list("abcdefghi"), "before": one_hot(labels, 9)}
    found = verdict(read_run(write_run(tmp_path, probabilities=one_hot(labels, 9), labels=labels, **options)))
    assert found.headline == "Cannot be judged: fewer than two classes have held-out samples."
    assert found.change[0].startswith("No rare class could be tested; all classes together are found as often")
    assert "Cannot be judged, because there are no held-out samples: b, c, d, e, f and 3 more." in found.basis


# --- what changed, and what it cost ----------------------------------------------------------------------------------


def test_rare_classes_gain_and_common_ones_lose(told):
    found = told((95, 90), (40, 80))
    assert found.change == [
        "The rare class rare is found more often: recall 40.0% before, 80.0% after (+40.0 points); the common one "
        "loses 5.0 points, which may be chance.",
        "False alarms, wrong predictions of this class, went from 5 to 10.",
        "Precision of the rare class, the share of predictions of this class that are right, stayed at 88.9%.",
        "Recall minus false-alarm rate rose by 35.0 points (95% interval +23.6 to +45.1), a gain; a constant "
        "answer scores 0.",
        "Balanced accuracy, the mean over the classes, went from 67.5% to 85.0%; accuracy, the share of right answers, "
        "went from 67.5% to 85.0%.",
        "Average precision of the rare class, how well the samples are ranked, went from 0.656 to 0.811.",
        '"Before" is the same network at the end of its softmax stage, after 3 of 9 epochs: part of the change may '
        "come from longer training alone.",
    ]
    assert found.basis == ["This rests on 200 held-out samples, 100 of them of the rare class."]
    assert [change.name for change in found.changes] == ["common", "rare", "all"]
    assert found.sentences == [*found.worth, *found.change, *found.next, *found.basis]


def test_a_loss_is_called_one(told):
    found = told((95, 95), (80, 40)).change
    assert found[0] == (
        "The rare class rare is found less often: recall 80.0% before, 40.0% after (−40.0 points); the common one "
        "stays as it was."
    )
    assert found[3].startswith("Recall minus false-alarm rate fell by 40.0 points (95% interval −")
    assert ", a loss; " in found[3]


def test_a_clear_loss_of_the_common_is_not_excused(told):
    assert told((95, 70), (40, 80)).change[0].endswith("; the common one loses 25.0 points.")
    assert told((70, 95), (40, 80)).change[0].endswith("; the common one gains 25.0 points.")


def test_a_gain_that_false_alarms_eat_up_is_not_one(told):
    found = told((90, 50), (40, 80)).change
    assert found[0].startswith("The rare class rare is found more often")
    assert "changed by 0.0 points" in found[3]
    assert ", which may be chance; " in found[3]


def test_no_gain_at_the_cost_of_the_common_is_no_small_thing(told):
    assert told((95, 65), (60, 60)).change[0] == (
        "The rare class rare is found as often as before (60.0%); the common one loses 30.0 points."
    )


def test_no_difference(told):
    found = told((90, 90), (60, 60)).change
    assert found[0] == (
        "The rare class rare is found as often as before (60.0%): it made no difference; the common one "
        "stays as it was."
    )
    assert found[1] == "False alarms, wrong predictions of this class, stayed at 10."
    assert "No held-out sample changed between found and missed." in found
    assert not any("false-alarm rate" in sentence or "longer training" in sentence for sentence in found)


def test_too_few_samples_to_tell(told):
    found = told((9, 9), (4, 7), size=10)
    assert found.change[0].startswith(
        "The rare class rare went from a recall of 40.0% to 70.0%, but so few samples changed that this may be chance"
    )
    assert ", which may be chance; " in found.change[3]
    assert any("One rare sample more or less moves this recall by about 10.0 points." in text for text in found.basis)


def test_without_a_rare_class(told):
    found = told((90, 95), (60, 90), counts=(100, 90))
    assert found.headline.startswith("Good: the model separates the classes well (mean AUC 0.93")
    assert found.change[0] == (
        "No class is rare here; all classes together are found more often: recall 75.0% before, 92.5% after "
        "(+17.5 points)."
    )
    assert [change.name for change in found.changes] == ["common"]


def test_without_a_softmax_stage(told):
    found = told((90, 95), (60, 90), before=None, method="cross_entropy", epochs=[])
    assert found.headline.startswith("Good: the model separates the rare class rare well from the rest")
    assert found.change[0] == "Balanced accuracy, the mean over the classes, is 92.5% and accuracy 92.5%."
    assert "no separate stage without rebalancing" in found.change[1]


def test_margins_from_the_first_epoch_have_no_softmax_stage(told):
    found = told((95, 90), (40, 80), epochs=[epoch | {"stage": "class"} for epoch in staged(9)]).change
    assert found[-1] == (
        '"Before" is the same network early in training, predicting the most probable class: part of the '
        "change may come from longer training alone."
    )


def test_without_the_answers_before_nothing_is_said_of_chance(tmp_path):
    folder = made_up(tmp_path, 7)
    with np.load(folder / "held_out.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "before"}
    np.savez(folder / "held_out.npz", **arrays)
    found = verdict(read_run(folder)).change
    assert found[0].startswith("The rare classes are found more often")
    assert not any("chance" in sentence or "False alarms" in sentence for sentence in found)


def test_a_run_of_an_earlier_version_has_no_ranking_before(tmp_path):
    record = read_run(made_up(tmp_path, 7))
    del record.before["average_precision"]
    assert not any("ranked" in sentence for sentence in verdict(record).change)


def test_the_words_are_the_same_without_a_record(tmp_path):
    record = read_run(made_up(tmp_path, 7))
    found = worth(run_skill(record), record.classes, record.in_group("rare"), multilabel=False)
    assert found.headline == verdict(record).headline
    assert found.as_dict() == {"headline": found.headline, "sentences": verdict(record).worth}


# --- what to do next -------------------------------------------------------------------------------------------------


def test_the_headline_says_how_many_are_found_at_how_many_false_alarms(ranked):
    good = ranked(4.5)
    assert re.search(r"finds 9\d\.\d% of its samples at 1 false alarm in \d+ others, and ", good.headline)
    alarms = ranked(2.5)
    assert re.search(r" and finds 92.7% of its samples at 1 false alarm in 10 others, but 7", alarms.headline)


@pytest.mark.parametrize(
    ("distance", "options", "first"),
    [
        (0.0, {}, "Check the labels first (`equipoise inspect "),
        (0.5, {}, "Better columns or more samples will help more than a threshold; "),
        (2.0, {"balanced": False}, "If misses cost more than false alarms, lower the threshold (see Decide); "),
        (1.3, {"balanced": False, "share": 0.02}, "Lower the threshold (see Decide); `equipoise predict "),
        (2.5, {}, "If a false alarm costs nearly as much as a miss, raise the threshold"),
        (4.5, {"share": 0.1}, "The model can be used as it is; choose the threshold by what a miss costs"),
        (3.0, {"samples": 150}, "Label more samples of the rare class True: 5 are held out, and 100 would show"),
    ],
)
def test_what_to_do_next_follows_from_what_the_model_is_worth(ranked, distance, options, first):
    found = ranked(distance, **options)
    assert found.next[0].startswith(first), found.headline
    assert found.sentences.index(found.next[0]) == len(found.worth) + len(found.change)
    if "--recall" in found.next[0]:
        assert "new.csv --recall True=0.9` finds nine of ten." in found.next[0]


def test_a_remedy_that_made_answers_worse_is_advised_against(told):
    worse = told((100, 40), (90, 90))
    assert worse.next[-1] == "The remedy made the answers worse here; `--prior natural` predicts without it."
    assert not any("--prior natural" in text for text in told((100, 95), (20, 90)).next)


def test_a_column_that_gives_the_target_away_comes_before_praise(tmp_path):
    run = read_run(made_up(tmp_path / "run"))
    samples = Samples(pd.DataFrame({"closed": [0, 1] * 30, "age": range(60)}), np.array(["stays", "goes"] * 30))
    notes = ["age: 1 missing value filled with the median 40.", *leak_notes(samples)]
    before, after = verdict(run), verdict(replace(run, record=structs.replace(run.record, notes=notes)))
    assert after.headline == (
        f"Check for a leak first: the column 'closed' alone decides the target. If it stays: {before.headline}"
    )
    assert after.next[0].startswith("If that column is only known afterwards, train again with `--drop closed`: ")
    assert after.next[1:] == before.next
    assert verdict(replace(run, record=structs.replace(run.record, notes=notes[:1]))).headline == before.headline


def test_a_model_with_a_leak_is_not_to_be_used_as_it_is(tmp_path):
    labels = np.repeat([0, 1], [400, 100])
    known = one_hot(labels, 2)
    options = {"counts": [4000, 400], "names": ["stays", "goes"], "before": known}
    run = read_run(write_run(tmp_path, probabilities=known, labels=labels, **options))
    samples = Samples(pd.DataFrame({"a: b;": [0, 1] * 30}), np.array(["stays", "goes"] * 30))
    assert verdict(run).next[0].startswith("The model can be used as it is")
    doubted = verdict(replace(run, record=structs.replace(run.record, notes=leak_notes(samples))))
    assert len(doubted.next) == 1
    assert "train again with `--drop a: b;`" in doubted.next[0]
