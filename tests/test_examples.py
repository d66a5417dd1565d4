"""Every example of the gallery runs, draws its picture, and shows what its text says."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from PIL import Image

from tests.marks import mostly_nightly

EXAMPLES = Path(__file__).parent.parent / "examples"
BETTER = {
    "plot_toy_boundary": ("softmax", "Equipoise", 0.3),
    "plot_digits": ("softmax", "Equipoise", 0.04),
    "plot_table": ("softmax network", "Equipoise", 0.1),
    "plot_custom_loop": ("softmax", "sample", 0.3),
    "plot_comparison": ("cross_entropy", "uncertainty_margin", 0.03),
    "plot_abstention": ("one threshold", "one per class", 0.3),
}
"""What each shows: the second finds more of what is rare than the first, by how much at least."""

OTHERS = sorted(BETTER.keys() - {"plot_table", "plot_custom_loop"})


def test_the_list_of_examples_is_that_of_the_folder():
    names = sorted(path.stem for path in EXAMPLES.glob("plot_*.py"))
    assert names == sorted(BETTER)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    recipes = [f"adapters/{path.name}" for path in (EXAMPLES / "adapters").glob("*.py")]
    assert [name for name in [*(f"{name}.py" for name in names), *recipes] if f"({name})" not in page] == []


@pytest.mark.parametrize("name", mostly_nightly(["plot_table", "plot_custom_loop", *OTHERS], slow=2))
def test_an_example_draws_its_picture_and_shows_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"))["found"]
    without, with_margins, least = BETTER[name]
    assert found[with_margins] > found[without] + least
    (number,) = plt.get_fignums()
    plt.figure(number).savefig(tmp_path / "picture.png", dpi=110)
    plt.close("all")
    with Image.open(tmp_path / "picture.png") as image:
        width, height = image.size
        colours = image.convert("RGB").getcolors(width * height)
    assert 800 <= width <= 1400
    assert 350 <= height <= 700
    assert len(colours) > 50  # drawn on
    assert max(count for count, _ in colours) < 0.985 * width * height  # and not nearly empty
