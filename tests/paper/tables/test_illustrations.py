"""The paper's figures: closed forms against a search, Theorem 1 on draws, pictures that are pictures."""

import json
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from scipy.optimize import minimize_scalar
from typer.testing import CliRunner

from equipoise.main import app
from equipoise.paper.tables import illustrate, illustration_page
from equipoise.paper.tables.illustrations import draw_theorem, picture
from equipoise.paper.tables.theorem_1 import RATIOS, draw, empirical_boundary, expected_boundary, expected_loss, theorem


@pytest.fixture(scope="module")
def found():
    return illustrate(smoke=True)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_expected_boundary_is_where_a_search_finds_it(ratio):
    searched = minimize_scalar(expected_loss, bounds=(-5, 5), args=(ratio,), method="bounded", options={"xatol": 1e-9})
    assert expected_boundary(ratio) == pytest.approx(searched.x, abs=1e-5)


def test_the_expected_loss_is_the_share_of_mistakes():
    x, rare = draw(4, 200_000, np.random.default_rng(0))
    for boundary in (-0.5, 0.0, 1.2):
        mistakes = ((x[:, 0] > boundary) != rare).mean()
        assert expected_loss(boundary, 4) == pytest.approx(mistakes, abs=0.004)


@pytest.mark.parametrize("seed", range(20))
def test_no_boundary_makes_fewer_mistakes_than_the_empirical_one(seed):
    x, rare = draw(5, 60, np.random.default_rng(seed))
    found = empirical_boundary(x[:, 0], rare)
    least = ((x[:, 0] > found) != rare).sum()
    assert all(((x[:, 0] > other) != rare).sum() >= least for other in np.linspace(-5, 5, 2001))


def test_the_rarer_a_class_the_smaller_its_region():
    found = theorem(draws=60, samples=1000, seed=1)
    medians = [each["median"] for each in found]
    assert medians == sorted(medians)
    assert found[0]["smaller"] == pytest.approx(0.5, abs=0.25)
    assert all(each["smaller"] > 0.9 for each in found[2:])
    for each in found[:4]:
        assert each["median"] == pytest.approx(each["expected"], abs=0.15)
    drawn = [picture(lambda axes: draw_theorem(axes, found))[1] for _ in range(2)]
    assert drawn[0] == drawn[1], "the same numbers give the same bytes"


@pytest.mark.nightly
def test_a_balanced_classifier_gives_the_rare_class_its_room_back(found):
    crossing = found[0]["boundaries"]
    assert crossing["biased"] > 1
    assert abs(crossing["balanced"]) < abs(crossing["biased"]) / 2


@pytest.mark.nightly
def test_the_interval_widens_and_rare_classes_are_uncertain(found):
    widths = found[0]["regression"]
    assert widths["few"] > 1.5 * widths["many"]
    assert found[0]["rarity"]["rank_correlation"] < -0.8


@pytest.mark.nightly
def test_each_picture_is_one(found):
    pictures = found[1]
    assert set(pictures) == {"boundaries", "theorem", "regression", "rarity"}
    for content in pictures.values():
        image = Image.open(BytesIO(content)).convert("L")
        assert image.size == (704, 484)
        assert np.asarray(image).std() > 10, "something is drawn"


@pytest.mark.nightly
def test_the_command_writes_a_page_with_its_pictures(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "illustration", "--smoke", "--out", str(tmp_path), "--seed", "3"])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "illustration-smoke.md").read_text(encoding="utf-8")
    figures = json.loads((tmp_path / "illustration-smoke.json").read_text(encoding="utf-8"))
    assert figures["seed"] == 3
    assert page == illustration_page(figures, pictures="illustration-smoke-")
    assert f"lies at {figures['boundaries']['biased']:.2f}" in page
    for name in ("boundaries", "theorem", "regression", "rarity"):
        assert f"(illustration-smoke-{name}.png)" in page
        assert (tmp_path / f"illustration-smoke-{name}.png").stat().st_size > 5000
