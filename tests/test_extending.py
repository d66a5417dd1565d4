"""docs/extending.md, followed to the letter: what it adds keeps the promises of its family."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.app.compare import METHODS, FitOptions, compare
from equipoise.app.compare.comparison_page import html
from equipoise.app.report import write_report
from equipoise.app.report.sections import SECTIONS
from equipoise.app.runs.predictors import BlendPredictor
from equipoise.app.runs.run_options import RunOptions
from equipoise.calibration.scaling import SCALINGS, fit_scaling
from equipoise.data import Samples, open_data
from equipoise.data.columns.chosen_columns import ChosenColumns
from equipoise.data.columns.column_kinds import COLUMN_KINDS
from equipoise.data.encoder import TableEncoder
from equipoise.data.profile import profile_columns
from equipoise.data.tables import TABLE_READERS
from equipoise.data.tables.read_table import iterate_table
from equipoise.decisions import DECISIONS, Balanced, Natural
from equipoise.errors import InvalidInputError
from equipoise.estimators.families import FAMILIES
from equipoise.evaluation import METRICS, scores
from equipoise.losses import LOSSES
from equipoise.main import app
from equipoise.models import BACKBONES, build_backbone
from equipoise.paper.sets import DATASETS
from tests.app.runs import made
from tests.losses import test_contract as losses_contract
from tests.losses.cases import batch, build
from tests.models import test_backbones as backbones_contract
from tests.paper.sets import layouts
from tests.paper.sets import test_contract as sets_contract

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
ADDED = {
    "poly1": LOSSES,
    "influence_balanced": LOSSES,
    "small_digits": DATASETS,
    "tiny": BACKBONES,
    "weakest_f1": METRICS,
    "halfway": DECISIONS,
    ".arff": TABLE_READERS,
    "tags": COLUMN_KINDS,
    "offsets_alone": SCALINGS,
    "bayes": FAMILIES,
}
LISTS = (SECTIONS, app.registered_commands)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The names that the page's blocks define, run in order in one folder; all families are as before afterwards."""
    families = [*ADDED.values(), METHODS]
    before, lists = [dict(family) for family in families], [list(each) for each in LISTS]
    found = {"__name__": "__page__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("extending"))
        for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            exec(compile(code, str(PAGE), "exec"), found)
    yield found
    for family, members in zip(families, before, strict=True):
        family.clear()
        family.update(members)
    for each, members in zip(LISTS, lists, strict=True):
        each[:] = members


def test_the_page_adds_one_of_each(followed):
    assert {name: name in family for name, family in ADDED.items()} == dict.fromkeys(ADDED, True)
    assert METHODS["poly1"].label == "Poly-1"
    assert followed["clf"].predict(followed["images"]).shape == (60,)


def test_the_loss_is_its_formula(followed):
    features, target = batch()
    loss = build("poly1", reduction="none")
    logits = (features @ loss.weight.T + loss.bias).detach()
    for value, row, label in zip(loss(features, target).tolist(), logits.tolist(), target.tolist(), strict=True):
        p = math.exp(row[label]) / sum(math.exp(z) for z in row)
        assert value == pytest.approx(-math.log(p) + 1.0 * (1 - p))
    zero = followed["poly1"](logits, target, epsilon=0.0)
    torch.testing.assert_close(zero, torch.nn.functional.cross_entropy(logits, target, reduction="none"))


@pytest.mark.usefixtures("followed")
@pytest.mark.parametrize("name", ["poly1", "influence_balanced"])
@pytest.mark.parametrize("multilabel", [False, True])
def test_the_loss_keeps_the_contract_of_losses(name, multilabel):
    losses_contract.test_every_loss_is_built_and_called_alike(name)
    losses_contract.test_the_reductions_agree(name, multilabel)
    losses_contract.test_a_sample_of_weight_two_is_the_sample_twice(name, multilabel, "mean")
    losses_contract.test_gradcheck(name, multilabel)
    losses_contract.test_the_state_dict_restores_the_loss(name, multilabel)
    losses_contract.test_logits_for_prediction_have_the_classes_shape_and_no_margin(name, multilabel)
    losses_contract.test_halves_are_widened_to_float32_also_under_autocast(name, torch.bfloat16)
    losses_contract.test_features_and_class_vectors_of_length_zero_give_finite_gradients(name, torch.float32)


@pytest.mark.usefixtures("followed")
def test_the_loss_on_features_is_its_formula_for_each_of_several_networks():
    features, target = batch()
    loss = build("influence_balanced", members=2, reduction="none")
    vectors, bias = loss.weight.unflatten(-1, (2, -1)), loss.bias
    for value, row, label in zip(loss(features, target).tolist(), features, target.tolist(), strict=True):
        expected = 0.0
        for member, own in enumerate(row.chunk(2)):
            p = torch.softmax(vectors[:, member] @ own + bias, 0).tolist()
            away = sum(abs(q - (j == label)) for j, q in enumerate(p))
            expected += -10 * math.log(p[label]) / (away * float(own.abs().sum()) + 1e-3) / 2
        assert value == pytest.approx(expected)


@pytest.mark.usefixtures("followed")
def test_the_loss_gives_probabilities_that_add_up_to_the_share_of_a_class():
    """7 % positives that the features tell a little about."""
    rng = np.random.default_rng(0)
    y = (rng.random(1500) < 0.07).astype(int)
    x = rng.normal(size=(1500, 4)) + y[:, None]
    model = UncertaintyBalancedClassifier("poly1", epochs=6, width=32, random_state=0).fit(x, y)
    assert model.predict_proba(x)[:, 1].mean() == pytest.approx(y.mean(), abs=0.025)


def small_digits(folder):
    """The files that the page's reader expects, fewer of them."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    images = (digits.images[:30] * 15).astype("uint8")
    np.savez(folder / "digits.npz", images=images, labels=digits.target[:30])


def test_the_data_set_keeps_the_contract_of_sets(followed, tmp_path, monkeypatch):
    monkeypatch.setitem(layouts.LAYOUTS, "small_digits", small_digits)
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    sets_contract.test_every_set_has_a_layout_and_the_public_ones_are_known()
    sets_contract.test_a_set_gives_images_with_labels("small_digits", tmp_path / "a")
    sets_contract.test_numbers_that_are_not_the_official_ones_are_noted("small_digits", tmp_path / "b")
    sets_contract.test_a_set_is_found_below_the_data_folder_or_as_it("small_digits", tmp_path / "c", monkeypatch)
    assert followed["samples"].x.shape == (1797, 1, 8, 8)
    assert followed["samples"].notes == ()
    with pytest.raises(InvalidInputError, match=r"must hold digits\.npz, and does not"):
        followed["read_small_digits"](tmp_path)


@pytest.mark.usefixtures("followed")
def test_the_metric_is_kept_beside_the_others():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    f1 = []
    for c in range(4):
        hits = sum(t == p == c for t, p in zip(true, predicted, strict=True))
        f1.append(2 * hits / (sum(true == c) + sum(predicted == c)))
    found = scores(true, predicted, classes=[0, 1, 2, 3, 4])  # nobody is of class 4
    assert found.as_dict()["weakest_f1"] == pytest.approx(min(f1))


def test_the_decision_rule_is_kept_by_files_and_stands_between_two_others(followed, tmp_path):
    model, x = followed["halfway"], followed["X"]
    model.save(tmp_path)
    again = type(model).load(tmp_path)
    assert again.decision == model.decision == DECISIONS["halfway"]()
    assert (again.predict(x) == model.predict(x)).all()
    p, prior = model.predict_proba(x), model.prior_
    assert (model.predict(x) == model.classes_[(p / np.sqrt(prior)).argmax(1)]).all()
    same = [(model.predict(x, decision=rule) == model.predict(x)).mean() for rule in (Natural(), Balanced())]
    assert min(same) > 0.5


@pytest.mark.usefixtures("followed")
def test_the_resampler_balances_the_rows_that_the_network_is_trained_on():
    rng = np.random.default_rng(0)
    y = np.repeat(["common", "rare"], [90, 12])
    x = rng.normal(size=(102, 2)) + (y == "rare")[:, None]
    model = METHODS["borderline_smote"].build(0, {}, FitOptions(epochs=1, width=4))
    assert sorted(np.unique(model["resample"].fit_resample(x, y)[1], return_counts=True)[1]) == [90, 90]
    assert model.fit(x, y).predict(x).shape == (102,)


def test_the_decision_rule_ranks_methods_by_its_own_yardstick(followed):
    samples = Samples(followed["X"], followed["y"])
    methods = {"bayes": GaussianNB(), "tree": DecisionTreeClassifier(max_depth=2)}
    found = compare(samples, methods=methods, seeds=1, folds=3, decision=DECISIONS["halfway"]())
    assert found.ranking.metric == "right"
    assert 0.9 < found.ranking.places[0].mean < 1
    assert "the wrong answers per 1,000 cases" in html(found, "iris.csv")


@pytest.mark.usefixtures("followed")
def test_the_table_format_is_read_whole_in_parts_and_refused_in_a_sentence(tmp_path):
    path = tmp_path / "t.arff"
    head = "@relation t\n@attribute size numeric\n@attribute kind {good,bad}\n@data\n"
    path.write_text(head + "1.5,good\n?,bad\n2.5,good\n")
    samples = open_data(path, target="kind")
    assert samples.y.tolist() == ["good", "bad", "good"]
    np.testing.assert_array_equal(samples.x["size"], [1.5, np.nan, 2.5])
    assert [len(part) for part in iterate_table(path, rows=2)] == [2, 1]
    path.write_text(head + "x,good\n")
    with pytest.raises(InvalidInputError, match=r"t\.arff is not an ARFF file .*; save the table as CSV"):
        open_data(path, target="kind")


def test_the_column_kind_is_learnt_encoded_stored_chosen_and_described(followed):
    encoder, films = followed["encoder"], followed["films"]
    assert encoder.column_names_ == ["year", "genres=horror", "genres=scifi"]
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    new = films.assign(genres=["scifi|opera", None, "scifi|horror"])
    assert again.transform(new)[:, 1:].tolist() == encoder.transform(new)[:, 1:].tolist() == [[0, 1], [0, 0], [1, 1]]
    assert again.text_columns == ["genres"]
    broken = encoder.to_json()
    broken["columns"][1]["levels"] = []
    with pytest.raises(InvalidInputError, match=r"the column 'genres' with values that contradict each other"):
        TableEncoder.from_json(broken)
    assert ChosenColumns(kind="genres=tags").kinds(["genres"]) == {"genres": "tags"}
    genres = profile_columns(films, np.array([0, 1, 1]), kinds={"genres": "tags"})[1]
    assert (genres.kind, genres.ignored, genres.examples) == ("tags", False, ("horror", "horror|scifi", "action|scifi"))
    apart = films.assign(genres=["horror", "scifi", "action"])
    assert TableEncoder(kinds={"genres": "tags"}).fit(apart).notes_ == ["genres: ignored, no tag occurs twice."]


@pytest.mark.usefixtures("followed")
@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_the_calibration_method_gives_each_class_its_share(shape):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, *shape, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(-1).flatten(0, -2), 1, generator=generator).view(logits.shape[:-1])
    logits[..., 0] -= 1
    odds = torch.ones(shape, dtype=torch.float64)
    found = fit_scaling(logits, target, odds, method="offsets_alone")
    assert found.scale.tolist() == torch.ones(shape).tolist()
    apart = found.bias[..., 0] - found.bias[..., 1]
    torch.testing.assert_close(apart, torch.ones_like(apart), atol=0.15, rtol=0)
    mean = found(logits, odds).softmax(-1).mean(0)
    share = torch.nn.functional.one_hot(target, shape[-1]).double().mean(0)
    torch.testing.assert_close(mean, share, atol=1e-6, rtol=0)


def test_the_section_stands_in_the_page_and_its_menu(followed, tmp_path_factory):
    run = made.once(made.table_run, tmp_path_factory)
    page = write_report(run, tmp_path_factory.mktemp("page") / "page.html").read_text(encoding="utf-8")
    assert "The rarest class</h2>" in page
    assert ">Rarest</a>" in page
    assert re.search(r"<p>.+ is the rarest class: \d+ training samples\.</p>", page)
    assert followed["rarest"] is SECTIONS[-1]


@pytest.mark.usefixtures("followed")
def test_the_command_is_listed_and_runs():
    runner = CliRunner()
    assert "rarity" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["rarity", "40", "2", "10"]).output == "1:20\n"


@pytest.mark.usefixtures("followed")
def test_the_backbone_keeps_the_contract_of_backbones():
    backbones_contract.test_the_contract("tiny")
    small, large = (build_backbone("tiny")(torch.zeros(1, BACKBONES["tiny"]().in_channels, s, s)) for s in (24, 40))
    assert small.shape == large.shape  # features of any size of image


def test_the_family_is_blended_named_and_stored(followed, tmp_path):
    blend, x = followed["blend"], followed["X"]
    assert [part.name for part in BlendPredictor(blend).blend] == ["naive Bayes", "extra trees"]
    assert RunOptions("table.csv", model="bayes").model == "bayes"
    blend.save(tmp_path)
    assert np.array_equal(BalancedClassifier.load(tmp_path).predict_proba(x), blend.predict_proba(x))


def test_the_training_option_is_argument_flag_key_record_and_check(tmp_path):
    shutil.copytree(PAGE.parent.parent / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (change,) = re.findall(r"^```diff\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    subprocess.run(["git", "apply", "--unidiff-zero"], input=change, text=True, check=True, cwd=tmp_path)
    rows = [f"{number},{-number * 7 % 31},{number % 2}" for number in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,label", *rows]))
    (tmp_path / "options.toml").write_text('data = "table.csv"\ntarget = "label"\nepochs = 1\naccumulate = 3\n')
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "OMP_NUM_THREADS": "1"}

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    assert "--accumulate" in run("-m", "equipoise", "train", "--help").stdout
    told = run("-m", "equipoise", "train", "--config", "options.toml", "--out", "run")
    assert told.returncode == 0, told.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["accumulate"] == 3
    refused = run("-m", "equipoise", "train", "--config", "options.toml", "--accumulate", "0", "--out", "other")
    assert "accumulate" in refused.stderr
    assert refused.returncode != 0
    code = (
        "from equipoise import UncertaintyBalancedClassifier as C\n"
        "from equipoise.estimators.options_to_settings import settings_for\n"
        "model = C(accumulate=2)\n"
        "print(model.get_params()['accumulate'], settings_for(model, 100, 0).accumulate)"
    )
    assert run("-c", code).stdout == "2 2\n"
