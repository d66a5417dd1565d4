"""Every example of the gallery runs, writes its picture, and shows what its text says."""

import runpy
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = Path(__file__).parent.parent / "examples"
QUICK = {"plot_comparison": {"seeds": 1, "folds": 3, "methods": ("cross_entropy", "uncertainty_margin")}}
"""Fewer fits than a reader would run, for the examples that have many."""
SLOW = {"plot_abstention", "plot_comparison", "plot_digits", "plot_table", "plot_toy_boundary"}
BETTER = {
    "plot_toy_boundary": ("softmax", "Equipoise", 0.3),
    "plot_digits": ("softmax", "Equipoise", 0.04),
    "plot_table": ("softmax network", "Equipoise", 0.2),
    "plot_custom_loop": ("softmax", "sample", 0.3),
    "plot_comparison": ("cross_entropy", "uncertainty_margin", 0.03),
    "plot_abstention": ("one threshold", "one for each class", 0.3),
}
"""What each shows: the second finds more of what is rare than the first, by how much at least."""


def test_the_list_of_examples_is_that_of_the_folder():
    names = sorted(path.stem for path in EXAMPLES.glob("plot_*.py"))
    assert names == sorted(BETTER)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    recipes = [f"adapters/{path.name}" for path in (EXAMPLES / "adapters").glob("*.py")]
    assert [name for name in [*(f"{name}.py" for name in names), *recipes] if f"({name})" not in page] == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in sorted(BETTER)]
)
def test_an_example_writes_its_picture_and_shows_what_it_says(name, tmp_path):
    figures = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](tmp_path, **QUICK.get(name, {}))
    without, with_margins, least = BETTER[name]
    assert figures[with_margins] > figures[without] + least
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"{name.removeprefix('plot_')}.png"
    with Image.open(picture) as image:
        width, height = image.size
        colours = image.convert("RGB").getcolors(width * height)
    assert 800 <= width <= 1400
    assert 350 <= height <= 700
    assert len(colours) > 50  # drawn on
    assert max(count for count, _ in colours) < 0.985 * width * height  # and not nearly empty
